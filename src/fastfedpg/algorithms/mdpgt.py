"""MDPGT, after Jiang et al., "MDPGT: Momentum-Based Decentralized Policy Gradient Tracking" (2022)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fastfedpg.core import (
    WEIGHTS,
    Algorithm,
    Batch,
    Exchange,
    Graph,
    Info,
    Oracle,
    Own,
    PerAgent,
    RngKey,
    Scalar,
    Theta,
    check_share,
    effective_share,
    gossip,
    log_weights,
    pairwise_mean,
    weighted_gradient,
)


class Pair(NamedTuple):
    """An agent's parameters and its estimate of everybody's gradient; both are sent to the neighbours."""

    theta: Theta
    v: Theta


class Memory(NamedTuple):
    """Where the last gradient was taken, and u_i there; `new` is 1 until there is one."""

    theta: Theta
    u: Theta
    new: Any


def mdpgt(eta: Scalar, graph: Graph = "ring", b: Scalar = 0.5, edge_p: float = 0.5, graph_seed: int = 0) -> Algorithm:
    """Decentralised PG with momentum, in which agents track the average gradient: no bias is left.

        u_i+     = b g_i(theta_i) + (1-b) (u_i + g_i(theta_i) - w g_i(theta_i-)),        u_i = g_i at first
        v_i+     = sum_j W_ij (v_j + u_j+ - u_j),                                        v_i = u_i = 0 before
        theta_i+ = sum_j W_ij theta_j - eta v_i+

    theta_i- is where the agent was before, and g_i there is estimated on the trajectories of theta_i, each with its
    weight w = prod_k pi_{theta_i-}(a_k|s_k) / pi_{theta_i}(a_k|s_k); exact gradients need none, and u_i = g_i then for
    every b. The columns of W sum to 1, so mean_i v_i = mean_i u_i at all times. A fixed point has (I - W) Theta =
    -eta V and V = W V, so V is constant over agents, then Theta too, and mean_i u_i = 0: stationary for J, for every
    eta, where decentralised PG is off by O(eta). One estimate and two vectors to each neighbour a round. `ess` in the
    metrics is the effective share of B trajectories, (sum w)^2 / (B sum w^2).

    The authors' public code carries v before W is applied, which is the same, but never renews theta_i-: it stays the
    very first policy, so that w degenerates.

    Use it where there is no server and agents differ. Do not where weights degenerate (look at `ess`), but with b near
    1, which hardly counts on them.

    Args:
        graph, edge_p, graph_seed: as in decentralised_pg.
        b: share of the fresh gradient, in (0, 1]; 1 is gradient tracking without momentum.
    """
    check_share("b", b)
    plain = isinstance(b, float | int) and b == 1

    def send(memory: Memory, own: Own, down: Pair, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Pair, Info]:
        theta, v = down
        batch, own = oracle.sample(theta, own, jax.random.fold_in(key, 0), None)
        g = oracle.gradient(theta, own, batch)
        old, ess = (g, {}) if plain else elsewhere(oracle, memory.theta, theta, own, batch)
        fresh = jnp.where(memory.new > 0, 1, b).astype(g.dtype)
        u = g + (1 - fresh) * (memory.u - old)
        kept, up = Memory(theta, u, 0 * memory.new), Pair(theta, v + u - memory.u)
        return kept, own, up, Info(steps=oracle.steps(batch), extra=ess)

    def move(state: Pair, mixed: Pair, share: float, key: RngKey) -> tuple[Pair, Pair]:
        state = Pair(mixed.theta - eta * mixed.v, mixed.v)
        return state, state

    def init(theta: Theta, N: int) -> tuple[Pair, Pair, Memory]:
        each: PerAgent = jnp.broadcast_to(theta, (N, *theta.shape))
        state = Pair(each, jnp.zeros_like(each))
        return state, state, Memory(each, jnp.zeros_like(each), jnp.ones(N, theta.dtype))

    exchange = Exchange("local", send, move, gossip(graph, edge_p, graph_seed))
    policy = lambda state: pairwise_mean(state.theta)
    return Algorithm(init, (exchange,), policy, needs=() if plain else WEIGHTS)


def elsewhere(oracle: Oracle, at: Theta, theta: Theta, own: Own, batch: Batch) -> tuple[Theta, dict[str, Scalar]]:
    """w g(at) on a batch that theta played, and the effective share of its trajectories."""
    share = effective_share(log_weights(oracle, at, theta, batch))
    return weighted_gradient(oracle, at, theta, own, batch), {"ess": share}
