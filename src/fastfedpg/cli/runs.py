"""`fastfedpg runs`: the runs below a folder."""

from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from fastfedpg.experiment import run_index
from fastfedpg.experiment.run_index import Entry


@dataclass(frozen=True)
class Runs:
    """List the runs below a folder: what each ran, how far it came, and how it ended."""

    folder: tyro.conf.Positional[Path] = Path("runs")
    """Where to look."""
    problem: str = "*"
    """Only this problem; * and ? stand for any letters."""
    algorithm: str = "*"
    """Only this algorithm; * and ? stand for any letters."""
    state: Literal["any", "finished", "running", "interrupted", "failed"] = "any"
    """Only runs in this state; a run that was killed is interrupted."""
    sort: Literal["folder", "problem", "algorithm", "gap", "state", "time"] = "folder"
    """Sort by this; the smallest gap and the latest time come first."""
    reverse: bool = False
    """The other way round."""


KEYS: dict[str, Any] = {
    "folder": lambda e: str(e.folder),
    "problem": lambda e: e.problem,
    "algorithm": lambda e: e.algorithm,
    "gap": lambda e: (e.gap is None, e.gap),
    "state": lambda e: run_index.STATES.index(e.state),
    "time": lambda e: -e.when,
}


def runs(arguments: list[str], console: Console, errors: Console) -> int:
    """List the runs below a folder, with their problem, algorithm, gap and state."""
    asked = tyro.cli(Runs, prog="fastfedpg runs", args=arguments, console_outputs=True)
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
    console.print(f"{count} below {asked.folder}", highlight=False, soft_wrap=True, markup=False)
    if any(e.state == "interrupted" for e in chosen):
        console.print("fastfedpg resume FOLDER goes on with one that was interrupted", highlight=False, markup=False)
    return 0


def _print(entries: list[Entry], console: Console) -> None:
    """Plain columns, never cut: a narrow terminal wraps them, and other programs can read them."""
    heads = ("problem", "algorithm", "eta", "seeds", "rounds", "gap", "state", "last change", "folder")
    rows = [heads, *(_cells(e) for e in entries)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads) - 1)]
    for n, row in enumerate(rows):
        fit = [f"{x:>{w}}" if 2 <= k <= 5 else f"{x:<{w}}" for k, (x, w) in enumerate(zip(row, widths, strict=False))]
        style = "bold" if n == 0 else ""
        console.print("  ".join([*fit, row[-1]]), highlight=False, soft_wrap=True, markup=False, style=style)


def _cells(e: Entry) -> tuple[str, ...]:
    return (
        e.problem,
        e.algorithm,
        f"{e.eta:g}",
        str(e.seeds),
        f"{e.done:,}" if e.done == e.rounds else f"{e.done:,} of {e.rounds:,}",
        "" if e.gap is None else f"{e.gap:.4g}",
        f"{e.state}: {e.why}" if e.why else e.state,
        datetime.fromtimestamp(e.when).strftime("%Y-%m-%d %H:%M"),
        str(e.folder),
    )
