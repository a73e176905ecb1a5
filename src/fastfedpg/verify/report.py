"""The report: all rows decided together, a table for people, verify.json and pictures."""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fastfedpg.columns import Column, lay_out
from fastfedpg.draw.style import files
from fastfedpg.errors import InputError
from fastfedpg.experiment import own_files, run_folder
from fastfedpg.files import SEAL, clear_parts, read_text, write_text
from fastfedpg.precision import float64
from fastfedpg.problems import AnyProblem
from fastfedpg.runtime import Diverged
from fastfedpg.verify import figures
from fastfedpg.verify.agenda import Part, parts
from fastfedpg.verify.claims.floors import TooLong
from fastfedpg.verify.claims.lemmas import Unsettled
from fastfedpg.verify.kept_parts import about_of, code, keep, kept
from fastfedpg.verify.listening import listening
from fastfedpg.verify.options import Show, VerifySettings
from fastfedpg.verify.verdict import FAIL, FAMILY, NOT_APPLICABLE, UNDECIDED, Row, decided, open_question
from fastfedpg.written import sum_of

FILE, PARTS = "verify.json", "parts"
WIDE = 130
"""Columns from which on the table also says what each row compares."""


class Verification(NamedTuple):
    """What was found."""

    rows: list[Row]
    files: list[Path]

    @property
    def good(self) -> bool:
        """Whether no claim failed."""
        return not any(row.verdict == FAIL for row in self.rows)


BROKEN = (
    TooLong,
    Unsettled,
    Diverged,
    InputError,
    MemoryError,
    np.linalg.LinAlgError,
    ArithmeticError,
    jax.errors.JaxRuntimeError,
)


def unseen(part: int, title: str) -> None:
    """Nobody looks."""


def names(out: Path) -> list[Path]:
    """Every file that a report may write."""
    return [out / FILE, *(f for name in figures.NAMES for f in files(out / name))]


