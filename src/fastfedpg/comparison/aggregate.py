"""Methods on many problems: the share that each gained of what there was to gain, and what may be said over all.

Scores are one array (methods, seeds) for each problem, with one column where nothing is random. Problems count alike,
however many seeds each has; seeds are those that methods share, so whatever is resampled is so for all of them at once.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import bootstrap, permutation_test

from fastfedpg.comparison import paired
from fastfedpg.statistics import Interval, share

WORST = 2.0
"""What remains at most: a seed that diverged has it, and so has one that ended further off than twice the start."""

MARGIN = 0.01
"""Scores that differ by less are equivalent: 1% of what there was to gain."""

FLIPS, CHUNK = 9_999, 2**21
"""How often signs are flipped, and numbers that are drawn at a time."""

BEYOND = 10
"""Resamples that are beyond an end of an interval at least."""

Parts: TypeAlias = Sequence[np.ndarray]
"""One array for each problem; the last axis has its seeds."""


class Place(NamedTuple):
    """One method over all problems."""

    label: str
    score: Interval  # the interquartile mean
    difference: Interval | None  # of it to the first method's, for all methods together; None for the first itself
    verdict: str
    chance: Interval  # of a higher score than the first method's on a seed, the mean over problems; ties count half
    mean: float  # the mean difference of scores, which is tested
    p: float  # of the sign-flip test of that, by Holm for all methods together


def remaining(first: np.ndarray, last: np.ndarray, best: np.ndarray | float) -> np.ndarray:
    """(J - J_best) / (J_0 - J_best), what is left of what there was to gain; a score is one minus it.

    More than `WORST` is no worse than that, and what is not finite, as after a divergence, is as bad: so that no
    mean is infinite, and nothing is below a seed that diverged.
    """
    with np.errstate(invalid="ignore"):
        left = (last - best) / (first - best)
    return np.where(np.isfinite(left), np.minimum(left, WORST), WORST)


def weights(parts: Parts) -> np.ndarray:
    """Of all seeds of all problems, in order: they add up to one, and those of each problem to the same."""
    return np.concatenate([np.full(x.shape[-1], 1 / (len(parts) * x.shape[-1])) for x in parts])


def interquartile(parts: Parts) -> np.ndarray:
    """The mean of the middle half of all scores, problems counting alike; what lies on a quartile counts in part.

    It is the integral of the quantile function from 1/4 to 3/4, doubled.
    """
    x, w = np.concatenate(parts, axis=-1), weights(parts)
    order = np.argsort(x, axis=-1, kind="stable")
    w = w[order]
    up_to = np.cumsum(w, axis=-1)
    inside = np.maximum(np.minimum(up_to, 0.75) - np.maximum(up_to - w, 0.25), 0)
    return (np.take_along_axis(x, order, axis=-1) * inside).sum(axis=-1) / inside.sum(axis=-1)


def winsorised(parts: Parts) -> list[np.ndarray]:
    """Scores (methods, seeds) drawn in to the quartiles of all: how much each moves the interquartile mean."""
    x, w = np.concatenate(parts, axis=-1), weights(parts)
    ends = []
    for row in x:
        order = np.argsort(row)
        at = np.searchsorted(np.cumsum(w[order]), (0.25, 0.75)).clip(max=len(row) - 1)
        ends.append(row[order][at])
    low, high = np.array(ends).T[:, :, None]
    return [np.clip(part, low, high) for part in parts]


def stratified(
    parts: Parts,
    statistic: Callable[[Parts], np.ndarray],
    moves: Parts,
    level: float = 0.95,
    resamples: int = 10_000,
) -> Interval:
    """A statistic with its bootstrap interval: seeds are drawn anew within each problem, the same for all methods.

    Quantiles are expanded as those of `statistics.bootstrap`, which plain ones are too narrow for: by the part of the
    variance that resampling n values leaves out, and by Student's t with Welch's degrees of freedom, since one noisy
    problem among many has the few seeds of one. Quantiles with fewer than `BEYOND` resamples beyond them can't be read
    off: those at which there are so many are stretched from the statistic, as if normal. A problem with one column adds
    nothing to it.

    Args:
        parts: (…, seeds) for each problem.
        statistic: of parts with any further axes before the last, which is gone then.
        moves: (…, seeds) for each problem, in the statistic's own shape: how much each seed moves it.
        level: at how much confidence.
        resamples: how often.
    """
    mean = statistic(parts)
    varied = [k for k, x in enumerate(parts) if x.shape[-1] > 1]
    if not varied:
        return Interval(mean, *np.full((2, *np.shape(mean)), np.nan))

    def redrawn(*indices: np.ndarray, axis: int = -1) -> np.ndarray:
        drawn, size = dict(zip(varied, indices, strict=True)), indices[0].shape[:-1]
        once = lambda x: np.broadcast_to(x.reshape(*x.shape[:-1], *(1 for _ in size), 1), (*x.shape[:-1], *size, 1))
        return statistic([x[..., drawn[k]] if k in drawn else once(x) for k, x in enumerate(parts)])

    seeds, rng = [np.arange(parts[k].shape[-1]) for k in varied], np.random.default_rng(0)
    batch = max(1, CHUNK // sum(x.size for x in parts))
    how = {"n_resamples": resamples, "batch": batch, "method": "percentile", "vectorized": True, "random_state": rng}
    found = bootstrap(seeds, redrawn, **how).bootstrap_distribution
    z = np.broadcast_to(_quantile([moves[k] for k in varied], level), np.shape(mean))
    least = np.maximum(z, ndtri(BEYOND / resamples))
    rows = zip(found.reshape(-1, resamples), ndtr(least).flat, strict=True)
    ends = np.array([np.quantile(x, (t, 1 - t)) for x, t in rows]).T.reshape(2, *np.shape(mean))
    return Interval(mean, *(mean + z / least * (ends - mean)))


def _quantile(moves: Parts, level: float) -> np.ndarray:
    n = np.array([x.shape[-1] for x in moves]).reshape(-1, *(1 for _ in moves[0].shape[:-1]))
    v = np.stack([x.var(axis=-1, ddof=1) for x in moves]) / n
    some = np.where(v.sum(axis=0) > 0, v, 1.0)
    stretch = np.sqrt(some.sum(axis=0) / (some * (n - 1) / n).sum(axis=0))
    freedom = some.sum(axis=0) ** 2 / (some**2 / (n - 1)).sum(axis=0)
    return np.asarray(stretch * stdtrit(freedom, (1 - level) / 2))


def chance(first: Parts, other: Parts, level: float = 0.95) -> Interval:
    """The chance that the other has the higher score on a seed, the mean over problems.

    Clopper and Pearson's interval, as if all seeds were of one problem: chances that differ between problems only make
    the tails of their sum lighter (Hoeffding 1956). Where problems have different numbers of seeds, n is that of equal
    ones with the same variance. Without noise a problem's chance is 0, a half or 1, and known.
    """
    wins = [np.where(np.abs(y - x) <= paired.ROUNDING, 0.5, y > x) for x, y in zip(first, other, strict=True)]
    known, drawn = ([w for w in wins if (w.shape[-1] > 1) == many] for many in (False, True))
    rest = sum(float(w[0]) for w in known)
    if not drawn:
        return Interval(np.asarray(rest / len(wins)), np.full((), np.nan), np.full((), np.nan))
    n = len(drawn) ** 2 / sum(1 / len(w) for w in drawn)
    found = share(n * float(np.mean([w.mean() for w in drawn])), n, level)
    return Interval(*((len(drawn) * x + rest) / len(wins) for x in found))


def sign_flips(first: Parts, other: Parts) -> tuple[float, float]:
    """The mean over problems of the mean difference of scores, and the p-value of all changes of its parts' signs.

    A problem without noise is one part. Where problems differ in expectation, but not on average over them, the test
    rejects less often than it may: its sums have their differences in them, too.
    """
    d = weights(first) * (np.concatenate(other) - np.concatenate(first))
    if len(d) == 1 or not d.any():  # both signs of one part are as large
        return float(d.sum()), 1.0
    add = lambda x, axis: x.sum(axis=axis)
    how = {"permutation_type": "samples", "vectorized": True, "n_resamples": FLIPS}
    return float(d.sum()), float(permutation_test((d,), add, random_state=np.random.default_rng(0), **how).pvalue)


def holm(p: Sequence[float]) -> np.ndarray:
    """p-values for all of them together: the k-th smallest of m, times m - k + 1, and none below one before it."""
    values, order = np.asarray(p, float), np.argsort(p)
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    found = np.empty_like(values)
    found[order] = np.minimum(raised, 1.0)
    return found


def places(labels: Sequence[str], scores: Parts, few: bool = False) -> list[Place]:
    """Every method over all problems; differences are to the first, at 95% for all of them together.

    With too `few` seeds somewhere there are no intervals, and nothing is told.
    """
    pulled, others = winsorised(scores), range(1, len(labels))
    score = stratified(scores, interquartile, pulled)
    level = 1 - 0.05 / len(others)
    apart = lambda parts: (found := interquartile(parts))[1:] - found[:1]
    difference = stratified(scores, apart, [x[1:] - x[:1] for x in pulled], level)
    rows = [[x[k] for x in scores] for k in range(len(labels))]
    tests = [sign_flips(rows[0], rows[k]) for k in others]
    p = holm([p for _, p in tests])
    found = [Place(labels[0], _row(score, 0), None, "", Interval(*np.full((3,), np.nan)), 0.0, np.nan)]
    for k in others:
        d = _row(difference, k - 1)
        known = Interval(d.mean, d.mean, d.mean) if np.isnan(d.low) else d
        less = Interval(-known.mean, -known.high, -known.low)  # verdicts are on what is better the less it is
        verdict = paired.NONE if few else paired.verdict(less, MARGIN)
        against = chance(rows[0], rows[k], level)
        found.append(Place(labels[k], _row(score, k), d, verdict, against, tests[k - 1][0], float(p[k - 1])))
    return [_bare(place) for place in found] if few else found


def _bare(place: Place) -> Place:
    """Without intervals of what is drawn anew."""
    none = {"low": np.full((), np.nan), "high": np.full((), np.nan)}
    return place._replace(
        score=place.score._replace(**none), difference=place.difference and place.difference._replace(**none)
    )


def _row(x: Interval, k: int) -> Interval:
    return Interval(*(each[k] for each in x))


def profiles(parts: Parts, x: np.ndarray) -> Interval:
    """The share of runs of each method of which no more than x remains, (methods, x); problems count alike."""
    reached = [part[:, None, :] <= x[:, None] for part in parts]
    count = lambda parts: np.mean([part.mean(axis=-1) for part in parts], axis=0)
    mean, *ends = stratified(reached, count, reached, resamples=2_000)
    known = lambda else_: count([part if part.shape[-1] == 1 else np.full_like(part, else_) for part in reached])
    return Interval(mean, *(np.clip(end, known(False), known(True)) for end in ends))
