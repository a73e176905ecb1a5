"""The part of a page that is about a study: its tables as its folder holds them, and every comparison, shortly."""

import csv
import io
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fastfedpg.comparison import printed, stored_table
from fastfedpg.comparison.presented import TABLE
from fastfedpg.experiment import own_files
from fastfedpg.experiment.clock import Clock
from fastfedpg.files import is_held, read_text
from fastfedpg.pages import comparison_part, sections, study_charts
from fastfedpg.pages.blocks import Block, Part, Section, Table, Words

FILE, STUDY, SCORES, SERIES, PHASES = own_files.STUDY
POINTS = 80
"""Of a curve of one comparison among many."""
PICTURES = [f"{name}.{kind}" for name in own_files.DRAWN for kind in ("png", "svg")]

Rows: TypeAlias = Sequence[Mapping[str, str]]


def is_stored(folder: Path) -> bool:
    """Whether a folder holds a study's tables, without the file that says how to repeat it."""
    return (folder / STUDY).is_file() and any((folder / name).is_file() for name in (SCORES, SERIES, PHASES))


def part(folder: Path, clock: Clock | None, longest: float, say: sections.Say) -> Part:
    """All about a study."""
    said, rows = _toml(folder / FILE), read(folder / STUDY)
    kind = next((name for name in (SCORES, SERIES, PHASES) if (folder / name).is_file()), "")
    name = str(said.get("name", folder.name))
    labels = _labels(folder)
    done = [label for label in labels if (folder / label / TABLE).is_file()]
    tell: Callable[..., tuple[str, str, list[Section]]] = KINDS.get(kind, _unfinished)
    question, verdict, shown = tell(folder, rows, said) if rows else _unfinished(folder, rows, said)
    state = "finished" if rows else "running" if is_held(folder) else "interrupted"
    if not rows:
        verdict = f"The study is {state}: {len(done)} of {len(labels)} comparisons have finished."
    members = [section for label in labels for section in _member(folder / label, label, say)]
    body = [
        *shown,
        *members,
        *sections.files(folder, [*PICTURES, STUDY, SCORES, SERIES, PHASES]),
        *sections.repeat(folder, FILE, _command(folder), ""),
    ]
    return Part(f"study {name}", str(folder), question, verdict, body, state)


def _command(folder: Path) -> str:
    return f"fastfedpg study {shlex.quote(str(folder / FILE))} --out ANOTHER_FOLDER"


def _labels(folder: Path) -> list[str]:
    named = own_files.named_runs(folder / FILE) if (folder / FILE).is_file() else []
    there = [path.parent.name for path in sorted(folder.glob("*/compare.toml"))]
    return named or there


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}


def read(path: Path) -> Rows:
    """The rows of a table; none where there is no such file."""
    try:
        return list(csv.DictReader(io.StringIO(read_text(path))))
    except (OSError, ValueError, csv.Error):
        return []


def number(row: Mapping[str, str], name: str) -> float:
    """What stands in a column; NaN where nothing does."""
    try:
        return float(row.get(name) or "nan")
    except ValueError:
        return float("nan")


def told(row: Mapping[str, str], name: str) -> str:
    """A number with the ends of its interval."""
    value, low, high = (number(row, f"{name}{end}") for end in ("", "_low", "_high"))
    if not np.isfinite(value):
        return "–"
    return f"{value:.4g}" + (f" ({low:.4g} to {high:.4g})" if np.isfinite(low) and np.isfinite(high) else "")


def _member(folder: Path, label: str, say: sections.Say) -> list[Section]:
    """One comparison: its table, and its curves in few points."""
    blocks: list[Block] = []
    try:
        runs = [run for run in comparison_part.cells(folder, say, POINTS) if run.recorded is not None]
    except ValueError as error:
        return [Section(label, [Words([str(error)])], True)]
    if (folder / TABLE).is_file():
        lines = stored_table.read(folder / TABLE)
        shared = comparison_part.is_shared(runs, lines)
        played = any(run.recorded is not None and run.recorded.leading == "return_mean" for run in runs)
        said = printed.quantities(lines, shared, played)
        blocks.append(Table(["", *(line.label for line in lines)], [[q.label, *q.cells] for q in said]))
    if runs:
        blocks.append(study_charts.member(runs))
    if blocks:
        blocks.append(Words([f"fastfedpg report {shlex.quote(str(folder))} tells all of it."]))
    return [Section(label, blocks, True)] if blocks else []


