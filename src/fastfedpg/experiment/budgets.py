"""One budget for all methods: as many rounds for each as it pays for."""

import math
from collections.abc import Sequence

import numpy as np

from fastfedpg import runtime
from fastfedpg.errors import InputError
from fastfedpg.experiment import clock as clocks
from fastfedpg.experiment.clock import Clock
from fastfedpg.experiment.plan import Plan
from fastfedpg.precision import float64

LEAST_SHARE = 0.9
"""The first method gives up at most a tenth of its rounds so that all can stop at exactly the same number."""

CLOCK, TICK = "clock", 1e-9
"""A budget in seconds of a clock is counted in whole ticks of it."""

LONGEST = 1e12
"""Seconds of a round, and the most by which ticks are counted: 30,000 years."""

MOST = 10**8
"""Rounds that a budget gives, unless more were asked for: where it pays for more, one round costs next to nothing."""


def plays(planned: Plan) -> bool:
    """Whether the oracle plays trajectories; the exact ones take no environment steps."""
    played = planned.known is not None and planned.known.played
    return played or "B" in planned.config.choice("oracle").args


def unit(planned: Plan) -> str:
    """What samples are counted in."""
    return "environment steps" if plays(planned) else "gradient estimates"


def samples(planned: Plan) -> int:
    """What a round costs at most, all participants together: environment steps, or estimates if nothing is played."""
    each = _each(planned)
    return round(sum(each) / len(each) * planned.schedule.taking_part(planned.problem))


@float64
def _each(planned: Plan) -> list[int]:  # a round can take more than 2^31 steps
    """What a round costs every agent, or one where all do alike."""
    B, K = planned.config.get("oracle.B") if plays(planned) else 0, planned.steps
    of_estimate = (lambda n: (n or B) * K) if plays(planned) else (lambda n: 1)
    d = np.shape(planned.problem.theta0)[-1]
    return runtime.samples_of_each(planned.algorithm, of_estimate, planned.problem.N, d, B)


def seconds(planned: Plan, clock: Clock) -> float:
    """What a round takes at most by a clock: an episode that ends early is counted whole."""
    sizes, part, N = planned.sizes, planned.schedule.taking_part(planned.problem), planned.problem.N
    own = planned.algorithm.turns
    arriving = own is not None and own.order == planned.schedule.order == "arrival"
    return clocks.seconds(
        clock,
        clocks.Round(
            sizes.syncs,
            sizes.bytes_up,
            sizes.bytes_down,
            max(_each(planned)),
            waiting=part if sizes.syncs else 1,
            at_once=N // part if arriving else 1,
        ),
    )


def cost(planned: Plan, budget: str, clock: Clock | None = None) -> int:
    """What a round costs in the budget's own currency; bytes are one agent's, both ways, on average over all."""
    if budget == "samples":
        return samples(planned)
    if budget == CLOCK:
        if clock is None:
            raise InputError("a budget of time needs a clock: say what takes how long")
        taken = seconds(planned, clock)
        if not taken <= LONGEST:
            name = planned.config.algorithm
            raise InputError(f"clock: a round of {name} takes {taken:g} seconds; it must be at most {LONGEST:g}")
        return round(taken / TICK)
    part = planned.schedule.taking_part(planned.problem) / planned.problem.N
    return round((planned.sizes.bytes_up + planned.sizes.bytes_down) * part) if budget == "bytes" else 1


def rounds(names: Sequence[str], costs: Sequence[int], asked: int, budget: str) -> list[int]:
    """Rounds for every method: the first gets what was asked for, the others what the same budget pays for.

    Where a common multiple of what their rounds cost is near, all stop at exactly the same number; otherwise each stops
    at its last whole round within the budget. What costs nothing is given as many rounds as the first.
    """
    if not costs[0]:
        raise InputError(f"a budget in {budget} needs a first method that spends some; {names[0]} does not")
    total = asked * costs[0]
    together = math.lcm(*(c for c in costs if c))
    if total // together * together >= LEAST_SHARE * total:
        total = total // together * together
    given = [total // c if c else total // costs[0] for c in costs]
    for name, n, c in zip(names, given, costs, strict=True):
        if n < 1:
            raise InputError(
                f"{amount(total, budget)} do not pay for one round of {name}, which costs {amount(c, budget, False)}; "
                "ask for more rounds"
            )
        if n > max(asked, MOST):
            raise InputError(
                f"{amount(total, budget)}, as {asked:,} rounds of {names[0]} cost, pay for {n:.3g} rounds of {name}, "
                f"which cost {amount(c, budget, False)} each; a budget gives at most {MOST:,}: ask for fewer rounds, "
                f"or take {'another clock' if budget == CLOCK else '--budget rounds'}"
            )
    return given


def amount(spent: int, unit: str, named: bool = True) -> str:
    """So much of a budget, in words; a clock's ticks are told in seconds."""
    said = f"{spent * TICK:,.4g}" if unit == CLOCK else f"{spent:,}"
    return f"{said} {'seconds' if unit == CLOCK else unit}" if named else said
