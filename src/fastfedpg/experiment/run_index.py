"""The run folders below a folder: what each ran, how far it came, and how it ended."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.experiment import checkpoints, own_files, run_folder
from fastfedpg.experiment.choices import KINDS
from fastfedpg.experiment.config import from_toml, sketch
from fastfedpg.experiment.problem import is_file
from fastfedpg.files import is_held, read_text
from fastfedpg.problems.npz import name_of
from fastfedpg.registry import is_own

STATES = ("finished", "running", "interrupted", "failed")


class Entry(NamedTuple):
    """One run, as a list shows it."""

    folder: Path
    problem: str
    algorithm: str
    eta: float
    seeds: int
    done: int
    rounds: int
    gap: float | None  # mean over seeds; None where it is not known or not defined
    returned: float | None  # the agents' mean return, mean over seeds
    state: str
    why: str  # what is to be said of the state
    when: float  # seconds since 1970: the last change


def find(root: Path) -> Iterator[Entry]:
    """Every run below a folder, or that folder itself; nothing is looked for inside a run."""
    if not root.is_dir():
        raise InputError(f"{root}: no such folder" if not root.exists() else f"{root}: not a folder")
    for folder, inside, files in os.walk(root):
        inside.sort()
        if "config.toml" in files:
            inside.clear()
            yield entry(Path(folder))


class Studied(NamedTuple):
    """A study: what there is of it, in words."""

    folder: Path
    there: str
    state: str


def studies(root: Path) -> Iterator[Studied]:
    """Every study below a folder, or that folder itself, of comparisons or of claims."""
    for folder, inside, files in os.walk(root):
        inside.sort()
        path = Path(folder)
        for name, table, there in STUDIES:
            if name in files and own_files.is_ours(path / name):
                inside.clear()
                ended = "finished" if (path / table).is_file() else "interrupted"
                yield Studied(path, there(path), "running" if is_held(path) else ended)
        if "config.toml" in files:
            inside.clear()


def _comparisons(path: Path) -> str:
    labels = own_files.named_runs(path / own_files.STUDY[0])
    return f"{sum((path / label / 'table.csv').is_file() for label in labels)} of {len(labels)} comparisons"


def _parts(path: Path) -> str:
    return f"{len([*path.glob(own_files.CLAIMED)])} of its parts"


STUDIES = (
    (own_files.STUDY[0], own_files.STUDY[1], _comparisons),
    (own_files.CLAIMS, own_files.CLAIMS_TABLE, _parts),
)
"""What says that a folder is a study's, what is written last in it, and what counts until then."""


def entry(folder: Path) -> Entry:
    """One run, from its small files alone."""
    when = max((_changed(p) for p in (folder, *checkpoints.present(folder)[:1])), default=0.0)
    blank = Entry(folder, "?", "?", 0.0, 0, 0, 0, None, None, "failed", "", when)
    try:
        config = _told(folder / "config.toml")
    except InputError:
        return blank._replace(why="config.toml can't be read")
    state, said = run_folder.state(folder), _said(folder)
    problem = config["problem"]
    problem = name_of(str(folder / Path(problem).name)) if is_file(problem) else Path(problem).name
    known = blank._replace(
        problem=problem, **{name: config[name] for name in ("algorithm", "eta", "seeds", "rounds")},
        done=int(said.get("done", 0)), gap=said.get("gap"), returned=said.get("return_mean"),
    )  # fmt: skip
    return known._replace(why="diverged") if state == "diverged" else known._replace(state=state)


def _told(path: Path) -> dict[str, Any]:
    """A run's own words; those of a user's own function count though it may be gone from where it was."""
    config = sketch(path)
    if not any(is_own(str(config[kind] or "")) for kind in KINDS):
        from_toml(path)  # whether all of it can be read
    return config


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # a checkpoint that has just been replaced
        return 0.0


def _said(folder: Path) -> dict[str, Any]:
    """How far it came, with what gap and return: from the summary, or the newest checkpoint if it was killed since."""
    found: list[dict[str, Any]] = []
    try:
        summary = json.loads(read_text(folder / "summary.json"))
        means = {name: summary["final"].get(name, {}).get("mean") for name in ("gap", "return_mean")}
        known = {name: None if x is None else float(x) for name, x in means.items()}
        found.append({"done": int(summary["rounds_done"]), **known})
    except run_folder.UNREADABLE:
        pass
    for checkpoint in checkpoints.present(folder):
        try:
            about = checkpoints.about(checkpoint)
            values = {name: float(about.get(name, "nan")) for name in ("gap", "return_mean")}
            known = {name: None if np.isnan(x) else x for name, x in values.items()}
            found.append({"done": int(about["round"]), **known})
        except (checkpoints.UnusableCheckpoint, *run_folder.UNREADABLE):
            continue
    return max(found, key=lambda said: said["done"], default={})
