"""Checkpoints: where a run stands and how far its records go, as safetensors and TOML, whole or not at all.

Each is a folder `checkpoints/ROUND` of its own, written under another name, synced and renamed; the last two are kept.
What was recorded lies beside them, once (`record_table`): a checkpoint says how much of it was there, and its sum.
"""

import errno
import hashlib
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fastfedpg.errors import InputError
from fastfedpg.experiment import record_table
from fastfedpg.experiment.config import Config, from_mapping
from fastfedpg.experiment.record_table import RecordTable
from fastfedpg.files import clear_parts, is_sealed, move, open_regular, read_text, seal, sync, unused, write_atomically
from fastfedpg.problems import AnyProblem
from fastfedpg.runtime import Standing
from fastfedpg.runtime.pytrees import arrays_of, restored

FOLDER, ARRAYS, ABOUT = "checkpoints", "state.safetensors", "checkpoint.toml"
FORMAT = 3
KEPT = 2
THETA = "theta"
"""The name of the last recorded policy among the arrays."""

SHOWN = ("J", "gap", "return_mean")
"""Metrics of which a checkpoint says where they stand."""

LARGEST_SHARE = 0.05
"""Of the time, at most this goes into checkpoints that are asked for by the clock."""

FREE = ("checkpoint_rounds", "checkpoint_seconds", "agent_batch", "shards", "track")
"""Settings that change no number of a run."""


class Identity(NamedTuple):
    """What a checkpoint must have in common with the run that goes on from it."""

    versions: str
    config: Config
    problem: str
    source: str = ""  # of environments; they may have been repaired, so it need not be the same
    computed: dict[str, str] = {}  # noqa: RUF012 # with what; another may round otherwise, so that is noted


class Checkpoint(NamedTuple):
    """A run that can go on."""

    standing: Standing
    table: RecordTable  # what was recorded until then
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


def folder_in(out: Path) -> Path:
    """The folder of a run's checkpoints, which is made if it is not there."""
    folder = out / FOLDER
    if not folder.exists():
        folder.mkdir()
        sync(out)
    return folder


def records_of(out: Path) -> Path:
    """Where a run's records are as long as it is under way."""
    return out / FOLDER / record_table.FILE


def write(
    out: Path, who: Identity, standing: Standing, table: RecordTable, seconds: float, again: bool = False
) -> Path:
    """Put a run away; older checkpoints than the previous one are removed.

    `again` says that this process has begun to before: what is there is then its own, and whole.
    """
    folder = folder_in(out)
    clear_parts(folder)
    final = folder / f"{standing.round:09d}"
    if table.count:
        sync(table.path)
    if again and (final / ABOUT).exists():
        sync(folder)
    else:
        _set_aside(final)  # a checkpoint that is there would have been gone on from, or been refused
        if final.exists():
            raise FileExistsError(errno.EEXIST, f"{final} is in the way")
        _put(final, who, standing, table, seconds)
    for old in present(out)[KEPT:]:
        _remove(old)
    return final


def _put(final: Path, who: Identity, standing: Standing, table: RecordTable, seconds: float) -> None:
    with write_atomically(final) as part:
        part.mkdir()
        theta = {} if table.theta is None else {THETA: np.ascontiguousarray(table.theta)}
        # Not save_file: on a full disk it raises an error of its own, which is no OSError.
        data = save({**arrays_of("standing", standing[2:]), **theta})
        (part / ARRAYS).write_bytes(data)
        about = {
            "format": FORMAT,
            "round": standing.round,
            "recorded": standing.recorded,
            **({name: float(table.last(name).mean()) for name in SHOWN} if table.count else {}),
            "seconds": seconds,
            "sha256": hashlib.sha256(data).hexdigest(),
            "versions": who.versions,
            "problem_sha256": who.problem,
            "source_sha256": who.source,
            "own_sha256": who.config.sources(),
            "computed": who.computed,
            "records": table.describe(),
            "config": tomllib.loads(who.config.to_toml()),
        }
        (part / ABOUT).write_text(seal(tomli_w.dumps(about)), encoding="utf-8")


