"""Theorem 2 without noise: the gap falls by a factor each round where gradient domination holds, and else does not."""

from typing import NamedTuple

import numpy as np

from fastfedpg import theory
from fastfedpg.verify.listening import simulate
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Row, claim, exactly, not_applicable, open_question

REACHED = 1e-12
"""The gap that counts as linear convergence to the optimum, times the size of J."""
SEEN = 1e-10
"""Of the first gap: rates are measured down to there, since nearer to J* gaps are rounding."""
LONGEST = 40_000
"""Rounds that are run at most."""
RECORDS = 200
PLAIN = 4000
"""Rounds of the control without entropy."""


class Course(NamedTuple):
    """A run without noise, as it is drawn."""

    rounds: np.ndarray
    gaps: np.ndarray
    promised: np.ndarray  # (1 - alpha mu/4)^t times the first gap; empty for the control


def linear(subject: Subject) -> tuple[list[Row], Course | None]:
    """The gap reaches 1e-12, and no round's factor is larger than 1 - alpha mu/4, with mu along the run."""
    says = (
        "J - J* after the run <= 1e-12 max(1, J)",
        "alpha mu/4 <= 1 - (gap after)/(gap before), a round, between records",
    )
    names = ("Theorem 2, exact: limit", "Theorem 2, exact: rate")
    if why := subject.undominated:
        return [not_applicable(name, s, why) for name, s in zip(names, says, strict=True)], None
    eta = subject.eta()
    alpha = eta * subject.H
    rounds = int(np.clip(40 / (alpha * subject.pilot.mu), 50, LONGEST))
    every = max(1, rounds // RECORDS)
    result = simulate(subject.exact, subject.make(eta, subject.H), rounds, metrics_every=every)
    gaps, norms_sq = (
        result.metrics[name][0] / subject.known.scale**power for name, power in (("gap", 1), ("grad_norm_sq", 2))
    )
    seen = int(np.argmax(gaps < max(SEEN * gaps[0], 1e3 * np.finfo(float).eps * subject.J_size))) or len(gaps)
    mu = theory.domination_estimate(norms_sq[:seen], gaps[:seen])
    seen = max(seen, 2)
    between_records = np.diff(result.rounds[:seen])
    fall = 1 - (gaps[1:seen] / gaps[: seen - 1]) ** (1 / between_records)
    note = f"{rounds} rounds, H = {subject.H}, alpha = {alpha:.3g} = 1/(4CL), mu = {mu:.3g} along the run"
    enough = REACHED * max(1.0, subject.J_size)
    limit = claim(names[0], says[0], max(gaps[-1], 0.0), enough, note=note, bound=False)
    if rounds == LONGEST and gaps[-1] > enough:  # too short a run for this mu refutes nothing
        limit = open_question(
            names[0], f"{gaps[-1]:.2g} is left, and L/mu = {subject.L / mu:.3g} asks for more: {note}"
        )
    rows = [limit, claim(names[1], says[1], alpha * mu / 4, fall.min(), note=note)]
    return rows, Course(result.rounds, gaps, (1 - alpha * mu / 4) ** result.rounds * gaps[0])


def plain(subject: Subject) -> tuple[Row, Course]:
    """The control: softmax without entropy, where (12) fails on R^d, converges like 1/t and not linearly."""
    alpha = 1 / subject.L
    result = simulate(subject.exact, subject.make(alpha / subject.H, subject.H), PLAIN, metrics_every=PLAIN // RECORDS)
    gaps = result.metrics["gap"][0] / subject.known.scale
    late = result.rounds >= PLAIN // 10
    slope = float(np.polyfit(np.log(result.rounds[late]), np.log(gaps[late]), 1)[0])
    row = Row(
        "Theorem 2, no entropy",
        "must not be linear: slope of log gap against log t about -1 (linear: below -5)",
        slope,
        -5.0,
        exactly(-5.0 - slope),
        control=True,
        bound=False,
        note=f"tau = 0, alpha = 1/L, the last decade of {PLAIN} rounds; 1/t has slope -1",
    )
    return row, Course(result.rounds, gaps, np.array([]))
