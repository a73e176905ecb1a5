"""Numbers with their uncertainty over seeds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, betaincinv, ndtr, ndtri, stdtrit

from fastfedpg.many_values import MANY, NEARLY_NORMAL, expanded, means_of_subsets

AT_ONCE = 256
EVERY = 14
"""With no more values than these the means of all their subsets are taken, and not of some that are drawn."""
SUBSETS = 19_999
"""How many of them are drawn."""


FEWEST = 5
"""With fewer values than these there is no interval: it would be their range.

The tail at which `bootstrap` looks, Phi(-sqrt(n/(n-1)) t_{n-1}), is below n^-n for n = 2, 3 and 4, and n^-n is the
share of resamples that are the least value n times. The range holds the median in 1 - 2^(1-n) of all cases: 50%, 75%
and 87.5%.
"""


class Interval(NamedTuple):
    """A mean over seeds and the ends of its interval (NaN where there are fewer than `FEWEST` seeds)."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


NOTHING = Interval(*(np.full((), np.nan) for _ in range(3)))
"""Where nothing can be said."""


def bootstrap(values: np.ndarray, level: float = 0.95, resamples: int = 10_000) -> Interval:
    """The mean over the first axis with an expanded percentile bootstrap interval; the resampling has a fixed seed.

    With n values the plain percentile interval is too narrow, by sqrt((n-1)/n) and by having no t-quantile in it.
    Quantiles at Phi(-sqrt(n/(n-1)) t_{n-1}) make up for both (Hesterberg 2015). With 8 normal values it covers the mean
    in about 94 cases of 100; with few values that are strongly skewed, as gaps can be, in fewer.

    With more than `MANY` values nothing is drawn: the quantiles are those of Cornish and Fisher's expansion, which is
    nearer to all resamples than so many drawn ones are; but where single values weigh so much that it is not. Then
    resamples are drawn, of those values alone: `many_values.resampled`.
    """
    values = np.asarray(values, float)
    mean, n = values.mean(axis=0), len(values)
    if n < FEWEST:
        nothing = np.full_like(mean, np.nan)
        return Interval(mean, nothing, nothing)
    z = np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2)
    flat = values.reshape(n, -1)
    ends = _drawn(flat, ndtr(z), resamples) if n <= MANY else expanded(flat, z, resamples)
    low, high = ends.reshape(2, *mean.shape)
    return Interval(mean, low, high)


def spread(values: np.ndarray) -> Interval:
    """What pictures show: the mean and its interval, or with fewer than `FEWEST` values their range (of one, none)."""
    found = bootstrap(values)
    if not 1 < len(values) < FEWEST:
        return found
    return found._replace(low=np.min(values, axis=0), high=np.max(values, axis=0))


def spread_words(seeds: Sequence[int]) -> str:
    """What `spread` is of runs with these numbers of seeds."""
    least, most = min(seeds), max(seeds)
    if most == 1:
        return "one seed, no interval"
    count = f"{most if least == most else f'{least} to {most}'} seeds"
    if most < FEWEST:
        return f"mean and range, {count}"
    return f"mean and 95% interval, {count}" + f" (range below {FEWEST})" * (1 < least < FEWEST)


def _drawn(flat: np.ndarray, tail: float, resamples: int) -> np.ndarray:
    """The quantiles at `tail` and 1 - `tail` of the resamples' means, (2, columns)."""
    weights = _resamples(len(flat), resamples)
    parts = [flat[:, k : k + AT_ONCE] for k in range(0, flat.shape[1], AT_ONCE)]  # all means at once could fill memory
    return np.concatenate([np.quantile(weights @ part, (tail, 1 - tail), axis=0) for part in parts], axis=1)


def _resamples(n: int, resamples: int) -> np.ndarray:
    """The share of each of n values in every resample, (resamples, n); always the same ones."""
    return np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=resamples) / n


