"""A run's records as other programs show them: written anew from what is on disk, then on as the run goes.

So a run that goes on leaves what it would have left in one go, whatever was written beyond its checkpoint.
"""

import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from fastfedpg import tracking
from fastfedpg.errors import printable
from fastfedpg.experiment.copies import described
from fastfedpg.experiment.plan import Plan
from fastfedpg.experiment.record_table import RecordTable
from fastfedpg.runtime import Result
from fastfedpg.tracking import Trackers

ROWS = 1024
"""Records that are read at a time."""


class Tracked:
    """The writers that a run's settings name; none of them costs anything where none is named."""

    def __init__(self, planned: Plan, out: Path | None, table: RecordTable | None, note: tracking.Note) -> None:
        names, self.to = planned.config.track or (), None
        self.first_seed = planned.schedule.first_seed
        if out is None or table is None or not names:
            return
        _clear(out)
        config = described(planned.config)
        settings = {name: x for name, x in config.flat().items() if x is not None and name != "track"}
        title = printable(f"{config.algorithm} on {planned.name}")
        self.to = Trackers(names, out, title, settings, note)
        if table.form is not None:
            self._again(table)

    def add(self, result: Result) -> None:
        """Records that were just made."""
        if self.to is not None:
            for k, round in enumerate(result.rounds):
                metrics = {name: values[:, k] for name, values in result.metrics.items()}
                self.to.add(int(round), tracking.scalars(metrics, self.first_seed))

    def close(self, state: str) -> None:
        """The run has ended so."""
        if self.to is not None:
            self.to.close(state)

    def _again(self, table: RecordTable) -> None:
        """All that is on disk of a run that goes on."""
        assert table.form is not None
        assert self.to is not None
        with table.reading() as read:
            for first in range(0, table.count, ROWS):
                piece = lambda name: np.stack([read(name, s, first, first + ROWS) for s in range(table.form.runs)])  # noqa: B023
                columns = {name: piece(name) for name, _ in table.form.metrics}
                for k, round in enumerate(read("rounds", 0, first, first + ROWS)):
                    metrics = {name: values[:, k] for name, values in columns.items()}
                    self.to.add(int(round), tracking.scalars(metrics, self.first_seed))


def _clear(out: Path) -> None:
    """Remove what writers left that are begun anew."""
    home = out / tracking.FOLDER
    for path in sorted(home.rglob("*"), reverse=True):
        name = path.relative_to(out).as_posix()
        if path.is_dir() and not path.is_symlink():
            if re.fullmatch(tracking.FOLDERS, name):
                with suppress(OSError):  # somebody has something there
                    path.rmdir()
        elif re.fullmatch(tracking.FILES, name):
            path.unlink()
