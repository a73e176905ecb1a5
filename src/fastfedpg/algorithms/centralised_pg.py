"""Centralised PG: the ideal update of section 3, for agents that could talk at every step."""

from typing import Any, NamedTuple

from fastfedpg.core import (
    Algorithm,
    Down,
    Exchange,
    Info,
    MakeOptimiser,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    estimate,
    sgd,
)


class State(NamedTuple):
    """What the server keeps: theta, and what its optimiser does."""

    theta: Theta
    optimiser: Any


def centralised_pg(eta: Scalar, optimiser: MakeOptimiser = sgd) -> Algorithm:
    """One averaged gradient step a round: theta+ = theta - eta mean_i g_i(theta).

    Use it where a synchronisation costs little beside an estimate: nobody drifts. Do not where rounds are what counts:
    each has one step.

    Args:
        optimiser: takes the step at the server, and lasts from round to round.
    """

    def send_gradient(
        memory: tuple[()], own: Own, theta: Down, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        g_i, own, steps = estimate(oracle, theta, own, key)
        return memory, own, g_i, Info(steps=steps)

    def descend(state: State, g: Theta, share: float, key: RngKey) -> tuple[State, Down]:
        change, kept = optimiser(eta).update(g, state.optimiser, state.theta)
        theta = state.theta + change
        return State(theta, kept), theta

    return Algorithm(
        init=lambda theta, N: (State(theta, optimiser(eta).init(theta)), theta, ()),
        exchanges=(Exchange("gradient", send_gradient, descend),),
        policy=lambda state: state.theta,
    )
