"""The mean of a table whose rows and columns were both drawn: seeds by weather years, say."""

import numpy as np
from scipy.special import stdtrit

from fastfedpg.statistics import Interval


def crossed(values: np.ndarray, level: float = 0.95) -> Interval:
    """The mean of x (rows, columns) and its t-interval over both.

        v = var(row means) / rows + var(column means) / columns,   df = v^2 / sum_k v_k^2 / (n_k - 1)

    with Satterthwaite's degrees of freedom. What rows and columns have in common is in v, and what a single entry has
    of its own is in it twice: so the interval is a little too wide, and never too narrow for normal values. Where there
    is one row it is about that row, and likewise for columns; of a single entry there is none.
    """
    x = np.asarray(values, float)
    means = [x.mean(axis=1 - axis) for axis in (0, 1) if x.shape[axis] > 1]
    if not means:
        return Interval(x.mean(), *np.full((2, *x.mean().shape), np.nan))
    parts = np.array([m.var(ddof=1) / len(m) for m in means])
    degrees = parts.sum() ** 2 / max(sum(v**2 / (len(m) - 1) for v, m in zip(parts, means, strict=True)), 1e-300)
    half = -stdtrit(max(degrees, 1.0), (1 - level) / 2) * np.sqrt(parts.sum())
    return Interval(x.mean(), x.mean() - half, x.mean() + half)
