"""FedAvg-PG: the natural strategy that section 3 of the paper starts from, and whose drift Fast-FedPG removes."""

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
    local_steps,
    sgd,
)


def fedavg_pg(eta: Scalar, H: int, optimiser: MakeOptimiser = sgd) -> Algorithm:
    """Local policy gradient, then the average of the parameters.

        theta_{i,l+1} = theta_{i,l} - eta g_i(theta_{i,l}),      theta_bar+ = mean_i theta_{i,H}

    One synchronisation and H estimates a round. For H > 1 its fixed point is in general not a stationary point of J:
    each agent drifts towards its own optimum, by O(eta H).

    Use it where agents differ little, or noise is larger than drift: it has one vector each way, and no correction's
    noise. Do not where agents pull apart and eta H is large.
    """

    def send_parameters(
        memory: tuple[()], own: Own, theta_bar: Down, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        theta, own, info = local_steps(oracle, lambda theta, g: g, optimiser(eta), theta_bar, own, key, H)
        return memory, own, theta, info

    def average(theta_bar: Theta, theta: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        return theta, theta

    return Algorithm(
        init=lambda theta, N: (theta, theta, ()),
        exchanges=(Exchange("local", send_parameters, average),),
        policy=lambda theta_bar: theta_bar,
    )
