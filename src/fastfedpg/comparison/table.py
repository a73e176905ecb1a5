"""One table of a comparison: what each method reached, what that cost, and whether the difference is one."""

import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.experiment import budgets
from fastfedpg.experiment.finished_run import Outcome
from fastfedpg.experiment.plan import Plan
from fastfedpg.statistics import POWER, Difference, Interval, bootstrap, difference, fewest_seeds

TARGET = 0.01
"""Rounds and samples are counted until this share of the first gap is left."""


class Line(NamedTuple):
    """One method in the table."""

    label: str
    eta: float
    seeds: int
    noise: bool  # whether seeds differ
    value: Interval  # the final gap, or J where J* is not defined
    difference: Difference | None  # to the first method, on the seeds that both have; None for the first itself
    return_mean: Interval
    return_worst: Interval
    rounds_to: float  # the upper median over seeds until TARGET; infinite unless more than half of them arrive
    samples_to: float
    arrived: int  # seeds that did
    rounds: int
    samples: float
    unit: str
    own: bool  # whether every agent has a policy of its own
    every: int  # rounds between two records
    bytes: float  # one agent, up and down
    syncs: float
    seconds: float


def measure(outcomes: Sequence[Outcome], plans: Sequence[Plan]) -> list[Line]:
    """Every method's line; differences are to the first, paired by seed."""
    shared = plans[0].here.shared
    name = "gap" if shared else "J"
    lines: list[Line] = []
    for outcome, planned in zip(outcomes, plans, strict=True):
        result, against = outcome.result, None
        noise = _has_noise(plans[0]) or _has_noise(planned)
        if lines:
            against = _paired(outcomes[0], outcome, name, len(outcomes) - 1, noise)
        reached = [_reached(gap) for gap in result.metrics["gap"]] if shared else []
        arrived = [k for k in reached if k is not None]
        lines.append(
            Line(
                outcome.label,
                outcome.config.eta,
                len(outcome.seeds),
                noise,
                bootstrap(result.final(name)),
                against,
                bootstrap(result.final("return_mean")),
                bootstrap(result.final("return_worst")),
                _median(result.rounds[arrived], len(reached)),
                _median(outcome.samples[arrived], len(reached)),
                len(arrived),
                int(result.rounds[-1]),
                float(outcome.samples[-1]),
                outcome.unit,
                result.theta.ndim == 3,
                outcome.config.metrics_every,
                float((result.final("bytes_up") + result.final("bytes_down")).mean()),
                float(result.final("syncs").mean()),
                outcome.seconds,
            )
        )
    return lines


def _has_noise(planned: Plan) -> bool:
    """Whether seeds differ: trajectories, who takes part, or where each seed starts."""
    some = planned.schedule.taking_part(planned.problem) < planned.problem.N
    starts = np.atleast_2d(planned.problem.theta0)
    return budgets.plays(planned) or some or bool((starts != starts[0]).any())


def _paired(first: Outcome, other: Outcome, name: str, comparisons: int, noise: bool) -> Difference:
    common = [s for s in first.seeds if s in other.seeds]
    take = lambda o: o.result.final(name)[[o.seeds.index(s) for s in common]]
    values, factor = first.result.metrics[name], name == "gap"  # J has no natural zero, and no first gap
    scale = abs(float(values[0, 0])) if factor else float(values[0, 0] - values[0].min())
    if not common:
        nothing = np.full((), np.nan)
        return Difference(Interval(nothing, nothing, nothing), "no seeds in common")
    return difference(take(first), take(other), comparisons, noise, scale, factor)


def _reached(gap: np.ndarray) -> int | None:
    """The first record with no more than TARGET of the first gap."""
    there = np.flatnonzero(gap <= TARGET * max(gap[0], 0.0))
    return int(there[0]) if len(there) else None


def _median(values: np.ndarray, seeds: int) -> float:
    """The upper median over all seeds, where those that never arrive count as infinitely late."""
    return float(np.quantile([*values, *[np.inf] * (seeds - len(values))], 0.5, method="higher")) if seeds else np.nan


def footnotes(lines: Sequence[Line], shared: bool) -> list[str]:
    """What a reader must know to read the table rightly."""
    first, others = lines[0], [line.difference for line in lines if line.difference]
    every = max(line.every for line in lines)
    sparse = [f"rounds to 1% are those of a record: there is one every {every} rounds"] if shared and every > 1 else []
    own = [
        f"{x.label} has a policy for each agent, so it can be better than the best common one" for x in lines if x.own
    ]
    if not others:
        return [*sparse, *own]
    if not any(line.noise for line in lines):
        rule = "no noise in these runs: a difference counts from 1% of the first gap, or a factor of two, on"
        if not shared:
            rule = "no noise in these runs: a difference counts from 1% of what the first method improved J by on"
    else:
        level = "95%" if len(others) == 1 else f"95% for all {len(others)} together"
        rule = f"better or worse than {first.label}: by the paired interval, {level}, and by a sign-flip test"
        needed = fewest_seeds(len(others))
        if min(line.seeds for line in lines) < needed:
            rule += f"; it takes {needed} seeds or more to tell"
        rule += f". A t-test on as many seeds would tell the smallest in {POWER:.0%} of cases, this rule in fewer"
    return [rule, *sparse, *own]


def to_csv(lines: Sequence[Line]) -> str:
    """The table for programs: a row for each method."""
    text = io.StringIO()
    rows = csv.DictWriter(text, list(_flat(lines[0])), lineterminator="\n")
    rows.writeheader()
    rows.writerows(_flat(line) for line in lines)
    return text.getvalue()


def _flat(line: Line) -> dict[str, Any]:
    """A line with every interval as three columns; what is not defined is empty."""
    row: dict[str, Any] = {}
    for name, x in line._asdict().items():
        if isinstance(x, Interval):
            row |= {name: x.mean, f"{name}_low": x.low, f"{name}_high": x.high}
        elif name == "difference":
            mean, low, high = x.interval if x else ("", "", "")
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high, "verdict": x.verdict if x else ""}
            row["detectable"] = x.detectable if x else ""
        else:
            row[name] = x
    return {name: "" if isinstance(x, float | np.ndarray) and not np.isfinite(x) else x for name, x in row.items()}
