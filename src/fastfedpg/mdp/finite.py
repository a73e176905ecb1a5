"""The mathematics of one agent's finite MDP, exactly: values, occupancy, gradients, optimal policies.

All functions are pure, are written for one agent, and take costs (descent sign). Policies are tables of
log-probabilities `log_pi (S, A)`. With an entropy weight tau > 0 the cost is c(s,a) + tau log pi(a|s). Transitions are
an array (S, A, S) or a `Sparse`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from fastfedpg.mdp.transitions import TOLERANCE, Kernel, Number, Table, Vector, along, direct, expected, solver
from fastfedpg.mdp.transitions import Sparse as Sparse

NEVER = -1e4
"""A finite stand-in for log 0 that keeps 0 log 0 out of the sums; exp of it is exactly zero."""


def log_softmax_policy(theta: Float[Array, " d"], S: int, A: int) -> Table:
    """Eq. (2): log pi_theta(a|s) = theta_{s,a} - log sum_a' exp(theta_{s,a'})."""
    return jax.nn.log_softmax(theta.reshape(S, A), axis=-1)


def softmax_policy(theta: Float[Array, " d"], S: int, A: int) -> Table:
    """Eq. (2): pi_theta(a|s)."""
    return jax.nn.softmax(theta.reshape(S, A), axis=-1)


def values(P: Kernel, cost: Table, gamma: Number, log_pi: Table, tau: Number = 0.0) -> Vector:
    """Eq. (8): J^theta = (I - gamma P^theta)^-1 R^theta, the value from each state."""
    return solver(P, log_pi, gamma)(jnp.sum(jnp.exp(log_pi) * (cost + tau * log_pi), axis=1))


def q_values(P: Kernel, cost: Table, gamma: Number, log_pi: Table, tau: Number = 0.0) -> Table:
    """Q(s,a) = R(s,a) + gamma E[J(s')]; the entropy of the first action is not in it."""
    return cost + gamma * expected(P, values(P, cost, gamma, log_pi, tau))


def objective(P: Kernel, cost: Table, rho: Vector, gamma: Number, log_pi: Table, tau: Number = 0.0) -> Float[Array, ""]:
    """Eq. (1): J = E_rho[J(s)]."""
    return rho @ values(P, cost, gamma, log_pi, tau)


def occupancy(P: Kernel, rho: Vector, gamma: Number, log_pi: Table) -> Vector:
    """d_rho(s) = (1 - gamma) sum_t gamma^t P(s_t = s)."""
    return (1 - gamma) * solver(P, log_pi, gamma)(rho, transpose=True)


class Evaluated(NamedTuple):
    """All that one factorisation tells about a policy."""

    J: Float[Array, ""]  # Eq. (1)
    visits: Table  # d(s) pi(a|s) / (1 - gamma): how often (s, a) is played, discounted
    gradient: Table  # Eq. (9)


def evaluated(P: Kernel, cost: Table, rho: Vector, gamma: Number, log_pi: Table, tau: Number = 0.0) -> Evaluated:
    """Objective, visits and gradient together.

    Eq. (9) for the softmax table: dJ/dtheta_{s,a} = d(s) pi(a|s) (Q(s,a) - J(s)) / (1 - gamma), since
    sum_a' grad log pi(a'|s) Q(s,a') pi(a'|s) is pi(a|s) (Q(s,a) - J(s)) in the coordinate (s,a). With entropy,
    c + tau log pi takes the place of c; its direct derivative tau sum_a pi grad log pi is zero.
    """
    pi, c = jnp.exp(log_pi), cost + tau * log_pi
    solve = solver(P, log_pi, gamma)
    J = solve(jnp.sum(pi * c, axis=1))  # Eq. (8)
    visits = solve(rho, transpose=True)[:, None] * pi
    return Evaluated(rho @ J, visits, visits * (c + gamma * expected(P, J) - J[:, None]))  # Eqs. (1), (9)


def gradient(P: Kernel, cost: Table, rho: Vector, gamma: Number, log_pi: Table, tau: Number = 0.0) -> Table:
    """Eq. (9): the policy gradient, by `evaluated`."""
    return evaluated(P, cost, rho, gamma, log_pi, tau).gradient


def truncated_objectives(
    P: Kernel, cost: Table, rho: Vector, gamma: Number, K: int, log_pi: Table, tau: Number = 0.0
) -> Float[Array, " K"]:
    """J_k = E[sum_{t<k} gamma^t r_t] for k = 1, …, K, by steps of the Bellman recursion."""
    c = jnp.sum(jnp.exp(log_pi) * (cost + tau * log_pi), axis=1)
    ahead = along(P, log_pi)

    def step(J: Vector, _: None) -> tuple[Vector, Float[Array, ""]]:
        J = c + gamma * ahead(J)
        return J, rho @ J

    return lax.scan(step, jnp.zeros_like(c), None, length=K)[1]


def truncated_objective(
    P: Kernel, cost: Table, rho: Vector, gamma: Number, K: int, log_pi: Table, tau: Number = 0.0
) -> Float[Array, ""]:
    """J_K = E[sum_{t<K} gamma^t r_t].

    Its gradient is the expectation of Eq. (5): a score at step k has mean zero given all that came before it, so that
    of the K^2 products r_t score_k only those with k <= t survive.
    """
    return truncated_objectives(P, cost, rho, gamma, K, log_pi, tau)[-1]


class Optimum(NamedTuple):
    """An optimal policy (S, A), as probabilities, and its value from every state."""

    policy: Table
    values: Vector


def optimal(P: Kernel, cost: Table, gamma: Number, tau: float = 0.0) -> Optimum:
    """Dynamic programming: policy iteration, and with tau > 0 its soft form pi(.|s) ∝ exp(-Q(s,.) / tau).

    Both improve monotonically. The plain form ends when no action improves by more than rounding, 64 eps max|J| for one
    step, so that J* is right to 64 eps max|J| / (1 - gamma); the soft one, which converges quadratically, when the
    values stand still. Where values are iterated, 4 TOLERANCE takes the place of 64 eps: twice the difference that
    their errors can make between two actions, or between two rounds.
    """
    S, A = cost.shape
    eps = float(jnp.finfo(cost.dtype).eps)
    share = 64 * eps if direct(P, S) else max(64 * eps, 4 * TOLERANCE)
    slack = lambda J: share * jnp.max(jnp.abs(J))

    def always(action: Array) -> Table:
        return jnp.where(action[:, None] == jnp.arange(A), 0.0, NEVER).astype(cost.dtype)

    def improve(log_pi: Table) -> tuple[Table, Vector]:
        J = values(P, cost, gamma, log_pi, tau)
        Q = cost + gamma * expected(P, J)
        if tau > 0:
            return jax.nn.log_softmax(jnp.maximum((Q.min(axis=1, keepdims=True) - Q) / tau, NEVER), axis=1), J
        now = jnp.argmax(log_pi, axis=1)
        better = Q.min(axis=1) < jnp.take_along_axis(Q, now[:, None], axis=1)[:, 0] - slack(J)
        best = jnp.where(better, jnp.argmin(Q, axis=1), now)
        return always(best), J

    def unfinished(carry: tuple[Table, Vector, Float[Array, ""], Array]) -> Array:
        _, J, change, n = carry
        return (change > (slack(J) if tau > 0 else 0.0)) & (n < 1000)

    def step(carry: tuple[Table, Vector, Float[Array, ""], Array]) -> tuple[Table, Vector, Float[Array, ""], Array]:
        log_pi, J, _, n = carry
        better, J_new = improve(log_pi)
        change = jnp.max(jnp.abs(J_new - J)) if tau > 0 else jnp.max(jnp.abs(better - log_pi))
        return better, J_new, change, n + 1

    start = jnp.full((S, A), -jnp.log(float(A)), cost.dtype) if tau > 0 else always(jnp.argmin(cost, axis=1))
    carry = (start, jnp.zeros(S, cost.dtype), jnp.asarray(jnp.inf, cost.dtype), jnp.zeros((), jnp.int32))
    log_pi, *_ = lax.while_loop(unfinished, step, carry)
    return Optimum(jnp.exp(log_pi), values(P, cost, gamma, log_pi, tau))
