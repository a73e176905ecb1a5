"""What a run has recorded, finished or not, from its folder alone and thinned: a page shows no more."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.experiment import checkpoints, results, run_folder
from fastfedpg.experiment.checkpoints import UnusableCheckpoint
from fastfedpg.experiment.config import sketch
from fastfedpg.experiment.record_table import RecordTable
from fastfedpg.files import read_text
from fastfedpg.runtime.views import leads

POINTS = 240
"""Of a longer curve a page shows no more than this many."""


class Recorded(NamedTuple):
    """A run's curves; arrays have the seeds first."""

    rounds: np.ndarray  # (points,)
    metrics: Mapping[str, np.ndarray]  # (seeds, points)
    first_returns: np.ndarray  # (N,): at the start, mean over seeds
    returns: np.ndarray  # (seeds, N): in the end
    theta: np.ndarray | None  # (seeds, d)
    first_seed: int

    @property
    def leading(self) -> str:
        """The metric that says most."""
        return leads(self.metrics["gap"], self.metrics["grad_norm_sq"])

    @property
    def seeds(self) -> int:
        """How many."""
        return len(self.returns)


class Told(NamedTuple):
    """A run as its folder tells it."""

    folder: Path
    label: str
    settings: Mapping[str, Any]  # config.toml, with what is as usual; nothing that it names was looked for
    state: str
    message: str
    asked: int  # rounds
    summary: Mapping[str, Any]
    recorded: Recorded | None

    @property
    def done(self) -> int:
        """Rounds of which something is known."""
        return 0 if self.recorded is None else int(self.recorded.rounds[-1])

    @property
    def problem(self) -> str:
        """Its name."""
        return Path(str(self.summary.get("problem") or self.settings["problem"])).name


def read(folder: Path, label: str = "", points: int = POINTS) -> Told:
    """All that there is of a run, whatever state it is in."""
    settings = sketch(folder / "config.toml")
    summary = _json(folder / "summary.json")
    state = run_folder.state(folder)
    if state == "running":
        summary = {}  # of an earlier process
    recorded = _newest(folder, points)
    name = label or str(settings["algorithm"])
    message = str(summary.get("message") or "")
    return Told(folder, name, settings, state, message, int(settings["rounds"]), summary, recorded)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _newest(folder: Path, points: int) -> Recorded | None:
    """From its results or its newest checkpoint, whichever is further."""
    found = [x for x in (_from_results(folder, points), _from_checkpoints(folder, points)) if x is not None]
    return max(found, key=lambda x: int(x.rounds[-1]), default=None)


def _shown(records: int, points: int) -> np.ndarray:
    return np.unique(np.linspace(0, records - 1, min(records, points)).round().astype(int))


def _from_results(folder: Path, points: int) -> Recorded | None:
    try:
        found = results.read(folder / results.FILE).result
    except (InputError, OSError):
        return None
    some = _shown(len(found.rounds), points)
    metrics = {name: np.asarray(x[:, some], float) for name, x in found.metrics.items()}
    start = np.asarray(found.returns[:, 0], float).mean(axis=0)
    last = np.array(found.returns[:, -1], float)
    return Recorded(found.rounds[some], metrics, start, last, np.asarray(found.theta), found.first_seed)


def _from_checkpoints(folder: Path, points: int) -> Recorded | None:
    """The newest that can be read: a run that goes on may replace one at any moment."""
    for each in checkpoints.present(folder):
        try:
            said = checkpoints.about(each)
            if int(said["records"]["count"]) == 0:
                continue
            table = RecordTable.restored(checkpoints.records_of(folder), said["records"], None)
            return _of_table(table, points, int(said["config"].get("first_seed", 0)))
        except (UnusableCheckpoint, OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return None


def _of_table(table: RecordTable, points: int, first_seed: int) -> Recorded:
    some = _shown(table.count, points)
    with table.reading() as read:
        whole: Callable[[str, int], np.ndarray] = lambda name, part: read(name, part, 0, table.count)
        rounds = whole("rounds", 0)[some]
        parts = range(table.columns["returns"].parts)
        names = [name for name in table.columns if name not in ("rounds", "returns")]
        metrics = {name: np.stack([np.asarray(whole(name, k)[some], float) for k in parts]) for name in names}
        start = np.stack([read("returns", k, 0, 1)[0] for k in parts]).mean(axis=0)
    return Recorded(rounds, metrics, start, np.asarray(table.last("returns"), float), None, first_seed)
