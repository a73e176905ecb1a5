"""PAvg and QAvg (Jin et al.) end at policies that are not optimal: on how many random MDPs, and in which setting."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from fastfedpg import problems
from fastfedpg.core import Algorithm, Problem
from fastfedpg.problems import TabularProblem, tabular_exact, with_oracle
from fastfedpg.runtime import Schedule, simulate_records
from fastfedpg.verify.listening import counted
from fastfedpg.verify.others.methods import METHODS, Methods
from fastfedpg.verify.others.stops import MOVED
from fastfedpg.verify.verdict import UNDECIDED, Measured, Row, claim

S, A, N, GAMMA, H, ROUNDS = 5, 3, 4, 0.9, 8, 2000
WORSE = 1e-6
"""Of what there was to gain: a policy that loses more of it is not optimal, if it stays so."""
AT_REST = 1e-2
"""The most of that loss that the last half of a run, or a moved start, changes."""
LONGER = 20
"""Times the rounds for what should lose nothing and is still under way: nearly equal actions take long."""


class Instance(NamedTuple):
    """A random MDP for each agent, the runtimes' view of it, and a J that a common policy has."""

    known: TabularProblem
    exact: Problem
    J: float


def instances(kernels: bool, n: int, first_seed: int) -> Iterator[Instance]:
    """Jin et al.'s setting, one reward and different kernels; or this paper's, one kernel and different rewards.

    With one kernel J is J*, of the average MDP (Proposition 1). Where kernels differ it is that of the best of all
    deterministic policies: what is worse than it is not optimal, and what is better than it counts as unbiased. All
    have the same oracle, one program for each method.
    """
    oracle = None
    choices = np.stack([np.eye(A)[list(each)] for each in product(range(A), repeat=S)])
    for seed in range(first_seed, first_seed + n):
        known = problems.random(agents=N, S=S, A=A, gamma=GAMMA, kernel=float(kernels), seed=seed)
        best = None if kernels else known.optimum().J
        if kernels:
            known = replace(known, reward=np.broadcast_to(known.reward.mean(axis=0), known.reward.shape).copy())
        else:
            known = replace(known, P=np.broadcast_to(known.P, (N, S, A, S)).copy())
        exact = with_oracle(known, "exact", 0.0)
        if best is None:
            best = float(exact.evaluate(np.stack([known.theta_of(pi) for pi in choices])).J.min())
        oracle = oracle or exact.oracle
        yield Instance(known, exact._replace(oracle=oracle), best)


class Lost(NamedTuple):
    """The share of what there was to gain that is not gained at the end of a run, and whether that is where it ends."""

    share: float
    at_rest: bool


def loses(instance: Instance, algorithm: Algorithm, times: int = 1) -> Lost:
    """What a long run from the uniform policy loses, recorded at two lengths, and once more from a moved start."""
    starts = np.zeros((2, S * A))
    starts[1] += MOVED * np.random.default_rng(0).normal(size=S * A)
    rounds = times * ROUNDS
    records = simulate_records(instance.exact, algorithm, Schedule(rounds, 2, rounds // 2, theta0=starts))
    J = np.array([[tabular_exact.J(instance.known, theta) for theta in np.asarray(r.theta)] for r in records])
    left = (J - instance.J) / (J[0] - instance.J)
    moved = max(abs(left[-1, 0] - left[-2, 0]), abs(left[-1, 0] - left[-1, 1]))
    return Lost(float(left[-1, 0]), bool(moved <= AT_REST * left[-1, 0]))


def under_way(lost: Lost) -> bool:
    """Whether a run has lost something, and has not come to rest: then it has no number."""
    return lost.share > WORSE and not lost.at_rest


Make = Callable[[Methods, int], Algorithm]
KINDS: dict[str, Make] = {
    "PAvg, natural": lambda methods, H: methods.pavg(1.0, H, "natural"),
    "PAvg, projected": lambda methods, H: methods.pavg(0.1, H, "projected"),
    "QAvg, text": lambda methods, H: methods.qavg(1.0, H, "Q"),
    "QAvg, code": lambda methods, H: methods.qavg(1.0, H, "V"),
}
"""PAvg as its code and its projection have it (with `soft` it is FedAvg-PG); QAvg as its text and as its code."""
EXCEPT = ("PAvg, natural", "QAvg, text")
"""With one kernel and H = 1 these are the average MDP's natural gradient and its sweep: no bias is left."""


def rows(kernels: bool, n: int, first_seed: int, methods: Methods = METHODS) -> list[Row]:
    """On how many of n instances each is biased; where theory says that none is left, that it is on none."""
    found = list(instances(kernels, n, first_seed))
    rows = []
    cases = [(who, steps) for steps in ((H,) if kernels else (H, 1)) for who in KINDS]
    for who, steps in counted(cases):
        algorithm = KINDS[who](methods, steps)
        lost, where = [loses(each, algorithm) for each in counted(found)], "own kernels" if kernels else "own rewards"
        none_left = steps == 1 and who in EXCEPT and not kernels
        if none_left:
            lost = [loses(one, algorithm, LONGER) if under_way(x) else x for one, x in zip(found, lost, strict=True)]
        share = np.array([x.share if x.share > WORSE and x.at_rest else 0.0 for x in lost])
        k, open_ = int(np.count_nonzero(share)), sum(map(under_way, lost))
        measured = Measured(k / n, of=n)
        left = f"of what there was to gain {share.mean():.2g} is lost, {share.max():.2g} at most"
        note = f"{k} of {n} random MDPs; {left}{f'; {open_} are still under way' if open_ else ''}"
        if none_left:
            name, says, sides = f"{who}, H = 1: no bias ({where})", "instances with a bias <= 0", (k, 0)
        else:
            name, says, sides = f"{who}, H = {steps}: biased ({where})", "1 <= instances with a bias", (1, k)
        row = claim(name, says, *sides, bound=False, measured=measured, note=note)
        rows.append(row if k or not open_ else replace(row, margin=None, verdict=UNDECIDED))
    return rows
