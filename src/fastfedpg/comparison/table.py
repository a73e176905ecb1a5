"""One table of a comparison: what each method reached, what that cost, and whether the difference is one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.comparison.paired import ROUNDING, Difference, difference
from fastfedpg.comparison.repeats import NUDGE, REPEATS, Repeats, tail_length
from fastfedpg.experiment import budgets
from fastfedpg.experiment.clock import Clock
from fastfedpg.experiment.finished_run import Outcome
from fastfedpg.experiment.plan import Plan, weighing
from fastfedpg.runtime import Result
from fastfedpg.runtime.result import BY_MODE
from fastfedpg.statistics import FEWEST, NOTHING, POWER, Interval, bootstrap, fewest_seeds, geometric, median

TARGET = 0.01
"""Rounds and samples are counted until this share of the first gap is left."""


VISIBLE = 0.01
"""Repeats that differ by more than this share are shown."""


class Line(NamedTuple):
    """One method in the table."""

    label: str
    eta: float
    seeds: int
    lost: int  # seeds that diverged
    noise: bool  # whether seeds differ
    value: Interval  # the mean of the final gap, or of J where J* is not defined; infinite where a seed diverged
    geometric: Interval  # the geometric mean of the final gap, NaN where gaps are not compared by their ratio
    difference: Difference | None  # to the first method, on the seeds that both have; None for the first itself
    return_mean: Interval
    return_worst: Interval
    rounds_to: Interval  # the upper median over seeds until TARGET; infinite unless more than half of them arrive
    samples_to: Interval
    arrived: int  # seeds that did
    rounds: int
    samples: float
    unit: str
    own: bool  # whether every agent has a policy of its own
    every: int  # rounds between two records
    bytes: float  # one agent, up and down
    syncs: float
    seconds: float
    repeats: Interval = NOTHING  # the last value without noise, and the ends of what repeats came to: see `repeats`
    tail: Interval = NOTHING  # the same of the mean over the last tenth of the records
    tuned: Mapping[str, str] = {}  # what was chosen of settings that were tuned over, beside eta
    simulated_seconds: float = float("nan")  # by a clock, where there is one
    return_mode: Interval = NOTHING  # of the policy that does what is likeliest, where that is shown
    gamma_weights: bool | None = None  # whether step k of an episode weighs gamma^k, where episodes are played


def measure(
    outcomes: Sequence[Outcome],
    plans: Sequence[Plan],
    margin: float | None = None,
    repeated: Mapping[str, Repeats] = {},
    over: Sequence[str] = (),
    clock: Clock | None = None,
) -> list[Line]:
    """Every method's line; differences are to the first that did not diverge on all seeds, paired by seed."""
    shared = plans[0].here.shared
    name = "gap" if shared else "J"
    log = by_ratio(outcomes, plans)
    first = next((k for k, o in enumerate(outcomes) if np.isfinite(o.result.final("J")).any()), 0)
    lines: list[Line] = []
    for k, (outcome, planned) in enumerate(zip(outcomes, plans, strict=True)):
        result = outcome.result
        noise = has_noise(plans[first]) or has_noise(planned)
        against = None if k == first else versus(outcomes, plans, first, k, margin, repeated)
        reached = [_reached(gap) for gap in result.metrics["gap"]] if shared else []
        arrived = [k for k in reached if k is not None]
        value = final(outcome, name)
        last, tail = map(_ends, _repeats(outcome, name, repeated.get(outcome.label)) or ([], []))
        lines.append(
            Line(
                outcome.label,
                outcome.config.eta,
                len(outcome.seeds),
                int(np.isinf(value).sum()),
                noise,
                bootstrap(value) if np.isfinite(value).all() else NOTHING._replace(mean=np.full((), np.inf)),
                geometric(_above_rounding(value, result)) if log else NOTHING,
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
                last,
                tail,
                _settings(planned, over),
                float("nan") if clock is None else int(result.rounds[-1]) * budgets.seconds(planned, clock),
                bootstrap(result.final(BY_MODE)) if BY_MODE in result.metrics else NOTHING,
                planned.config.choice("oracle").args.get("gamma_weights", True) if planned.here.played else None,
            )
        )
    return lines


