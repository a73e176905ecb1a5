"""Advice that is tried: what its rounds are by hand, and that it is what a run of it takes."""

import math

import numpy as np
import pytest

from fastfedpg import runtime
from fastfedpg.experiment import Config, plan
from fastfedpg.experiment.advised import advise
from fastfedpg.experiment.tried import ROUNDS, SHARES, Tried, by_trial, rounds_until
from fastfedpg.runtime import Schedule
from fastfedpg.theory.advice import Cost, Method

T = np.arange(ROUNDS + 1)


def test_rounds_of_gaps_that_fall_by_a_factor_and_of_such_that_slow_down():
    """0.9^t is at 1e-4 after log(1e-4)/log(0.9) = 87.4 rounds, so in the 88th; 1/(1 + t) at 1/200 after 199. The first
    is what goes on at its rate, the second what slows down, exactly."""
    assert rounds_until(1e-4, 0.9**T)[0] == 88
    assert rounds_until(1 / 200, 1 / (1 + T))[1] == pytest.approx(199, abs=1)
    low, high = rounds_until(1 / 200, 1 / (1 + T))
    assert low < 0.7 * high


def test_a_target_that_was_met_needs_no_model():
    assert rounds_until(0.5, np.array([1.0, 0.7, 0.4, 0.6, 0.9])) == (2, 2)
    assert rounds_until(2.0, np.array([1.0, 0.7])) == (0, 0)


def test_a_gap_that_does_not_fall_has_no_rounds():
    """Nor one that diverged, or that falls by its last bit alone."""
    last_bit = np.nextafter(0.3, 0)
    flat, rounded = np.array([1.0, 0.3, 0.3, 0.3, 0.3]), np.array([1.0, 0.3, 0.3, 0.3, last_bit])
    for gaps in (flat, rounded, np.array([1.0, 0.3, 0.2, 0.4, 0.5]), np.full(5, np.inf)):
        assert rounds_until(0.1, gaps) == (math.inf, math.inf)


def test_all_rows_change_by_the_factor_of_the_one_that_was_tried():
    """10 rounds were said and 40 are taken: 7 become 28; what was not reached stays so."""
    methods = [Method(name, 5, 20, 400, 1) for name in ("fast_fedpg", "fedavg_pg", "scaffold_pg")]
    said = [Cost(m, 1.0, rounds, 0.0) for m, rounds in zip(methods, (10, 7, math.inf), strict=True)]
    found = by_trial(said, Tried(0.25, np.ones(3), 30, 40, 0))
    assert [(c.eta, c.rounds) for c in found] == [(0.25, 40), (1.0, 28), (1.0, math.inf)]
    stuck = by_trial(said, Tried(0.25, np.ones(3), math.inf, math.inf, 0))
    assert [(c.eta, c.rounds) for c in stuck] == [(0.25, 10), (1.0, 7), (1.0, math.inf)]
    assert by_trial(said, None) == said


@pytest.mark.long
def test_what_is_advised_takes_as_many_rounds_as_it_says():
    """river-swim, exact: at 1/L along the gradient the first round ends at a bank from which no gradient leads away,
    where the gap is 94% of the first for good. A smaller step is advised, and its run meets the target when it says."""
    found = advise(Config("river-swim", H=50))
    assert found.config.eta < SHARES[0] / found.at.L
    assert found.tried.reached
    planned, rounds = plan(found.config), round(found.best.rounds)
    records = runtime.simulate_records(planned.problem, planned.algorithm, Schedule(rounds))
    gaps = [float(r.evaluation.gap[0]) for r in records]
    assert gaps[-1] <= found.target * found.scale < gaps[-2]
    assert f"the target is met after {rounds} rounds" in found.trial()


def test_a_step_size_that_is_given_is_the_only_one_tried():
    """It is that of the bank: the gap does not fall, and that is said."""
    found = advise(Config("river-swim", H=50, eta=57.3))
    assert found.tried.eta == found.config.eta == 57.3
    assert "does not fall any more: rounds are the model's, and nobody knows" in found.trial()
