"""Centralised PG: the ideal update of section 3, for agents that could talk at every step."""

from fastfedpg.core import Algorithm, Down, Exchange, Info, Oracle, Own, RngKey, Scalar, Theta, estimate


def centralised_pg(eta: Scalar) -> Algorithm:
    """One averaged gradient step a round: theta+ = theta - eta mean_i g_i(theta).

    Use it where a synchronisation costs little beside an estimate: nobody drifts. Do not where rounds are what counts:
    each has one step.
    """

    def send_gradient(
        memory: tuple[()], own: Own, theta: Down, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        g_i, own, steps = estimate(oracle, theta, own, key)
        return memory, own, g_i, Info(steps=steps)

    def descend(theta: Theta, g: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        theta = theta - eta * g
        return theta, theta

    return Algorithm(
        init=lambda theta, N: (theta, theta, ()),
        exchanges=(Exchange("gradient", send_gradient, descend),),
        policy=lambda theta: theta,
    )
