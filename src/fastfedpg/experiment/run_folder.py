"""The folder of a run: config.toml, results.npz with its exports, summary.json."""

import json
import math
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tomli_w

from fastfedpg.errors import InputError
from fastfedpg.experiment import checkpoints, own_files, results
from fastfedpg.experiment.config import Config, from_mapping
from fastfedpg.experiment.copies import copy_files, described
from fastfedpg.files import LOCK, begin_list, clear_parts, hold, is_held, read_text, write_text
from fastfedpg.problems import AnyProblem

FILES = ("config.toml", *results.EXPORTS, results.FILE, "summary.json", *own_files.DESCRIBED[1:])

ADVICE = "advice.json"
"""Why the algorithm was chosen, where it was left open."""

CURVE = "curve"
"""The picture of a run, as .png and .svg, which the command line draws."""

UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading a small file can end in when somebody else has been at it."""

FEDERATION = "federation"
"""The folder of a deployed run's keys, logs and agents."""
DEPLOYED = "federation.toml"
"""Where this stands in it, the run was deployed."""

COMPARISON = "compare.toml"
"""Where this stands the folder is a comparison's, and not a run's."""


def check_folder(out: Path, overwrite: bool, new: Sequence[str] = ()) -> None:
    """Refuse a folder that holds something, before any work is done; an earlier run may be replaced, if asked for."""
    if not check_place(out, overwrite):
        for folder, _, names in os.walk(out):  # before its files are looked at: they change, and come and go
            if LOCK in names and is_held(Path(folder)):
                raise InputError(f"{folder}: another process is at work in this folder")
        own_files.listed(out, new)
        check_files(out)


def check_files(out: Path) -> None:
    """Refuse a folder in a file's place, or the other way round, before any work is done."""
    for name in FILES:
        if (out / name).is_dir():
            raise InputError(f"{out / name}: a folder where a file of the run belongs")
    there = out / checkpoints.FOLDER
    if there.exists() and not there.is_dir():
        raise InputError(f"{there}: a file where the folder of the run's checkpoints belongs")


def check_place(out: Path, overwrite: bool) -> bool:
    """Whether a folder is new or empty; where nothing can be written, or may not be, that is refused."""
    try:
        if out.is_symlink() and not out.exists():
            raise InputError(f"{out}: a link that leads nowhere")
        if out.exists() and not out.is_dir():
            raise InputError(f"{out}: exists and is not a folder")
        if out.is_dir() and any(out.iterdir()) and not overwrite:
            raise InputError(f"{out}: the folder is not empty; choose another --out, or give --overwrite")
        parent = next(p for p in (out, *out.absolute().parents) if p.exists())
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}") from None
    if not os.access(parent, os.W_OK):
        raise InputError(f"{out}: no permission to write in {parent}")
    return not out.is_dir() or not any(out.iterdir())


@contextmanager
def open_folder(out: Path, clear: Callable[[], None], describe: Callable[[], None]) -> Iterator[None]:
    """A folder of one's own: cleared of what was there, and how to repeat the work written down, before it begins."""
    with ExitStack() as stack:
        new, mine = True, False
        above = [p for p in out.absolute().parents if not p.exists()]  # the nearest first
        try:
            try:
                out.mkdir(parents=True)
            except FileExistsError:
                new = False
            stack.enter_context(hold(out))
            mine = True
            clear()
            describe()
        except BaseException as error:
            if new and mine:
                shutil.rmtree(out, ignore_errors=True)
            for folder in (out, *above) if new else ():
                with suppress(OSError):  # it is gone already, or somebody has something there by now
                    folder.rmdir()
            if isinstance(error, OSError):
                raise InputError(f"{out}: {error.strerror}; nothing was run") from None
            raise
        yield


def clear(out: Path, overwrite: bool) -> None:
    """Remove an earlier run's files, or an earlier comparison's and those of its runs; nothing else."""
    there = [path for path in out.iterdir() if path.name != LOCK]
    if (out / "config.toml").exists() and not overwrite:
        raise InputError(f"{out}: another run has begun in this folder; choose another --out")
    if there and overwrite:
        own_files.remove_all(out)
    clear_parts(out)
    begin_list(out)


