"""Results as they were exported: all that there is of a run of an older version, or of one that was damaged."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.plan import Plan
from fastfedpg.experiment.results import Stored
from fastfedpg.files import read_text
from fastfedpg.problems.npz import read_npz
from fastfedpg.runtime import Result

METRICS = ("J", "gap", "return_mean", "return_worst", "env_steps", "bytes_up", "bytes_down", "syncs")
"""Columns that a comparison needs."""


LONGEST = 1 << 30
"""Bytes of a metrics.csv that takes the place of results.npz: it is read into memory."""


def read(folder: Path, planned: Plan, note: Note) -> Stored:
    """What metrics.csv, agents.npz and final.npz still say; `note` hears of what is damaged and left out."""
    table, seeds = _metrics(folder / "metrics.csv", planned, note)
    rounds = table.pop("round")[0].astype(int)
    chosen = [s - planned.config.first_seed for s in seeds]
    returns = _returns(folder, planned, rounds, chosen, note)
    return Stored(Result(rounds, table, returns, _theta(folder, planned, chosen, note), seeds[0]), tuple(seeds))


def _metrics(path: Path, planned: Plan, note: Note) -> tuple[dict[str, np.ndarray], list[int]]:
    """The columns (seeds, records) of those seeds that are there to the end; of one seed, if none is, all there is."""
    try:
        text = read_text(path, errors="replace", at_most=LONGEST)
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