def clear(out: Path) -> None:
    """Remove the checkpoints of a run that needs them no more; those that were refused stay."""
    clear_parts(out / FOLDER)
    for folder in _numbered(out):  # also those that a process was killed in the middle of removing
        _remove(folder)
    with suppress(OSError):  # nothing is there, or what was refused, or the disk is read-only now
        records_of(out).unlink(missing_ok=True)
        (out / FOLDER).rmdir()


def _remove(folder: Path) -> None:
    """A checkpoint's files; its folder too, unless somebody keeps something else in it."""
    with suppress(OSError):
        for name in (ARRAYS, ABOUT):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def _set_aside(folder: Path) -> None:
    """Give a checkpoint another name, but not to what somebody keeps in its folder."""
    there = [*folder.iterdir()] if folder.is_dir() else []
    mine = [path for path in there if path.name in (ABOUT, ARRAYS)]
    aside = unused(folder.with_name(f"{folder.name}-refused"))
    if mine and len(mine) == len(there):
        move(folder, aside)
    elif mine:
        aside.mkdir()
        for path in mine:
            move(path, aside / path.name)
    elif folder.is_dir() and not there:
        folder.rmdir()


def present(out: Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    found = [p for p in _numbered(out) if (p / ARRAYS).exists() or (p / ABOUT).exists()]
    return sorted(found, key=lambda p: int(p.name), reverse=True)


def _numbered(out: Path) -> list[Path]:
    """Folders of this run; what a link leads to is somebody else's."""
    return [p for p in (out / FOLDER).glob("[0-9]*") if p.name.isdecimal() and not p.is_symlink()]


def newest(out: Path, who: Identity, form: Standing, note: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that can be used, or None where there is none; `note` hears of each that can't, and why.

    Those that can't are given another name, if there is one to go on from: nothing that was refused is removed. If all
    of them are refused, so is the newest.
    """
    refused: list[Path] = []
    why: UnusableCheckpoint | None = None
    for folder in present(out):
        try:
            found = read(folder, who, form)
        except UnusableCheckpoint as error:
            note(f"{folder}: refused: {error}")
            refused, why = [*refused, folder], why or error
            continue
        said = about(folder)
        if said.get("source_sha256", who.source) != who.source:
            note(f"{folder}: the environments' source has changed since; the run goes on with the new one")
        before = said.get("computed", {})
        others = [f"{k} was {before.get(k)}, and is {now}" for k, now in who.computed.items() if before.get(k) != now]
        if others:
            note(f"{folder}: {'; '.join(others)}: rounding may differ from here on, and differences grow")
        for each in refused:
            _set_aside(each)
        return found
    if why is not None:
        raise why
    return None


def about(folder: Path) -> dict[str, Any]:
    """What a checkpoint says of itself."""
    try:
        text = read_text(folder / ABOUT)
        said = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableCheckpoint(
            f"damaged: {ABOUT} can't be read ({getattr(error, 'strerror', None) or error})"
        ) from None
    if said.get("format") == FORMAT and not is_sealed(text):
        raise UnusableCheckpoint(f"damaged: {ABOUT} is not what was written")
    return said


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
        with open_regular(folder / ARRAYS) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != said.get("sha256"):
            raise UnusableCheckpoint(f"damaged: {ARRAYS} is not what was written")
        arrays = load(data)
        standing = Standing(int(said["round"]), int(said["recorded"]), *restored("standing", form[2:], arrays))
        path = folder.parent / record_table.FILE
        table = RecordTable.restored(path, said["records"], arrays.get(THETA))
        recorded = int(table.last("rounds")[0]) if table.count else -1
        if (standing.round, standing.recorded) != (int(folder.name), recorded):
            raise UnusableCheckpoint(f"damaged: {ABOUT} says round {standing.round} and recorded {standing.recorded}")
        return Checkpoint(standing, table, float(said["seconds"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, UnusableCheckpoint):
            raise
        why = (
            f"{Path(error.filename).name}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        )
        raise UnusableCheckpoint(f"damaged: {why}") from None


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
