"""The table of a comparison as its folder holds it, table.csv: written for programs, and read back into lines."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.comparison.paired import Difference
from fastfedpg.comparison.table import Line
from fastfedpg.errors import InputError
from fastfedpg.files import read_text
from fastfedpg.statistics import NOTHING, Interval

WHOLE = "seeds", "lost", "arrived", "rounds", "every"
WORDS = "label", "unit"
TRUTHS = "noise", "own"


def text_of(lines: Sequence[Line]) -> str:
    """The table for programs: a row for each method."""
    text = io.StringIO()
    rows = csv.DictWriter(text, list(_flat(lines[0])), lineterminator="\n")
    rows.writeheader()
    rows.writerows(_flat(line) for line in lines)
    return text.getvalue()


def _flat(line: Line) -> dict[str, Any]:
    """A line with every interval as three columns; what is not defined is empty."""
    row: dict[str, Any] = {}
    three = lambda name, x: {name: x.mean, f"{name}_low": x.low, f"{name}_high": x.high}
    for name, x in line._asdict().items():
        if isinstance(x, Interval):
            row |= three(name, x)
        elif name == "tuned":
            row[name] = ",".join(f"{setting}={value}" for setting, value in x.items())
        elif name == "difference":
            plain, ratio = (NOTHING, x.interval) if x and x.log else (x.interval if x else NOTHING, NOTHING)
            row |= three(name, plain) | three("ratio", ratio) | {name: x.mean if x else ""}
            row |= {"verdict": x.verdict if x else "", **three("chance", x.chance if x else NOTHING)}
            row |= {"margin": x.margin if x else "", "detectable": x.detectable if x else ""}
        else:
            row[name] = x
    return {name: "" if isinstance(x, float | np.ndarray) and not np.isfinite(x) else x for name, x in row.items()}


def read(path: Path) -> list[Line]:
    """The lines of a table that `text_of` wrote.

    What it leaves empty is NaN, or infinite where it can be nothing else: one end of an interval, the gap of a method
    of which a seed diverged, and the rounds to a target that was not reached.
    """
    try:
        rows = csv.DictReader(io.StringIO(read_text(path)))
        lines = [_line(row) for row in rows]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise InputError(f"{path}: not as it was written ({type(error).__name__}: {error})") from None
    if not lines:
        raise InputError(f"{path}: no method is in it")
    return lines


def _interval(mean: float, low: float, high: float) -> Interval:
    if np.isfinite(low) and np.isnan(high):
        high = np.inf
    if np.isfinite(high) and np.isnan(low):
        low = -np.inf
    return Interval(np.asarray(mean), np.asarray(low), np.asarray(high))


def _line(row: Mapping[str, str]) -> Line:
    number = lambda name: float(row.get(name) or "nan")
    three = lambda name: _interval(*(number(end) for end in (name, f"{name}_low", f"{name}_high")))
    found: dict[str, object] = {name: three(name) for name, kind in Line.__annotations__.items() if kind is Interval}
    found |= {name: int(row[name]) for name in WHOLE} | {name: row[name] for name in WORDS}
    found |= {name: row[name] == "True" for name in TRUTHS}
    found |= {name: number(name) for name in ("eta", "samples", "bytes", "syncs", "seconds", "simulated_seconds")}
    found["tuned"] = dict(pair.split("=", 1) for pair in (row.get("tuned") or "").split(",") if "=" in pair)
    log = bool(row["ratio"])
    between = three("ratio" if log else "difference")
    beside = Difference(
        number("difference"), between, row["verdict"], three("chance"), number("margin"), number("detectable"), log
    )
    line = Line(**found, difference=beside if row["verdict"] else None)  # type: ignore[arg-type]
    lost, late = line.lost and np.isnan(line.value.mean), np.isnan(line.rounds_to.mean)
    never = lambda x: x._replace(mean=np.asarray(np.inf))
    line = line._replace(value=never(line.value)) if lost else line
    return line._replace(rounds_to=never(line.rounds_to), samples_to=never(line.samples_to)) if late else line
