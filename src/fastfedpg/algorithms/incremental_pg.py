"""Incremental PG, after Bai and Doan, "Finite-Time Complexity of Incremental Policy Gradient Methods" (2024)."""

from typing import NamedTuple

import jax.numpy as jnp

from fastfedpg.core import Algorithm, Down, Exchange, Info, Oracle, Own, RngKey, Scalar, Theta, Turns, estimate


class State(NamedTuple):
    """The parameters, and how many steps were taken."""

    theta: Theta
    k: Scalar


def incremental_pg(eta: Scalar, power: Scalar = 0.0) -> Algorithm:
    """One agent after another takes a step, and hands theta on.

        theta <- theta - eta_k g_i(theta),     eta_k = eta / (k + 1)^power,     i = k modulo N in step k = 0, 1, …

    A step is a round with one agent, whose turn it is (`order` cyclic, unless another is asked for); the server passes
    theta on, d numbers each way. With a constant step it ends in a cycle: agent j's gradient is taken at theta - eta
    sum_{i<j} grad J_i + …, so that after each pass

        N grad J = eta sum_{i<j} hess J_j grad J_i + O(eta^2),

    which depends on the order, and goes only with eta: power > 0 leaves none of it.

    Use it where agents can only take turns, with power > 0. Do not where all could work at once: a step has the noise
    of one agent, and the others wait.

    Args:
        power: how fast steps fall: 0 is a constant step.
    """
    if isinstance(power, int | float) and not 0 <= power <= 1:
        raise ValueError(f"power = {power:g}; it must lie in [0, 1]: steps never grow, and their sum is infinite")

    def send_gradient(
        memory: tuple[()], own: Own, theta: Down, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        g_i, own, steps = estimate(oracle, theta, own, key)
        return memory, own, g_i, Info(steps=steps)

    def step(state: State, g_i: Theta, share: float, key: RngKey) -> tuple[State, Down]:
        eta_k = eta / jnp.asarray(state.k + 1, g_i.dtype) ** power
        theta = state.theta - eta_k * g_i
        return State(theta, state.k + 1), theta

    return Algorithm(
        init=lambda theta, N: (State(theta, jnp.int32(0)), theta, ()),
        exchanges=(Exchange("gradient", send_gradient, step),),
        policy=lambda state: state.theta,
        turns=Turns(1, "cyclic"),
    )
