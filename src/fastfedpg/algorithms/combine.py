"""Other ways than the mean to make one of many uploads: robust ones, weighted ones, and neighbours on a graph.

Each is a `core.Combine`, for `Exchange.combine`; `who` are the positions of the m agents that answered.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fastfedpg.core import Combine, Up, pairwise_sum
from fastfedpg.core import mixing as mixing


def _median(ups: Up, who: Any = None, key: Any = None) -> Up:
    return jax.tree.map(lambda x: jnp.median(x, axis=0), ups)


median = Combine(_median)
"""Entry by entry, the middle one of u_1, …, u_m, or the mean of the two in the middle."""


def krum(f: int) -> Combine:
    """The upload that is nearest to its neighbours: u_k with k = argmin_i sum_{j in near(i)} ||u_i - u_j||^2.

    near(i) are the m - f - 2 uploads that are nearest to u_i, itself apart. Up to f of them may be anything; that needs
    m >= 2 f + 3 (Blanchard et al. 2017).
    """
    if f < 0:
        raise ValueError(f"krum: f = {f}; it is the number of uploads that may be anything, and at least 0")

    def merge(ups: Up, who: Any = None, key: Any = None) -> Up:
        u = jnp.concatenate([x.reshape(len(x), -1) for x in jax.tree.leaves(ups)], axis=1)
        m = len(u)
        if m < 2 * f + 3:
            raise ValueError(f"krum: f = {f} needs at least {2 * f + 3} agents that answer, and there are {m}")
        far = jax.lax.map(lambda one: jnp.sum((u - one) ** 2, axis=1), u)
        far = jnp.where(jnp.eye(m, dtype=bool), 0, far)
        k = jnp.argmin(jnp.sort(far, axis=1)[:, : m - f - 1].sum(axis=1))  # the first is 0: itself
        return jax.tree.map(lambda x: x[k], ups)

    return Combine(merge)


def weighted(weights: Any) -> Combine:
    """sum_i w_i u_i / sum_i w_i over the agents that answered, one weight for each of the N agents."""
    w = np.asarray(weights, np.float64)
    if w.ndim != 1 or not len(w) or not np.isfinite(w).all() or (w <= 0).any():
        raise ValueError(f"weighted: the weights {weights} must be positive numbers, one for each agent")

    def merge(ups: Up, who: Any, key: Any = None) -> Up:
        def mean(x: Array) -> Array:
            here = jnp.asarray(w, x.dtype)[who]
            total = pairwise_sum((x * here.reshape(-1, *(1,) * (x.ndim - 1)), here))
            return (total[0][0] / total[1][0]).astype(x.dtype)

        return jax.tree.map(mean, ups)

    return Combine(merge, agents=len(w))