def _unfinished(folder: Path, rows: Rows, said: Mapping[str, Any]) -> tuple[str, str, list[Section]]:
    return "What do comparisons that belong together say together?", "", []


def _suite(folder: Path, rows: Rows, said: Mapping[str, Any]) -> tuple[str, str, list[Section]]:
    scores = read(folder / SCORES)
    problems = list(dict.fromkeys(row["problem"] for row in scores))
    best = max(rows, key=lambda row: number(row, "score"))
    most = max(rows, key=lambda row: number(row, "best_or_tied"))
    verdict = (
        f"{best['label']} has the highest score, {told(best, 'score')}; {most['label']} is the best, or not worse than "
        f"the best, on {most['best_or_tied']} of {len(problems)} problems. "
    )
    beside = [f"{row['label']} {row['verdict']}" for row in rows if row.get("verdict")]
    verdict += f"Beside {rows[0]['label']}, over all: {'; '.join(beside)}."
    table = Table(
        ["method", "score", f"minus {rows[0]['label']}", "verdict", "chance of a better score", "best or tied"],
        [
            [r["label"], told(r, "score"), told(r, "minus"), r["verdict"], told(r, "chance"), r["best_or_tied"]]
            for r in rows
        ],
    )
    shown = [
        Section("Over all problems", [table, study_charts.scores(rows)]),
        Section("On each problem", [study_charts.problems(scores, [row["label"] for row in rows])]),
    ]
    return "Which method does well on many problems?", verdict, shown


def _series(folder: Path, rows: Rows, said: Mapping[str, Any]) -> tuple[str, str, list[Section]]:
    setting = rows[0]["setting"]
    points = [row for row in rows if row.get("value")]
    known = said.get("vary", {}).get("label", setting) if isinstance(said.get("vary"), dict) else setting
    values = list(dict.fromkeys(row["x"] for row in points))
    methods = list(dict.fromkeys(row["label"] for row in points))
    tied = {m: sum(row["label"] == m and row["best_or_tied"] == "True" for row in points) for m in methods}
    most = max(tied, key=lambda m: tied[m])
    verdict = f"{most} is the best, or not worse than the best, at {tied[most]} of {len(values)} values of {known}. "
    beside = {m: [row["x"] for row in points if row["label"] == m and row["verdict"] == "worse"] for m in methods}
    worse = [f"{m} at {', '.join(xs)}" for m, xs in beside.items() if xs]
    verdict += (
        f"Worse than {methods[0]}: {'; '.join(worse)}." if worse else f"None is worse than {methods[0]} anywhere."
    )
    table = Table(
        [str(known), "method", "step size", "value in the end", f"beside {methods[0]}", "best or tied"],
        [[r["x"], r["label"], r["eta"], told(r, "value"), r["verdict"], _yes(r)] for r in points],
    )
    metric = "gap" if points[0]["metric"] == "gap" else "J"
    shown = [
        Section("At every value", [study_charts.series(points, str(known), f"{metric} in the end")]),
        Section("Table", [table], True),
    ]
    return f"What does {known} do to what the methods come to?", verdict, shown


def _phases(folder: Path, rows: Rows, said: Mapping[str, Any]) -> tuple[str, str, list[Section]]:
    cells = read(folder / PHASES)
    x, y = list(cells[0])[:2]
    methods = list(dict.fromkeys(row["label"] for row in rows))
    tied = {m: sum(m in row["best_or_tied"].split() for row in cells) for m in methods}
    most = max(tied, key=lambda m: tied[m])
    first = {m: sum(row["best"] == m for row in cells) for m in methods}
    verdict = f"{most} is the best, or not worse than the best, at {tied[most]} of {len(cells)} pairs of values."
    table = Table(
        [x, y, "zeta²", "sigma²", "best", "best or tied"],
        [[r[x], r[y], told(r, "zeta_sq"), told(r, "sigma_sq"), r["best"], r["best_or_tied"]] for r in cells],
    )
    counts = Table(
        ["method", "best", "best or tied", "worse"],
        [[m, str(first[m]), str(tied[m]), str(len(cells) - tied[m])] for m in methods],
    )
    chart = study_charts.phases(cells, methods, x, y)
    shown = [Section("At every pair", [chart, counts]), Section("Table", [table], True)]
    return f"Which method is the best at which {x.rpartition('.')[2]} and {y.rpartition('.')[2]}?", verdict, shown


def _yes(row: Mapping[str, str]) -> str:
    return "yes" if row["best_or_tied"] == "True" else "no"


KINDS = {SCORES: _suite, SERIES: _series, PHASES: _phases}
