"""One budget for all methods: as many rounds for each as it pays for."""

import math
from collections.abc import Sequence

import numpy as np

from fastfedpg import runtime
from fastfedpg.errors import InputError
from fastfedpg.experiment.plan import Plan
from fastfedpg.precision import float64

LEAST_SHARE = 0.9
"""The first method gives up at most a tenth of its rounds so that all can stop at exactly the same number."""


def plays(planned: Plan) -> bool:
    """Whether the oracle plays trajectories; the exact ones take no environment steps."""
    played = planned.known is not None and planned.known.played
    return played or "B" in planned.config.choice("oracle").args


def unit(planned: Plan) -> str:
    """What samples are counted in."""
    return "environment steps" if plays(planned) else "gradient estimates"


@float64
def samples(planned: Plan) -> int:  # a round can take more than 2^31 steps
    """What a round costs at most, all participants together: environment steps, or estimates if nothing is played."""
    B, K = planned.config.get("oracle.B"), planned.steps
    of_estimate = (lambda n: (n or B) * K) if plays(planned) else (lambda n: 1)
    d = np.shape(planned.problem.theta0)[-1]
    N, m = planned.problem.N, planned.schedule.taking_part(planned.problem)
    # An algorithm may have a part of its own for its first agent; all others are alike.
    first, other = (runtime.samples_in_a_round(planned.algorithm, of_estimate, N, d, i) for i in (0, N - 1))
    return first + (m - 1) * other


def cost(planned: Plan, budget: str) -> int:
    """What a round costs in the budget's own currency; bytes are one agent's, both ways, on average over all."""
    if budget == "samples":
        return samples(planned)
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
                f"{total:,} {budget} do not pay for one round of {name}, which costs {c:,}; ask for more rounds"
            )
    return given
