"""Step sizes, chosen fairly: the same candidates for every method, on seeds that are not reported."""

import csv
import hashlib
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastfedpg import runtime
from fastfedpg.errors import InputError
from fastfedpg.experiment import checkpoints
from fastfedpg.experiment.journal import Note, identity
from fastfedpg.experiment.own_code import named
from fastfedpg.experiment.plan import Plan
from fastfedpg.experiment.progress import OnProgress, Show
from fastfedpg.files import read_text, write_text
from fastfedpg.precision import precision_of
from fastfedpg.runtime import Diverged, Schedule

FACTOR = 2.0
FEWEST, MOST = 6, 100
WIDENINGS = 8
COLUMNS = ("algorithm", "eta", "J", "seeds", "state", "values", "tried_with", "sum")
ENOUGH = 4
"""Fewer seeds than these choose by luck, where there is noise."""


AGAIN = "remove the file, and it is tuned again"


class Trial(NamedTuple):
    """A method at one step size: its mean final J over the tuning seeds, NaN where one diverged."""

    algorithm: str
    eta: float
    J: float
    values: tuple[float, ...] = ()  # the final gap on each seed, or J where there is none; none of an older version


def tune(
    plans: Mapping[str, Plan],
    eta: float,
    candidates: int,
    seeds: int,
    file: Path,
    show: Show,
    note: Note,
    tried: list[Trial] | None = None,
    ended: bool = False,
) -> dict[str, Trial]:
    """The step size with the least mean J for every method, from a grid around eta that is the same for all.

    While some method is best at an end of the grid, the grid is widened there, for all. Trials are kept in `file`, and
    those that are there already are not repeated: each has a sum, and says what it was tried with. That must be what
    would be tried today, unless the runs that rest on it have `ended`: they can still be shown. All are added to
    `tried`.
    """
    with_what = {name: identity_of(planned, seeds) for name, planned in plans.items()}
    trials, whole = _read(file, with_what, note, ended)
    grid = [eta * FACTOR ** (k - candidates // 2) for k in range(candidates)]
    for widened in range(WIDENINGS + 1):
        for name, planned in plans.items():
            new = [e for e in grid if not any(t.algorithm == name and t.eta == e for t in trials)]
            if new and not whole:  # a sum for what was not looked at would make it trusted
                raise InputError(f"{file}: of another version, and it lacks eta = {new[0]:g} of {name}; {AGAIN}")
            if new:
                shown = show(f"tuning {name} ({new[0]:g} … {new[-1]:g})", planned.config.rounds)
                with named(name, planned.config), shown as report:
                    trials += _try(name, planned, new, seeds, report)
                _write(file, trials, seeds, with_what)
        best = {name: _best(name, grid, trials) for name in plans}
        ends = {b.eta for b in best.values() if b.eta in (grid[0], grid[-1])}
        if not ends or widened == WIDENINGS:
            break
        step = max(1, candidates // 2)
        if grid[0] in ends:
            grid = [grid[0] * FACTOR**-k for k in range(step, 0, -1)] + grid
        if grid[-1] in ends:
            grid = grid + [grid[-1] * FACTOR**k for k in range(1, step + 1)]
    for name, b in best.items():
        if b.eta in ends:
            note(f"{name}: eta = {b.eta:g} is still best at the end of a grid that was widened {WIDENINGS} times")
    if tried is not None:
        tried += trials
    return best


def _try(name: str, planned: Plan, etas: Sequence[float], seeds: int, report: OnProgress) -> list[Trial]:
    """All step sizes side by side in one program; one that diverges has no J, and the others go on."""
    config = planned.config
    start = np.atleast_2d(planned.problem.theta0)
    schedule = Schedule(
        config.rounds,
        seeds,
        config.rounds,
        config.participants,
        theta0=start[np.arange(seeds) % len(start)],
        first_seed=config.first_seed + config.seeds,
        agent_batch=config.agent_batch,
        shards=config.shards,
        order=config.order,
        speeds=config.speeds,
    )
    running = runtime.simulate_records(
        planned.problem,
        planned.with_eta,
        schedule,
        lambda done, _: report(done),
        sweep=list(etas),
    )
    try:
        with precision_of(planned.problem.theta0):
            *_, last = running
    except Diverged:
        return [Trial(name, e, math.nan) for e in etas]
    J, gap = (np.asarray(x, float).reshape(len(etas), seeds) for x in (last.evaluation.J, last.evaluation.gap))
    values = np.where(np.isfinite(J), gap if planned.here.shared else J, np.nan)
    return [Trial(name, e, float(x.mean()), tuple(v.tolist())) for e, x, v in zip(etas, J, values, strict=True)]


def _best(name: str, grid: Sequence[float], trials: Sequence[Trial]) -> Trial:
    """The least J; of equals the smallest step, and where all diverged the smallest of all."""
    mine = [t for t in trials if t.algorithm == name and t.eta in grid]
    return min(mine, key=lambda t: (math.inf if math.isnan(t.J) else t.J, t.eta))


def identity_of(planned: Plan, seeds: int) -> str:
    """What a trial's J depends on, beside eta."""
    who = identity(planned)
    config = {k: v for k, v in who.config.flat().items() if k not in ("eta", *checkpoints.FREE)}
    made = (who.versions, who.source, who.problem, who.config.sources())
    return repr((sorted(config.items(), key=str), made, seeds))


def sum_of(with_what: str, row: Sequence[str] = ()) -> str:
    """What stands for something, and for a line of it, so that a change of either is noticed."""
    return hashlib.sha256("\n".join((with_what, *row)).encode()).hexdigest()[:16]


def _read(file: Path, with_what: Mapping[str, str], note: Note, ended: bool) -> tuple[list[Trial], bool]:
    """The trials of these methods, and whether more may be added; a line that was changed or is of others is refused.

    Before there was a column `tried_with` the sum was of both, and once there was none.
    """
    try:
        rows = csv.DictReader(io.StringIO(read_text(file, errors="replace")))
    except FileNotFoundError:
        return [], True
    trials: list[Trial] = []
    others = set[str]()
    try:
        names = rows.fieldnames or ()
        there = [name for name in COLUMNS if name in names or name not in ("values", "tried_with", "sum")]
        sums, apart = "sum" in there, "tried_with" in there
        if not sums:
            note(f"{file}: of an older version, without sums of its lines; they are taken as they are")
        for r in rows:
            said = [r[name] for name in there]
            values = tuple(float(x) for x in (r.get("values") or "").split())
            trials.append(Trial(r["algorithm"], float(r["eta"]), float(r["J"] or "nan"), values))
            mine = with_what.get(r["algorithm"], "")
            if sums and said[-1] != sum_of("" if apart else mine, said[:-1]):
                also = "" if apart else "another number of rounds or "
                raise ValueError(f"its sum is another, as of {also}a line that was changed")
            if apart and r["tried_with"] != sum_of(mine):
                others.add(r["algorithm"])
                if not ended:
                    raise ValueError("tried with another number of rounds, other settings or another version")
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(f"{file}: line {rows.line_num} is not as it was written ({error}); {AGAIN}") from None
    if others:
        which = ", ".join(sorted(others))
        note(
            f"{file}: {which} would be tried with other settings or another version today; all runs have come to their "
            "end, and stand as they are"
        )
    return trials, sums and not others


def _write(file: Path, trials: Sequence[Trial], seeds: int, with_what: Mapping[str, str]) -> None:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for t in sorted(trials, key=lambda t: t[:2]):
        lost = math.isnan(t.J)
        said = [t.algorithm, repr(t.eta), "" if lost else repr(t.J), str(seeds), "diverged" if lost else "finished"]
        said += [" ".join(map(repr, t.values)), sum_of(with_what[t.algorithm])]
        rows.writerow([*said, sum_of("", said)])
    write_text(file, text.getvalue())
