"""Decentralised PG, after Zeng et al., "A Decentralized Policy Gradient Approach to Multi-Task RL" (2021)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Down,
    Exchange,
    Graph,
    Info,
    Oracle,
    Own,
    PerAgent,
    RngKey,
    Scalar,
    Theta,
    estimate,
    gossip,
    pairwise_mean,
    squared_norm,
)


class Memory(NamedTuple):
    """Where agent i is; `new` is 1 before its first step, when it is where all are."""

    theta: Theta
    new: Any


def decentralised_pg(eta: Scalar, graph: Graph = "ring", edge_p: float = 0.5, graph_seed: int = 0) -> Algorithm:
    """Each agent steps by its own gradient from the mean of its neighbours' parameters; there is no server.

        theta_i+ = sum_j W_ij theta_j - eta g_i(theta_i)

    All on the right are old parameters, and the gradient is taken at the agent's own. One estimate and one message to
    each neighbour a round. What is carried is m_i = sum_j W_ij theta_j, from which the next step starts; the columns of
    W sum to 1, so the mean of the m_i is that of the theta_i, which is the policy. With only some agents in a round it
    moves by -(eta/N) times the sum of their gradients, if W is symmetric.

    A fixed point solves (I - W) Theta = -eta G(Theta). Summed over agents, sum_i g_i(theta_i) = 0, but at points that
    differ: Theta - mean = -eta (I - W)^+ G, at most eta ||G|| / (1 - lambda_2) for a symmetric W. So the mean is off by
    O(eta) from a stationary point of J, and more the worse the graph is connected. With W = 11'/N all m_i are equal,
    and a round is that of FedAvg-PG with H = 1 but for where gradients are taken: not at the mean but at theta_i, an
    own step away from it, theta_i - mean = -eta (g_i - g) of the round before. The first round is the same.

    Use it where there is no server and eta is small. Do not on a graph that is badly connected: take mdpgt, which has
    no bias.

    Args:
        graph: ring, torus, star, complete or erdos-renyi, with Metropolis weights; a file (.npy, .npz) with doubly
            stochastic weights W (N, N); or their rows.
        edge_p: erdos-renyi: the probability of an edge; drawn until all are connected.
        graph_seed: erdos-renyi: the seed of its draws.
    """

    def step(memory: Memory, own: Own, m_i: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        theta_i = jnp.where(memory.new > 0, m_i, memory.theta)
        g_i, own, steps = estimate(oracle, theta_i, own, jax.random.fold_in(key, 0))
        new = m_i - eta * g_i
        return Memory(new, 0 * memory.new), own, new, Info(squared_norm(theta_i - m_i), steps)

    def hear(m_i: Theta, mixed: Theta, share: float, key: RngKey) -> tuple[Theta, Theta]:
        return mixed, mixed

    def init(theta: Theta, N: int) -> tuple[PerAgent, PerAgent, Memory]:
        each = jnp.broadcast_to(theta, (N, *theta.shape))
        return each, each, Memory(each, jnp.ones(N, theta.dtype))

    return Algorithm(init, (Exchange("local", step, hear, gossip(graph, edge_p, graph_seed)),), pairwise_mean)
