"""FedNPG with Q-tracking, after Yang et al., "Federated Natural Policy Gradient and Actor Critic Methods" (2024)."""

from typing import NamedTuple

import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Exchange,
    Graph,
    Info,
    Oracle,
    Own,
    PerAgent,
    RngKey,
    Scalar,
    Theta,
    gossip,
    pairwise_mean,
)


class Pair(NamedTuple):
    """An agent's logits, log pi_i but for a constant in each state, and its estimate T_i of everybody's Q."""

    theta: Theta
    T: Theta


def fednpg(eta: Scalar, graph: Graph = "ring", edge_p: float = 0.5, graph_seed: int = 0) -> Algorithm:
    """Natural gradient steps of tables on a graph, by an estimate of the average Q that agents track; no server.

        T_i+        = sum_j W_ij (T_j + Q_j(pi_j) - Q_j(before)),                            T_i = Q_i = 0 at first
        log pi_i+   = sum_j W_ij ((1 - eta tau/(1-gamma)) log pi_j - eta/(1-gamma) T_j+) - log z_i

    Q_i is agent i's own, exactly, without the entropy of the first action; z_i makes pi_i add up to 1 in each state.
    Columns of W sum to 1, so mean_i T_i = mean_i Q_i at all times, and a common fixed point has T_i = mean_j Q_j: with
    shared kernels Q of the average MDP (Proposition 1), so that nothing is left of a bias. With W = 11'/N it is the
    centralised natural gradient, pavg with H = 1. For tau > 0 convergence is linear. Two synchronisations, one
    evaluation and 2 S A numbers to each neighbour a round.

    Derived again from the idea: in log pi the step of the average is -eta/(1-gamma) times its advantage, of which V
    goes into z; entropy adds tau log pi to Q. There the first T_i is Q_i itself, here sum_j W_ij Q_j. The policy is the
    mean of the logits.

    Use it where each agent knows its MDP, a table, kernels are shared, and there is no server. Do not where kernels
    differ: the mean of the agents' Q is then no MDP's.

    Args:
        graph, edge_p, graph_seed: as in decentralised_pg.
    """

    def track(Q: Theta, own: Own, down: Pair, oracle: Oracle, key: RngKey) -> tuple[Theta, Own, Theta, Info]:
        assert oracle.tabular is not None
        mdp = oracle.tabular().like(Q)
        batch, own = oracle.sample(down.theta, own, key, None)
        log_pi = mdp.log_policy(down.theta)
        new = (mdp.q_values(log_pi) - mdp.tau * log_pi).reshape(-1)
        return new, own, down.T + new - Q, Info(steps=oracle.steps(batch))

    def hear(state: Pair, T: Theta, share: float, key: RngKey) -> tuple[Pair, Pair]:
        state = Pair(state.theta, T)
        return state, state

    def step(Q: Theta, own: Own, down: Pair, oracle: Oracle, key: RngKey) -> tuple[Theta, Own, Theta, Info]:
        assert oracle.tabular is not None
        mdp = oracle.tabular().like(down.theta)
        rate = eta / (1 - mdp.gamma)
        log_pi = mdp.log_policy(down.theta).reshape(-1)  # divided by z_i: logits would grow by Q in every round
        return Q, own, ((1 - rate * mdp.tau) * log_pi - rate * down.T).astype(log_pi.dtype), Info()

    def move(state: Pair, theta: Theta, share: float, key: RngKey) -> tuple[Pair, Pair]:
        state = Pair(theta, state.T)
        return state, state

    def init(theta: Theta, N: int) -> tuple[Pair, Pair, PerAgent]:
        each = jnp.broadcast_to(theta, (N, *theta.shape))
        state = Pair(each, jnp.zeros_like(each))
        return state, state, jnp.zeros_like(each)

    mixed = gossip(graph, edge_p, graph_seed)
    exchanges = (Exchange("track", track, hear, mixed), Exchange("policy", step, move, mixed))
    return Algorithm(init, exchanges, policy=lambda state: pairwise_mean(state.theta), needs=("tabular",))
