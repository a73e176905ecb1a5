"""What a comparison has found: its table, its pictures, and all that they were made of."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastfedpg.comparison import printed, repeats, stored_table, table
from fastfedpg.comparison.cell_plans import TunedCell, tried_of
from fastfedpg.draw import curves, sensitivity
from fastfedpg.errors import InputError
from fastfedpg.experiment.clock import Clock
from fastfedpg.experiment.finished_run import Outcome
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.plan import Plan
from fastfedpg.files import write_text

TABLE = "table.csv"
"""It is written last: where it stands, all is there."""

WIDTH = 100
"""Columns of a report that Python shows."""


class Report(NamedTuple):
    """What a comparison has found, and the files that show it."""

    lines: list[table.Line]
    shared: bool
    title: str
    files: list[Path]
    outcomes: list[Outcome]
    played: bool = False
    plans: Sequence[Plan] = ()
    repeated: Mapping[str, repeats.Repeats] = {}

    def __repr__(self) -> str:
        """The table, as the command line prints it."""
        shown = printed.tables(self.lines, self.title, self.shared, WIDTH, self.played)
        parts = ["\n".join(lines) for lines in shown]
        return "\n\n".join([*parts, "\n".join(table.footnotes(self.lines, self.shared))])


def present(
    found: Sequence[Outcome],
    plans: Sequence[Plan],
    out: Path,
    note: Note,
    title: str | None = None,
    margin: float | None = None,
    repeated: Mapping[str, repeats.Repeats] = {},
    tuned: Mapping[str, TunedCell] = {},
    draw: bool = True,
    over: Sequence[str] = (),
    clock: Clock | None = None,
) -> Report:
    """The pictures of runs that have come to their end and not diverged, and then their table."""
    problem = plans[0].here
    lines = table.measure(found, plans, margin, repeated, over, clock)
    title = title or f"{problem.name}: {problem.N} agents"
    files = [out / TABLE]
    try:
        files += _pictures(found, plans[0], out, title, tuned) if draw else []
    except InputError as error:
        note(f"no figures: {error}")
    write_text(out / TABLE, stored_table.text_of(lines))
    return Report(lines, problem.shared, title, files, list(found), problem.played, plans, repeated)


def _pictures(
    found: Sequence[Outcome], first: Plan, out: Path, title: str, tuned: Mapping[str, TunedCell]
) -> list[Path]:
    problem = first.here
    drawn = [o for o in found if np.isfinite(o.result.theta).all()]
    known = [o for o in found if np.isfinite(o.result.returns).all()]
    begun = [o for o in found if np.isfinite(o.result.metrics["J"]).any()]
    files = curves.curves(out / "curves", begun, problem, title)
    if tuned:
        files += sensitivity.sensitivity(out / "sensitivity", tried_of(tuned, found), problem, title)
    if drawn and (grids := problem.as_table()) is not None:  # a gain is a few numbers, and no picture
        files += curves.policies(out / "policies", drawn, grids, title)
    if known:
        files += curves.agents(out / "agents", known, problem, title, first.config.tau)
    return files
