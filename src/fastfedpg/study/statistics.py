"""Numbers with their uncertainty over seeds."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit


class Interval(NamedTuple):
    """A mean over seeds and the ends of its interval (NaN where there is only one seed)."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def bootstrap(values: np.ndarray, level: float = 0.95, resamples: int = 10_000) -> Interval:
    """The mean over the first axis with an expanded percentile bootstrap interval; the resampling has a fixed seed.

    With n values the plain percentile interval is too narrow, by sqrt((n-1)/n) and by having no t-quantile in it.
    Quantiles at Phi(-sqrt(n/(n-1)) t_{n-1}) make up for both (Hesterberg 2015). With 8 normal values it covers the mean
    in about 94 cases of 100; with few values that are strongly skewed, as gaps can be, in fewer.
    """
    values = np.asarray(values, float)
    mean, n = values.mean(axis=0), len(values)
    if n < 2:
        nothing = np.full_like(mean, np.nan)
        return Interval(mean, nothing, nothing)
    counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=resamples)
    means = np.tensordot(counts / n, values, axes=1)
    tail = ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2))
    low, high = np.quantile(means, (tail, 1 - tail), axis=0)
    return Interval(mean, low, high)
