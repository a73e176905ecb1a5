"""QAvg, after Jin et al., "Federated Reinforcement Learning with Environment Heterogeneity" (2022)."""

from typing import Any, Literal

from fastfedpg.core import (
    Algorithm,
    Exchange,
    Info,
    InputError,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    local_steps,
    sgd,
    watch,
)

SHARP = 1e8
"""Logits are so many times -Q: actions that differ by more than 1e-6 in Q are told apart for good."""


def qavg(eta: Scalar, H: int, table: Literal["V", "Q"] = "V") -> Algorithm:
    """Damped Bellman sweeps of each agent's own MDP, then the average of the Q tables; no policy is learned.

        Q  Q <- (1-eta) Q + eta T_i Q, H times,    (T_i Q)(s,a) = c_i(s,a) + gamma sum_s' P_i(s'|s,a) min_a' Q(s',a')
        V  V = min_a Q(.,a);  V <- (1-eta) V + eta min_a (c_i + gamma P_i V), H times;  Q = c_i + gamma P_i V

    and Q+ = mean_i Q in both. V is the authors' code, whose last step is not damped, so that it has H + 1 sweeps. Q is
    the paper's text, and why it makes sense: T_i is a gamma-contraction in the largest entry, so S_i = (1-eta) I + eta
    T_i is one by 1 - eta (1-gamma) with the same fixed point, agent i's own Q*. mean_i S_i^H is a contraction by that
    to the H: rounds have one limit, wherever they start. At H = 1 it is the average MDP's Q*, of mean cost and mean
    kernel, since mean_i T_i is its T; with eta = 1 a round is exactly a sweep of it. At H > 1 mean_i S_i^H = I + eta H
    (mean_i T_i - I) + O(eta^2), so that the limit is off by O(eta H). For V both hold only for eta -> 0, since a mean
    of minima is no minimum of means. One synchronisation a round.

    The policy is greedy, theta = -1e8 Q; theta0 is minus the first Q. There is no entropy in the sweeps: tau must be 0.

    Use it where each agent knows its MDP, a table. Do not with entropy, nor where kernels differ: the best common
    policy may then be one that mixes actions (`hard-mdp`), and a greedy one never does.
    """
    if isinstance(eta, float | int) and not 0 < eta <= 1:
        raise ValueError(f"eta = {eta:g}; a sweep's share must lie in (0, 1]")

    def send_table(
        memory: tuple[()], own: Own, Q: Theta, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        assert oracle.tabular is not None
        mdp = oracle.tabular().like(Q)
        if mdp.tau:
            raise InputError(f"tau = {mdp.tau:g}; qavg's sweeps have no entropy, so it must be 0")

        def least(Q: Theta) -> Any:
            return Q.reshape(mdp.cost.shape).min(axis=1)

        def after(x: Any) -> Any:
            return mdp.backup(x).min(axis=1) if table == "V" else mdp.backup(least(x)).reshape(-1)

        swept = watch(oracle, gradient=lambda answer, x, own, batch: x - after(x))
        start = least(Q) if table == "V" else Q
        x, own, info = local_steps(swept, lambda x, g: g, sgd(eta), start, own, key, H)
        return memory, own, mdp.backup(x).reshape(-1) if table == "V" else x, info

    def average(Q: Theta, mean: Theta, share: float, key: RngKey) -> tuple[Theta, Theta]:
        return mean, mean

    return Algorithm(
        init=lambda theta, N: (-theta, -theta, ()),
        exchanges=(Exchange("local", send_table, average),),
        policy=lambda Q: -SHARP * Q,
        needs=("tabular",),
    )
