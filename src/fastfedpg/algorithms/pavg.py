"""PAvg, after Jin et al., "Federated Reinforcement Learning with Environment Heterogeneity" (2022)."""

from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from fastfedpg.core import (
    Algorithm,
    Exchange,
    Info,
    Optimiser,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    local_steps,
    sgd,
    watch,
)

TINY = 1e-30
"""What stands for a probability of 0 in logits."""


def pavg(eta: Scalar, H: int, kind: Literal["natural", "soft", "projected"] = "natural") -> Algorithm:
    """Local policy steps of tables, then the average of the logits, or of the policies.

        natural    theta <- theta - eta (Q_i - V_i) / (1-gamma), H times,               theta+ = mean_i theta
        soft       theta <- theta - eta grad J_i(theta), H times,                       theta+ = mean_i theta
        projected  pi(.|s) <- Proj(pi(.|s) - eta d_i(s) Q_i(s,.) / (1-gamma)), H times, pi+ = mean_i pi

    Q_i, V_i and d_i are those of the agent's own MDP and its present policy, Proj the nearest point of the simplex.
    `natural` is the SoftPAvg of the authors' code: the softmax table's gradient d_i pi (Q_i - V_i)/(1-gamma) without
    d_i pi, which is the natural one; their text has `soft`, which is fedavg_pg. One synchronisation and H exact
    evaluations a round. At H = 1 with shared kernels mean_i (Q_i - V_i) is the average MDP's, and `natural` its natural
    gradient; where kernels differ a bias of their order is left. `projected` is biased at H = 1 already: a mean of
    projections is no projection of the mean.

    The authors' code lets eta decay in every round in which the objective rises by less than 0.1%, hence in nearly all:
    that its results differ between H where all agents are equal (kappa = 0) comes from this alone. Here eta stays.

    Use it where each agent knows its MDP, a table, and kernels are shared: with H = 1 it is the centralised natural
    gradient. Do not where kernels differ much, or with a large H where costs do: nothing corrects the drift.
    """

    def send_parameters(
        memory: tuple[()], own: Own, theta: Theta, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        start, asked, optimiser = theta, oracle, sgd(eta)
        if kind != "soft":
            assert oracle.tabular is not None
            mdp = oracle.tabular().like(theta)

            def natural(theta: Theta) -> Any:
                log_pi = mdp.log_policy(theta)
                Q = mdp.q_values(log_pi)
                return (Q - jnp.sum(jnp.exp(log_pi) * Q, axis=1, keepdims=True)) / (1 - mdp.gamma)

            def direct(pi: Theta) -> Any:
                log_pi = jnp.log(jnp.maximum(pi.reshape(mdp.cost.shape), TINY))
                return mdp.occupancy(log_pi)[:, None] * mdp.q_values(log_pi) / (1 - mdp.gamma)

            direction = natural if kind == "natural" else direct
            asked = watch(oracle, gradient=lambda answer, x, own, batch: direction(x).reshape(-1))
            if kind == "projected":
                start = jnp.exp(mdp.log_policy(theta)).reshape(-1)

                def onto(x: Theta) -> Theta:
                    return project(x.reshape(mdp.cost.shape)).reshape(-1)

                optimiser = Optimiser(lambda pi: (), lambda v, state, pi: (onto(pi - eta * v) - pi, state))
        x, own, info = local_steps(asked, lambda x, g: g, optimiser, start, own, key, H)
        return memory, own, x, info

    def average(theta: Theta, x: Theta, share: float, key: RngKey) -> tuple[Theta, Theta]:
        theta = jnp.log(jnp.maximum(x, TINY)) if kind == "projected" else x
        return theta, theta

    return Algorithm(
        init=lambda theta, N: (theta, theta, ()),
        exchanges=(Exchange("local", send_parameters, average),),
        policy=lambda theta: theta,
        needs=() if kind == "soft" else ("tabular",),
    )


def project(x: Float[Array, "S A"]) -> Float[Array, "S A"]:
    """The nearest point of the simplex to each row: max(x - t, 0) with the t for which it sums to 1.

    With u the row in falling order, t = (u_1 + … + u_k - 1)/k for the largest k with u_k > t (Duchi et al. 2008).
    """
    u = jnp.sort(x, axis=1)[:, ::-1]
    t = (jnp.cumsum(u, axis=1) - 1) / jnp.arange(1, x.shape[1] + 1)
    k = jnp.sum(u > t, axis=1, keepdims=True)
    return jnp.maximum(x - jnp.take_along_axis(t, k - 1, axis=1), 0)
