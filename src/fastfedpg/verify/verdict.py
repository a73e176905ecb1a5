"""A row of the report: the two sides of a claim, how far apart they are, and what may be said of it.

All rows together are decided with a family-wise error of FAMILY: each of the n comparisons that have noise in them is
made at the level FAMILY/n (Bonferroni), whether a row holds one of them or one for each agent and local step.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from fastfedpg.statistics import share

FAMILY = 1e-3
"""The chance that noise alone makes any row of a report pass or fail."""
VACUOUS = 100
"""A right side this many times the left one says nothing."""

PASS, FAIL, UNDECIDED = "pass", "fail", "undecided at this sample size"
NOT_APPLICABLE, CONTROL = "does not apply", "control as expected"
SEEN, NOT_SEEN = "seen", "not seen"
"""Of what no theorem claims: neither is a pass or a failure."""


class Estimate(NamedTuple):
    """Means of independent values and their standard errors; an error of zero is exact."""

    mean: np.ndarray
    error: np.ndarray
    degrees: int = 1

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Student's, two-sided: the mean lies outside it with probability `level`."""
        half = stdtrit(self.degrees, 1 - level / 2) * self.error
        return self.mean - half, self.mean + half

    @property
    def distance(self) -> np.ndarray:
        """From zero, in standard errors; infinite where there is no error and something is there."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.mean == 0, 0.0, self.mean / self.error)


def exactly(value: Any) -> Estimate:
    """A number without noise."""
    value = np.atleast_1d(np.asarray(value, float))
    return Estimate(value, np.zeros_like(value))


def mean_of(values: Any) -> Estimate:
    """The mean over the first axis, of independent replicas."""
    values = np.asarray(values, float)
    values = values.reshape(len(values), -1)
    return Estimate(values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values)), len(values) - 1)


class Measured(NamedTuple):
    """The one number that a row is about; without an error it is exact, but for `slack`, which is no noise."""

    value: float
    error: float = 0.0
    degrees: int = 1
    slack: float = 0.0  # the most that rounding, and more of the same work, can move it by
    of: int = 0  # it is then a share of so many independent instances

    def interval(self, level: float) -> tuple[float, float]:
        """Student's and the slack together; of a share, Clopper and Pearson's."""
        if self.of:
            _, low, high = share(round(self.value * self.of), self.of, 1 - level)
            return float(low), float(high)
        half = float(stdtrit(self.degrees, 1 - level / 2)) * self.error + self.slack
        return self.value - half, self.value + half

    @property
    def exact(self) -> bool:
        """Whether nothing was drawn."""
        return self.error == 0 and self.of == 0


@dataclass(frozen=True)
class Row:
    """left <= right, as far as `margin`, right - left with its error, tells; a control must violate it instead.

    Where a claim has many instances (agents, steps, points), left and right are those of the tightest.
    """

    claim: str
    says: str
    left: float
    right: float
    margin: Estimate | None  # nothing where a hypothesis of the claim is false
    problem: str = ""
    control: bool = False
    describes: bool | tuple[bool, ...] = False  # what no theorem claims, whole or by instance: no pass, no failure
    bound: bool = True  # an inequality of the theory, which can hold by so much that it says nothing
    equal: bool = False  # `margin` is then a difference that should be zero, and `right` what would matter
    note: str = ""
    verdict: str = ""
    interval: tuple[float, float] | None = None  # of the margin that is nearest to failing, where there is noise
    measured: Measured | None = None  # what people would quote of it
    quoted: tuple[float, float] | None = None  # its interval
    spoken: tuple[str, str] | None = None  # where a sentence is about proofs: what the method does, if it holds or not

    @property
    def tightness(self) -> float | None:
        """right/left, where that means something."""
        return self.right / self.left if self.left > 0 and self.right >= 0 and np.isfinite(self.left) else None

    @property
    def vacuous(self) -> bool:
        """Whether it holds by so much that it says nothing."""
        return self.bound and self.verdict == PASS and (self.tightness or 0) > VACUOUS

    @property
    def words(self) -> str:
        """The verdict for people."""
        return "holds, vacuous" if self.vacuous else self.verdict

    @property
    def comparisons(self) -> int:
        """How many comparisons with noise in them it makes."""
        return 0 if self.margin is None else int(np.count_nonzero(self.margin.error))


def claim(name: str, says: str, left: Any, right: Any, margin: Estimate | None = None, **more: Any) -> Row:
    """A row from two sides that may be arrays, of which the tightest instance is shown."""
    left, right = (np.asarray(x, float).reshape(-1) for x in np.broadcast_arrays(left, right))
    margin = exactly(right - left) if margin is None else margin
    worst = int(np.argmin(np.where(left > 0, right / np.where(left > 0, left, 1), np.inf)))
    return Row(name, says, float(left[worst]), float(right[worst]), margin, **more)


def not_applicable(name: str, says: str, why: str) -> Row:
    """A claim of which a hypothesis is false."""
    return Row(name, says, np.nan, np.nan, None, note=why)


def open_question(name: str, why: str) -> Row:
    """A claim that could not be checked."""
    return Row(name, "could not be checked", np.nan, np.nan, None, note=why, verdict=UNDECIDED)


def decided(rows: Iterable[Row], among: int | None = None) -> list[Row]:
    """All rows with their verdicts; they are all that are decided together, or some `among` so many comparisons."""
    rows = list(rows)
    level = FAMILY / max(1, sum(row.comparisons for row in rows) if among is None else among)
    return [_decided(_quoted(row, level), level) for row in rows]


def _quoted(row: Row, level: float) -> Row:
    return row if row.measured is None else replace(row, quoted=row.measured.interval(level))


def _decided(row: Row, level: float) -> Row:
    if row.margin is None:
        return replace(row, verdict=row.verdict or NOT_APPLICABLE)
    low, high = row.margin.interval(level)
    if row.equal:
        return _equal(row, low, high)
    holds, violated = bool((low >= 0).all()), bool((high < 0).any())
    excused = not ((high < 0) & ~np.asarray(row.describes)).any()
    verdict = (FAIL if holds else CONTROL if violated else UNDECIDED) if row.control else ""
    verdict = verdict or (UNDECIDED if violated and excused else "")
    if row.describes is True:
        verdict = SEEN if holds else NOT_SEEN if violated else UNDECIDED
    if row.spoken is not None:
        verdict = row.spoken[0] if holds else row.spoken[1] if violated else UNDECIDED
    worst = int(np.argmin(low))
    interval = (float(low[worst]), float(high[worst])) if row.comparisons else None
    return replace(row, verdict=verdict or (PASS if holds else FAIL if violated else UNDECIDED), interval=interval)


def _equal(row: Row, low: np.ndarray, high: np.ndarray) -> Row:
    """No sample proves an equality: it passes where nothing rejects it and all that would matter is excluded."""
    if ((low > 0) | (high < 0)).any():
        return replace(row, verdict=FAIL)
    if ((low >= -row.right) & (high <= row.right)).all():
        return replace(row, verdict=PASS)
    more = "nothing contradicts it, but with so few samples a difference that would matter is not excluded"
    return replace(row, verdict=UNDECIDED, note=f"{row.note}; {more}")


def zero(name: str, says: str, found: Estimate, matters: float) -> Row:
    """A claim that means are zero; `matters` is a difference that would matter."""
    far = np.abs(found.distance)
    worst = int(np.argmax(far))
    note = f"the farthest from zero is {far[worst]:.1f} standard errors away" if found.error[worst] else ""
    return Row(name, says, float(np.abs(found.mean[worst])), matters, found, bound=False, equal=True, note=note)


def slope(x: np.ndarray, values: np.ndarray) -> Estimate:
    """The slope of log values against log x: a line for each seed (first axis), and the mean of their slopes."""
    y, log_x = np.log(values), np.log(x)
    centred = log_x - log_x.mean()
    return mean_of(y @ centred / (centred @ centred))


def near(name: str, says: str, found: Estimate, centre: float, within: float, **more: Any) -> Row:
    """A number within some distance of another: left is its distance, right the one that counts."""
    away = float(found.mean[0]) - centre
    margin = Estimate(np.array([within - away, within + away]), np.repeat(found.error, 2), found.degrees)
    return Row(name, says, abs(away), within, margin, bound=False, **more)
