"""A study of two settings: which methods are the best at every pair of values, beside the zeta^2 and sigma^2 there."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastfedpg.columns import Column, lay_out
from fastfedpg.comparison.presented import Report
from fastfedpg.comparison.printed import number
from fastfedpg.comparison.series import Point, point, seeds_of, spent
from fastfedpg.comparison.study_spec import Shown, Study
from fastfedpg.comparison.suite import as_csv
from fastfedpg.comparison.vary import Vary, said
from fastfedpg.draw import phases_picture
from fastfedpg.errors import InputError
from fastfedpg.experiment import own_files
from fastfedpg.experiment.journal import Note
from fastfedpg.files import write_text
from fastfedpg.theory.estimates import Estimate
from fastfedpg.theory.from_samples import draw_estimates, sigma_sq_from, zeta_sq_from

REPLICAS = 32
"""Of the estimates that zeta^2 and sigma^2 are measured with, where learning starts."""


class Cell(NamedTuple):
    """All methods at one pair of values, and what was measured there."""

    x: object
    y: object
    point: Point
    zeta_sq: Estimate
    sigma_sq: Estimate

    @property
    def best(self) -> int:
        """The method whose value is the least."""
        return min(
            range(len(self.point.value)), key=lambda k: (not self.point.tied[k], float(self.point.value[k].mean))
        )


def cell(x: object, y: object, report: Report, margin: float | None) -> Cell:
    """One comparison's part."""
    first = report.plans[0]
    theta = np.atleast_2d(first.problem.theta0)[0]
    g = draw_estimates(first.problem, theta, REPLICAS, first.config.first_seed).g
    return Cell(x, y, point((x, y), report, margin), zeta_sq_from(g), sigma_sq_from(g))


def present(asked: Study, reports: Mapping[str, Report], out: Path, note: Note) -> Shown:
    """The tables of all pairs together, their picture, and study.csv and phases.csv."""
    vary, across = asked.vary, asked.across
    assert vary is not None
    assert across is not None
    every = zip(product(vary.values, across.values), reports.values(), asked.comparisons.values(), strict=True)
    cells = [cell(x, y, report, comparison.margin) for (x, y), report, comparison in every]
    files = [out / own_files.STUDY[1], out / own_files.STUDY[4]]
    title = f"{asked.name}: who is the best, or not worse than the best, at each pair of values"
    under = spent({comparison.budget for comparison in asked.comparisons.values()})
    points = [c.point for c in cells]
    try:
        shape = len(vary.values), len(across.values)
        places = phases_picture.Places(
            [f"{said(x)}\nζ² {_told([c.zeta_sq for c in cells if c.x == x])}" for x in vary.values],
            [f"{said(y)}\nσ² {_told([c.sigma_sq for c in cells if c.y == y])}" for y in across.values],
            np.array([c.point.tied for c in cells]).reshape(*shape, -1),
            np.array([c.best for c in cells]).reshape(shape),
        )
        words = f"{seeds_of(points)} seeds; {under}"
        files += phases_picture.phases(
            out / own_files.DRAWN[2], places, asked.methods, (vary.label, across.label), title, words
        )
    except InputError as error:
        note(f"no figure: {error}")
    write_text(out / own_files.STUDY[4], as_csv([_measured(vary, across, asked.methods, c) for c in cells]))
    write_text(out / own_files.STUDY[1], as_csv([row for c in cells for row in _rows(vary, across, asked.methods, c)]))
    tables: Callable[[int], list[list[str]]] = lambda width: [
        _best(asked.methods, vary, across, cells, title, width),
        _counts(asked.methods, cells, width),
    ]
    return Shown(tables, _footnotes(points, under), files)


def _told(found: Sequence[Estimate]) -> str:
    """Several estimates: from where to where if they can't be of one number, else the surest, or what that is below."""
    least, most = (f"{at(e.mean for e in found):.2g}" for at in (min, max))
    if max(e.low for e in found) > min(e.high for e in found) and least != most:
        return f"= {least} to {most}"
    sure = min(found, key=lambda e: e.high - e.low)
    return f"= {sure.mean:.2g}" if sure.low > 0 or sure.high == 0 else f"< {sure.high:.2g}"


def _best(methods: Sequence[str], vary: Vary, across: Vary, cells: Sequence[Cell], title: str, width: int) -> list[str]:
    """A row for each value across, three lines of it; a column for each value of what varies."""
    of = {(c.x, c.y): c for c in cells}
    heads = [
        (f"{across.setting.rpartition('.')[2]} = {said(y)}", "  its value", "  tied with it") for y in across.values
    ]
    first = Column("best", [line for head in heads for line in head], whole=True, right=False)
    shown = lambda c: (methods[c.best], number(c.point.value[c.best].mean), str(sum(c.point.tied) - 1))
    columns = [
        Column(f"{vary.setting.rpartition('.')[2]} = {said(x)}", [w for y in across.values for w in shown(of[x, y])])
        for x in vary.values
    ]
    return [title, *lay_out([first, *columns], width)]


def _counts(methods: Sequence[str], cells: Sequence[Cell], width: int) -> list[str]:
    """On how many pairs each method is the best, or tied with it."""
    count = lambda of: [str(sum(of(c, k) for c in cells)) for k in range(len(methods))]
    columns = [
        Column("", list(methods), whole=True, right=False),
        Column("best", count(lambda c, k: c.best == k)),
        Column("best or tied", count(lambda c, k: c.point.tied[k])),
        Column("worse", count(lambda c, k: not c.point.tied[k])),
    ]
    return [f"of {len(cells)} pairs", *lay_out(columns, width)]


def _footnotes(points: Sequence[Point], under: str) -> list[str]:
    return [
        f"best: the least {points[0].metric} at the end, {seeds_of(points)} seeds; tied is what is not worse than it, "
        f"as fastfedpg compare says; at each pair {under}",
        f"zeta^2, how much the agents' gradients differ, and sigma^2, the noise of an estimate, are measured where "
        f"learning starts, with {REPLICAS} estimates of each agent: phases.csv has them with their intervals",
    ]


def _place(vary: Vary, across: Vary, c: Cell) -> dict[str, object]:
    return {vary.setting: c.x, across.setting: c.y}


def _measured(vary: Vary, across: Vary, methods: Sequence[str], c: Cell) -> dict[str, object]:
    three = lambda name, e: dict(zip((name, f"{name}_low", f"{name}_high"), map(float, e), strict=True))
    tied = " ".join(name for name, is_tied in zip(methods, c.point.tied, strict=True) if is_tied)
    where = _place(vary, across, c) | three("zeta_sq", c.zeta_sq) | three("sigma_sq", c.sigma_sq)
    return where | {"best": methods[c.best], "best_or_tied": tied}


def _rows(vary: Vary, across: Vary, methods: Sequence[str], c: Cell) -> list[dict[str, object]]:
    p, three = c.point, ("value", "value_low", "value_high")
    return [
        _place(vary, across, c)
        | {"label": name, "metric": p.metric, "eta": p.eta[k]}
        | dict(zip(three, map(float, p.value[k]), strict=True))
        | {"verdict": p.verdict[k], "best_or_tied": p.tied[k]}
        for k, name in enumerate(methods)
    ]
