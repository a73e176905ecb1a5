"""A study of one setting: what each method comes to at every value of it, and how fast that changes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.comparison import series_table, table
from fastfedpg.comparison.members import tied, typical, verdicts
from fastfedpg.comparison.presented import Report
from fastfedpg.comparison.study_spec import Shown, Study
from fastfedpg.comparison.suite import as_csv
from fastfedpg.comparison.vary import Vary
from fastfedpg.draw import series_picture
from fastfedpg.errors import InputError
from fastfedpg.experiment import own_files
from fastfedpg.experiment.journal import Note
from fastfedpg.files import write_text
from fastfedpg.statistics import NOTHING, Interval, symmetric


class Point(NamedTuple):
    """All methods at one value of what varies."""

    x: Any
    metric: str  # gap, or J where there is no J*
    noise: bool
    seeds: tuple[int, ...]
    last: np.ndarray  # (methods, seeds), at the end; infinite where a seed diverged
    value: list[Interval]  # of each method, as its comparison's table shows it
    eta: list[float]
    verdict: list[str]  # beside the first method
    tied: list[bool]  # whether it is the best one, or not worse than that


def point(x: Any, report: Report, margin: float | None) -> Point:
    """One comparison's part."""
    metric, beside = "gap" if report.shared else "J", verdicts(report, margin)
    return Point(
        x,
        metric,
        any(table.has_noise(p) for p in report.plans),
        report.outcomes[0].seeds,
        np.stack([table.final(o, metric) for o in report.outcomes]),
        [typical(line) for line in report.lines],
        [line.eta for line in report.lines],
        ["", *(beside(0, k) for k in range(1, len(report.lines)))],
        tied(report, margin),
    )


def slope(x: Sequence[float], values: np.ndarray, noise: bool) -> Interval:
    """The slope of the line of log values against log x, by least squares: (x, seeds).

    A line for each seed, and the mean of their slopes, which is the slope of the line through the means of the logs.
    However values of one seed hang together, slopes of different seeds do not: the interval is that of the sign-flip
    test. Nothing where some value is not positive and finite.
    """
    if not (np.isfinite(values) & (values > 0)).all():
        return NOTHING
    at = np.log(np.asarray(x, float))
    at -= at.mean()
    each = at @ np.log(values) / (at @ at)
    return symmetric(each) if noise else NOTHING._replace(mean=each[0])


def present(asked: Study, reports: Mapping[str, Report], out: Path, note: Note) -> Shown:
    """The tables of all values together, their picture, and study.csv and series.csv."""
    vary = asked.vary
    assert vary is not None
    every = list(zip(vary.values, reports.values(), asked.comparisons.values(), strict=True))
    points = [point(x, report, comparison.margin) for x, report, comparison in every]
    slopes = _slopes(vary, points) if vary.slope else []
    files = [out / own_files.STUDY[1], out / own_files.STUDY[3]]
    under = spent({comparison.budget for comparison in asked.comparisons.values()})
    title = f"{asked.name}: {'the gap' if points[0].metric == 'gap' else 'J'} at the end against {vary.label}"
    lines = [
        series_picture.Series(name, Interval(*(np.array([p.value[k][j] for p in points]) for j in range(3))))
        for k, name in enumerate(asked.methods)
    ]
    try:
        problem = next(iter(reports.values())).plans[0].here
        files += series_picture.series(out / own_files.DRAWN[1], lines, vary, problem, title, seeds_of(points), under)
    except InputError as error:
        note(f"no figure: {error}")
    write_text(out / own_files.STUDY[3], _seeds(asked.methods, vary, points))
    write_text(out / own_files.STUDY[1], _rows(asked.methods, vary, points, slopes))
    tables: Callable[[int], list[list[str]]] = lambda width: [
        *series_table.each(asked.methods, vary, points, title, width),
        *(series_table.slopes(asked.methods, vary, slopes, width) if slopes else []),
    ]
    return Shown(tables, series_table.footnotes(asked.methods, vary, points, slopes, under), files)


def seeds_of(points: Sequence[Point]) -> int:
    """How many seeds a value stands on: one where nothing is drawn."""
    return max(len(p.seeds) if p.noise else 1 for p in points)


def spent(budgets: Collection[str]) -> str:
    """What all methods have in common at one value, in words."""
    if len(budgets) > 1:
        return "all methods may spend alike"
    (budget,) = budgets
    return f"all methods have the same {'simulated time' if budget == 'clock' else f'number of {budget}'}"


def _slopes(vary: Vary, points: Sequence[Point]) -> list[Interval]:
    last = np.stack([p.last for p in points])  # (x, methods, seeds)
    noise = any(p.noise for p in points)
    return [slope(vary.values, last[:, k], noise) for k in range(last.shape[1])]


def _rows(methods: Sequence[str], vary: Vary, points: Sequence[Point], slopes: Sequence[Interval]) -> str:
    """study.csv: a row for each value and method; a method's slope stands in each of its rows."""
    three = lambda name, i: dict(zip((name, f"{name}_low", f"{name}_high"), map(float, i), strict=True))
    return as_csv(
        [
            {"setting": vary.setting, "x": p.x, "label": name, "metric": p.metric, "eta": p.eta[k]}
            | three("value", p.value[k])
            | {"verdict": p.verdict[k], "best_or_tied": p.tied[k]}
            | (three("slope", slopes[k]) if slopes else {})
            for p in points
            for k, name in enumerate(methods)
        ]
    )


def _seeds(methods: Sequence[str], vary: Vary, points: Sequence[Point]) -> str:
    """series.csv: a row for each value, method and seed; without noise the first seed stands for all."""
    return as_csv(
        [
            {"setting": vary.setting, "x": p.x, "label": name, "seed": seed, p.metric: float(p.last[k, s])}
            for p in points
            for k, name in enumerate(methods)
            for s, seed in enumerate(p.seeds if p.noise else p.seeds[:1])
        ]
    )
