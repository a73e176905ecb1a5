"""Heavy anchor: Fast-FedPG with q of a round's H estimates at the point where it begins, and H - q local steps."""

from typing import NamedTuple

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
    estimate,
    local_steps,
    sgd,
    trajectories,
)


class Memory(NamedTuple):
    """What agent i remembers within a round: where the round began, and the gradient it sent from there."""

    theta: Theta
    h_i: Theta


def heavy_anchor(eta: Scalar, H: int, q: int | None = None) -> Algorithm:
    """A large first step that all agents take alike, then corrected local steps, with FedAvg-PG's samples.

        h_i = g_i(theta; q B),                x_0 = theta - q eta mean_i h_i
        x_{l+1} = x_l - eta (g_i(x_l) - h_i + mean_i h_i),   l = 0, …, L-1,   L = H - q
        theta+ = theta + mean_i (x_L - theta)

    The corrections add up to zero, so that their noise moves no mean: mean_i x_L = theta - eta (q mean_i h_i + sum_l
    mean_i g_i(x_l)) has the variance of H estimates, H eta^2 sigma^2/(B N), for every q. It acts through the agents'
    distance e_l from their mean, E||e_l||^2 = (1 - 1/N) eta^2 (l + l^2/q) sigma^2/B, whose sum over l is about
    (L^2/2 + L^3/(3q)) eta^2 sigma^2/B: at q = L = H/2 less than half of FedAvg-PG's H^2/2. Heterogeneity leaves none.

    q = 1 is Fast-FedPG with `reuse`. q = H is minibatch PG: then the second exchange is not there, and a round is one
    synchronisation with d numbers each way, instead of two with 2d. It has H estimates, or where nothing is played
    L + 1.

    Use it where noise and heterogeneity both matter. Do not where gradients are exact: more of them at one point tell
    nothing.

    Args:
        eta: local step size.
        H: estimates in a round.
        q: those of them that are taken where the round begins; half of H, rounded down but at least 1, unless given.
    """
    n = max(1, H // 2) if q is None else q
    if not 1 <= n <= H:
        raise ValueError(f"q = {n}; it must lie between 1 and H = {H}")

    def send_gradient(
        memory: Memory, own: Own, theta: Down, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Theta, Info]:
        h_i, own, steps = estimate(oracle, theta, own, key, trajectories(oracle, n))
        return Memory(theta, h_i), own, h_i, Info(steps=steps)

    def send_change(memory: Memory, own: Own, h: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        theta, h_i = memory
        first = h_i + (n - 1) * h  # corrected, it is n h: the step from theta to x_0
        x, own, info = local_steps(oracle, lambda x, g: g - h_i + h, sgd(eta), theta, own, key, H - n + 1, first)
        return memory, own, x - theta, info

    def broadcast(theta: Theta, h: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        return theta, h

    def descend(theta: Theta, h: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        theta = theta - n * eta * h  # L = 0: x_0 is where the round ends
        return theta, theta

    def move(theta: Theta, change: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        theta = theta + change
        return theta, theta

    def init(theta: Theta, N: int) -> tuple[Theta, Down, Memory]:
        nothing = jnp.zeros((N, *theta.shape), theta.dtype)
        return theta, theta, Memory(nothing, nothing)

    anchor = Exchange("gradient", send_gradient, broadcast if n < H else descend)
    local = Exchange("local", send_change, move)
    return Algorithm(init, (anchor, local) if n < H else (anchor,), policy=lambda theta: theta, needs=("B",))
