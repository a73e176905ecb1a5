"""FedProx with policy gradients, after Li et al., "Federated Optimization in Heterogeneous Networks" (2020)."""

import math

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


def fedprox_pg(eta: Scalar, H: int, mu: Scalar = 0.1, optimiser: MakeOptimiser = sgd) -> Algorithm:
    """FedAvg-PG whose agents are drawn back to where the round began: gradient steps on J_i(x) + mu/2 ||x - theta||^2.

        x_{l+1} = x_l - eta (g_i(x_l) + mu (x_l - theta)),      x_0 = theta,      theta+ = mean_i x_H

    mu = 0 is FedAvg-PG. With r = 1 - eta mu the displacement is x_l - theta = -eta sum_{k<l} r^{l-1-k} g_i(x_k), to
    first order -eta S_l g_i(theta), S_l = 1 + r + … + r^{l-1}. So a round is a step of eta S_H, at most 1/mu where
    eta mu <= 1, and its fixed point has

        grad J = eta c mean_i[hess J_i grad J_i] + O(eta^2),      c = sum_{k<H} r^{H-1-k} S_k / S_H
                                                                    = (1 - H r^{H-1}/S_H) / (eta mu)

    for fixed r. That is (H-1)/2 at mu = 0, as FedAvg-PG's, and 1 at mu = 1/eta for H > 1, where x_{l+1} = theta - eta
    g_i(x_l) for every l: the pull makes the bias smaller by making the round shorter, and does not remove it. At fixed
    mu it does nothing to first order in eta. eta mu must be below 2, or local steps diverge by themselves.

    Use it to hold back FedAvg-PG's local steps where long rounds diverge. Do not to remove its bias, which it can't.

    Args:
        eta: local step size.
        H: local steps in a round.
        mu: how strongly agents are drawn back.
    """
    if isinstance(mu, int | float) and not (math.isfinite(mu) and mu >= 0):
        raise ValueError(f"mu = {mu:g}; it must be a finite number, at least 0")

    def send_parameters(
        memory: tuple[()], own: Own, theta: Down, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        x, own, info = local_steps(oracle, lambda x, g: g + mu * (x - theta), optimiser(eta), theta, own, key, H)
        return memory, own, x, info

    def average(theta: Theta, x: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        return x, x

    return Algorithm(
        init=lambda theta, N: (theta, theta, ()),
        exchanges=(Exchange("local", send_parameters, average),),
        policy=lambda theta: theta,
    )
