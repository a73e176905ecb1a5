"""The mathematics of one agent's finite MDP, exactly: values, occupancy, gradients, optimal policies.

All functions are pure, are written for one agent, and take costs (descent sign). Policies are tables of
log-probabilities `log_pi (S, A)`. With an entropy weight tau > 0 the cost is c(s,a) + tau log pi(a|s).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import lu_factor, lu_solve
from jaxtyping import Array, Float

Kernel = Float[Array, "S A S"]
Table = Float[Array, "S A"]
Vector = Float[Array, " S"]
Number = float | Float[Array, ""]

NEVER = -1e4
"""A finite stand-in for log 0 that keeps 0 log 0 out of the sums; exp of it is exactly zero."""


def log_softmax_policy(theta: Float[Array, " d"], S: int, A: int) -> Table:
    """Eq. (2): log pi_theta(a|s) = theta_{s,a} - log sum_a' exp(theta_{s,a'})."""
    return jax.nn.log_softmax(theta.reshape(S, A), axis=-1)


def chain(P: Kernel, log_pi: Table) -> Float[Array, "S S"]:
    """P^theta(s, s') = sum_a pi(a|s) P(s'|s, a)."""
    return jnp.einsum("sap,sa->sp", P, jnp.exp(log_pi))


def values(P: Kernel, cost: Table, gamma: Number, log_pi: Table, tau: Number = 0.0) -> Vector:
    """Eq. (8): J^theta = (I - gamma P^theta)^-1 R^theta, the value from each state."""
    c = jnp.sum(jnp.exp(log_pi) * (cost + tau * log_pi), axis=1)
    return jnp.linalg.solve(jnp.eye(len(c), dtype=c.dtype) - gamma * chain(P, log_pi), c)


def q_values(P: Kernel, cost: Table, gamma: Number, log_pi: Table, tau: Number = 0.0) -> Table:
    """Q(s,a) = R(s,a) + gamma E[J(s')]; the entropy of the first action is not in it."""
    return cost + gamma * P @ values(P, cost, gamma, log_pi, tau)


def objective(P: Kernel, cost: Table, rho: Vector, gamma: Number, log_pi: Table, tau: Number = 0.0) -> Float[Array, ""]:
    """Eq. (1): J = E_rho[J(s)]."""
    return rho @ values(P, cost, gamma, log_pi, tau)


def occupancy(P: Kernel, rho: Vector, gamma: Number, log_pi: Table) -> Vector:
    """d_rho(s) = (1 - gamma) sum_t gamma^t P(s_t = s)."""
    return (1 - gamma) * jnp.linalg.solve(jnp.eye(len(rho), dtype=rho.dtype) - gamma * chain(P, log_pi).T, rho)


def gradient(P: Kernel, cost: Table, rho: Vector, gamma: Number, log_pi: Table, tau: Number = 0.0) -> Table:
    """Eq. (9) for the softmax table: dJ/dtheta_{s,a} = d(s) pi(a|s) (Q(s,a) - J(s)) / (1 - gamma).

    For softmax, sum_a' grad log pi(a'|s) Q(s,a') pi(a'|s) is pi(a|s) (Q(s,a) - J(s)) in the coordinate (s,a). With
    entropy, c + tau log pi takes the place of c; its direct derivative tau sum_a pi grad log pi is zero.
    """
    pi, c = jnp.exp(log_pi), cost + tau * log_pi
    factors = lu_factor(jnp.eye(len(rho), dtype=rho.dtype) - gamma * chain(P, log_pi))
    J = lu_solve(factors, jnp.sum(pi * c, axis=1))  # Eq. (8)
    visits = lu_solve(factors, rho, trans=1)  # d(s) / (1 - gamma)
    return visits[:, None] * pi * (c + gamma * P @ J - J[:, None])


def truncated_objective(
    P: Kernel, cost: Table, rho: Vector, gamma: Number, K: int, log_pi: Table, tau: Number = 0.0
) -> Float[Array, ""]:
    """J_K = E[sum_{t<K} gamma^t r_t], by K steps of the Bellman recursion.

    Its gradient is the expectation of Eq. (5): a score at step k has mean zero given all that came before it, so that
    of the K^2 products r_t score_k only those with k <= t survive.
    """
    c = jnp.sum(jnp.exp(log_pi) * (cost + tau * log_pi), axis=1)
    P_pi = chain(P, log_pi)
    J, _ = lax.scan(lambda J, _: (c + gamma * P_pi @ J, None), jnp.zeros_like(c), None, length=K)
    return rho @ J


class Optimum(NamedTuple):
    """An optimal policy (S, A), as probabilities, and its value from every state."""

    policy: Table
    values: Vector


def optimal(P: Kernel, cost: Table, gamma: Number, tau: float = 0.0) -> Optimum:
    """Dynamic programming: policy iteration, and with tau > 0 its soft form pi(.|s) ∝ exp(-Q(s,.) / tau).

    Both improve monotonically. The plain form ends when no action improves by more than rounding, 64 eps max|J| for one
    step, so that J* is right to 64 eps max|J| / (1 - gamma); the soft one, which converges quadratically, when the
    values stand still.
    """
    S, A = cost.shape
    slack = lambda J: 64 * jnp.finfo(cost.dtype).eps * jnp.max(jnp.abs(J))

    def always(action: Array) -> Table:
        return jnp.where(action[:, None] == jnp.arange(A), 0.0, NEVER).astype(cost.dtype)

    def improve(log_pi: Table) -> tuple[Table, Vector]:
        J = values(P, cost, gamma, log_pi, tau)
        Q = cost + gamma * P @ J
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
