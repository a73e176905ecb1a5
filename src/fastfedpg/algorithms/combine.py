"""Other ways than the mean to make one of many uploads: robust ones, weighted ones, and neighbours on a graph.

Each is a `core.Combine`, for `Exchange.combine`; `who` are the positions of the m agents that answered.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fastfedpg.core import Combine, Up, pairwise_sum

SLACK = 1e-9
"""Rows and columns may miss 1 by so much."""


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


def mixing(W: Any) -> Combine:
    """Every agent's own weighted sum over its neighbours, u_i+ = sum_j W_ij u_j: a graph, and no server.

    W is doubly stochastic: no entry is negative, and every row and column sums to 1, so that the mean is kept. Where
    only some agents take part their rows and columns are taken, and what an agent would have given to those that are
    absent it keeps itself: W_ii + sum_{j absent} W_ij. The mean of those who take part is then kept if W is symmetric.
    """
    W = np.asarray(W, np.float64)
    if W.ndim != 2 or W.shape[0] != W.shape[1] or not W.size:
        raise ValueError(f"mixing: W has shape {W.shape}; it must be (N, N)")
    if not (W >= 0).all():
        i, j = np.argwhere(~(W >= 0))[0]
        raise ValueError(f"mixing: W[{i}, {j}] = {W[i, j]:g}; no entry may be negative")
    for axis, name in ((1, "row"), (0, "column")):
        sums = W.sum(axis=axis)
        if (wrong := np.flatnonzero(~(np.abs(sums - 1) <= SLACK))).size:
            raise ValueError(f"mixing: {name} {wrong[0]} of W sums to {sums[wrong[0]]:.9g}; each must sum to 1")
    N = len(W)

    def merge(ups: Up, who: Any, key: Any = None) -> Up:
        def mix(x: Array) -> Array:
            w = jnp.asarray(W, x.dtype)[who][:, who]
            if len(x) < N:
                w = w + jnp.diag(1 - w.sum(axis=1))
            return jnp.tensordot(w, x, axes=1)

        return jax.tree.map(mix, ups)

    degree = float(np.count_nonzero(W - np.diag(np.diag(W)))) / N
    return Combine(merge, per_agent=True, degree=degree, agents=N)
