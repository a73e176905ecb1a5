"""`fastfedpg runs`: the runs below a folder."""

from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from fastfedpg.cli.consoles import room
from fastfedpg.cli.parse_flags import own_flags
from fastfedpg.columns import Column, lay_out, least
from fastfedpg.errors import printable
from fastfedpg.experiment import run_index
from fastfedpg.experiment.run_index import Entry

EXAMPLE = "fastfedpg runs --algorithm 'fast*' --sort gap"


@dataclass(frozen=True)
class RunsFlags:
    """List the runs below a folder: what each ran, how far it came, and how it ended."""

    folder: tyro.conf.Positional[Path] = Path("runs")
    """Where to look."""
    problem: str = "*"
    """Only this problem; * and ? stand for any letters."""
    algorithm: str = "*"
    """Only this algorithm; * and ? stand for any letters."""
    state: Literal["any", "finished", "running", "interrupted", "failed"] = "any"
    """Only runs in this state; a run that was killed is interrupted."""
    sort: Literal["folder", "problem", "algorithm", "gap", "return", "state", "time"] = "folder"
    """Sort by this; the smallest gap, the largest return and the latest time come first."""
    reverse: bool = False
    """The other way round."""


KEYS: dict[str, Any] = {
    "folder": lambda e: str(e.folder),
    "problem": lambda e: e.problem,
    "algorithm": lambda e: e.algorithm,
    "gap": lambda e: (e.gap is None, e.gap),
    "return": lambda e: (e.returned is None, -(e.returned or 0.0)),
    "state": lambda e: run_index.STATES.index(e.state),
    "time": lambda e: -e.when,
}


def runs(arguments: list[str], console: Console, errors: Console) -> int:
    """List the runs below a folder, with their problem, algorithm, gap and state."""
    asked = own_flags(RunsFlags, "fastfedpg runs", arguments, EXAMPLE)
    entries = list(run_index.find(asked.folder))
    chosen = [
        e
        for e in entries
        if fnmatch(e.problem, asked.problem)
        and fnmatch(e.algorithm, asked.algorithm)
        and asked.state in ("any", e.state)
    ]
    chosen.sort(key=KEYS[asked.sort], reverse=asked.reverse)
    if chosen:
        _print(chosen, console)
    hidden = f" of {len(entries)}" if len(chosen) < len(entries) else ""
    count = "1 run" if len(chosen) == 1 and not hidden else f"{len(chosen)}{hidden} runs"
    console.print(f"{count} below {printable(asked.folder)}", highlight=False, soft_wrap=True, markup=False)
    for each in run_index.studies(asked.folder):
        go_on = f"; fastfedpg resume {each.folder} goes on" if each.state == "interrupted" else ""
        words = f"study {each.folder}: {each.state}, {each.there} are there{go_on}"
        console.print(printable(words), highlight=False, soft_wrap=True, markup=False)
    if any(e.state == "interrupted" for e in chosen):
        console.print("fastfedpg resume FOLDER goes on with one that was interrupted", highlight=False, markup=False)
    return 0


def _print(entries: list[Entry], console: Console) -> None:
    """Plain columns, which other programs can read; where a terminal is too narrow for them, a few lines for each."""
    played = any(e.gap is None and e.returned is not None for e in entries)
    values = [*["mean return"] * played, *["mean gap"] * (not played or any(e.gap is not None for e in entries))]
    heads = ["problem", "algorithm", "eta", "seeds", "rounds", *values, "state", "last change", "folder"]
    rows = [_cells(e) for e in entries]
    cells = [[row[name] for name in heads] for row in rows]
    columns = [
        Column(name, list(each), whole=True, right=name in RIGHT)
        for name, each in zip(heads, zip(*cells, strict=True), strict=True)
    ]
    if least(columns) > room(console):
        return _blocks(heads, cells, console)
    head, _, *lines = lay_out(columns, 0)
    for line, style in ((head, "bold"), *((line, "") for line in lines)):
        console.print(line, highlight=False, soft_wrap=True, markup=False, style=style)
    return None


RIGHT = ("eta", "seeds", "rounds", "mean gap", "mean return")


def _blocks(heads: list[str], rows: list[list[str]], console: Console) -> None:
    """The folder, and what there is to say of its run, broken between one thing and the next."""
    for *cells, folder in ([*map(printable, row)] for row in rows):
        console.print(folder, highlight=False, soft_wrap=True, markup=False, style="bold")
        said = [f"{name} {cell}" for name, cell in zip(heads, cells, strict=False) if cell]
        line = ""
        for words in said:
            if line and len(line) + 2 + len(words) > console.width - 2:
                console.print(f"  {line}", highlight=False, soft_wrap=True, markup=False)
                line = ""
            line = f"{line}, {words}" if line else words
        console.print(f"  {line}", highlight=False, soft_wrap=True, markup=False)


def _cells(e: Entry) -> dict[str, str]:
    number = lambda x: "" if x is None else f"{x:.4g}"
    return {
        "problem": e.problem,
        "algorithm": e.algorithm,
        "eta": "–" if e.eta != e.eta else f"{e.eta:g}",
        "seeds": str(e.seeds),
        "rounds": f"{e.done:,}" if e.done == e.rounds else f"{e.done:,} of {e.rounds:,}",
        "mean gap": number(e.gap),
        "mean return": number(e.returned),
        "state": f"{e.state}: {e.why}" if e.why else e.state,
        "last change": datetime.fromtimestamp(e.when).strftime("%Y-%m-%d %H:%M"),
        "folder": str(e.folder),
    }
