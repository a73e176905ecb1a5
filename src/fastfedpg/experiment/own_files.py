"""Which files in a folder are a run's, a comparison's or a study's own: those alone are ever removed or moved.

They have one of its names, and are what it wrote there: as listed in the folder (`written`), a checkpoint by its seal.
What it makes for itself and adds to is known by its name alone: records, and what is in federation/ and tracking/.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeAlias

from fastfedpg.errors import InputError
from fastfedpg.files import LOCK, SEAL, hold, move, read_text, unused
from fastfedpg.tracking import FILES as TRACKED
from fastfedpg.tracking import FOLDERS as TRACKED_IN
from fastfedpg.written import LIST, entries, sum_of

WRITTEN = "# fastfedpg "
"""How every configuration begins that this package wrote."""

RUNS = "# Its runs: "
PAGE = "report.html"
"""The page that `fastfedpg report` makes of a folder."""

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
_PAGE = re.escape(PAGE)
_GRAPH = r"graph-[0-9a-f]{12}\.np[yz]"
_CHECKPOINT = r"checkpoints/\d+(-refused(-\d+)?)?"
_CHECKPOINTS = rf"checkpoints/records\.bin|{_CHECKPOINT}/(state\.safetensors|checkpoint\.toml)"
_AUDIT = r"audit\.jsonl(\.\d+)?"
_AGENT = rf"agents/\d+/(secret|node|index\.json|{_AUDIT}|key(\.pub)?|\.lock|[0-9a-f]{{32}}\.safetensors)"
_KEYS = r"keys/(ca\.crt|ca\.key|server\.pem|server\.key|superlink\.secret|agent-\d+(\.pub)?)"
_LOGS = r"logs/(superlink|proxy|agent-\d+|node-\d+)\.log"
_APP = r"app|apps/fastfedpg\.fastfedpg-carrier\.[\w.]+"
_FLOWER = rf"flower(-\d+)?/(source|config\.toml|({_APP})/pyproject\.toml)"
_DEPLOYED = rf"federation\.toml|log\.txt|status\.json|{_AUDIT}|superlink\.db(-\w+)?|{_AGENT}|{_KEYS}|{_LOGS}|{_FLOWER}"
_FEDERATION = rf"federation/({_DEPLOYED}|(agents/\d+/|keys/)?\.part-\d+-[^/]*)"
_BEFORE = rf"{BEFORE}(-\d+)?/({_names(RESULTS)}|{_PAGE}|{_CHECKPOINTS}|{TRACKED})"
_PARTS = r"(checkpoints/)?\.part-\d+-.*"
_LIST = re.escape(LIST)
_SAID = rf"{_names(DESCRIBED[1:])}|{_GRAPH}"
RUN = re.compile(
    rf"config\.toml|{_SAID}|{_names(RESULTS)}|{_PAGE}|\.lock|{_LIST}|{_CHECKPOINTS}|{_FEDERATION}|{_BEFORE}|{TRACKED}|{_PARTS}"
)
"""A run's files, by their paths in its folder."""

ASIDE = re.compile(rf"{_names(RESULTS)}|{_PAGE}|{_CHECKPOINTS}|{TRACKED}")
"""Those that stand in the way of a run that begins anew."""

COMPARED = re.compile(rf"{_names(COMPARISON)}|{_PAGE}|({_names(PICTURES)})\.(png|svg)|{_SAID}|\.lock|{_LIST}|{_PARTS}")
"""A comparison's files, but for its runs."""

STUDIED = re.compile(rf"{_names(STUDY)}|{_PAGE}|({_names(DRAWN)})\.(png|svg)|\.lock|{_LIST}|{_PARTS}")
"""A study's files, but for its comparisons."""

LEFT = re.compile(rf"\.lock|([^/]+/){{0,2}}{_LIST}|{_PARTS}")
"""What a process leaves that was killed before it wrote anything, or after it had removed everything else."""

_INSIDE = rf"agents(/\d+)?|keys|logs|flower(-\d+)?(/(apps|{_APP}))?"
FOLDERS = re.compile(
    rf"({BEFORE}(-\d+)?/)?(checkpoints|{_CHECKPOINT}|{TRACKED_IN})|{BEFORE}(-\d+)?|federation(/({_INSIDE}))?|{_PARTS}"
)
"""A run's folders: a process that was killed may leave one without a file in it."""

LAST = "checkpoint.toml", "config.toml", "compared.toml", "compare.toml", "study.toml", LIST
"""Files that say what a folder is, from the innermost on, and after them the lists."""

GROWING = re.compile(rf"\.lock|({BEFORE}(-\d+)?/)?(checkpoints/records\.bin|{TRACKED})|{_FEDERATION}|{_PARTS}")
"""What is added to, or written by other programs: no sum can be said before."""