def geometric(values: np.ndarray, level: float = 0.95) -> Interval:
    """The geometric mean of positive values over the first axis, with the interval of the logarithms' mean.

    Where a value is infinite or missing, as a gap after a run that diverged, so is the mean.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(values)
        return Interval(*np.exp(bootstrap(np.where(np.isfinite(logs), logs, np.inf), level)))


def symmetric(d: np.ndarray, level: float = 0.95) -> Interval:
    """The mean of values d, and all centres that the sign-flip test does not reject: an interval.

    It rejects a centre c if at most (1 - level) / 2 of all 2^n choices of signs make the sum of d - c as large as it
    is, or as small. Flipping the signs of some does that just where their mean is on the other side of c. So the ends
    are order statistics of the means of all subsets (Hartigan 1969), and the level holds for whatever is symmetric
    about its centre, however few there are and however heavy their tails. With n values the least share is 2^-n: with
    fewer than 6 there are no ends at 95%. With more than `EVERY`, `SUBSETS` of them are drawn, always the same, and the
    level still holds; with more than `MANY`, none of which outweighs the others, sums are normal, and where some do,
    subsets of those alone are drawn: `many_values.means_of_subsets`.

    An infinite value is further away than all others, and two of different signs make up for each other.
    """
    d = np.asarray(d, float)
    n, tail = len(d), (1 - level) / 2
    if n == 0 or np.isnan(d).any():
        return NOTHING
    with np.errstate(invalid="ignore"):
        mean = d.mean()
    off = np.where(np.isinf(d), 0.0, d - np.where(np.isfinite(mean), mean, 0.0))
    squares = float((off**2).sum())
    if n > MANY and np.isfinite(mean) and (off**4).sum() <= NEARLY_NORMAL / 10 * squares**2:
        z = float(ndtri(1 - tail))
        half = z * np.sqrt(squares / n / (n - z**2))  # n (m - c)^2 = z^2 (s^2 + (m - c)^2), the variance being about c
        return Interval(mean, mean - half, mean + half)
    means = _means_of_subsets(d) if n <= MANY else means_of_subsets(d, SUBSETS)
    k = int(tail * (len(means) + 1) + 1e-9)  # the whole sample with no sign flipped is one more
    if k == 0:
        return Interval(mean, np.full((), -np.inf), np.full((), np.inf))
    low = np.partition(np.where(np.isnan(means), -np.inf, means), k - 1)[k - 1]
    high = np.partition(np.where(np.isnan(means), np.inf, means), -k)[-k]
    return Interval(mean, low, high)


def _means_of_subsets(d: np.ndarray) -> np.ndarray:
    """The means of all subsets of a few values but the empty one, or of some that are drawn; NaN for an empty one."""
    n = len(d)
    if n <= EVERY:
        some = (np.arange(1, 2**n)[:, None] >> np.arange(n) & 1).astype(float)
    else:
        some = np.random.default_rng(0).integers(0, 2, (SUBSETS, n)).astype(float)
    endless = some @ np.where(np.isinf(d), np.sign(d), 0.0)
    with np.errstate(invalid="ignore"):
        means = some @ np.where(np.isinf(d), 0.0, d) / some.sum(axis=1)
    return np.where(endless != 0, np.copysign(np.inf, endless), means)


def share(k: float, n: float, level: float = 0.95) -> Interval:
    """k of n, and Clopper and Pearson's exact interval; what counts half widens it."""
    tail = (1 - level) / 2
    low = betaincinv(k, n - k + 1, tail) if k > 0 else 0.0
    high = betaincinv(k + 1, n - k, 1 - tail) if k < n else 1.0
    return Interval(*(np.asarray(x, float) for x in (k / n, low, high)))


def median(values: np.ndarray, level: float = 0.95) -> Interval:
    """The upper median, and the order statistics that enclose the true one with at least this probability.

    Infinite values are the last. With fewer than 6 there are none at 95%.
    """
    x = np.sort(np.asarray(values, float))
    n = len(x)
    if n == 0:
        return NOTHING
    j = sum(bdtr(k, n, 0.5) <= (1 - level) / 2 for k in range(n // 2))
    ends = (x[j - 1], x[n - j]) if j else (np.full((), np.nan),) * 2
    return Interval(x[n // 2], *ends)


POWER = 0.8


def detectable(d: np.ndarray, level: float) -> float:
    """The smallest true difference that a paired t-test on as many seeds would find in `POWER` of all cases, about.

    (t_{n-1}(1 - (1 - level)/2) + t_{n-1}(POWER)) s / sqrt(n), with the standard deviation s of these differences. That
    is what the noise allows; the sign-flip test has less power with few seeds, and none with fewer than `fewest_seeds`.
    """
    n = len(d)
    if n < 2 or not np.isfinite(d).all():
        return float("nan")
    quantiles = stdtrit(n - 1, 1 - (1 - level) / 2) + stdtrit(n - 1, POWER)
    return float(quantiles * d.std(ddof=1) / np.sqrt(n))


def fewest_seeds(comparisons: int) -> int:
    """How many seeds it takes for the sign-flip test to reject at all: 2^(1-n) <= 0.05 / comparisons."""
    return 1 + int(np.ceil(np.log2(comparisons / 0.05)))
