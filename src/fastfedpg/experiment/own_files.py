"""Which files in a folder are a run's, a comparison's or a study's own: those alone are ever removed or moved."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeAlias

from fastfedpg.errors import InputError
from fastfedpg.files import LOCK, hold, move, read_text, unused

WRITTEN = "# fastfedpg "
"""How every configuration begins that this package wrote."""

RUNS = "# Its runs: "
BEFORE = "before-restart"
"""The folder for what was there when a run began anew."""

DESCRIBED = "config.toml", "problem.npz", "theta0.npz", "context.npz", "advice.json"
RESULTS = "results.npz", "metrics.csv", "final.npz", "agents.npz", "summary.json", "curve.png", "curve.svg"
COMPARISON = "compare.toml", "compared.toml", "tune.csv", "table.csv", "repeats.csv"
PICTURES = "curves", "sensitivity", "policies", "agents"
STUDY = "study.toml", "study.csv", "scores.csv", "series.csv", "phases.csv"
DRAWN = "profiles", "series", "phases"
CLAIMS, CLAIMS_TABLE, CLAIMED = "claims.toml", "claims.csv", "parts/[0-9][0-9].json"
"""Where the first stands the folder is of a study of claims, which has its own rules; its table, and its parts."""

_names = lambda names: "|".join(map(re.escape, names))
_GRAPH = r"graph-[0-9a-f]{12}\.np[yz]"
_CHECKPOINT = r"checkpoints/\d+(-refused(-\d+)?)?"
_CHECKPOINTS = rf"checkpoints/records\.bin|{_CHECKPOINT}/(state\.safetensors|checkpoint\.toml)"
_AGENT = r"agents/\d+/(secret|\.lock|[0-9a-f]{32}\.safetensors)"
_KEYS = r"keys/(ca\.crt|ca\.key|server\.pem|server\.key|agent-\d+(\.pub)?)"
_LOGS = r"logs/(superlink|proxy|agent-\d+|node-\d+)\.log"
_APP = r"app|apps/fastfedpg\.fastfedpg-carrier\.[\w.]+"
_FLOWER = rf"flower(-\d+)?/(source|config\.toml|({_APP})/pyproject\.toml)"
_DEPLOYED = rf"federation\.toml|log\.txt|superlink\.db(-\w+)?|{_AGENT}|{_KEYS}|{_LOGS}|{_FLOWER}"
_FEDERATION = rf"federation/({_DEPLOYED}|(agents/\d+/|keys/)?\.part-\d+-[^/]*)"
_BEFORE = rf"{BEFORE}(-\d+)?/({_names(RESULTS)}|{_CHECKPOINTS})"
_PARTS = r"(checkpoints/)?\.part-\d+-.*"
_SAID = rf"{_names(DESCRIBED[1:])}|{_GRAPH}"
RUN = re.compile(rf"config\.toml|{_SAID}|{_names(RESULTS)}|\.lock|{_CHECKPOINTS}|{_FEDERATION}|{_BEFORE}|{_PARTS}")
"""A run's files, by their paths in its folder."""

ASIDE = re.compile(rf"{_names(RESULTS)}|{_CHECKPOINTS}")
"""Those that stand in the way of a run that begins anew."""

COMPARED = re.compile(rf"{_names(COMPARISON)}|({_names(PICTURES)})\.(png|svg)|{_SAID}|\.lock|{_PARTS}")
"""A comparison's files, but for its runs."""

STUDIED = re.compile(rf"{_names(STUDY)}|({_names(DRAWN)})\.(png|svg)|\.lock|{_PARTS}")
"""A study's files, but for its comparisons."""

LEFT = re.compile(rf"\.lock|{_PARTS}")
"""What a process that was killed before it wrote anything leaves."""

_INSIDE = rf"agents(/\d+)?|keys|logs|flower(-\d+)?(/(apps|{_APP}))?"
FOLDERS = re.compile(
    rf"({BEFORE}(-\d+)?/)?(checkpoints|{_CHECKPOINT})|{BEFORE}(-\d+)?|federation(/({_INSIDE}))?|{_PARTS}"
)
"""A run's folders: a process that was killed may leave one without a file in it."""

LAST = "config.toml", "compared.toml", "compare.toml", "study.toml"
"""Files that say what a folder is, from the innermost on."""

UNBEGUN = re.compile(rf"{_SAID}|\.lock|{_PARTS}")
"""What a run writes before it has begun."""


def is_ours(path: Path) -> bool:
    """Whether a configuration was written by this package."""
    try:
        return path.is_file() and read_text(path).lstrip("\n").startswith(WRITTEN)
    except (OSError, ValueError):
        return False


def name_runs(labels: Sequence[str]) -> str:
    """The line in a comparison's file that says which runs below it are its own; a study's says which comparisons."""
    return f"{RUNS}{json.dumps(list(labels))}\n"


