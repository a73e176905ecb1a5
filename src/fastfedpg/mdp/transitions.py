"""One agent's transitions, as an array (S, A, S) or as a `Sparse`, and the linear equations of its chain.

Only `expected`, `chain` and `along` know the difference, and `solver` chooses how to solve.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from fastfedpg.mdp.equations import equations

Table = Float[Array, "S A"]
Vector = Float[Array, " S"]
Number = float | Float[Array, ""]


class Sparse(NamedTuple):
    """Transitions as lists: (s, a) leads to next[s,a,w] with probability p[s,a,w], w = 0, …, W-1.

    A state may stand in a row more than once, its probabilities are then added; entries of probability 0 are padding.
    """

    next: Int[Array, "*N S A W"] | np.ndarray
    p: Float[Array, "*N S A W"] | np.ndarray


Kernel: TypeAlias = Float[Array, "S A S"] | Sparse

DIRECT = 500
"""Sparse chains of up to so many states are written out, (S, S), and factorised; larger ones are iterated."""

TOLERANCE = 1e-12
"""The relative error at which iteration stops, or 8 eps if that is more (float32): see `iterate`."""


def as_kernel(P: Any, dtype: Any = None) -> Any:
    """Transitions, of one agent or of all, as JAX arrays; their probabilities are of this dtype."""
    if isinstance(P, Sparse):
        return Sparse(jnp.asarray(P.next), jnp.asarray(P.p, dtype))
    return jnp.asarray(P, dtype)


def expected(P: Any, x: Any) -> Any:
    """sum_s' P(s'|s, a) x(s'), a table (S, A); of NumPy's arrays as of JAX's."""
    return (P.p * x[P.next]).sum(axis=-1) if isinstance(P, Sparse) else P @ x


def chain(P: Kernel, log_pi: Table) -> Float[Array, "S S"]:
    """P^theta(s, s') = sum_a pi(a|s) P(s'|s, a)."""
    if not isinstance(P, Sparse):
        return jnp.einsum("sap,sa->sp", P, jnp.exp(log_pi))
    S = len(log_pi)
    return jnp.zeros((S, S), P.p.dtype).at[jnp.arange(S)[:, None, None], P.next].add(_chosen(P, log_pi))


def along(P: Kernel, log_pi: Table, transpose: bool = False) -> Callable[[Vector], Vector]:
    """The map x -> P^theta x, what is expected of x a step later; transposed, where a step takes the distribution x."""
    if not isinstance(P, Sparse):
        matrix = chain(P, log_pi)
        return lambda x: x @ matrix if transpose else matrix @ x
    p = _chosen(P, log_pi)
    if transpose:
        return lambda x: jnp.zeros_like(x).at[P.next].add(p * x[:, None, None])
    return lambda x: jnp.sum(p * x[P.next], axis=(1, 2))


def _chosen(P: Sparse, log_pi: Table) -> Float[Array, "S A W"]:
    return jnp.exp(log_pi)[:, :, None] * P.p


def direct(P: Any, S: int) -> bool:
    """Whether equations are solved by factorisation, rather than by iteration."""
    return not isinstance(P, Sparse) or S <= DIRECT


def solver(P: Kernel, log_pi: Table, gamma: Number) -> Callable[..., Vector]:
    """`solve(b)` is (I - gamma P^theta)^-1 b, `solve(b, transpose=True)` the same with P^theta transposed.

    Both use one factorisation, or iterate where there is none.
    """
    S = len(log_pi)
    if direct(P, S):
        return equations(jnp.eye(S, dtype=log_pi.dtype) - gamma * chain(P, log_pi))
    return lambda b, transpose=False: iterate(along(P, log_pi, transpose), gamma, b, transpose)


def iterate(step: Callable[[Vector], Vector], gamma: Number, b: Vector, transpose: bool = False) -> Vector:
    """The x* with x* = b + gamma step(x*), to ||x - x*|| <= TOLERANCE ||x||; the sup norm, transposed the 1-norm.

    x* is the series sum_n delta_n with delta_0 = b, delta_{n+1} = gamma step(delta_n). Its first terms are added, and
    the rest is taken for geometric: x = delta_0 + … + delta_n + gamma / (1 - gamma) delta_n. Put into the equation,
    this x leaves (delta_{n+1} - gamma delta_n) / (1 - gamma) over. In these norms P^theta, or its transpose, lengthens
    nothing, hence (I - gamma P^theta)^-1 nothing by more than 1 / (1 - gamma), so that
    ||x - x*|| <= ||delta_{n+1} - gamma delta_n|| / (1 - gamma)^2. This is what is compared; it is small as soon as the
    chain has mixed. In any case it is at most 4 gamma^n / (1 - gamma)^2 ||x*||, which limits n even where rounding,
    which is not in the bound and costs about eps / (1 - gamma), keeps it from falling. A loop of unknown length has no
    reverse mode; `mdp.gradient` needs none.
    """
    norm = (lambda x: jnp.sum(jnp.abs(x))) if transpose else (lambda x: jnp.max(jnp.abs(x)))
    tolerance = max(TOLERANCE, 8 * float(jnp.finfo(b.dtype).eps))
    most = jnp.log(tolerance / 4 * (1 - gamma) ** 2) / jnp.log1p(gamma - 1)

    def unfinished(carry: tuple[Vector, Vector, Float[Array, ""], Array]) -> Array:
        x, delta, error, n = carry
        return (error > tolerance * norm(x + gamma / (1 - gamma) * delta)) & (n <= most)

    def add(
        carry: tuple[Vector, Vector, Float[Array, ""], Array],
    ) -> tuple[Vector, Vector, Float[Array, ""], Array]:
        x, delta, _, n = carry
        then = gamma * step(delta)
        return x + then, then, norm(then - gamma * delta) / (1 - gamma) ** 2, n + 1

    start = (b, b, jnp.asarray(jnp.inf, b.dtype), jnp.zeros((), jnp.int32))
    x, delta, *_ = lax.while_loop(unfinished, add, start)
    return x + gamma / (1 - gamma) * delta
