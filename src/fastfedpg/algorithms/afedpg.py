"""AFedPG, after Lan et al., "Asynchronous Federated Reinforcement Learning with Policy Gradient Updates" (2025)."""

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
    Turns,
    check_share,
    estimate,
    squared_norm,
)


class Memory(NamedTuple):
    """What an agent was sent off with: parameters, and the direction of the step that led there."""

    theta: Theta
    d: Theta


def afedpg(eta: Scalar, alpha: Scalar = 0.2) -> Algorithm:
    """Nobody waits: whoever arrives brings a direction from where it was sent off, and takes the newest theta with it.

        z           = theta_j + ((1 - alpha) / alpha) (theta_j - theta_{j-1})    agent i, sent off with theta_j, d_{j-1}
        d_k         = (1 - alpha) d_{j-1} + alpha g_i(z)                         arrives as the k-th, k - j steps later
        theta_{k+1} = theta_k - eta d_k / ||d_k||                                server; agent i takes theta_{k+1}, d_k

    Why this z: let d_{j-1} have the mean grad J(theta_{j-1}). If gradients are affine, that of d_k is grad J at
    (1 - alpha) theta_{j-1} + alpha z, which is theta_j for this z and no other: the past is transported to theta_j, up
    to second derivatives of the gradient. theta_{j-1} - theta_j = eta d_{j-1} / ||d_{j-1}||, so that it is not sent.
    Nor is d_{j-1}, which is what the agent itself brought last. alpha = 1 where there is no d yet.

    A round is one arrival (`order` arrival: who comes is drawn by `speeds`): d numbers each way, 1 estimate. The step
    that its own arrival makes an agent works out by itself. alpha = 1 and one agent is normalised PG. A step has the
    length eta wherever it is: theta ends in circles of about that size. The theory lets eta_k fall like 1/k and
    alpha_k like k^(-4/5), and agents are alike.

    Use it where agents have one task and unequal speeds. Do not where tasks differ: who comes more often counts more.

    Args:
        alpha: weight of the fresh gradient, in (0, 1].
    """
    check_share("alpha", alpha)

    def unit(d: Theta) -> Theta:
        norm = jnp.sqrt(squared_norm(d))
        return d / jnp.where(norm > 0, norm, 1)

    def step(theta: Theta, d: Theta) -> Theta:
        return theta - eta * unit(d)

    def arrive(memory: Memory, own: Own, now: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        theta, d = memory
        z = theta - (1 - alpha) / alpha * eta * unit(d)
        g_i, own, steps = estimate(oracle, z, own, key)
        fresh = jnp.where(jnp.any(d != 0), alpha, 1).astype(d.dtype)
        d = (1 - fresh) * d + fresh * g_i
        return Memory(step(now, d), d), own, d, Info(steps=steps)

    def move(now: Theta, d: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        now = step(now, d)
        return now, now

    def init(theta: Theta, N: int) -> tuple[Theta, Down, Memory]:
        all_of_them = jnp.broadcast_to(theta, (N, *theta.shape))
        return theta, theta, Memory(all_of_them, jnp.zeros_like(all_of_them))

    return Algorithm(init, (Exchange("gradient", arrive, move),), policy=lambda theta: theta, turns=Turns(1, "arrival"))
