"""The part of a page that is about a comparison, of which some runs may still be missing."""

import csv
import io
import math
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.comparison import printed, run_cells, stored_table, table
from fastfedpg.comparison.presented import TABLE
from fastfedpg.comparison.table import Line
from fastfedpg.draw.sensitivity import Tried
from fastfedpg.errors import InputError
from fastfedpg.experiment.clock import Clock
from fastfedpg.files import is_held, read_text
from fastfedpg.pages import look_up, recorded, run_part, sections, step_size_chart
from fastfedpg.pages.blocks import Block, Part, Section, Words
from fastfedpg.pages.blocks import Table as Rows
from fastfedpg.pages.look_up import Costs
from fastfedpg.pages.recorded import Told
from fastfedpg.precision import float64

RUNS = "compared.toml"
PICTURES = [f"{name}.{kind}" for name in ("curves", "sensitivity", "policies", "agents") for kind in ("png", "svg")]
TWINS = (*PICTURES, "table.csv", "tune.csv", "repeats.csv")


@float64
def part(folder: Path, clock: Clock | None, longest: float, say: sections.Say) -> Part:
    """All about a comparison."""
    runs = [told for told in cells(folder, say) if told.recorded is not None]
    lines = stored_table.read(folder / TABLE) if (folder / TABLE).is_file() else []
    known = [look_up.planned(told) for told in runs]
    plan, why = known[0] if known else (None, "")
    costs = _costs(lines) if clock is None else {}
    for told, (found, _) in zip(runs, known, strict=True):
        costs.setdefault(told.label, look_up.costs_of(found, clock))
    body = [
        Section("Table", _tables(runs, lines)),
        *sections.lacking(why),
        *sections.curves(runs, costs),
        *step_sizes(folder, lines, runs),
        *run_part.policies([(told, found) for told, (found, _) in zip(runs, known, strict=True)], longest, say),
        *sections.agents(runs, plan),
        *sections.films([folder, *(told.folder for told in runs)]),
        *sections.files(folder, TWINS),
        *sections.repeat(folder, _file(folder), _command(folder), ""),
    ]
    names = ", ".join(line.label for line in lines) or ", ".join(told.label for told in runs) or folder.name
    on = f" on {runs[0].problem}" if runs else ""
    state = "finished" if lines else "running" if is_held(folder) else "interrupted"
    return Part(f"{names}{on}", str(folder), question(folder, runs), verdict(lines, runs, state), body, state)


def _file(folder: Path) -> str:
    return run_cells.FILE if (folder / run_cells.FILE).is_file() else RUNS


def _command(folder: Path) -> str:
    if _file(folder) == run_cells.FILE:
        return f"fastfedpg compare --config {shlex.quote(str(folder / run_cells.FILE))} --out ANOTHER_FOLDER"
    return f"fastfedpg compare {' '.join(map(shlex.quote, _named(folder)))} --out ANOTHER_FOLDER"


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}


def _named(folder: Path) -> list[str]:
    """The runs that `fastfedpg compare RUN…` was given."""
    found = _toml(folder / RUNS).get("runs", [])
    return [str(each) for each in found] if isinstance(found, list) else []


def cells(folder: Path, say: sections.Say, points: int = recorded.POINTS) -> list[Told]:
    """The runs of a comparison, as far as they have begun; of runs elsewhere, those that are still there."""
    if (folder / run_cells.FILE).is_file():
        return [recorded.read(cell, cell.name, points) for cell in run_cells.cells_in(folder)]
    labels = [line.label for line in stored_table.read(folder / TABLE)] if (folder / TABLE).is_file() else []
    found = []
    for name, label in zip(_named(folder), labels, strict=False):
        if (Path(name) / "config.toml").is_file():
            found.append(recorded.read(Path(name), label, points))
        else:
            say(f"{name}: the run is not there (any more); only its line in the table is shown")
    return found


def _costs(lines: Sequence[Line]) -> dict[str, Costs]:
    """By the table: what all rounds came to, shared out."""
    each = lambda line: Costs(line.samples / line.rounds, line.unit, line.simulated_seconds / line.rounds)
    return {line.label: each(line) for line in lines if line.rounds}


def question(folder: Path, runs: Sequence[Told]) -> str:
    """What a comparison asks."""
    said = _toml(folder / run_cells.FILE)
    budget = {"samples": "samples", "rounds": "rounds", "bytes": "bytes", "clock": "simulated seconds"}
    alike = budget.get(str(said.get("budget", "samples")), "the same budget") if said else ""
    what = f" if all spend as many {alike}" if alike else ""
    tuned = ", each at its best step size" if said.get("tune") else ""
    if runs and runs[0].recorded is not None and runs[0].recorded.leading == "gap":
        return f"Which method comes nearest to the best common policy of {runs[0].problem}{what}{tuned}?"
    on = f" on {runs[0].problem}" if runs else ""
    return f"Which method does best{on}{what}{tuned}?"


