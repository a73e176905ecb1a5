"""Minibatch PG: all of a round's trajectories at one point. What local steps have to beat."""

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
    trajectories,
)


def minibatch_pg(eta: Scalar, H: int) -> Algorithm:
    """One averaged step of H eta on the trajectories of H estimates: theta+ = theta - H eta mean_i g_i(theta; H B).

    As many trajectories a round as FedAvg-PG with H local steps, in one synchronisation and d numbers each way. Nobody
    drifts: its fixed points are the stationary points of J whatever H, and to first order in eta a round of it moves
    theta as far as H local steps, with the same noise: (H eta)^2 sigma^2/(H B N) = H eta^2 sigma^2/(B N). What it lacks
    is a second look: all of the step is taken along the gradient where it began (Woodworth et al. 2020). Where nothing
    is played a round costs one estimate.

    Use it first: it is what local steps must beat with the same samples. Do not where H eta is too far to go along one
    gradient.
    """
    if H < 1:
        raise ValueError(f"H = {H}; a round must have the trajectories of at least 1 step")

    def send_gradient(
        memory: tuple[()], own: Own, theta: Down, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        g_i, own, steps = estimate(oracle, theta, own, key, trajectories(oracle, H))
        return memory, own, g_i, Info(steps=steps)

    def descend(theta: Theta, g: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        theta = theta - H * eta * g
        return theta, theta

    return Algorithm(
        init=lambda theta, N: (theta, theta, ()),
        exchanges=(Exchange("gradient", send_gradient, descend),),
        policy=lambda theta: theta,
        needs=("B",),
    )
