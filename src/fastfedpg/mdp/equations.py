"""Linear equations M x = b and x M = b by one factorisation, on CPUs of one matrix after another.

There jaxlib's LAPACK calls deal a batch of matrices out to XLA's threads, and wait for them in one of these: as many
such calls at once as there are threads, two on two cores, and all wait for ever, deaf to signals. With one matrix they
do not, and columns of one right side are no batch.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap, sequential_vmap
from jax.scipy.linalg import lu_factor, lu_solve
from jaxtyping import Array, Float

Vector = Float[Array, " S"]


def equations(matrix: Float[Array, "S S"]) -> Callable[..., Vector]:
    """`solve(b)` is M^-1 b, `solve(b, transpose=True)` is M^-T b; both can be differentiated, as often as one likes."""
    one_by_one = jax.default_backend() == "cpu"
    factorise: Callable[..., Any] = lambda matrix: lu_factor(matrix)
    factors = (sequential_vmap(factorise) if one_by_one else factorise)(lax.stop_gradient(matrix))

    def way(trans: int) -> Callable[[Any, Vector], Vector]:
        solve: Callable[..., Vector] = lambda lu, pivots, b: lu_solve((lu, pivots), b, trans=trans)
        return lambda _, b: (_one_by_one(solve) if one_by_one else solve)(*factors, b)

    def solve(b: Vector, transpose: bool = False) -> Vector:
        product = (lambda x: x @ matrix) if transpose else (lambda x: matrix @ x)
        # The derivatives are those of M x = b, so that none of the factors are asked for.
        x: Vector = lax.custom_linear_solve(product, b, way(int(transpose)), way(int(not transpose)))
        return x

    return solve


def _one_by_one(solve: Callable[..., Array]) -> Callable[..., Array]:
    """What `vmap` makes of it: columns where the matrix is one, and a loop where there are several."""
    solved: Any = custom_vmap(solve)

    @solved.def_vmap  # type: ignore[untyped-decorator]
    def batch(size: int, batched: list[bool], lu: Array, pivots: Array, b: Array) -> tuple[Array, bool]:
        if batched[0]:
            pairs = zip((lu, pivots, b), batched, strict=True)
            several = [x if there else jnp.broadcast_to(x, (size, *x.shape)) for x, there in pairs]
            return lax.map(lambda each: solved(*each), several), True
        columns = jnp.moveaxis(b, 0, -1)
        x = solved(lu, pivots, columns.reshape(len(columns), -1))
        return jnp.moveaxis(x.reshape(columns.shape), -1, 0), True

    found: Callable[..., Array] = solved
    return found
