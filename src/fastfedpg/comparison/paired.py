"""Two methods on the same seeds: by how much they differ, and what may be said of it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fastfedpg.statistics import Interval, detectable, share, symmetric

BETTER, WORSE = "better", "worse"
EQUIVALENT = "equivalent within the margin"
NONE = "not distinguishable"
CHAOTIC = "not reproducible to rounding"

MARGIN, SMALL = 0.25, 0.01
"""Margins unless given: gaps within a factor of 1.25, and J within 1% of what the first method improved it by."""

ROUNDING = 1e-9
"""Of the first gap: what is smaller is as good as zero."""


class Difference(NamedTuple):
    """How another method's values differ from the first one's, seed by seed, and what may be said of it."""

    mean: float  # the other's minus the first's
    interval: Interval  # of the ratio of the geometric means where `log`, else of that difference
    verdict: str
    chance: Interval  # that the other has less on a seed; ties count half
    margin: float  # a factor where `log`, else an amount
    detectable: float = float("nan")  # see `statistics.detectable`; NaN without noise
    log: bool = False


def difference(
    first: np.ndarray,
    other: np.ndarray,
    comparisons: int = 1,
    noise: bool = True,
    scale: float = 0.0,
    log: bool = False,
    margin: float | None = None,
    repeats: tuple[np.ndarray, np.ndarray] | None = None,
) -> Difference:
    """The other beside the first, paired by seed, at 95% for all `comparisons` together (Bonferroni). Less is better.

    Where `log`, as for gaps, it is the ratio of the geometric means: the differences are those of the logarithms. One
    interval says everything: `symmetric`, that of the sign-flip test. Inside the margin the two are equivalent (two
    one-sided tests), else better or worse where it leaves out 1 (or 0), else not distinguishable. Without noise there
    is nothing to test, and the numbers themselves are inside the margin or not.

    Infinite values are those of seeds that diverged: worse than all others, and equal to each other.

    Args:
        first, other: (n,), one value for each seed.
        comparisons: how many there are beside this.
        noise: whether seeds differ.
        scale: the first gap where `log`, of which `ROUNDING` is zero; else what the margin is a share of.
        log: for values that are positive.
        margin: a share: 0.25 is a factor of 1.25, or a quarter of the scale.
        repeats: without noise, what both came to when they were repeated from starts that differ by rounding.
    """
    first, other = np.asarray(first, float), np.asarray(other, float)
    same = (first == other) | (np.isinf(first) & np.isinf(other))
    less = float((np.where(same, 0.5, other < first)).sum())
    edge = _edge(scale, log, margin)
    with np.errstate(invalid="ignore"):
        d = np.where(same, 0.0, _scaled(other, scale, log) - _scaled(first, scale, log))
    level = 1 - 0.05 / comparisons
    with np.errstate(invalid="ignore"):
        mean = float(np.where(same, 0.0, other - first).mean())
        found = symmetric(d, level) if noise else Interval(*[d.mean()] * 3)
    back = (lambda x: np.exp(np.asarray(x))) if log else np.asarray
    return Difference(
        mean,
        Interval(*map(back, found)),
        verdict(found, edge, None if repeats is None else [_scaled(x, scale, log) for x in repeats]),
        share(less, len(d), level),
        float(back(edge)),
        float(back(detectable(d, level))) if noise else float("nan"),
        log,
    )


def _scaled(x: np.ndarray, scale: float, log: bool) -> np.ndarray:
    """Values as they are compared: as logarithms where `log`, of nothing below rounding."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(x, ROUNDING * abs(scale))) if log else np.asarray(x, float)


def _edge(scale: float, log: bool, margin: float | None) -> float:
    """The margin as values are compared."""
    if log:
        return float(np.log1p(MARGIN if margin is None else margin))
    return (SMALL if margin is None else margin) * abs(scale)


def verdict(found: Interval, edge: float, repeats: Sequence[np.ndarray] | None = None) -> str:
    """What may be said; of runs whose repeats differ by more than the margin, only what all of them bear."""
    if repeats is not None and any(np.isfinite(x).any() and np.ptp(x) > edge for x in repeats):
        first, other = repeats
        worse, better = other.min() - first.max() > edge, other.max() - first.min() < -edge
        sure = WORSE if worse else BETTER if better else ""
        return f"{sure}, by how much is {CHAOTIC}" if sure else CHAOTIC
    if -edge <= found.low and found.high <= edge:
        return EQUIVALENT
    return WORSE if found.low > 0 else BETTER if found.high < 0 else NONE
