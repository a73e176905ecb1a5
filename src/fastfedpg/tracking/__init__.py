"""Other people's pages for a run's records: a writer each, in the run's own folder; nothing goes to a network.

A writer is a function of a folder, a title and the settings, that gives a `Tracker`.
"""

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from fastfedpg.errors import missing_extra, text_of, unknown

FOLDER = "tracking"

Note: TypeAlias = Callable[[str], None]
"""Hears what a person should know but what stops nothing."""


class Tracker(Protocol):
    """One open writer."""

    def add(self, round: int, scalars: Mapping[str, float]) -> None:
        """One record."""

    def close(self, state: str) -> None:
        """No more records: the run is finished, diverged, interrupted or failed."""


class Row(NamedTuple):
    """What a writer needs, and which files it leaves in its folder, as a pattern."""

    package: str
    shown: str
    files: str


TRACKERS = {
    "tensorboard": Row("tensorboardX", "tensorboardX", r"events\.out\.tfevents\.[^/]+"),
    "mlflow": Row("mlflow", "MLflow", r"mlflow\.db(-(journal|wal|shm))?"),
    "wandb": Row(
        "wandb",
        "Weights & Biases",
        r"wandb/debug(-internal)?\.log|wandb/logs/core-debug-[\w-]+\.log|"
        r"wandb/offline-run-[\w-]+/(run-\w+\.wandb|(files|logs)/[\w.-]+)",
    ),
}
FILES = rf"{FOLDER}/({'|'.join(f'{name}/({row.files})' for name, row in TRACKERS.items())})"
"""Which files in a run's folder are theirs."""

FOLDERS = rf"{FOLDER}(/({'|'.join(TRACKERS)})(/wandb(/logs|/offline-run-[\w-]+(/(files|logs|tmp(/code)?))?)?)?)?"
"""And which folders."""

SEEDS = 16
"""Of up to so many seeds each has curves of its own, beside their mean."""


def check(names: Sequence[str]) -> None:
    """Refuse a writer that is not known, or whose package is not installed."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if importlib.util.find_spec(TRACKERS[name].package) is None:
            raise missing_extra(f"--track {name}", TRACKERS[name].shown, name)


def scalars(metrics: Mapping[str, np.ndarray], first_seed: int) -> dict[str, float]:
    """One record's metrics, a value for each seed, as scalars: the mean, and each seed's; none that is not finite."""
    found: dict[str, float] = {}
    for name, values in metrics.items():
        found[name] = float(np.mean(values))
        if 1 < len(values) <= SEEDS:
            found |= {f"seed-{first_seed + s}/{name}": float(x) for s, x in enumerate(values)}
    return {name: x for name, x in found.items() if math.isfinite(x)}


class Trackers:
    """A run's writers. One that fails is given up, and a note says so: the run itself is well."""

    def __init__(self, names: Sequence[str], out: Path, title: str, settings: Mapping[str, Any], note: Note) -> None:
        self.note, self.open = note, dict[str, Tracker]()
        for name in dict.fromkeys(names):
            folder = (out / FOLDER / name).absolute()

            def begin(name: str = name, folder: Path = folder) -> None:
                folder.mkdir(parents=True, exist_ok=True)
                module = importlib.import_module(f"fastfedpg.tracking.to_{name}")
                self.open[name] = module.begin(folder, title, settings)

            self._attempt(name, begin)

    def add(self, round: int, values: Mapping[str, float]) -> None:
        """One record, to all."""
        for name, tracker in [*self.open.items()]:
            self._attempt(name, partial(tracker.add, round, values))

    def close(self, state: str) -> None:
        """No more records."""
        for name, tracker in [*self.open.items()]:
            self._attempt(name, partial(tracker.close, state))

    def _attempt(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (Exception, SystemExit) as error:  # each package has its own for a full disk
            self.open.pop(name, None)
            self.note(f"--track {name} is given up: {type(error).__name__}: {text_of(error)}")
