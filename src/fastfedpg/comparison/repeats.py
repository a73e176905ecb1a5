"""Runs without noise once more, from starts that differ by rounding: how far their numbers can be repeated at all."""

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastfedpg import runtime
from fastfedpg.comparison import tuning
from fastfedpg.experiment.own_code import named
from fastfedpg.experiment.plan import Plan
from fastfedpg.experiment.progress import OnProgress, Show
from fastfedpg.files import read_text, write_text
from fastfedpg.precision import precision_of
from fastfedpg.runtime import Diverged, Record

FILE = "repeats.csv"
REPEATS, NUDGE = 4, 1e-12
"""How many, and by how much each number of their starts is moved, about."""
ULPS = 4
"""By so many units in its last place where that is more: in float32 1e-12 moves nothing that is not near 0."""
TAIL = 0.1
"""The share of the records, the last ones, that a tail average is of."""


class Repeats(NamedTuple):
    """What the repeats of one method come to, (REPEATS,); infinite where they diverge."""

    last: np.ndarray
    tail: np.ndarray


def repeat(plans: Mapping[str, Plan], file: Path, show: Show) -> dict[str, Repeats]:
    """Repeat these methods, unless that was done: what is found in the file and still theirs is taken from there."""
    with_what = {
        name: f"{planned.config.eta!r} {tuning.identity_of(planned, REPEATS)}" for name, planned in plans.items()
    }
    found = _read(file, with_what)
    for name in [name for name in plans if name not in found]:
        shown = show(f"repeating {name} from starts that differ by {NUDGE:g}", plans[name].config.rounds)
        with named(name, plans[name].config), shown as report:
            found[name] = _repeat(plans[name], report)
        _write(file, found, with_what)
    return {name: found[name] for name in plans}


def _repeat(planned: Plan, report: OnProgress) -> Repeats:
    start = np.atleast_2d(planned.problem.theta0)[0]
    schedule = replace(planned.schedule, seeds=REPEATS, theta0=moved(start), go_on=True)
    name, records = value_name(planned), len(list(schedule.recorded()))
    kept: list[np.ndarray] = []
    running = runtime.simulate_records(planned.problem, planned.algorithm, schedule, lambda done, _: report(done))
    try:
        with precision_of(start):
            for k, record in enumerate(running):
                if k >= records - tail_length(records):
                    kept.append(_value(record, name))
    except Diverged:
        return Repeats(*np.full((2, REPEATS), np.inf))
    return Repeats(kept[-1], np.mean(kept, axis=0))


def moved(start: np.ndarray) -> np.ndarray:
    """Starts that differ by rounding, (REPEATS, d), in the same dtype."""
    by = np.maximum(NUDGE, ULPS * np.spacing(np.abs(start))).astype(start.dtype)
    return start + by * np.random.default_rng(0).normal(size=(REPEATS, len(start))).astype(start.dtype)


def value_name(planned: Plan) -> str:
    """The metric that methods are compared by."""
    return "gap" if planned.here.shared else "J"


def tail_length(records: int) -> int:
    """How many records a tail average is of."""
    return max(1, int(TAIL * records))


def _value(record: Record, name: str) -> np.ndarray:
    J = np.asarray(record.evaluation.J, float)
    return np.where(np.isfinite(J), getattr(record.evaluation, name), np.inf)


def _read(file: Path, with_what: Mapping[str, str]) -> dict[str, Repeats]:
    """What was found before; a line that is not as it was written, or of something else, counts for nothing."""
    lines: dict[str, list[tuple[float, float]]] = {}
    try:
        for row in csv.reader(io.StringIO(read_text(file))):
            if row[0] in with_what and row[-1] == tuning.sum_of(with_what[row[0]], row[:-1]):
                lines.setdefault(row[0], []).append((float(row[2]), float(row[3])))
    except (OSError, ValueError, IndexError, csv.Error):
        return {}
    return {name: Repeats(*np.array(pairs).T) for name, pairs in lines.items() if len(pairs) == REPEATS}


def _write(file: Path, found: Mapping[str, Repeats], with_what: Mapping[str, str]) -> None:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("algorithm", "repeat", "last", "tail", "sum"))
    for name, repeats in found.items():
        for k, pair in enumerate(zip(*repeats, strict=True)):
            said = [name, str(k), *(repr(float(x)) for x in pair)]
            rows.writerow([*said, tuning.sum_of(with_what[name], said)])
    write_text(file, text.getvalue())
