"""Speed-ups: the noise floor of each method against N, with the average MDP held fixed and one eta for all."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastfedpg.core import Algorithm
from fastfedpg.verify.claims.bias import mixed
from fastfedpg.verify.claims.floors import ABOUT, Effort, Sweep, about, afford, floor, rounds_for, sampled
from fastfedpg.verify.listening import counted
from fastfedpg.verify.others.methods import METHODS, Methods
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Estimate, Measured, Row, slope

B_OF_SVRPG = A_OF_MFPO = 0.2
UNPROVED = "no proof; the method has it", "no proof; nor has the method"
NEGATED = -0.5
"""A slope in N above this is not half of what 1/N has."""
TORN = 0.25
"""alpha L in the runs in which the bias is to be seen beside the noise."""


def against_N(subject: Subject, algorithm: Algorithm, alpha: float, effort: Effort, H: int) -> Sweep:
    """Floors for the agents again and again; alpha is how far a round goes."""
    rounds = rounds_for(subject, alpha, effort, 1)
    afford(subject, effort, ((subject.N * k, H, rounds) for k in effort.times))
    floors = [floor(subject, sampled(subject, k), algorithm, alpha, effort) for k in counted(effort.times)]
    agents = np.array([subject.N * k for k in effort.times])
    return Sweep(agents, np.stack(floors, axis=1), f"eta = {alpha / H:.3g}, H = {H}")


def _measured(found: Estimate) -> Measured:
    return Measured(float(found.mean[0]), float(found.error[0]), found.degrees)


def linear(name: str, sweep: Sweep, **more: Any) -> Row:
    """The slope in N is about -1."""
    found = slope(sweep.x, sweep.floors)
    return replace(about(name, "slope in N", found, -1, sweep.words), measured=_measured(found), **more)


def at_least(name: str, sweep: Sweep, least: float) -> Row:
    """The slope in N is not even `least`."""
    found = slope(sweep.x, sweep.floors)
    margin, says = found._replace(mean=found.mean - least), f"{least:g} <= slope in N"
    measured = _measured(found)
    return Row(name, says, least, measured.value, margin, bound=False, measured=measured, note=sweep.words)


def unproved(name: str, sweep: Sweep) -> Row:
    """A sentence about proofs; the slope in N tells whether the method speeds up all the same."""
    found = slope(sweep.x, sweep.floors)
    most = ABOUT - 1
    margin, says, measured = found._replace(mean=most - found.mean), f"slope in N <= {most:g}", _measured(found)
    note = f"the sentence is about theorems, and this about the method; {sweep.words}"
    return Row(
        name, says, measured.value, most, margin, bound=False, measured=measured, spoken=UNPROVED, note=note
    )  # fmt: skip


def momentum(subject: Subject, effort: Effort, methods: Methods = METHODS) -> list[Row]:
    """(13)'s floor, alpha L sigma^2/(mu N H): Fast-FedPG has the 1/N without momentum, as those that have it."""
    alpha, H = subject.alpha, subject.H
    eta = alpha / H
    all_of_them = {
        "Fast-FedPG, no momentum": methods.fast(eta, H),
        f"FedSVRPG-M, b = {B_OF_SVRPG:g}": methods.svrpg(eta, H, B_OF_SVRPG),
        f"MFPO, a = {A_OF_MFPO:g}": methods.mfpo(eta, H, A_OF_MFPO),
    }
    return [
        linear(f"{who}: floor in N", against_N(subject, algorithm, alpha, effort, H))
        for who, algorithm in counted(all_of_them.items())
    ]


def neighbours(
    subject: Subject, effort: Effort, methods: Methods = METHODS, graphs: Sequence[str] = ("complete", "ring")
) -> list[Row]:
    """Zeng et al.: the same eta, and as many estimates, one in a round."""
    eta = subject.alpha / subject.H
    return [
        unproved(f"decentralised PG, {graph}: floor in N", against_N(subject, algorithm, eta, effort, 1))
        for graph, algorithm in counted([(graph, methods.decentralised(eta, graph)) for graph in graphs])
    ]


def one_by_one(subject: Subject, effort: Effort, methods: Methods = METHODS) -> list[Row]:
    """Bai and Doan: the same eta, and one agent's estimate in a step, whoever else there is."""
    eta = subject.alpha / subject.H
    sweep = against_N(subject, methods.incremental(eta), eta, effort, 1)
    return [unproved("incremental PG: floor in N", sweep)]


def negated(subject: Subject, effort: Effort, methods: Methods = METHODS) -> list[Row]:
    """An additive bias stays as N grows: FedAvg-PG's gap is eta^2 times something, plus noise/N.

    The agents differ in reward alone. With all of them given the mean reward the same method at the same eta has the
    1/N, so it is the heterogeneity that takes it; and Fast-FedPG has it where they differ.
    """
    alpha, H = TORN / subject.L, subject.H
    same = replace(subject, known=mixed(subject.tabular, 0.0))
    cases = [(subject, methods.fedavg), (same, methods.fedavg), (subject, methods.fast)]
    torn, alike, fast = (
        against_N(each, make(alpha / H, H), alpha, effort, H) for each, make in counted(cases)
    )  # fmt: skip
    return [
        at_least("FedAvg-PG, agents that differ: floor in N", torn, NEGATED),
        linear("FedAvg-PG, agents alike: floor in N", alike),
        linear("Fast-FedPG, agents that differ: floor in N", fast),
    ]
