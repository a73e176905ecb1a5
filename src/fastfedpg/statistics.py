"""Numbers with their uncertainty over seeds."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit

AT_ONCE = 256


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
    weights = _resamples(n, resamples)
    tail = ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2))
    flat = values.reshape(n, -1)
    parts = [flat[:, k : k + AT_ONCE] for k in range(0, flat.shape[1], AT_ONCE)]  # all means at once could fill memory
    ends = [np.quantile(weights @ part, (tail, 1 - tail), axis=0) for part in parts]
    low, high = np.concatenate(ends, axis=1).reshape(2, *mean.shape)
    return Interval(mean, low, high)


def _resamples(n: int, resamples: int) -> np.ndarray:
    """The share of each of n values in every resample, (resamples, n); always the same ones."""
    return np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=resamples) / n


class Difference(NamedTuple):
    """How another method's values differ from the first one's, seed by seed, and what may be said of it."""

    interval: Interval
    verdict: str
    detectable: float = float("nan")  # see `detectable`; NaN without noise


NONE = "no difference at this sample size"
SMALL, ROUNDING = 0.01, 1e-9


def difference(
    first: np.ndarray,
    other: np.ndarray,
    comparisons: int = 1,
    noise: bool = True,
    scale: float = 0.0,
    factor: bool = True,
) -> Difference:
    """Other minus first, paired, nominally at 95% for all `comparisons` together (Bonferroni).

    Less is better. A difference is claimed when the bootstrap interval leaves out 0 and the sign-flip test, which is
    exact where the difference is symmetric about 0, rejects at the same level. With n < 14 seeds its least p is
    2^(1-n): one comparison needs 6 seeds, two need 7, four need 8. Without noise there is nothing to test: a difference
    counts from `SMALL` of the scale on, or with `factor`, for values whose 0 means something, from twice as much on.
    """
    d = np.asarray(other, float) - np.asarray(first, float)
    level = 1 - 0.05 / comparisons
    if not noise:
        mean, (less, more) = d.mean(), sorted((float(np.mean(first)), float(np.mean(other))))
        counts = more - less >= SMALL * scale or (factor and more >= 2 * max(less, ROUNDING * scale) > 0)
        return Difference(Interval(mean, mean, mean), _words(mean if counts else 0.0))
    interval = bootstrap(d, level, resamples=100_000)
    outside = interval.low > 0 or interval.high < 0
    said = _words(float(interval.mean) if outside and sign_flip(d) <= 1 - level else 0.0)
    return Difference(interval, said, detectable(d, level))


POWER = 0.8


def detectable(d: np.ndarray, level: float) -> float:
    """The smallest true difference that a paired t-test on as many seeds would find in `POWER` of all cases, about.

    (t_{n-1}(1 - (1 - level)/2) + t_{n-1}(POWER)) s / sqrt(n), with the standard deviation s of these differences. That
    is what the noise allows; a verdict needs the sign-flip test too, which has less power with few seeds, and none with
    fewer than `fewest_seeds`.
    """
    n = len(d)
    if n < 2:
        return float("nan")
    quantiles = stdtrit(n - 1, 1 - (1 - level) / 2) + stdtrit(n - 1, POWER)
    return float(quantiles * d.std(ddof=1) / np.sqrt(n))


def fewest_seeds(comparisons: int) -> int:
    """How many seeds it takes for the sign-flip test to reject at all: 2^(1-n) <= 0.05 / comparisons."""
    return 1 + int(np.ceil(np.log2(comparisons / 0.05)))


def sign_flip(d: np.ndarray) -> float:
    """The p-value of paired differences against symmetry about 0, over all signs, or 10,000 drawn ones."""
    from scipy.stats import permutation_test  # slow to import

    if len(d) < 2 or not d.any():
        return 1.0
    test = permutation_test((d,), np.mean, permutation_type="samples", n_resamples=10_000, rng=0, vectorized=True)
    return float(test.pvalue)


def _words(d: float) -> str:
    return NONE if d == 0 else "worse" if d > 0 else "better"