def is_there(out: Path) -> bool:
    """Whether a folder has an earlier report."""
    try:
        said = json.loads(read_text(out / FILE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and "rows" in said


def part_files(out: Path) -> list[Path]:
    """Parts of a report that was interrupted, by their names and first words."""
    return [file for file in sorted((out / PARTS).glob("[0-9][0-9].json")) if own_files.begins_with(file, SEAL)]


def _about(settings: VerifySettings, title: str = "") -> dict[str, Any]:
    """What a part must have in common with the report that goes on from it."""
    file = Path((settings.problem or "").partition(":")[0])
    about = {"settings": asdict(settings), "file": sum_of(file) if settings.problem else "", "code": code()}
    found: dict[str, Any] = json.loads(json.dumps({**about, "versions": run_folder.versions(), "part": title}))
    return found


def goes_on(settings: VerifySettings, out: Path) -> bool:
    """Whether a folder has parts of this very report, and of no other."""
    said = [about_of(file) for file in part_files(out)]
    return bool(said) and all(each is not None and {**each, "part": ""} == _about(settings) for each in said)


def forget(out: Path) -> None:
    """Remove the parts of a report that was interrupted; whatever else is in their folder stays."""
    for file in part_files(out):
        file.unlink()
    with suppress(OSError):  # there is none, or somebody keeps something in it
        (out / PARTS).rmdir()


def clear(out: Path) -> None:
    """Remove an earlier report."""
    for file in names(out):
        file.unlink(missing_ok=True)


@float64
def verify(
    settings: VerifySettings,
    out: Path | None = None,
    problem: AnyProblem | None = None,
    work: Sequence[Part] | None = None,
    show: Show = unseen,
    note: Callable[[str], None] = warnings.warn,
) -> Verification:
    """Check every claim, on a problem if one is given or named; verify.json and pictures go to the folder `out`.

    `work` are the parts to do, all of them unless given. Until the report is written, those that are finished are kept
    in the folder, and read where the same report goes on.
    """
    rows: list[Row] = []
    data: dict[str, Any] = {}
    keeping = out is not None and problem is None
    if keeping and out is not None and not goes_on(settings, out):
        forget(out)
    for k, part in enumerate(parts(settings, problem) if work is None else work):
        found, drawn = _kept(k, part, settings, out, show) if keeping and out is not None else done(k, part, show)
        rows += found
        for name, value in drawn.items():
            data[name] = {**data[name], **value} if isinstance(data.get(name), dict) else value
    rows = decided(rows)
    files = [] if out is None else _write(out, settings, rows, data, note)
    if keeping and out is not None:
        forget(out)
    return Verification(rows, files)


def _kept(k: int, part: Part, settings: VerifySettings, out: Path, show: Show) -> tuple[list[Row], dict[str, Any]]:
    """One piece of the work, read if it was done before, and else kept; what could not be checked is tried again."""
    file, about = out / PARTS / f"{k + 1:02}.json", _about(settings, part.title)
    if (before := kept(file, about)) is not None:
        return before
    found, drawn = done(k, part, show)
    if not any(row.verdict == UNDECIDED for row in found):
        file.parent.mkdir(exist_ok=True)
        clear_parts(file.parent)
        keep(file, about, found, drawn)
    return found, drawn


def done(k: int, part: Part, show: Show) -> tuple[list[Row], dict[str, Any]]:
    """One piece of the work; one claim that can't be checked does not take the others with it."""
    show(k, part.title)
    try:
        with listening(lambda words: show(k, f"{part.title}: {words}")):
            found, drawn = part.work()
            return list(found), drawn
    except BROKEN as error:
        return [replace(open_question(part.title, str(error)), problem="not checked")], {}


def _write(
    out: Path, settings: VerifySettings, rows: Sequence[Row], data: dict[str, Any], note: Callable[[str], None]
) -> list[Path]:
    """In the place of an earlier report; without matplotlib there are no pictures, and that is all."""
    clear(out)
    write_text(out / FILE, json.dumps(_plain(settings, rows), indent=2, allow_nan=False) + "\n")
    try:
        return [out / FILE, *figures.draw(out, rows, data)]
    except InputError as error:
        note(f"no pictures: {error}")
        return [out / FILE]


def _plain(settings: VerifySettings, rows: Sequence[Row]) -> dict[str, Any]:
    comparisons = sum(row.comparisons for row in rows)
    return {
        "settings": asdict(settings),
        "versions": run_folder.versions(),
        "family_wise_error": FAMILY,
        "comparisons": comparisons,
        "level_of_each": FAMILY / max(1, comparisons),
        "verdicts": dict(Counter(row.words for row in rows)),
        "rows": [_row(row) for row in rows],
    }


def _row(row: Row) -> dict[str, Any]:
    number = lambda x: None if x is None or not np.isfinite(x) else float(x)
    return {
        "claim": row.claim,
        "problem": row.problem,
        "says": row.says,
        "left": number(row.left),
        "right": number(row.right),
        "tightness": number(row.tightness),
        "verdict": row.verdict,
        "words": row.words,
        "vacuous": row.vacuous,
        "control": row.control,
        "margin_interval": None if row.interval is None else [number(x) for x in row.interval],
        "comparisons": row.comparisons,
        "note": row.note,
    }


def table(rows: Sequence[Row], width: int) -> list[str]:
    """For people, a section for each problem; what each row says in words only where there is room for it."""
    number = lambda x: "" if x is None or not np.isfinite(x) else f"{x:.3g}"
    cells: list[tuple[str, ...]] = []
    for problem in dict.fromkeys(row.problem for row in rows):
        cells += [("",) * 6] * bool(cells) + [(problem, *[""] * 5)]
        for row in (row for row in rows if row.problem == problem):
            numbers = (number(row.left), number(row.right), number(row.tightness))
            cells.append((row.claim, row.says, *numbers, row.words.removesuffix(" at this sample size")))
    heads = ("claim", "left <= right", "left", "right", "right/left", "verdict")
    words = ("claim", "left <= right", "verdict")
    columns = [
        Column(head, list(each), right=head not in words)
        for head, each in zip(heads, zip(*cells, strict=True), strict=True)
    ]
    return lay_out([c for c in columns if width >= WIDE or c.head != "left <= right"], width)


def summary(rows: Sequence[Row]) -> list[str]:
    """The last lines: how many of each, and why some claims do not apply or are open."""
    counts = Counter(row.words for row in rows)
    lines = [", ".join(f"{n} {words}" for words, n in counts.items())]
    for row in rows:
        if row.verdict in (NOT_APPLICABLE, UNDECIDED, FAIL):
            lines.append(f"{row.verdict}: {row.claim} ({row.problem}): {row.note}")
    comparisons = sum(row.comparisons for row in rows)
    lines.append(f"family-wise error {FAMILY:g} over {comparisons} comparisons with noise in them, {len(rows)} rows")
    return lines
