"""Noise floors, their slopes, and heterogeneity that is told from none."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fastfedpg import simulate, theory
from fastfedpg.verify.claims import bias, floors
from fastfedpg.verify.verdict import (
    CONTROL,
    FAIL,
    NOT_APPLICABLE,
    PASS,
    decided,
)
from tiny_subject import EFFORT, LAWS, follow, heterogeneous, verdicts


@pytest.mark.parametrize("times", [0, 1, 3, 64])
def test_repeated_agents_have_the_same_average(subject, times):
    known = floors.repeated(subject.tabular, times)
    assert max(1, 3 * times) == known.N
    mean = np.vectorize(lambda s, a: math.fsum(known.reward[:, s, a]) / known.N)(*np.indices((3, 2)))
    np.testing.assert_allclose(mean, subject.tabular.reward.mean(axis=0), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(known.P, subject.tabular.P)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0])
def test_mixed_agents_have_the_same_average(subject, kappa):
    """R_i - Rbar is kappa of what it was, and Rbar stays."""
    known, mean = subject.tabular, subject.tabular.reward.mean(axis=0)
    mixed = bias.mixed(known, kappa)
    np.testing.assert_allclose(mixed.reward.mean(axis=0), mean, rtol=0, atol=1e-15)
    np.testing.assert_allclose(mixed.reward - mean, kappa * (known.reward - mean), rtol=0, atol=1e-15)


def test_a_run_is_as_long_as_the_noise_needs(subject):
    """relaxations/(alpha mu), at least some; more than there may be are left open."""
    mu = subject.pilot.mu
    assert floors.rounds_for(subject, 1 / mu, EFFORT._replace(relaxations=300.0), 10) == 300
    assert floors.rounds_for(subject, 1 / mu, EFFORT._replace(relaxations=1.0), 10) == 10
    with pytest.raises(floors.TooLong, match="rounds to settle"):
        floors.rounds_for(subject, 1e-9, EFFORT, 10)


def test_a_floor_is_the_last_half_of_a_run_from_the_optimum(scaled, monkeypatch):
    """Of the run itself: where it began, how long it was, and the mean of its later gaps, in cost units."""
    kept = {}

    def watched(problem, algorithm, rounds, seeds, every, theta0, first_seed):
        kept.update(rounds=rounds, every=every, theta0=theta0)
        kept["result"] = simulate(problem, algorithm, rounds, seeds, every, theta0=theta0, first_seed=first_seed)
        return kept["result"]

    monkeypatch.setattr(floors, "simulate", watched)
    alpha = 1 / scaled.L
    found = floors.floor(scaled, scaled.sampled, scaled.fast(alpha / 3), alpha, EFFORT, 120)
    np.testing.assert_array_equal(kept["theta0"], scaled.stationary)
    assert (kept["rounds"], kept["every"]) == (120, 3)
    late = kept["result"].rounds >= 60
    np.testing.assert_allclose(found, kept["result"].metrics["gap"][:, late].mean(axis=1) / 8, rtol=1e-12)
    assert np.all(found > 0)
    assert len(set(found)) == EFFORT.seeds


LONG = EFFORT._replace(times=(0, 1, 2), steps=(1, 2, 4), long_steps=(1, 2, 32))


@pytest.mark.parametrize("law", LAWS)
def test_slopes_are_read_off_as_they_are(subject, monkeypatch, law):
    """Floors with known slopes in N and H, at alpha = 1/(4CL), at 1/L and at fixed eta: every row decides by them."""
    f, expected = LAWS[law]
    follow(monkeypatch, subject, f)
    found, shapes = [], []
    for check in (floors.in_N, floors.in_H, floors.in_N_large, floors.in_H_fixed_eta):
        more, sweep = check(subject, LONG)
        found += more
        shapes.append((sweep.x.tolist(), sweep.floors.shape))
    assert shapes == [([1, 3, 6], (4, 3)), ([1, 2, 4], (4, 3)), ([1, 3, 6], (4, 3)), ([1, 2, 32], (4, 3))]
    names = {
        "N": "Theorem 2, floor in N",
        "H": "Theorem 2, floor in H",
        "N, large": "Not claimed: floor in N flattens, large eta H",
        "H, fixed": "Theorem 2, floor in H, fixed eta",
        "rises": "Not claimed: floor in H rises, fixed eta",
    }
    got = verdicts(found)
    assert {k: got[name] for k, name in names.items()} == expected


@pytest.mark.parametrize(("fast", "average", "expected"), [(0, 2, [PASS, CONTROL]), (2, 0, [FAIL, NOT_APPLICABLE])])
def test_heterogeneity_is_told_from_none(subject, monkeypatch, fast, average, expected):
    """Floors that grow like exp(2 kappa), or not at all: as they should, and the other way round."""
    heterogeneous(monkeypatch, subject, fast=fast, average=average)
    found, sweeps = bias.rows(subject, EFFORT)
    assert [row.verdict for row in decided(found)] == expected
    assert {name: sweep.floors.shape for name, sweep in sweeps.items()} == {"Fast-FedPG": (4, 3), "FedAvg-PG": (4, 3)}


def test_gap_against_all_trajectories(scaled, monkeypatch):
    """T is the least that Theorem 2's conditions allow, and multiples; gaps like log(NHT)/NHT have slope -1."""
    ran = []

    def runs(power):
        def simulate(problem, make, T, seeds, every, first_seed, sweep):
            ran.append((problem.N, T, *sweep))
            NHT = problem.N * 3 * T
            gaps = 8 * np.log(NHT) * NHT**power * (1 + 1e-3 * np.random.default_rng(T).normal(size=(1, seeds, 12)))
            return SimpleNamespace(metrics={"gap": gaps})

        return simulate

    effort = EFFORT._replace(totals=((0, (1,)), (1, (1, 4))))
    for power, expected in ((-1, PASS), (-0.5, FAIL)):
        monkeypatch.setattr(floors, "simulate", runs(power))
        [row], sweep = floors.in_NHT(scaled, effort)
        assert decided([row])[0].verdict == expected
        expected = np.log(sweep.x) * sweep.x ** float(power)  # in cost units
        np.testing.assert_allclose(sweep.floors, np.tile(expected, (4, 1)), rtol=0.01)
    assert [N for N, _, _ in ran[:3]] == [1, 3, 3]
    assert ran[2][1] == 4 * ran[1][1]
    for N, T, eta in ran[:3]:
        schedule = theory.theorem2(N, 3, T, scaled.pilot.mu, scaled.noisy_L, 0.5)
        assert schedule.T_least <= T
        assert eta == schedule.eta
