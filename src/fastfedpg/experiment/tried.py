"""Advice, tried: a few rounds of what is advised, where its gap is known, and how many it takes by what they show."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from fastfedpg import runtime
from fastfedpg.experiment.plan import Plan
from fastfedpg.precision import precision_of
from fastfedpg.runtime import Diverged
from fastfedpg.theory.advice import Cost

ROUNDS = 40
"""Of a trial."""

SEEDS = 8
"""Where there is noise; they are not those of the run that is advised."""

SHARES = (1.0, 1 / 4, 1 / 16, 1 / 64)
"""Step sizes that are tried, as parts of the model's: where J is no parabola, its largest may lead to where no gradient
is left."""


LARGER = (16.0, 4.0)
"""And where noise hides ||grad J||^2 or L, so that the model's is for their upper ends, and may be far too small."""


FLAT = 1e-9
"""A gap that falls by no larger share in half a trial may be falling by rounding alone, and a rate of that is none."""


class Tried(NamedTuple):
    """The step size with which the target comes first, the gaps that it was seen to have, and the rounds it takes."""

    eta: float
    gaps: np.ndarray  # (ROUNDS + 1,), in cost units: the mean over seeds
    low: float  # rounds until the target if the gap goes on as in the last half of the trial
    high: float  # and if it falls like 1/rounds from then on
    steps: int  # environment steps of all that was tried

    @property
    def reached(self) -> bool:
        """Whether the target was met within the trial."""
        return self.high < len(self.gaps)


def rounds_until(target: float, gaps: np.ndarray) -> tuple[float, float]:
    """Rounds until the target: the first at which it was met, or two ways to go on from the last half of the trial.

        gap_t = gap_n q^(t-n)  and  1/gap_t = 1/gap_n + s (t-n),      q and s from gap_{n/2} to gap_n

    With entropy gaps of softmax tables fall like the first in the end, without it like the second (Mei et al., 2020).
    Infinity where the gap did not fall.
    """
    met = np.flatnonzero(gaps <= target)
    if met.size:
        return float(met[0]), float(met[0])
    n, half = len(gaps) - 1, (len(gaps) - 1) // 2
    before, last = gaps[n - half], gaps[n]
    if not last < before * (1 - FLAT):
        return math.inf, math.inf
    same_rate = math.log(last / target) / math.log(before / last)
    slowing = (1 / target - 1 / last) / (1 / last - 1 / before)
    return math.ceil(n + half * same_rate), math.ceil(n + half * slowing)


def try_out(planned: Plan, etas: Sequence[float], target: float) -> Tried | None:
    """ROUNDS rounds at each step size, side by side; nothing where no gap is known, or all of them diverge."""
    known, config = planned.here, planned.config
    if not known.shared:
        return None
    seeds = SEEDS if config.get("oracle.B") else 1
    start = np.atleast_2d(planned.problem.theta0)[:1]
    schedule = replace(
        planned.schedule,
        rounds=ROUNDS,
        seeds=seeds,
        metrics_every=1,
        theta0=np.repeat(start, seeds, axis=0),
        first_seed=config.first_seed + config.seeds,
    )
    gap = jax.jit(jax.vmap(known.gap(config.tau)))
    try:
        with precision_of(planned.problem.theta0):
            records = list(runtime.simulate_records(planned.problem, planned.with_eta, schedule, sweep=list(etas)))
    except Diverged:
        return None
    found = np.stack([np.asarray(gap(np.asarray(r.theta))) for r in records]).reshape(-1, len(etas), seeds)
    gaps = np.nan_to_num(found.mean(axis=2), nan=np.inf)
    steps = int(np.sum(np.asarray(records[-1].env_steps)))
    each = [Tried(eta, x, *rounds_until(target, x), steps) for eta, x in zip(etas, gaps.T, strict=True)]
    return min(each, key=lambda t: (t.high, t.gaps[-1]))


def by_trial(costs: list[Cost], tried: Tried | None) -> list[Cost]:
    """Costs with what was tried in the first's place, and all others' rounds changed by the same factor.

    In the model rounds are 1/mu times something that mu has no part in, for every method: so this is another mu.
    """
    if tried is None:
        return costs
    if math.isinf(tried.high):
        return [costs[0]._replace(eta=tried.eta), *costs[1:]]
    factor = max(1.0, tried.high) / costs[0].rounds
    other = [c if math.isinf(c.rounds) else c._replace(rounds=math.ceil(factor * c.rounds)) for c in costs]
    return [costs[0]._replace(eta=tried.eta, rounds=max(1.0, tried.high)), *other[1:]]
