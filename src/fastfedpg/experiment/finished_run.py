"""Runs as a comparison sees them: read from their folders, one outcome for each."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.experiment import budgets, run_folder
from fastfedpg.experiment.config import Config, from_toml
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.problems import AnyProblem, Environments
from fastfedpg.problems.tabular import read_npz
from fastfedpg.runtime import Result

METRICS = ("J", "gap", "return_mean", "return_worst", "env_steps", "bytes_up", "bytes_down", "syncs")
"""Columns that a comparison needs."""

SAME = ("problem", "problem_args", "agents", "reward_range", "tau")
"""Settings in which runs must agree to be compared."""


class Outcome(NamedTuple):
    """A run that has come to its end, under the name that tables and legends give it."""

    label: str
    config: Config
    seeds: tuple[int, ...]
    result: Result  # arrays with the leading axis of the seeds
    samples: np.ndarray  # (records,): all agents together, from the start
    unit: str  # what the samples are: "environment steps", or "gradient estimates" where nothing is played
    seconds: float


def read(folder: Path, label: str, note: Note, like: Plan | None = None) -> tuple[Outcome, Plan]:
    """A finished run from its folder; `note` hears of what is damaged and left out."""
    if not (folder / "config.toml").is_file():
        known = (folder / run_folder.COMPARISON).is_file()
        hint = f"it is a comparison, which fastfedpg resume {folder} shows; name runs in it" if known else ""
        raise InputError(f"{folder}: not a run: {hint or 'there is no config.toml in it'}")
    state = run_folder.state(folder)
    if state != "finished":
        raise InputError(f"{folder}: the run is {state}, not finished{_help(folder, state)}")
    planned = plan(from_toml(folder / "config.toml"), like)
    config = planned.config
    table, seeds = _metrics(folder / "metrics.csv", planned, note)
    rounds = table.pop("round")[0].astype(int)
    chosen = [s - config.first_seed for s in seeds]
    result = Result(
        rounds, table, _returns(folder, planned, rounds, chosen, note), _theta(folder, planned, chosen, note)
    )
    samples = table["env_steps"].mean(axis=0) if budgets.plays(planned) else rounds * float(budgets.samples(planned))
    seconds = _seconds(folder / "summary.json")
    return Outcome(label, config, tuple(seeds), result, samples, budgets.unit(planned), seconds), planned


def check_same_problem(folders: Sequence[Path], plans: Sequence[Plan]) -> None:
    """Refuse runs of different problems, and say what differs."""
    for (a, p), (b, q) in pairwise(zip(folders, plans, strict=True)):
        here, there = run_folder.described(p.config), run_folder.described(q.config)
        unequal = _unequal(p.here, q.here)
        if isinstance(p.here, Environments) and isinstance(q.here, Environments):
            unequal += [name for name, x, y in _played(p, q) if x != y]
        if here.tau == there.tau and p.here.scale == q.here.scale and not unequal:
            continue  # one problem, whatever words it was asked for in
        differ = [name for name in SAME if getattr(here, name) != getattr(there, name)]
        said = [f"{name} is {getattr(here, name)} in {a} and {getattr(there, name)} in {b}" for name in differ]
        if not said and unequal:
            said = [f"{', '.join(unequal)} of {a} and {b} differ"]
        if said:
            raise InputError(f"runs of different problems can't be compared: {'; '.join(said)}")


def _played(p: Plan, q: Plan) -> list[tuple[str, int, int]]:
    """What J is measured with, where it is measured by playing."""
    episodes = p.config.evaluation_episodes, q.config.evaluation_episodes
    return [("K", p.steps, q.steps), ("evaluation_episodes", *episodes)]


def _unequal(one: AnyProblem, other: AnyProblem) -> list[str]:
    """The arrays in which two problems differ."""
    here, there = one.arrays(), other.arrays()
    return [n for n in {**here, **there} if n not in here or n not in there or not np.array_equal(here[n], there[n])]


def labels(folders: Sequence[Path], plans: Sequence[Plan]) -> list[str]:
    """The algorithm's name where that is enough, else with the folder's."""
    names = [p.config.algorithm for p in plans]
    own = [n if names.count(n) == 1 else f"{n} ({f.name or f})" for n, f in zip(names, folders, strict=True)]
    return own if len({*own}) == len(own) else [str(f) for f in folders]


def _metrics(path: Path, planned: Plan, note: Note) -> tuple[dict[str, np.ndarray], list[int]]:
    """The columns (seeds, records) of those seeds that are there to the end; of one seed, if none is, all there is."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {str(error.strerror).lower()}") from None
    lines = text.split("\n")  # after the last line break there is nothing, or a line that was cut off
    names = lines[0].rstrip("\r").split(",")
    lacking = [name for name in ("seed", "round", *METRICS) if name not in names]
    if names[:2] != ["seed", "round"] or len(lines) < 2 or lacking:
        lacks = f", and it lacks {', '.join(lacking)}" if 0 < len(lacking) < len(METRICS) else ""
        raise InputError(f"{path}: not the metrics of a run: its first line must be the names of the columns{lacks}")
    good = [row for row in (_row(line, len(names)) for line in lines[1:-1]) if row is not None]
    recorded, config = list(planned.schedule.recorded()), planned.config
    known = {*recorded}
    by_seed: dict[int, list[list[float]]] = {}
    for row in good:
        by_seed.setdefault(int(row[0]), []).append(row)
    by_seed = {s: rows for s, rows in by_seed.items() if 0 <= s - config.first_seed < config.seeds}
    by_seed = {s: [r for r in rows if int(r[1]) in known] for s, rows in by_seed.items()}
    complete = {s: rows for s, rows in by_seed.items() if [int(r[1]) for r in rows] == recorded}
    if not complete and by_seed:
        first = next(iter(by_seed))
        complete = {first: by_seed[first]}
    used, expected = sum(len(rows) for rows in complete.values()), len(recorded) * config.seeds
    if not used:
        raise InputError(f"{path}: not one whole row in it")
    if used < expected:
        whole = f"{len(complete)} of {config.seeds} seeds" if len(complete) > 1 or used == len(recorded) else "one seed"
        cut = f"cut off inside line {len(lines)}; " if lines[-1] else ""
        note(f"{path}: {cut}{used} of {expected} rows are used ({whole}), {expected - used} are not")
    values = np.array([complete[s] for s in complete])
    return {name: values[:, :, k] for k, name in enumerate(names) if name != "seed"}, list(complete)