def _settings(planned: Plan, names: Sequence[str]) -> dict[str, str]:
    """Those of these settings that a method has, as a person writes them."""
    has = {name.rpartition(".")[2]: value for name, value in planned.config.flat().items()}
    write = lambda x: str(x).lower() if isinstance(x, bool) else f"{x:g}" if isinstance(x, float) else str(x)
    return {name: write(has[name]) for name in names if name in has}


def final(outcome: Outcome, name: str) -> np.ndarray:
    """The last value of a metric on every seed; infinite on those that diverged."""
    return np.where(np.isfinite(outcome.result.final("J")), outcome.result.final(name), np.inf)


def _positive(outcome: Outcome) -> bool:
    """Whether its gaps are above zero, rounding apart; with a policy for each agent they need not be."""
    gap = outcome.result.metrics["gap"]
    return not (gap[:, -1] < -ROUNDING * np.abs(gap[:, 0])).any()


def _above_rounding(gap: np.ndarray, result: Result) -> np.ndarray:
    return np.maximum(gap, ROUNDING * np.abs(result.metrics["gap"][:, 0]))


def _repeats(outcome: Outcome, name: str, found: Repeats | None) -> Repeats | None:
    """Those of a method, its own run before them."""
    if found is None:
        return None
    values = final(outcome, name)[0], outcome.result.metrics[name][0, -tail_length(len(outcome.result.rounds)) :].mean()
    return Repeats(*(np.array([x, *rest]) for x, rest in zip(values, found, strict=True)))


def _ends(values: Any) -> Interval:
    """A run's own value, and the least and the largest of it and its repeats."""
    return Interval(values[0], np.min(values), np.max(values)) if len(values) else NOTHING


def has_noise(planned: Plan) -> bool:
    """Whether seeds differ: trajectories, who takes part, what the method itself draws, or where each seed starts."""
    schedule, starts = planned.schedule, np.atleast_2d(planned.problem.theta0)
    some = schedule.taking_part(planned.problem) < planned.problem.N and schedule.order != "cyclic"
    return budgets.plays(planned) or some or planned.algorithm.draws or bool((starts != starts[0]).any())


def by_ratio(outcomes: Sequence[Outcome], plans: Sequence[Plan]) -> bool:
    """Whether methods are compared by the ratio of their gaps, or else by differences."""
    return plans[0].here.shared and all(_positive(o) for o in outcomes)


def versus(
    outcomes: Sequence[Outcome],
    plans: Sequence[Plan],
    one: int,
    other: int,
    margin: float | None = None,
    repeated: Mapping[str, Repeats] = {},
) -> Difference:
    """How one of several methods differs from another of them, paired by seed, as one of as many comparisons."""
    name = "gap" if plans[0].here.shared else "J"
    first, second = outcomes[one], outcomes[other]
    both = [_repeats(o, name, repeated.get(o.label)) for o in (first, second)]
    shaken = None if both[0] is None or both[1] is None else (both[0].last, both[1].last)
    common = [s for s in first.seeds if s in second.seeds]
    take = lambda o: final(o, name)[[o.seeds.index(s) for s in common]]
    known = first if np.isfinite(first.result.metrics[name][0, 0]) else second  # the first may be lost altogether
    values, log = known.result.metrics[name], by_ratio(outcomes, plans)
    scale = abs(float(values[0, 0])) if name == "gap" else float(values[0, 0] - np.nanmin(values[0]))
    if not common:
        return Difference(np.nan, NOTHING, "no seeds in common", NOTHING, np.nan, log=log)
    noise = has_noise(plans[one]) or has_noise(plans[other])
    return difference(take(first), take(second), len(outcomes) - 1, noise, scale, log, margin, shaken)


def _reached(gap: np.ndarray) -> int | None:
    """The first record with no more than TARGET of the first gap."""
    there = np.flatnonzero(gap <= TARGET * max(gap[0], 0.0))
    return int(there[0]) if len(there) else None


def _median(values: np.ndarray, seeds: int) -> Interval:
    """The upper median over all seeds, where those that never arrive count as infinitely late, and its interval."""
    return median(np.array([*values, *[np.inf] * (seeds - len(values))], float))


