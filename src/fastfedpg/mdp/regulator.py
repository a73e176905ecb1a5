"""The mathematics of one agent's discounted linear-quadratic regulator, exactly: correlations, values, gradients.

    x_{t+1} = A x_t + B u_t,   u_t = -F x_t + s eps_t,   eps_t ~ N(0, I),   E[x_0 x_0'] = Sigma_0
    J(F) = E sum_t gamma^t (x_t'Q x_t + u_t'R u_t)

The noise acts like a start from a larger Sigma_0. Write Acl = A - B F; the discounted correlation
Sigma_F = E sum_t gamma^t x_t x_t' obeys, since x_{t+1} = Acl x_t + s B eps_t,

    Sigma_F = Sigma + gamma Acl Sigma_F Acl',   Sigma = Sigma_0 + gamma s^2 B B' / (1 - gamma)

and E[u_t'R u_t] = E[x_t'F'R F x_t] + s^2 tr R gives

    J(F) = tr((Q + F'R F) Sigma_F) + s^2 tr R / (1 - gamma) = tr(P_F Sigma) + s^2 tr R / (1 - gamma)
    P_F  = Q + F'R F + gamma Acl' P_F Acl

which is tr(P_F Sigma_0) + s^2 (tr R + gamma tr B'P_F B) / (1 - gamma). All of it exists where F is stable, that is
where M = sqrt(gamma) Acl has a spectral radius below 1. Then Sigma_F = sum_k M^k Sigma M'^k is summed by doubling,

    X <- X + M X M',   M <- M M,

2^j terms after j steps (Smith 1968). All functions are pure, and are written for one agent.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

Gain = Float[Array, "m n"]
Square = Float[Array, "n n"]


class LinearSystem(NamedTuple):
    """What all agents share."""

    A: Any  # (n, n)
    B: Any  # (n, m)
    Sigma: Any  # (n, n): Sigma_0 + gamma s^2 B B' / (1 - gamma)
    gamma: Any
    noise: Any  # s

    def like(self, x: Array) -> "LinearSystem":
        """All numbers in its dtype."""
        return LinearSystem(*(jnp.asarray(number, x.dtype) for number in self))


DOUBLINGS = 40
"""2^40 terms: M^(2^40) is zero or infinite unless the spectral radius is 1 to eleven digits."""
VANISHED = 1e-3
"""So that a radius of 1, whose powers neither grow nor vanish, is not taken for stable."""


class Solved(NamedTuple):
    """The two sums of a gain, and whether they are finite."""

    Sigma_F: Square
    P_F: Square
    stable: Bool[Array, ""]


def solve(model: LinearSystem, F: Gain, X: Square, Y: Square) -> Solved:
    """sum_k M^k X M'^k, sum_k M'^k Y M^k, and whether M^k has vanished at the end."""

    def double(_: Any, carry: tuple[Square, Square, Square]) -> tuple[Square, Square, Square]:
        M, X, Y = carry
        return M @ M, X + M @ X @ M.T, Y + M.T @ Y @ M

    M = jnp.sqrt(model.gamma) * (model.A - model.B @ F)
    M, X, Y = lax.fori_loop(0, DOUBLINGS, double, (M, X, Y))
    return Solved((X + X.T) / 2, (Y + Y.T) / 2, jnp.abs(M).max() < VANISHED)


def evaluated(model: LinearSystem, Q: Square, R: Float[Array, "m m"], F: Gain) -> Solved:
    """Sigma_F and P_F."""
    return solve(model, F, model.Sigma, Q + F.T @ R @ F)


def cost(model: LinearSystem, Q: Square, R: Float[Array, "m m"], F: Gain, Sigma_F: Square) -> Float[Array, ""]:
    """tr((Q + F'R F) Sigma_F) + s^2 tr R / (1 - gamma)."""
    return jnp.sum((Q + F.T @ R @ F) * Sigma_F) + model.noise**2 * jnp.trace(R) / (1 - model.gamma)


def objective(model: LinearSystem, Q: Square, R: Float[Array, "m m"], F: Gain) -> Float[Array, ""]:
    """J(F); infinite outside the stable set."""
    found = evaluated(model, Q, R, F)
    return jnp.where(found.stable, cost(model, Q, R, F, found.Sigma_F), jnp.inf)


def advantage(model: LinearSystem, R: Float[Array, "m m"], F: Gain, P: Square) -> Gain:
    """E_F = (R + gamma B'P B) F - gamma B'P A, which is zero where F is the best answer to P."""
    return R @ F - model.gamma * model.B.T @ P @ (model.A - model.B @ F)


def gradient(model: LinearSystem, Q: Square, R: Float[Array, "m m"], F: Gain) -> Gain:
    """2 E_F Sigma_F; NaN outside the stable set.

    By the equation of P_F, d tr(P_F Sigma) = tr(X Sigma_F) for the change X of Q + F'R F + gamma Acl'P Acl at fixed P,
    which is dF'E_F + E_F'dF.
    """
    found = evaluated(model, Q, R, F)
    return jnp.where(found.stable, 2 * advantage(model, R, F, found.P_F) @ found.Sigma_F, jnp.nan)
