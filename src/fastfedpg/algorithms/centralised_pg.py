"""Centralised PG: the ideal update of section 3, for agents that could talk at every step."""

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
    State,
    Theta,
    at_server,
    estimate,
    server_step,
    sgd,
    theta_of,
)


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
        state = server_step(optimiser(eta), state, g)
        return state, theta_of(state)

    return Algorithm(
        init=lambda theta, N: (at_server(theta, optimiser(eta).init(theta)), theta, ()),
        exchanges=(Exchange("gradient", send_gradient, descend),),
        policy=theta_of,
    )
