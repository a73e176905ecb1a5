"""Independent PG: every agent learns alone. What collaboration is measured against."""

import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Exchange,
    Info,
    MakeOptimiser,
    Oracle,
    Own,
    PerAgent,
    RngKey,
    Scalar,
    Theta,
    alone,
    local_steps,
    sgd,
)


def independent_pg(eta: Scalar, H: int, optimiser: MakeOptimiser = sgd) -> Algorithm:
    """H local steps a round and no communication: theta_i <- theta_i - eta g_i(theta_i) for every agent i.

    The policy is one theta per agent, and each is evaluated on its own agent's task.

    Use it where nothing may be sent, or to see what agents give up for a common policy. Do not where samples are
    scarce: each agent has its own alone.
    """

    def learn(
        memory: tuple[()], own: Own, theta_i: Theta, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        theta, own, info = local_steps(oracle, lambda theta, g: g, optimiser(eta), theta_i, own, key, H)
        return memory, own, theta, info

    def keep(theta_i: Theta, theta: Theta, share: float, key: RngKey) -> tuple[Theta, Theta]:
        return theta, theta

    def init(theta: Theta, N: int) -> tuple[PerAgent, PerAgent, tuple[()]]:
        each = jnp.broadcast_to(theta, (N, *theta.shape))
        return each, each, ()

    return Algorithm(init, (Exchange("local", learn, keep, alone),), policy=lambda theta: theta)
