"""One definition for NumPy and JAX; JAX is imported when its arrays come, and not before."""

from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Num

Theta: TypeAlias = Float[Any, " d"]
Rows: TypeAlias = Num[Any, "... _"]
"""Observations, choices, noise: vectors, with any leading axes."""

HAS_VECMAT = hasattr(np, "vecmat")  # since NumPy 2.2


def module(*arrays: Any) -> Any:
    """`numpy`, or `jax.numpy` where any of the arrays is not NumPy's."""
    for x in arrays:
        if not isinstance(x, (np.ndarray, np.generic)):
            import jax.numpy

            return jax.numpy
    return np


def times(xp: Any, x: Rows, M: Float[Any, "p q"]) -> Rows:
    """x M. NumPy multiplies row by row: a product of matrices rounds a row according to how many there are."""
    if xp is not np:
        return xp.matmul(x, M)
    return np.vecmat(x, M) if HAS_VECMAT else np.matmul(x[..., None, :], M)[..., 0, :]


def still(xp: Any, x: Any) -> Any:
    """The same numbers, through which no gradient goes."""
    if xp is np:
        return x
    from jax import lax

    return lax.stop_gradient(x)


class Constant:
    """An array that is not learned; called with a dtype, it is there in that dtype."""

    def __init__(self, values: Any) -> None:
        """Keep the two dtypes that are common."""
        self.values = np.asarray(values, np.float64)
        self.known = {np.dtype(t): self.values.astype(t) for t in (np.float32, np.float64)}

    def __call__(self, dtype: Any) -> np.ndarray:
        """The array."""
        return self.known[dtype] if dtype in self.known else self.values.astype(dtype)
