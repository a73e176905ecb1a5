"""Checkpoints: where a run stands and what it has recorded, as safetensors and TOML, whole or not at all.

Each is a folder `checkpoints/ROUND` of its own, written under another name, synced and renamed; the last two are kept.
"""

import hashlib
import shutil
import time
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from fastfedpg.errors import InputError
from fastfedpg.experiment.config import Config, from_mapping
from fastfedpg.files import clear_parts, sync, write_atomically
from fastfedpg.problems import AnyProblem
from fastfedpg.runtime import Result, Standing
from fastfedpg.runtime.pytrees import arrays_of, restored

FOLDER, ARRAYS, ABOUT = "checkpoints", "state.safetensors", "checkpoint.toml"
FORMAT = 1
KEPT = 2
LARGEST_SHARE = 0.05
"""Of the time, at most this goes into checkpoints that are asked for by the clock."""

FREE = ("checkpoint_rounds", "checkpoint_seconds", "agent_batch", "shards")
"""Settings that change no number of a run."""


class Identity(NamedTuple):
    """What a checkpoint must have in common with the run that goes on from it."""

    versions: str
    config: Config
    problem: str
    source: str = ""  # of environments; they may have been repaired, so it need not be the same


class Checkpoint(NamedTuple):
    """A run that can go on."""

    standing: Standing
    result: Result | None  # what was recorded until then
    seconds: float


class UnusableCheckpoint(ValueError):
    """A checkpoint that can't be used, and why."""


def identity(config: Config, problem: AnyProblem | None, theta0: np.ndarray | None, versions: str) -> Identity:
    """The settings and the arrays that decide a run's numbers, and what computes them."""
    digest = hashlib.sha256()
    for array in (*(() if problem is None else problem.identity()), theta0):
        if array is not None:
            digest.update(repr(np.shape(array)).encode())
            digest.update(np.ascontiguousarray(array, np.float64).data)
    source = "" if problem is None else problem.source
    return Identity(versions, config, digest.hexdigest(), hashlib.sha256(source.encode()).hexdigest())


def write(out: Path, who: Identity, standing: Standing, result: Result | None, seconds: float) -> Path:
    """Put a run away; older checkpoints than the previous one are removed."""
    folder = out / FOLDER
    if not folder.exists():
        folder.mkdir()
        sync(out)
    clear_parts(folder)
    final = folder / f"{standing.round:09d}"
    with write_atomically(final) as part:
        part.mkdir()
        # Not save_file: on a full disk it raises an error of its own, which is no OSError.
        (part / ARRAYS).write_bytes(
            save({**arrays_of("standing", standing[2:]), **arrays_of("result", _parts(result))})
        )
        about = {
            "format": FORMAT,
            "round": standing.round,
            "recorded": standing.recorded,
            **_values(result),
            "seconds": seconds,
            "sha256": _digest(part / ARRAYS),
            "versions": who.versions,
            "problem_sha256": who.problem,
            "source_sha256": who.source,
            "own_sha256": who.config.sources(),
            "config": tomllib.loads(who.config.to_toml()),
        }
        (part / ABOUT).write_text(tomli_w.dumps(about), encoding="utf-8")
    # Later ones were refused, or the run would have gone on from them.
    mine = [p for p in present(out) if int(p.name) <= standing.round]
    for old in set(present(out)) - set(mine[:KEPT]):
        shutil.rmtree(old)
    return final