def verdict(lines: Sequence[Line], runs: Sequence[Told], state: str) -> str:
    """The answer: how every method differs from the first."""
    if not lines:
        done = sum(told.state == "finished" for told in runs)
        return f"The comparison is {state}: of its runs {len(runs)} have begun and {done} have finished."
    first = table.reference(lines)
    said = [f"{line.label} is {_beside(line, first)}" for line in lines if line.difference]
    best = min(lines, key=lambda line: float(np.nan_to_num(line.value.mean, nan=math.inf)))
    least = f"{best.label} has the least in the table, {printed.number(best.value.mean)}"
    few = f"{first.seeds} seed{'s' * (first.seeds > 1)}"
    return f"Beside {first.label}: {'; '.join(said)}. {least} ({few})." if said else f"{least} ({few})."


def _beside(line: Line, first: Line) -> str:
    d = line.difference
    assert d is not None
    if d.log:
        amount = f"{printed.number(d.interval.mean)} times its gap"
    else:
        amount = f"{printed.number(d.interval.mean, '+')} beside it"
    wide = d.interval.low < d.interval.high  # where there is no noise it is a point
    between = printed.ends(d.interval, "" if d.log else "+") if wide else "–"
    return f"{d.verdict} ({amount}{'' if between == '–' else f', {between}'})"


def _tables(runs: Sequence[Told], lines: Sequence[Line]) -> list[Block]:
    if not lines:
        rows = [[told.label, told.state, f"{told.done:,} of {told.asked:,}", _now(told)] for told in runs]
        return [Rows(["run", "state", "rounds", "so far"], rows)]
    shared = is_shared(runs, lines)
    played = any(told.recorded is not None and told.recorded.leading == "return_mean" for told in runs)
    said = printed.quantities(lines, shared, played)
    heads = ["", *(line.label for line in lines)]
    return [Rows(heads, [[q.label, *q.cells] for q in said]), Words(table.footnotes(lines, shared))]


def is_shared(runs: Sequence[Told], lines: Sequence[Line]) -> bool:
    """Whether there is a J*, so that values are gaps."""
    leading = [told.recorded.leading for told in runs if told.recorded is not None]
    return leading[0] == "gap" if leading else any(np.isfinite(line.geometric.mean) for line in lines)


def _now(told: Told) -> str:
    if told.recorded is None:
        return ""
    name = told.recorded.leading
    return f"{name.replace('_', ' ')} {float(np.mean(told.recorded.metrics[name][:, -1])):.4g}"


def step_sizes(folder: Path, lines: Sequence[Line], runs: Sequence[Told]) -> list[Section]:
    """How the step size matters, where it was tuned."""
    found = tried(folder / "tune.csv", lines)
    if not found:
        return []
    return [Section("How the step size matters", [step_size_chart.sensitivity(found, is_shared(runs, lines))])]


def tried(path: Path, lines: Sequence[Line]) -> dict[str, Tried]:
    """What every method came to at its step sizes, with the others of its settings as they were chosen."""
    values: dict[str, dict[float, list[float]]] = {}
    try:
        for row in csv.DictReader(io.StringIO(read_text(path))):
            each = [float(x) for x in (row.get("values") or "").split()]
            values.setdefault(row["algorithm"], {})[float(row["eta"])] = each
    except (OSError, ValueError, KeyError, TypeError, csv.Error, InputError):
        return {}
    found = {}
    for line in lines:
        name = next((name for name in values if _is_of(name, line)), None)
        seeds = 0 if name is None else max(map(len, values[name].values()))
        if name is None or not seeds:
            continue
        etas = sorted(values[name])
        rows = [values[name][eta] or [math.nan] * seeds for eta in etas]
        if all(len(row) == seeds for row in rows):
            found[line.label] = Tried(np.array(etas), np.array(rows), line.eta)
    return found


def _is_of(name: str, line: Line) -> bool:
    """Whether these trials are of a method with the settings that were chosen for it."""
    label, *settings = name.split(",")
    said = dict(pair.split("=", 1) for pair in settings if "=" in pair)
    same = lambda a, b: a.lower() == b.lower() or _number(a) == _number(b)
    return label == line.label and said.keys() == line.tuned.keys() and all(same(said[k], line.tuned[k]) for k in said)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
