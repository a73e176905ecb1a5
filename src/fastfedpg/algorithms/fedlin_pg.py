"""FedLin with policy gradients, after Mitra et al., "Linear Convergence in Federated Learning" (2021)."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Down,
    Exchange,
    Info,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    codec_key,
    estimate,
    local_steps,
    mean,
    sgd,
    top_k,
)


class Memory(NamedTuple):
    """Where the round began, the gradient found there, what was not heard of it yet, and the agent's local steps."""

    theta: Theta
    g_i: Theta
    e_i: Any = ()
    H_i: Any = ()


def fedlin_pg(eta: Scalar, H: int, steps: tuple[int, ...] | None = None, k: int | None = None) -> Algorithm:
    """Fast-FedPG for agents that are not equally fast, and whose gradients travel as their k largest entries.

        c_i = C(e_i + g_i(theta)),    e_i <- e_i + g_i(theta) - c_i,    C keeps the k largest entries
        x_{l+1} = x_l - eta_i (g_i(x_l) - g_i(theta) + mean_i c_i),     l = 0, …, H_i - 1,     eta_i = eta H/H_i
        theta+ = theta + mean_i (x_{H_i} - theta)

    To first order x_{H_i} - theta = -eta_i H_i mean_i c_i: with eta_i H_i = eta H a round is one step of that length
    for every agent, few steps or many, and the step size's limit is the same for all. Without the correction theta
    would settle where sum_i eta_i H_i grad J_i = 0, but for drift: with a common eta that is another objective, in
    which who has more steps counts more. With it no agent moves where grad J = 0, whatever the H_i, if nothing is left
    out. Local steps keep all of g_i: what C leaves out is then missing in mean_i c_i alone, alike for all, and comes
    later.

    With equal H_i and without k it is Fast-FedPG, without `reuse`: g_i(x_0) is drawn again, as Eq. (6) has it. 2d
    numbers each way, or d + k and k places up, two synchronisations, H_i + 1 estimates a round.

    Use it where agents are not equally fast, or what they send must be short. Do not where neither holds: it is then
    Fast-FedPG, without its `reuse`, B0 and optimisers.

    Args:
        eta: local step size of an agent with H steps.
        H: local steps in a round.
        steps: each agent's own H_i, one for each agent; H for all unless given.
        k: how many entries of each gradient are sent; all unless given.
    """
    if steps is not None and (not steps or min(steps) < 1):
        raise ValueError(f"steps = {steps}; there must be a number for each agent, at least 1")
    codec = None if k is None else top_k(k)

    def send_gradient(
        memory: Memory, own: Own, theta: Down, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Theta, Info]:
        g_i, own, n = estimate(oracle, theta, own, key)
        kept, info = memory._replace(theta=theta, g_i=g_i), Info(steps=n)
        if codec is None:
            return kept, own, g_i, info
        up = memory.e_i + g_i
        return kept._replace(e_i=up - codec.decode(codec.encode(up, codec_key(key)))), own, up, info

    def send_change(memory: Memory, own: Own, g: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        theta, g_i, _, H_i = memory
        n, eta_i = (H, eta) if steps is None else (H_i, eta * (H / H_i).astype(theta.dtype))
        x, own, info = local_steps(oracle, lambda x, fresh: fresh - g_i + g, sgd(eta_i), theta, own, key, n)
        return memory, own, x - theta, info

    def broadcast(theta: Theta, g: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        return theta, g

    def move(theta: Theta, change: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        theta = theta + change
        return theta, theta

    def init(theta: Theta, N: int) -> tuple[Theta, Down, Memory]:
        nothing = jnp.zeros((N, *theta.shape), theta.dtype)
        each = () if steps is None else jnp.array(steps, jnp.int32)
        return theta, theta, Memory(nothing, nothing, () if codec is None else nothing, each)

    combine = mean._replace(agents=None if steps is None else len(steps))
    gradient = Exchange("gradient", send_gradient, broadcast, combine, codec)
    return Algorithm(init, (gradient, Exchange("local", send_change, move, combine)), policy=lambda theta: theta)