def present(out: Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    found = (p for p in (out / FOLDER).glob("[0-9]*") if p.name.isdecimal() and p.is_dir())
    return sorted(found, key=lambda p: int(p.name), reverse=True)


def newest(out: Path, who: Identity, form: Standing, note: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that can be used; `note` hears of each that can't, and why."""
    for folder in present(out):
        try:
            found = read(folder, who, form)
            if about(folder).get("source_sha256", who.source) != who.source:
                note(f"{folder}: the environments' source has changed since; the run goes on with the new one")
            return found
        except UnusableCheckpoint as error:
            note(f"{folder}: refused: {error}")
    return None


def about(folder: Path) -> dict[str, Any]:
    """What a checkpoint says of itself."""
    try:
        return tomllib.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableCheckpoint(
            f"damaged: {ABOUT} can't be read ({getattr(error, 'strerror', None) or error})"
        ) from None


def read(folder: Path, who: Identity, form: Standing) -> Checkpoint:
    """One checkpoint, if it is whole and of this run."""
    said = about(folder)
    if said.get("format") != FORMAT:
        raise UnusableCheckpoint(f"of another version: its format is {said.get('format')}, this is {FORMAT}")
    if said.get("versions") != who.versions:
        raise UnusableCheckpoint(f"of another version: made by {said.get('versions')}; this is {who.versions}")
    try:
        differs = from_mapping(said["config"]).differs(who.config, FREE)
    except (KeyError, TypeError, AttributeError, InputError) as error:
        raise UnusableCheckpoint(f"damaged: its configuration can't be read ({error})") from None
    if differs:
        raise UnusableCheckpoint(f"of another configuration: {differs}")
    if said.get("own_sha256", {}) != who.config.sources():
        names = ", ".join(who.config.sources()) or "what was chosen"
        raise UnusableCheckpoint(f"of another configuration: the file that {names} is in has changed")
    if said.get("problem_sha256") != who.problem:
        raise UnusableCheckpoint("of another configuration: the problem's arrays or theta0 have changed")
    try:
        if _digest(folder / ARRAYS) != said.get("sha256"):
            raise UnusableCheckpoint(f"damaged: {ARRAYS} is not what was written")
        arrays = load_file(folder / ARRAYS)
        standing = Standing(int(said["round"]), int(said["recorded"]), *restored("standing", form[2:], arrays))
        result = _result(arrays, said.get("columns"))
        recorded = -1 if result is None else int(result.rounds[-1])
        if (standing.round, standing.recorded) != (int(folder.name), recorded):
            raise UnusableCheckpoint(f"damaged: {ABOUT} says round {standing.round} and recorded {standing.recorded}")
        return Checkpoint(standing, result, float(said["seconds"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, UnusableCheckpoint):
            raise
        raise UnusableCheckpoint(f"damaged: {getattr(error, 'strerror', None) or error}") from None


class Keeper:
    """When the next checkpoint is due: after so many rounds, or so many seconds."""

    def __init__(self, config: Config, done: int) -> None:
        self.rounds, self.seconds = config.checkpoint_rounds, config.checkpoint_seconds
        self.done, self.at, self.took = done, time.monotonic(), 0.0

    def due(self, done: int) -> bool:
        """Whether it is time."""
        if self.rounds is not None and done // self.rounds > self.done // self.rounds:
            return True
        return time.monotonic() - self.at >= max(self.seconds, self.took / LARGEST_SHARE)

    def kept(self, done: int, began: float) -> None:
        """There was one, or an attempt at it, that began then."""
        self.done, self.at = done, time.monotonic()
        self.took = self.at - began


def _parts(result: Result | None) -> dict[str, Any]:
    return {} if result is None else {k: v for k, v in asdict(result).items() if k != "first_seed"}


def _values(result: Result | None) -> dict[str, Any]:
    if result is None:
        return {}
    return {
        "J": float(result.final("J").mean()),
        "gap": float(result.final("gap").mean()),
        "return_mean": float(result.final("return_mean").mean()),
        "columns": list(result.metrics),
    }


def _result(arrays: dict[str, np.ndarray], columns: list[str] | None) -> Result | None:
    if columns is None:
        return None
    metrics = {name: arrays[f"result['metrics']['{name}']"] for name in columns}
    return Result(arrays["result['rounds']"], metrics, arrays["result['returns']"], arrays["result['theta']"])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