def describe(
    out: Path,
    config: Config,
    problem: AnyProblem | None,
    theta0: np.ndarray | None,
    advice: dict[str, Any] | None = None,
) -> None:
    """All that is needed to repeat the run, or to go on with it; config.toml last: where it stands, all is there."""
    copy_files(out, config, problem, theta0)
    head = f"# {versions()}\n# Repeat with: fastfedpg run --config THIS_FILE --out ANOTHER_FOLDER\n"
    if advice is not None:
        write_text(out / ADVICE, json.dumps(plain(advice), indent=2) + "\n")
        head += f"# Algorithm auto chose {advice['chosen']}: {advice['why']}\n"
    write_text(out / "config.toml", head + described(config).to_toml())


def ran_with(config: Config) -> str:
    """The settings on which a run's numbers depend, as TOML."""
    table = described(config).to_table()
    return tomli_w.dumps({name: value for name, value in table.items() if name not in checkpoints.FREE})


def check_config(out: Path, stored: results.Stored, config: Config) -> None:
    """Refuse results that were made with other settings than those which now stand beside them."""
    if not stored.config:  # of an older version
        return
    try:
        before = from_mapping(tomllib.loads(stored.config), str(out / results.FILE))
    except ValueError as error:
        raise InputError(f"{out / results.FILE}: what it was made with can't be read ({error})") from None
    if differs := before.differs(described(config), checkpoints.FREE):
        raise InputError(
            f"{out / 'config.toml'}: not what this run ran with, as {results.FILE} has it: {differs}; put it back"
        )


def advice(out: Path) -> dict[str, Any] | None:
    """Why a run's algorithm was chosen, where it was left open: it is not asked again."""
    try:
        found: dict[str, Any] = json.loads(read_text(out / ADVICE))
    except UNREADABLE:
        return None
    return found


def write_summary(out: Path, summary: dict[str, Any]) -> None:
    """summary.json; what is not defined is null. It comes last: where it says finished, everything is there."""
    write_text(out / "summary.json", json.dumps(plain(summary), indent=2) + "\n")


def state(out: Path) -> str:
    """finished, diverged, failed, interrupted (also: killed), or running."""
    return "running" if is_held(out) else ended(out)


def ended(out: Path) -> str:
    """How the run's last process ended, by its own words; one that could say nothing was killed."""
    try:
        said = json.loads(read_text(out / "summary.json"))["state"]
    except UNREADABLE:
        return "interrupted"
    return said if said in ("finished", "diverged", "failed", "interrupted") else "interrupted"


def has_results(out: Path) -> bool:
    """Whether a run has left results, unless it says itself that they are of no round."""
    try:
        if int(json.loads(read_text(out / "summary.json"))["rounds_done"]) == 0:
            return False
    except UNREADABLE:
        pass
    return (out / results.FILE).exists()


def is_deployed(out: Path) -> bool:
    """Whether a folder is a deployed run's."""
    return (out / FEDERATION / DEPLOYED).is_file()


def kept(out: Path) -> str:
    """What a folder holds of a run, in words."""
    there = [name for name in FILES if (out / name).exists()]
    found = checkpoints.present(out)
    if found:
        there.append(f"a checkpoint after round {int(found[0].name)} (fastfedpg resume {out} goes on from it)")
    return f"kept in {out}: {', '.join(there) or 'nothing'}"


def versions() -> str:
    """What made this run."""
    return f"fastfedpg {version('fastfedpg')}, jax {jax.__version__}, numpy {np.__version__}"


def plain(x: Any) -> Any:
    """What JSON can hold: infinity and NaN are null."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    if isinstance(x, float | np.floating):
        return float(x) if math.isfinite(x) else None
    return int(x) if isinstance(x, np.integer) else x
