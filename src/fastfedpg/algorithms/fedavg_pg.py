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
    State,
    Theta,
    at_server,
    local_steps,
    server_step,
    sgd,
    theta_of,
)


def fedavg_pg(
    eta: Scalar, H: int, optimiser: MakeOptimiser = sgd, alpha_g: Scalar = 1.0, server: MakeOptimiser = sgd
) -> Algorithm:
    """Local policy gradient, then the average of the parameters.

        theta_{i,l+1} = theta_{i,l} - eta g_i(theta_{i,l}),      theta_bar+ = mean_i theta_{i,H}

    One synchronisation and H estimates a round. For H > 1 its fixed point is in general not a stationary point of J:
    each agent drifts towards its own optimum, by O(eta H).

    Use it where agents differ little, or noise is larger than drift: it has one vector each way, and no correction's
    noise. Do not where agents pull apart and eta H is large.

    Args:
        alpha_g: the server's step size: theta_bar+ = theta_bar + alpha_g mean_i (theta_{i,H} - theta_bar).
        server: takes alpha_g's place, with mean_i (theta_bar - theta_{i,H}) as its gradient, and lasts from round to
            round: FedAdam, FedYogi and FedAdagrad of Reddi et al. (2021). Its fixed points are those of the average.
    """
    plain = server is sgd and isinstance(alpha_g, float | int) and alpha_g == 1

    def send_parameters(
        memory: tuple[()], own: Own, theta_bar: Down, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        theta, own, info = local_steps(oracle, lambda theta, g: g, optimiser(eta), theta_bar, own, key, H)
        return memory, own, theta, info

    def average(state: State, theta: Theta, share: float, key: RngKey) -> tuple[State, Down]:
        if plain:
            return theta, theta
        state = server_step(server(alpha_g), state, theta_of(state) - theta)
        return state, theta_of(state)

    return Algorithm(
        init=lambda theta, N: (at_server(theta, server(alpha_g).init(theta)), theta, ()),
        exchanges=(Exchange("local", send_parameters, average),),
        policy=theta_of,
    )