def _seconds(path: Path) -> float:
    try:
        return float(json.loads(path.read_text(encoding="utf-8"))["seconds"])
    except run_folder.UNREADABLE:
        return float("nan")


def _row(line: str, width: int) -> list[float] | None:
    cells = line.rstrip("\r").split(",")  # numbers alone: no quotes
    if len(cells) != width or not (cells[0].isdigit() and cells[1].isdigit()):
        return None
    try:
        return [float(x or "nan") for x in cells]
    except ValueError:
        return None


def _returns(folder: Path, planned: Plan, rounds: np.ndarray, seeds: list[int], note: Note) -> np.ndarray:
    shape = (planned.config.seeds, len(list(planned.schedule.recorded())), planned.here.N)
    recorded = list(planned.schedule.recorded())
    at = [recorded.index(r) for r in rounds]
    found = _array(folder / "agents.npz", ("returns", "round"), "returns", [shape], note)
    return np.full((len(seeds), len(rounds), shape[-1]), np.nan) if found is None else found[np.ix_(seeds, at)]


def _theta(folder: Path, planned: Plan, seeds: list[int], note: Note) -> np.ndarray:
    shape, n = planned.theta_shape, planned.config.seeds
    found = _array(folder / "final.npz", ("theta",), "theta", [(n, *shape), (n, planned.here.N, *shape)], note)
    if found is None:
        return np.full((len(seeds), math.prod(shape)), np.nan)
    return found[seeds].reshape(*found[seeds].shape[: -len(shape)], -1)


def _array(path: Path, names: tuple[str, ...], name: str, shapes: list[Any], note: Note) -> np.ndarray | None:
    try:
        found = read_npz(path, names)[name]
        if found.shape in shapes and found.dtype.kind == "f":
            return found
        wanted = " or ".join(map(str, shapes))
        note(f"{path}: {name} is {found.dtype}{found.shape}, not floats of shape {wanted}; it is left out")
    except InputError as error:
        note(f"{error}; it is left out")
    return None


def _help(folder: Path, state: str) -> str:
    return f"; fastfedpg resume {folder} goes on with it" if state in ("interrupted", "failed") else ""
