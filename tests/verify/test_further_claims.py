"""(12) with entropy, (13) on the way, Theorem 3's speed-up in N: each row fails when its claim is made false."""

from types import SimpleNamespace

import numpy as np
import pytest

from fastfedpg import problems, theory
from fastfedpg.problems import tabular_exact
from fastfedpg.verify.claims import domination, floors, identity, stationary, transient
from fastfedpg.verify.verdict import FAIL, NOT_APPLICABLE, PASS, UNDECIDED, decided
from tiny_subject import EFFORT, like, verdicts

AMONG = 1000
"""Comparisons: more than a report has."""


def test_domination_of_one_state_by_hand(subject):
    """One state: d = d* = 1, so mu = 4 tau min pi^2/(1 - gamma). And (12) with it, at a theta far from uniform."""
    known, tau = problems.compromise(agents=2, mid=0.6, gamma=0.5), 0.1
    one = like(subject, known=known, tau=tau)
    theta = np.array([1.0, -1.0, 0.5])
    pi = np.exp(theta) / np.exp(theta).sum()
    assert domination.domination_bound(one, theta) == pytest.approx(4 * tau * pi.min() ** 2 / 0.5, rel=1e-12)
    gap = tabular_exact.J_i(known, theta, tau).mean() - tabular_exact.optimum(known, tau).J
    slope = tabular_exact.gradients(known, theta, tau).mean(axis=0)
    assert domination.domination_bound(one, theta) * gap <= np.sum(slope**2)


def test_domination_row(subject, monkeypatch):
    """Holds, but not with a mu a thousand times as large; without entropy it does not apply."""
    assert verdicts(domination.rows(subject, 3)) == {"Eq. (12), entropy": PASS}
    bound = domination.domination_bound
    monkeypatch.setattr(domination, "domination_bound", lambda *given: 1e3 * bound(*given))
    assert verdicts(domination.rows(subject, 3)) == {"Eq. (12), entropy": FAIL}
    assert verdicts(domination.rows(like(subject, tau=0.0), 3)) == {"Eq. (12), entropy": NOT_APPLICABLE}


def fallen(rate, floor, scatter=1e-3):
    """Runs whose gap is (1 - rate)^t + floor, with ||grad J||^2 = gap, in the place of real ones."""

    def simulate(problem, algorithm, rounds, seeds, every, first_seed):
        t = np.arange(0, rounds + 1, every)
        gaps = (1 - rate) ** t + floor * (t > 0)
        gaps = gaps * (1 + scatter * (t > 0) * np.random.default_rng(0).normal(size=(seeds, len(t))))
        return SimpleNamespace(rounds=t, metrics={"gap": gaps, "grad_norm_sq": gaps})

    return simulate


def test_on_the_way(subject, monkeypatch):
    """A gap that falls as fast as alpha mu/2 passes; one that falls ten times slower than alpha mu/4 fails, though it
    ends below all that (13) allows; where the floor is above the first gap nothing can be told.

    (13) itself is vacuous, and fails for a gap that stays above all that it allows.
    """
    rate = subject.alpha * subject.pilot.mu
    floor = theory.theorem2_floor(subject.alpha, subject.pilot.mu, subject.noisy_L, 3, 3, 1.0, 0.0)
    monkeypatch.setattr(transient, "noise", lambda *given: floors.Noise(1.0, 1.0, 0.0))
    names = "Theorem 2, on the way", "Theorem 2, on the way to its floor"
    effort = EFFORT._replace(relaxations=8.0)
    slower = ((rate / 40, 0.01, [PASS, FAIL]), (rate / 40, 2 * floor, [FAIL, UNDECIDED]))
    for falls, rests, expected in ((rate / 2, 0.01, [PASS, PASS]), *slower):
        monkeypatch.setattr(transient, "simulate", fallen(falls, rests))
        met = rests * (1 + 1e-3 * np.arange(effort.seeds))
        monkeypatch.setattr(transient, "floor", lambda *given, met=met: met)
        assert list(verdicts(transient.rows(subject, effort)[0]).values()) == expected, names


@pytest.mark.parametrize(("power", "expected"), [(-1.0, PASS), (0.0, FAIL), (-0.5, FAIL), (-1.5, FAIL)])
def test_speed_up_in_N(subject, monkeypatch, power, expected):
    """Means like N^power at T and alpha fixed, from the stationary point; what is steeper than -1 is no failure."""
    asked = []

    def simulate(problem, algorithm, rounds, seeds, every, theta0, first_seed):
        asked.append((problem.N, (rounds, algorithm)))
        np.testing.assert_array_equal(theta0, subject.stationary)
        values = problem.N**power * (1 + 1e-3 * np.random.default_rng(problem.N).normal(size=(seeds, 12)))
        return SimpleNamespace(metrics={"grad_norm_sq": values})

    monkeypatch.setattr(stationary, "simulate", simulate)
    [row], sweep = stationary.in_N(subject, EFFORT._replace(crowds=(1, 4, 16)))
    assert decided([row])[0].verdict == expected
    assert sweep.x.tolist() == [3, 12, 48]
    assert len({rest for _, rest in asked}) == 1, "only N changes"


def test_agents_with_own_kernels_are_repeated_whole():
    """P, rho and rewards of each again: the mean gradient stays."""
    known = problems.random(agents=2, S=3, A=2, gamma=0.5, kernel=0.5)
    more, theta = floors.repeated(known, 3), np.arange(6.0) / 6
    assert more.N == 6
    both = [tabular_exact.gradients(x, theta, 0.1).mean(axis=0) for x in (more, known)]
    np.testing.assert_allclose(*both, rtol=0, atol=1e-15)


def test_T4_needs_no_pairs(subject):
    """One agent and one step: what is left is what was sent and the step after it, and the round after: two."""
    alone = like(subject, known=floors.repeated(subject.tabular, 0), H=1)
    rows = {row.claim: row for row in identity.rows(alone, 64)}
    assert rows["Lemma 1, T4"].comparisons == 2
    assert {row.verdict for row in decided(rows.values())} <= {PASS, UNDECIDED}


def test_T4_sees_noise_that_rounds_share(subject, monkeypatch):
    """Keys that do not know the round: what is sent, or what local steps say, has the noise of the round before.

    Alone, each is a share of sum E||h_(i,l)||^2: 1/H, about, and 1.
    """
    seen = []
    with monkeypatch.context() as patch:
        patch.setattr(identity, "cross_terms", lambda subject, *rounds: seen.extend(rounds))
        next(row for row in identity.rows(subject, 64) if seen)
    first, second = seen
    assert decided([identity.cross_terms(subject, first, second)])[0].verdict != FAIL
    (sent, h), (sent_later, h_later) = (identity._noise(subject, x) for x in (first, second))
    shared = {"first": second.first - sent_later + sent}, {"answers": second.answers - h_later + h}
    for again, much in zip(shared, (1 / subject.H, 1.0), strict=True):
        row = decided([identity.cross_terms(subject, first, second._replace(**again))], AMONG)[0]
        assert row.verdict == FAIL
        assert row.margin.mean[-1] == pytest.approx(much, abs=0.25)
    one = lambda round: type(round)(*(np.repeat(x[:1], len(x), axis=0) for x in round))
    row = decided([identity.cross_terms(subject, one(first), one(second))], AMONG)[0]
    assert row.verdict == FAIL  # one noise for all seeds
