"""A folder that is looked at time and again: its page is made anew where something has changed."""

import threading
from pathlib import Path
from typing import NamedTuple

from fastfedpg.errors import InputError
from fastfedpg.experiment import checkpoints, own_files, run_folder, run_index
from fastfedpg.experiment.clock import Clock
from fastfedpg.experiment.run_index import Entry
from fastfedpg.federation import watch
from fastfedpg.files import is_held
from fastfedpg.pages import known_folders, written_page
from fastfedpg.pages.blocks import Part, Section, Words

FOUND = ("summary.json", run_folder.COMPARISON, "table.csv", *own_files.STUDY)
"""Files whose change is something new, beside checkpoints and a deployed run's status."""


class Live(NamedTuple):
    """What a panel says of a folder: its runs, and of a deployed one who is there."""

    runs: list[Entry]
    held: bool
    status: watch.Status | None


def stamp(folder: Path) -> str:
    """Another text where there is something new to be shown."""
    runs = _runs(folder)
    files = [folder / name for name in FOUND] + [run / "summary.json" for run in runs]
    files += [run / run_folder.FEDERATION / watch.FILE for run in runs]
    files += [each / checkpoints.ABOUT for run in runs for each in checkpoints.present(run)[:1]]
    return "-".join(f"{_changed(file):x}" for file in files)


def _changed(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _runs(folder: Path) -> list[Path]:
    """The runs of a folder, or it itself; those of a study lie one further down."""
    if (folder / "config.toml").is_file():
        return [folder]
    return sorted(file.parent for depth in ("*", "*/*") for file in folder.glob(f"{depth}/config.toml"))


def live(folder: Path) -> Live:
    """How far everything is, by small files alone."""
    entries = [run_index.entry(run) for run in _runs(folder)]
    try:
        status = watch.read(folder / run_folder.FEDERATION) if run_folder.is_deployed(folder) else None
    except InputError:
        status = None
    return Live(entries, is_held(folder), status)


class Watched:
    """The page of a folder; what is asked for twice is made once."""

    def __init__(self, folder: Path, clock: Clock | None) -> None:
        self.folder, self.clock = folder, clock
        self.make = known_folders.part_of(folder)
        self.lock, self.made_of, self.text = threading.Lock(), "", ""

    def stamp(self) -> str:
        """What there is now."""
        return stamp(self.folder)

    def page(self) -> str:
        """The page as of now; a file that is being replaced is looked at again with the next request."""
        with self.lock:
            now = self.stamp()
            if now != self.made_of:
                try:
                    part = self.make(self.folder, self.clock, 0.0, lambda words: None)
                except (InputError, OSError) as error:
                    name, words = self.folder.name, Words([str(error)])
                    part = Part(
                        name, str(self.folder), "What is in this folder?", str(error), [Section("Error", [words])]
                    )
                self.made_of, self.text = now, written_page.render([part], watched=now)
            return self.text
