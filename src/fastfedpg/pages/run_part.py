"""The part of a page that is about one run."""

import shlex
from pathlib import Path

import numpy as np

from fastfedpg.experiment import run_folder
from fastfedpg.experiment.clock import Clock
from fastfedpg.experiment.plan import Plan
from fastfedpg.pages import deployed, look_up, recorded, sections
from fastfedpg.pages.blocks import Part, Section, Table
from fastfedpg.pages.recorded import Told
from fastfedpg.pages.replayed import Snapshots, replay
from fastfedpg.precision import float64
from fastfedpg.runtime import views
from fastfedpg.statistics import Interval, bootstrap

TWINS = ("curve.png", "curve.svg", "metrics.csv", "summary.json", "results.npz")
LONGEST = 60.0
"""Seconds that a run may have taken if it is to be played again for its policies."""


@float64
def part(folder: Path, clock: Clock | None, longest: float, say: sections.Say) -> Part:
    """All about a run, whatever state it is in."""
    told = recorded.read(folder)
    found, why = look_up.planned(told)
    costs = {told.label: look_up.costs_of(found, clock)}
    known = [Section("Numbers", [_numbers(told)])] if told.recorded is not None else []
    body = [
        *known,
        *sections.lacking(why),
        *deployed.sections(folder),
        *sections.curves([told], costs),
        *policies([(told, found)], longest, say),
        *sections.agents([told], found),
        *sections.films([folder]),
        *sections.files(folder, TWINS),
        *sections.repeat(folder, "config.toml", _command(folder), str(told.summary.get("versions", ""))),
    ]
    return Part(f"{told.label} on {told.problem}", str(folder), question(told), verdict(told), body, told.state)


def _command(folder: Path) -> str:
    return f"fastfedpg run --config {shlex.quote(str(folder / 'config.toml'))} --out ANOTHER_FOLDER"


def question(told: Told) -> str:
    """What a run asks."""
    N = 0 if told.recorded is None else told.recorded.returns.shape[1]
    who = f" by {N} agents together" if N > 1 else ""
    by = f"{told.settings['oracle']} gradients"
    if told.recorded is not None and told.recorded.leading == "gap":
        return f"How near to the best common policy of {told.problem} does {told.label} come{who}, with {by}?"
    return f"What does {told.label} reach on {told.problem}{who}, with {by}?"


def verdict(told: Told) -> str:
    """The answer in a sentence or two."""
    got = told.recorded
    if got is None:
        return f"The run is {told.state}, and has recorded nothing yet."
    name = got.leading
    start, end = float(np.mean(got.metrics[name][:, 0])), bootstrap(got.metrics[name][:, -1])
    what = {"gap": "the gap to the best common policy", "J": "J", "return_mean": "the mean return of an episode"}[name]
    said = f"After {told.done:,} rounds {what} is {_between(end, got.seeds)}"
    if name == "gap" and start > 0:
        said += f": {float(end.mean) / start:.2g} of the {start:.4g} at the start"
    else:
        said += f", from {start:.4g} at the start"
    worst, mean = (float(np.mean(got.metrics[name][:, -1])) for name in ("return_worst", "return_mean"))
    return f"{_ending(told)}{said}. The worst agent's return is {worst:.4g}, the mean of all {mean:.4g}."


def _between(x: Interval, seeds: int) -> str:
    if np.isfinite(x.low):
        return f"{x.mean:.4g} ({x.low:.4g} to {x.high:.4g}, 95% over {seeds} seeds)"
    return f"{x.mean:.4g} ({seeds} seed{'s' * (seeds > 1)}, no interval)"


def _ending(told: Told) -> str:
    if told.state == "finished":
        return ""
    if told.state == "running":
        return f"The run is under way, {told.done:,} of {told.asked:,} rounds were recorded. "
    why, has = f" ({told.message})" if told.message else "", "was" if told.state == "interrupted" else "has"
    how = f"{told.done:,} of {told.asked:,} rounds were recorded"
    return f"The run {has} {told.state}{why}; {how}. "


def _numbers(told: Told) -> Table:
    got = told.recorded
    assert got is not None
    count = lambda x: "not sent" if np.isnan(x) else f"{x:,.0f}"
    rows = [
        [label, count(x.mean) if counted else f"{x.mean:.4g}", _ends(x) if not counted else ""]
        for label, (counted, x) in views.in_the_end(got.metrics).items()
    ]
    return Table(["", "mean", f"95% interval, {got.seeds} seed{'s' * (got.seeds > 1)}"], rows)


def _ends(x: Interval) -> str:
    return f"{x.low:.4g} to {x.high:.4g}" if np.isfinite(x.low) else "–"


def policies(runs: list[tuple[Told, Plan | None]], longest: float, say: sections.Say) -> list[Section]:
    """Policies on their grid; over rounds where the run can be played again in no more than `longest` seconds."""
    shown: dict[str, Snapshots] = {}
    problem = None
    for told, found in runs:
        got = told.recorded
        if found is None or got is None or got.theta is None or got.theta.ndim != 2 or not np.isfinite(got.theta).all():
            continue
        table = found.here.as_table()
        if table is None or table.grid is None:
            return []
        problem = table
        seed = int(np.argsort(got.metrics["J"][:, -1])[got.seeds // 2])
        snapshots = None
        took = float(told.summary.get("seconds") or np.inf)
        if told.state == "finished" and took <= longest and not run_folder.is_deployed(told.folder):
            say(f"{told.label} is played again for its policies over rounds (it took {took:.0f} s)")
            snapshots = replay(found, seed, got.theta[seed], sections.quiet)
        shown[told.label] = snapshots or Snapshots([told.done], [np.asarray(got.theta[seed], float)])
    return [] if problem is None else sections.policies(shown, problem)
