"""What one comparison adds to a suite: its scores, and which of its methods are better, worse, or the best."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fastfedpg.comparison import aggregate, paired, table
from fastfedpg.comparison.presented import Report
from fastfedpg.comparison.table import Line
from fastfedpg.errors import InputError
from fastfedpg.statistics import FEWEST, Interval

SHORT = "better", "worse", "equivalent", "open"
"""What is said of a method beside the first; open is what can't be told, with these seeds or because of rounding."""


def short(verdict: str) -> str:
    """One word for what a comparison says."""
    return next((word for word in SHORT if verdict.startswith(word)), SHORT[-1] if verdict else "")


def typical(line: Line) -> Interval:
    """What a comparison's own table shows of a method: the geometric mean of gaps where there is one."""
    several = line.noise and line.seeds > 1
    return line.geometric if several and not np.isnan(line.geometric.mean) else line.value


class Member(NamedTuple):
    """What one comparison adds to the suite; arrays are (methods, seeds)."""

    label: str
    metric: str  # gap, or J where there is no J*
    seeds: tuple[int, ...]
    noise: bool  # without any, the first seed counts alone
    first: np.ndarray  # the metric at the start
    last: np.ndarray  # and at the end; infinite where a seed diverged
    best: float  # and at best: 0 for a gap
    value: list[float]  # of each method, as tables show it
    eta: list[float]
    verdict: list[str]  # beside the first method
    tied: list[bool]  # whether it is the best one, or not worse than that

    @property
    def few(self) -> bool:
        """Whether there is noise, and there are fewer seeds than an interval takes."""
        return self.noise and len(self.seeds) < FEWEST

    @property
    def remaining(self) -> np.ndarray:
        """What is left of what there was to gain."""
        left = aggregate.remaining(self.first, self.last, self.best)
        return left if self.noise else left[:, :1]


def member(label: str, report: Report, best: float | None, margin: float | None) -> Member:
    """One comparison's part, with its methods beside the first and beside the best of them."""
    lines, runs = report.lines, report.outcomes
    metric = "gap" if report.shared else "J"
    begun = next(o for o in runs if np.isfinite(o.result.metrics["J"][:, 0]).all())
    first = begun.result.metrics[metric][:, 0]
    least = 0.0 if best is None else best
    if not (first > least).all():
        at = f"{metric} = {first.min():.4g} at the start"
        raise InputError(f"problems.{label}: nothing to gain: {at}, and {least:.4g} is said to be the best")
    value = [float(typical(line).mean) for line in lines]
    beside = verdicts(report, margin)
    return Member(
        label,
        metric,
        begun.seeds,
        any(table.has_noise(p) for p in report.plans),
        np.tile(first, (len(runs), 1)),
        np.stack([table.final(o, metric) for o in runs]),
        least,
        value,
        [line.eta for line in lines],
        ["", *(beside(0, k) for k in range(1, len(runs)))],
        tied(report, margin),
    )


def verdicts(report: Report, margin: float | None) -> Callable[[int, int], str]:
    """What may be said of one method beside another, by their places."""
    of = lambda one, other: table.versus(report.outcomes, report.plans, one, other, margin, report.repeated)
    return lambda one, other: of(one, other).verdict


def tied(report: Report, margin: float | None) -> list[bool]:
    """Whether each method is the best one, or not worse than that."""
    lines, beside = report.lines, verdicts(report, margin)
    top = min(range(len(lines)), key=lambda k: (float(typical(lines[k]).mean), lines[k].lost))
    return [k == top or not beside(top, k).startswith(paired.WORSE) for k in range(len(lines))]


def tally(members: Sequence[Member], k: int) -> dict[str, int]:
    """On how many problems a method is better or worse than the first, equivalent, or not to be told from it."""
    said = [short(m.verdict[k]) for m in members]
    return {name: said.count(name) for name in SHORT}
