"""The policies of a run over its rounds: no run keeps them, so it is played again, and must end where it ended.

Random numbers are counters, so that the same rounds have the same policies. What comes out is compared with what the
run left behind, and where it is another policy nothing is shown.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from fastfedpg import runtime
from fastfedpg.experiment.plan import Plan
from fastfedpg.precision import float64, precision_of
from fastfedpg.problems import TabularProblem

FRAMES = 16
"""Policies that are shown, at most: more of them early, when most happens."""
RECORDS = 64
"""Between which they are chosen."""
ALIKE = 1e-3
"""Policies whose probabilities differ by less are one policy: arrows are as long as these, and nobody sees it."""


class Snapshots(NamedTuple):
    """Policies after some rounds, of one seed."""

    rounds: list[int]
    thetas: list[np.ndarray]


def chosen(rounds: int) -> tuple[int, list[int]]:
    """Every how many rounds to look, and which of these rounds are shown: the first and the last among them."""
    every = max(1, -(-rounds // RECORDS))
    known = [*range(0, rounds, every), rounds]
    last = len(known) - 1
    at = np.unique(np.append(0, np.geomspace(1, max(last, 1), FRAMES - 1).round().astype(int)))
    return every, [known[k] for k in at if k <= last]


@float64
def replay(planned: Plan, seed: int, last: np.ndarray, report: Callable[[int], None]) -> Snapshots | None:
    """The policies of one seed, by its place; None where another policy comes out than the run's own last one."""
    every, some = chosen(planned.config.rounds)
    schedule = replace(planned.schedule, metrics_every=every, go_on=True)
    found = Snapshots([], [])
    running = runtime.simulate_records(planned.problem, planned.algorithm, schedule, lambda done, _: report(done))
    with precision_of(planned.problem.theta0):
        for record in running:
            if record.round in some:
                found.rounds.append(record.round)
                found.thetas.append(np.array(record.theta[seed], float))
    known = planned.arrays.as_table()
    if known is None or not found.thetas or found.rounds[-1] != planned.config.rounds:
        return None
    return found if _alike(known, found.thetas[-1], last) else None


def _alike(problem: TabularProblem, one: np.ndarray, other: np.ndarray) -> bool:
    policies = (softmax(np.asarray(x, float).reshape(problem.S, problem.A), axis=1) for x in (one, other))
    return bool(np.abs(np.subtract(*policies)).max() < ALIKE)