def named_runs(path: Path) -> list[str]:
    """What that line says, of a file that this package wrote."""
    lines = read_text(path).splitlines() if is_ours(path) else []
    try:
        found: Any = next((json.loads(line.removeprefix(RUNS)) for line in lines if line.startswith(RUNS)), [])
    except ValueError:
        return []
    return [label for label in found if isinstance(label, str)] if isinstance(found, list) else []


Owns: TypeAlias = Callable[[str], bool]


def _of_comparison(out: Path) -> Owns | None:
    """Which paths in a folder are those of the comparison in it; None where there is none."""
    if not any(is_ours(out / name) for name in COMPARISON[:2]):
        return None
    cells = [label for label in named_runs(out / COMPARISON[0]) if is_ours(out / label / "config.toml")]

    def owns(name: str) -> bool:
        cell, _, rest = name.partition("/")
        return bool(COMPARED.fullmatch(name) or (cell in cells and RUN.fullmatch(rest)))

    return owns


def _of_study(out: Path) -> Owns | None:
    """Which paths in a folder are those of the study in it; None where there is none."""
    if not is_ours(out / STUDY[0]):
        return None
    members = {label: of for label in named_runs(out / STUDY[0]) if (of := _of_comparison(out / label)) is not None}

    def owns(name: str) -> bool:
        member, _, rest = name.partition("/")
        return bool(STUDIED.fullmatch(name)) or (member in members and members[member](rest))

    return owns


def _of_run(out: Path) -> Owns | None:
    return (lambda name: bool(RUN.fullmatch(name))) if is_ours(out / "config.toml") else None


def listed(out: Path, new: Sequence[str] = ()) -> list[Path]:
    """All files of the run, comparison or study in a folder, and none else; where there is none, that is refused.

    So is what is not theirs and stands where one of theirs belongs, or in the folder of a `new` run.
    """
    there = sorted(path for path in out.rglob("*") if path.is_symlink() or not path.is_dir())
    if all(LEFT.fullmatch(path.relative_to(out).as_posix()) for path in there):
        return there
    owners = [owns for of in (_of_run, _of_comparison, _of_study) if (owns := of(out)) is not None]
    found = []
    if not owners:
        raise InputError(f"{out}: neither a run nor a comparison, so nothing in it is replaced; choose another --out")
    for path in there:
        name = path.relative_to(out).as_posix()
        first = name.partition("/")[0]
        if any(owns(name) for owns in owners):
            found.append(path)
        elif first in (*DESCRIBED, *RESULTS, *COMPARISON, *new) or name in ("checkpoints", "federation"):
            raise InputError(f"{path}: in the way, and not of what is to be replaced; move it, or choose another --out")
    return found


def remove(out: Path, files: Sequence[Path]) -> None:
    """Remove files, and what is empty then of their folders and of a run's; what says whose they are goes last."""
    for path in sorted(files, key=lambda path: LAST.index(path.name) if path.name in LAST else -1):
        path.unlink(missing_ok=True)
    held = {folder for path in files for folder in path.parents if out in folder.parents}
    above = {out} | {path.parent for path in files if path.name == COMPARISON[0]}
    runs = {out} | {path.parent for path in files if path.name == "config.toml" and path.parent.parent in above}
    own = {p for run in runs for p in run.rglob("*") if FOLDERS.fullmatch(p.relative_to(run).as_posix())}
    for folder in sorted(held | own, reverse=True):
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()


def remove_all(out: Path) -> None:
    """Remove what is ours in a folder that we hold, each run and comparison below it while we hold its folder too.

    Where another process is at work in one of them nothing is removed; nobody can begin there before all is gone.
    """
    old = [path for path in listed(out) if path != out / LOCK]
    above = {out} | {path.parent for path in old if path.name == COMPARISON[0]}
    runs = {path.parent for path in old if path.name == "config.toml" and path.parent.parent in above}
    places = sorted((above | runs | {path.parent for path in old if path.name == LOCK}) - {out})
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(hold(place))
        remove(out, [path for path in old if path.name != LOCK])
    for place in reversed(places):
        for folder in (place, *place.parents):
            with suppress(OSError):  # somebody has something there, or has begun there by now
                if out in folder.parents:
                    folder.rmdir()


def clear_unbegun(out: Path) -> None:
    """Remove what was written of a run before its configuration, which comes last, if nothing else is there."""
    there = [path for path in out.rglob("*") if not path.is_dir()] if out.is_dir() else []
    if all(UNBEGUN.fullmatch(path.relative_to(out).as_posix()) for path in there):
        remove(out, there)


def set_aside(out: Path) -> Path:
    """Move a run's checkpoints and results into a folder of their own, so that it can begin anew."""
    before = unused(out / BEFORE)
    before.mkdir()
    mine = [path for path in sorted(out.rglob("*")) if ASIDE.fullmatch(path.relative_to(out).as_posix())]
    for path in mine:
        aside = before / path.relative_to(out)
        aside.parent.mkdir(parents=True, exist_ok=True)
        move(path, aside)
    for folder in sorted({path.parent for path in mine if path.parent != out} | {out / "checkpoints"}, reverse=True):
        with suppress(OSError):  # somebody has put something there
            folder.rmdir()
    return before