def footnotes(lines: Sequence[Line], shared: bool) -> list[str]:
    """What a reader must know to read the table rightly."""
    return [*_on_verdicts(lines, shared), *_on_weights(lines)]


def _on_weights(lines: Sequence[Line]) -> list[str]:
    """Which objective estimates are of, where there are two."""
    ways = {way: [x.label for x in lines if x.gamma_weights is way] for way in (True, False)}
    there = {way: labels for way, labels in ways.items() if labels}
    return [f"{weighing(way)}" + f": {', '.join(of)}" * (len(there) > 1) for way, of in there.items()]


def _on_verdicts(lines: Sequence[Line], shared: bool) -> list[str]:
    first, others = reference(lines), [line.difference for line in lines if line.difference]
    every = max(line.every for line in lines)
    sparse = [f"rounds to 1% are those of a record: there is one every {every} rounds"] if shared and every > 1 else []
    own = [
        f"{x.label} has a policy for each agent, so it can be better than the best common one" for x in lines if x.own
    ]
    lost = ["a seed that diverged counts as worse than all others"] if any(line.lost for line in lines) else []
    if any(line.geometric.mean > (1 + 1e-9) * line.value.mean for line in lines):  # of positive numbers it never is
        lost.append(f"in ratios a gap below {ROUNDING:g} of the first one counts as that: less is rounding")
    if any(line.noise for line in lines) and 1 < min(line.seeds for line in lines) < FEWEST:
        lost.append(f"fewer than {FEWEST} seeds have no interval of their mean: it would be their range")
    if _ordered_otherwise(lines):
        lost.append("means order these methods otherwise than geometric means do: in a mean the worst seeds weigh most")
    if not others:
        return [*lost, *sparse, *own]
    log, margin = others[0].log, others[0].margin
    what = f"between {1 / margin:.4g} and {margin:.4g}" if log else f"within {margin:.4g}"
    if not any(line.noise for line in lines):
        of = "gaps whose ratio is" if log else "a difference"
        rule = f"no noise in these runs: {of} {what} {'are' if log else 'is'} equivalent (--margin), and others are not"
        return [rule, _on_repeats(lines), *lost, *sparse, *own]
    level = "95%" if len(others) == 1 else f"95% for all {len(others)} together"
    by = "the ratio of gaps, geometric means over seeds," if log else "the mean difference,"
    rule = f"better or worse than {first.label}: {by} paired by seed, by a sign-flip test, {level}"
    needed = fewest_seeds(len(others))
    if min(line.seeds for line in lines) < needed:
        rule += f"; it takes {needed} seeds or more to tell"
    return [
        f"{rule}. Equivalent: all of its interval is {what} (--margin)",
        f"a t-test on as many seeds would tell the smallest in {POWER:.0%} of cases, the sign-flip test in fewer",
        *lost,
        *sparse,
        *own,
    ]


def _ordered_otherwise(lines: Sequence[Line]) -> bool:
    """Whether the two means of the gap, where both are finite, put the methods into different orders."""
    known = [x for x in lines if np.isfinite(x.value.mean) and np.isfinite(x.geometric.mean)]
    places = [
        np.argsort([float(getattr(x, name).mean) for x in known], kind="stable") for name in ("value", "geometric")
    ]
    return any(line.noise for line in lines) and bool((places[0] != places[1]).any())


def chaotic(lines: Sequence[Line]) -> bool:
    """Whether rounding decides what some method comes to, in the digits that are shown."""
    return any(x.repeats.high - x.repeats.low > VISIBLE * np.abs(x.repeats.mean) for x in lines)


def _on_repeats(lines: Sequence[Line]) -> str:
    if all(np.isnan(line.repeats.mean) for line in lines):
        return "nothing was repeated, so it is not known whether rounding decides"
    said = f"each was repeated {REPEATS} times from a start moved by {NUDGE:g}"
    if not chaotic(lines):
        return f"{said}: no verdict depends on rounding"
    return (
        f"{said}: rounding decides where the last record of some method lies, so that another processor or batch size "
        "gives another number; the mean over the last tenth of the records says more"
    )


def reference(lines: Sequence[Line]) -> Line:
    """The method that all others are compared with."""
    return next(line for line in lines if line.difference is None)
