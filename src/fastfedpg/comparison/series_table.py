"""A series' tables for people: every method at every value, and the slopes of their lines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fastfedpg.columns import Column, lay_out, least
from fastfedpg.comparison.members import short
from fastfedpg.comparison.printed import Quantity, arranged, ends, number
from fastfedpg.comparison.vary import Vary, said
from fastfedpg.statistics import FEWEST, Interval

if TYPE_CHECKING:
    from fastfedpg.comparison.series import Point

MARK = "*"


def each(methods: Sequence[str], vary: Vary, points: "Sequence[Point]", title: str, width: int) -> list[list[str]]:
    """Value by value, with a mark at the best; where that is too wide, some methods after the others."""
    name = vary.setting.rpartition(".")[2]
    tuned = len({eta for p in points for eta in p.eta if np.isfinite(eta)}) > 1
    interval = any(np.isfinite(i.low) for p in points for i in p.value)
    heads = ["", *["  95% interval"] * interval, *["  at eta"] * tuned, *["  so it is"] * (len(methods) > 1)]
    rows = [[f"{name} = {said(p.x)}", *heads[1:]] for p in points]
    first = Column("", [line for lines in rows for line in lines], whole=True, right=False)
    eta = lambda x: "–" if np.isnan(x) else f"{x:.4g}"
    cells = lambda p, k: [
        number(p.value[k].mean) + MARK * p.tied[k],
        *[ends(p.value[k])] * interval,
        *[eta(p.eta[k])] * tuned,
        *[short(p.verdict[k])] * (len(methods) > 1),
    ]
    parts = [[first]]
    for k, method in enumerate(methods):
        column = Column(method, [cell for p in points for cell in cells(p, k)])
        if len(parts[-1]) > 1 and least([*parts[-1], column]) > width:
            parts.append([first])
        parts[-1].append(column)
    return [[*[title] * (k == 0), *lay_out(part, width)] for k, part in enumerate(parts)]


def slopes(methods: Sequence[str], vary: Vary, found: Sequence[Interval], width: int) -> list[list[str]]:
    """Every method's slope, and whether it can be what is claimed."""
    row = lambda label, of: Quantity(label, label.strip(), [of(i) for i in found])
    lines = [row("slope", lambda i: number(i.mean, "+")), row("  95% interval", lambda i: ends(i, "+"))]
    if vary.claim is not None:
        lines.append(row(f"  so {vary.claim:+g} is", lambda i: judged(i, vary.claim or 0.0)))
    return arranged(lines, methods, f"slope of log gap against log {vary.label}", width)


def judged(found: Interval, claim: float) -> str:
    """Whether an interval leaves out what is claimed."""
    if not (np.isfinite(found.low) and np.isfinite(found.high)):
        return "open"
    return "not excluded" if found.low <= claim <= found.high else "excluded"


def footnotes(
    methods: Sequence[str], vary: Vary, points: "Sequence[Point]", found: Sequence[Interval], spent: str
) -> list[str]:
    """What a reader must know to read the tables rightly."""
    noise = any(p.noise for p in points)
    seeds = max(len(p.seeds) for p in points)
    lost = int(sum(np.isinf(p.last).sum() for p in points))
    gap = points[0].metric == "gap"
    mean = ("the geometric mean of the gap" if gap else "the mean of J") if noise and seeds > 1 else "the only run"
    return [
        f"at each value {spent}; the number is {mean}" + f" over {seeds} seeds" * (noise and seeds > 1),
        *["without noise one seed says everything, and there are no intervals"] * (not noise),
        *[f"fewer than {FEWEST} seeds have no interval"] * (noise and seeds < FEWEST),
        f"{MARK} the best at this value, or not worse than the best, and better or worse than {methods[0]}, by the "
        "rule of fastfedpg compare; open is what can't be told",
        *["slope: a line for each seed, and the mean of their slopes; its interval is that of a sign-flip test"]
        * bool(found),
        *[f"{lost} run{'s' * (lost > 1)} diverged, worse than all others; a method with one has no slope"] * bool(lost),
    ]