UNBEGUN = re.compile(rf"{_SAID}|\.lock|{_LIST}|{_PARTS}")
"""What a run writes before it has begun."""


def begins_with(path: Path, words: str) -> bool:
    """Whether a text begins so."""
    try:
        return path.is_file() and read_text(path).lstrip("\n").startswith(words)
    except (OSError, ValueError):
        return False


def is_ours(path: Path) -> bool:
    """Whether a configuration was written by this package."""
    return begins_with(path, WRITTEN)


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


def is_written(home: Path, path: Path) -> bool:
    """Whether a file with a name of ours is what was written in the folder `home` under it.

    Where no list is kept, as older versions kept none, the name is all.
    """
    try:
        known = entries(read_text(home / LIST, errors="replace"))
    except IsADirectoryError:
        raise InputError(f"{home / LIST}: a folder where the list of what was written there belongs; move it") from None
    except OSError:
        known = None
    name = path.relative_to(home).as_posix()
    if name == LIST:
        return known is not None
    if known is None or GROWING.fullmatch(name):
        return True
    if path.name in ("checkpoint.toml", "state.safetensors"):
        return begins_with(path.parent / "checkpoint.toml", SEAL)
    return (sum_of(path), path.name) in known


Owns: TypeAlias = Callable[[str], str | None]
"""Whose a path in a folder is: the path of the run's or comparison's own folder in it; None if nobody's."""


def _of_comparison(out: Path) -> Owns | None:
    """Which paths in a folder are those of the comparison in it; None where there is none."""
    if not any(is_ours(out / name) for name in COMPARISON[:2]):
        return None
    cells = [label for label in named_runs(out / COMPARISON[0]) if is_ours(out / label / "config.toml")]

    def owns(name: str) -> str | None:
        cell, _, rest = name.partition("/")
        return "" if COMPARED.fullmatch(name) else cell if cell in cells and RUN.fullmatch(rest) else None

    return owns


def _of_study(out: Path) -> Owns | None:
    """Which paths in a folder are those of the study in it; None where there is none."""
    if not is_ours(out / STUDY[0]):
        return None
    members = {label: of for label in named_runs(out / STUDY[0]) if (of := _of_comparison(out / label)) is not None}

    def owns(name: str) -> str | None:
        member, _, rest = name.partition("/")
        below = members[member](rest) if member in members else None
        return "" if STUDIED.fullmatch(name) else None if below is None else f"{member}/{below}"

    return owns


def _of_run(out: Path) -> Owns | None:
    return (lambda name: "" if RUN.fullmatch(name) else None) if is_ours(out / "config.toml") else None


def listed(out: Path, new: Sequence[str] = ()) -> list[Path]:
    """All files of the run, comparison or study in a folder, and none else; where there is none, that is refused.

    So is what is not theirs and stands where one of theirs belongs, or in the folder of a `new` run.
    """
    files = (path for path in out.rglob("*") if path.is_symlink() or not path.is_dir())
    there = sorted(files, key=lambda path: (path.name == LIST, path))  # which nobody sees: others are named before it
    if all(LEFT.fullmatch(path.relative_to(out).as_posix()) and is_written(path.parent, path) for path in there):
        return there
    owners = [owns for of in (_of_run, _of_comparison, _of_study) if (owns := of(out)) is not None]
    found = []
    if not owners:
        raise InputError(f"{out}: neither a run nor a comparison, so nothing in it is replaced; choose another --out")
    for path in there:
        name = path.relative_to(out).as_posix()
        first = name.partition("/")[0]
        home = next((mine for owns in owners if (mine := owns(name)) is not None), None)
        if home is not None:
            if not is_written(out / home, path):
                raise InputError(
                    f"{path}: not what was written there, but changed since, or somebody else's, so nothing is "
                    "replaced; move it, or choose another --out"
                )
            found.append(path)
        elif first in (*DESCRIBED, *RESULTS, *COMPARISON, *new) or name in ("checkpoints", "federation"):
            raise InputError(f"{path}: in the way, and not of what is to be replaced; move it, or choose another --out")
    return found


def changed_results(out: Path, aside: bool = False) -> list[Path]:
    """What has the name of a result and is not what was written there; `aside`: and can't be put aside, as a folder."""
    found = []
    for path in (out / name for name in RESULTS):
        folder = path.is_dir() and not path.is_symlink()
        if folder or (not aside and (path.is_symlink() or path.exists()) and not is_written(out, path)):
            found.append(path)
    return found


def check_results(out: Path, aside: bool = False) -> None:
    """Refuse to go on with a run where a file of somebody else's has the name of a result: it would be written over."""
    for path in changed_results(out, aside):
        raise InputError(
            f"{path}: not what was written there, but changed since, or somebody else's, and a result is to have "
            "its name; move it, then resume; nothing was changed"
        )


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
