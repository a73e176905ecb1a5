"""Numbers with their uncertainty over seeds."""

from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """A mean over seeds and the ends of its interval (NaN where there is only one seed)."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def bootstrap(values: np.ndarray, level: float = 0.95, resamples: int = 2000) -> Interval:
    """The mean over the first axis with a percentile bootstrap interval; the resampling has a fixed seed."""
    values = np.asarray(values, float)
    mean, n = values.mean(axis=0), len(values)
    if n < 2:
        nothing = np.full_like(mean, np.nan)
        return Interval(mean, nothing, nothing)
    counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=resamples)
    means = np.tensordot(counts / n, values, axes=1)
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2), axis=0)
    return Interval(mean, low, high)
