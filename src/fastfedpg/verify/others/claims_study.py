"""`fastfedpg study claims`: every statement measured, part by part into a folder, and all decided together."""

import csv
import io
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from fastfedpg.columns import Column, lay_out
from fastfedpg.errors import InputError
from fastfedpg.experiment import own_files, run_folder
from fastfedpg.files import clear_parts, hold, is_sealed, read_text, seal, write_text
from fastfedpg.precision import float64
from fastfedpg.verify.agenda import Part
from fastfedpg.verify.kept_parts import keep, kept
from fastfedpg.verify.options import Show
from fastfedpg.verify.others.statements import STATEMENTS, parts, sizes
from fastfedpg.verify.report import Verification, done, unseen
from fastfedpg.verify.verdict import UNDECIDED, Row, decided

FILE, TABLE, PARTS = own_files.CLAIMS, own_files.CLAIMS_TABLE, "parts"


class Claims(NamedTuple):
    """What a study is asked: in full, or quickly."""

    quick: bool


def part_files(out: Path, n: int) -> list[Path]:
    """Where each part's rows are kept."""
    return [out / PARTS / f"{k + 1:02}.json" for k in range(n)]


def begin(asked: Claims, out: Path, overwrite: bool = False, show: Show = unseen) -> Verification:
    """All of it, in a new folder; with `overwrite` in the place of an earlier one."""
    if not run_folder.check_place(out, overwrite) and not own_files.is_ours(out / FILE):
        raise InputError(f"{out}: no study of claims, so nothing in it is replaced; choose another --out")
    with run_folder.open_folder(out, lambda: _clear(out), lambda: _describe(out, asked)):
        return _finish(asked, out, parts(asked.quick), show)


def resume(out: Path, show: Show = unseen) -> Verification:
    """Go on: parts that are there are only read."""
    asked = read(out)
    with hold(out):
        clear_parts(out)
        return _finish(asked, out, parts(asked.quick), show)


def read(out: Path) -> Claims:
    """What the study in a folder was asked."""
    text = read_text(out / FILE)
    if not is_sealed(text):
        raise InputError(f"{out / FILE}: not as it was written; begin another study: fastfedpg study claims")
    return Claims(bool(tomllib.loads(text)["quick"]))


def words_of(out: Path) -> str:
    """What a folder holds of a study, and how to go on with it."""
    if not (out / FILE).exists():
        return f"kept in {out}: nothing"
    n = len(parts(read(out).quick))
    there = sum(file.is_file() for file in part_files(out, n))
    return f"kept in {out}: {there} of {n} parts; fastfedpg resume {out} goes on"


def _clear(out: Path) -> None:
    clear_parts(out)
    for file in [*out.glob(own_files.CLAIMED), out / TABLE, out / FILE]:
        file.unlink(missing_ok=True)


def _describe(out: Path, asked: Claims) -> None:
    write_text(
        out / FILE, f"# {run_folder.versions()}\n" + seal(tomli_w.dumps({"study": "claims", "quick": asked.quick}))
    )


@float64
def _finish(asked: Claims, out: Path, work: Sequence[Part], show: Show) -> Verification:
    (out / PARTS).mkdir(exist_ok=True)
    clear_parts(out / PARTS)
    rows: list[Row] = []
    for k, (part, file) in enumerate(zip(work, part_files(out, len(work)), strict=True)):
        about = {"part": part.title, "sizes": str(sizes(asked.quick)), "versions": run_folder.versions()}
        found = kept(file, about)
        if found is None:
            found = done(k, part, show)
            if not any(row.verdict == UNDECIDED for row in found[0]):  # what could not be checked is tried again
                keep(file, about, found[0])
        rows += found[0]
    rows = in_order(decided(rows))
    write_text(out / TABLE, as_csv(rows))
    return Verification(rows, [out / TABLE])


def in_order(rows: Sequence[Row]) -> list[Row]:
    """By statement, as the paper's are numbered; what could not be checked comes last."""
    titles = [statement.title for statement in STATEMENTS]
    return sorted(rows, key=lambda row: titles.index(row.problem) if row.problem in titles else len(titles))


def as_csv(rows: Sequence[Row]) -> str:
    """A line for each row, with its statement."""
    text, known = io.StringIO(), {statement.title: statement for statement in STATEMENTS}
    number = lambda x: "" if x is None or not np.isfinite(x) else repr(float(x))
    lines = []
    for row in rows:
        said, found, (low, high) = known.get(row.problem), row.measured, row.quoted or (None, None)
        line: dict[str, Any] = {"statement": row.problem, "paper": said.says if said else ""}
        line |= {"where": said.where if said else "", "about": said.about if said else ""}
        line |= {"row": row.claim, "asks": row.says, "measured": number(found.value if found else None)}
        line |= {"low": number(low), "high": number(high), "comparisons": row.comparisons}
        lines.append(line | {"verdict": row.words, "note": row.note})
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def table(rows: Sequence[Row], width: int) -> list[str]:
    """For people, a section for each statement: what was measured, its interval, and the verdict."""
    cells: list[tuple[str, ...]] = []
    for title in dict.fromkeys(row.problem for row in rows):
        cells += [("",) * 4] * bool(cells) + [(title, "", "", "")]
        cells += [
            (f"  {row.claim}", *_numbers(row), row.words.removesuffix(" at this sample size"))
            for row in rows
            if row.problem == title
        ]
    heads = ("statement", "measured", "interval", "verdict")
    columns = zip(heads, zip(*cells, strict=True), strict=True)
    return lay_out([Column(head, list(each), right=head == "measured") for head, each in columns], width)


def _numbers(row: Row) -> tuple[str, str]:
    found = row.measured
    if found is None or row.quoted is None:
        return "", ""
    low, high = row.quoted
    if found.of:
        return f"{round(found.value * found.of)} of {found.of}", f"{low:.2g} to {high:.2g} of all"
    if found.exact:
        return f"{found.value:.3g}", f"exact, to {found.slack:.0e}"
    return f"{found.value:.3f}", f"{low:.3f} to {high:.3f}"
