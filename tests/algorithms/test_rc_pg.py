"""Regressed control variates: what the method is at both ends of beta, and where beta goes by itself."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import InputError, fedavg_pg, loop, rc_pg, scaffold_pg, simulate, with_oracle
from fastfedpg.core import Evaluation, Oracle, Problem
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import Schedule, message_sizes, simulate_records

H, ETA, TAU = 3, 0.3, 0.2
P = ref.small_problem(N=4, S=3, A=2, seed=75)
THETA0 = np.random.default_rng(76).normal(size=6)
EXACT = with_oracle(P, "exact", TAU)
SAMPLED = with_oracle(P, "gpomdp", B=2, K=4)
BOTH = pytest.mark.parametrize("run", [loop, simulate])
RC = rc_pg(ETA, H)


@BOTH
@pytest.mark.parametrize("problem", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_without_a_correction_it_is_fedavg_to_the_bit(run, problem):
    """beta = 0: the same exchange by name, hence the same keys, and g - 0 = g."""
    one = run(problem, rc_pg(ETA, H, beta=(0.0, 0.0)), 4, 2, theta0=THETA0)
    np.testing.assert_array_equal(one.theta, run(problem, fedavg_pg(ETA, H), 4, 2, theta0=THETA0).theta)


@BOTH
@pytest.mark.parametrize("problem", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_with_all_of_the_last_round_it_is_scaffold(run, problem):
    """gains = (1,), beta = (1,): d_i = m_i - mean_i m_i = c_i - c of option II, to rounding."""
    one = run(problem, rc_pg(ETA, H, gains=(1.0,), beta=(1.0,)), 6, 2, theta0=THETA0)
    two = run(problem, scaffold_pg(ETA, H, everybody=False), 6, 2, theta0=THETA0)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-12)
    assert np.abs(one.theta - run(problem, fedavg_pg(ETA, H), 6, 2, theta0=THETA0).theta).max() > 1e-4


def test_four_rounds_by_hand():
    """Written out for two gains, with beta from the equations. The fit begins in the third round, after the first in
    which d_ij was not 0. d_i2 is then d_i1/4 for every i, and the ridge makes the two coefficients equal: 0.8 each
    would give d_i1 back, 1.6 together, and gradients have moved a little since."""
    k, f, N = np.array([1.0, 0.25])[:, None], 0.2, P.N
    g = lambda theta: tabular_exact.gradients(P, theta, TAU).reshape(N, -1)
    theta, before, m_i, d = THETA0, THETA0, np.zeros((N, 6)), np.zeros((N, 2, 6))
    G, b, beta, seen = np.zeros((2, 2)), np.zeros(2), np.zeros(2), []
    for _ in range(4):
        d = (1 - k) * d + k * (m_i - (before - theta) / (ETA * H))[:, None]
        ends, asked = np.tile(theta, (N, 1)), []
        for _ in range(H):
            asked.append(np.stack([g(x)[i] for i, x in enumerate(ends)]))
            ends = ends - ETA * (asked[-1] - np.einsum("j,njd->nd", beta, d))
        m_i, before, theta = np.mean(asked, axis=0), theta, ends.mean(axis=0)
        G = (1 - f) * G + f * np.einsum("njd,nld->jl", d, d) / N
        b = (1 - f) * b + f * np.einsum("njd,nd->j", d, m_i) / N
        seen.append(beta.sum())
        if G.any():
            ridge = 1e-3 * np.trace(G) / 2 * (np.eye(2) - 0.5)
            beta = np.clip(np.linalg.solve(G + ridge, b), -1, 1.5)
    found = loop(EXACT, RC, 4, theta0=THETA0)
    np.testing.assert_allclose(found.theta[0], theta, atol=1e-12)
    np.testing.assert_allclose(found.metrics["beta"][0, 1:], seen, rtol=1e-9)
    assert seen[:2] == [0, 0]
    assert seen[2] == pytest.approx(1.6, rel=0.1)


@pytest.mark.parametrize("problem", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_corrections_add_up_to_zero_at_all_times(problem):
    """sum_i d_ij = 0 for both gains after each of 12 rounds, to rounding, while each of them is not 0."""
    stood = []
    list(simulate_records(problem, RC, Schedule(12, theta0=THETA0), lambda t, now: stood.append(now()), pause=1))
    assert len(stood) == 12
    for now in stood[1:]:
        d = np.asarray(now.memory.d)[0]
        assert np.abs(d.mean(axis=0)).max() < 1e-13
        assert np.abs(d).max(axis=(0, 2)).min() > 1e-4


def test_identical_agents_have_nothing_to_correct():
    """Exact gradients: d_ij = 0 but for rounding, whatever beta, so that T rounds are T H gradient steps."""
    same = ref.TabularProblem(P.P, np.repeat(P.reward[:1], 4, axis=0), P.rho, P.gamma)
    theta = THETA0
    for _ in range(3 * H):
        theta = theta - ETA * tabular_exact.gradient(same, theta, TAU).reshape(-1)
    stood, hear = [], lambda t, now: stood.append(now())
    found = list(simulate_records(with_oracle(same, "exact", TAU), RC, Schedule(3, theta0=THETA0), hear, pause=1))
    np.testing.assert_allclose(found[-1].theta[0], theta, atol=1e-13)
    assert max(np.abs(now.memory.d).max() for now in stood) < 1e-14


@pytest.mark.parametrize("gains", [(1.0,), (1.0, 0.25)])
def test_without_noise_the_coefficients_add_up_to_one_and_the_gradient_vanishes(gains):
    """FedAvg stops at ||grad J||^2 = 7e-6 there; a ridge that shrank the sum by 1/1000 would stop at 1e-6 of that."""
    found = simulate(EXACT, rc_pg(2.0, H, gains), 400, metrics_every=400)
    assert found.final("beta")[0] == pytest.approx(1, abs=1e-9)
    assert found.final("grad_norm_sq")[0] < 1e-24


def test_there_fedavg_stops_elsewhere():
    assert simulate(EXACT, fedavg_pg(2.0, H), 400, metrics_every=400).final("grad_norm_sq")[0] > 1e-6


def noisy(zeta, N=16, d=16):
    """A problem whose gradients are mu_i + noise of variance 1 in each entry, wherever they are asked for; and mu_i."""
    mu = zeta * np.random.default_rng(77).normal(size=(N, d))

    def oracle(task):
        sample = lambda theta, own, key, B: (task + jax.random.normal(key, (d,)), own)
        return Oracle(lambda key: (), sample, lambda theta, own, g: g, lambda batch: 1)

    none = lambda thetas, seeds=None: Evaluation(*(np.zeros(len(thetas)),) * 3, np.zeros((len(thetas), N)))
    return Problem(mu, np.arange(N, dtype=np.int32), oracle, none, np.zeros(d)), mu


@pytest.mark.parametrize("zeta", [0.0, 0.3, 3.0])
def test_what_is_fitted_leaves_no_more_than_no_correction_or_the_whole_of_it(zeta):
    """The push that is left in local steps, mean_i ||mu_i - mean mu - sum_j beta_j d_ij||^2, is at most that of beta =
    0, FedAvg-PG's, and that of beta = e_1, SCAFFOLD's, and what two fitted numbers cost: each of them f/(2-f) of the
    noise of one of N d entries of m_i, 1/H, in the sum over d and the mean over N; 3 times that is allowed. Where
    neither zeta^2 nor noise is much larger, both are beaten by far."""
    problem, mu = noisy(zeta)
    apart, stood = mu - mu.mean(axis=0), []
    schedule = Schedule(50, 8, metrics_every=50)
    list(simulate_records(problem, RC, schedule, lambda t, now: stood.append(now()), pause=1))
    left = {"fitted": [], "none": [], "last": []}
    for before, now in itertools.pairwise(stood[25:]):
        beta, d = np.asarray(before.down.beta), np.asarray(now.memory.d)  # fitted then, and used in the round after it
        for name, b in (("fitted", beta), ("none", np.zeros(2)), ("last", np.array([1.0, 0.0]))):
            push = apart - np.einsum("...j,...njd->...nd", b, d)
            left[name].append((push**2).sum(axis=-1).mean())
    fitted, none, last = (np.mean(x) for x in left.values())
    cost = 2 * 0.2 / (2 - 0.2) / H / len(mu)
    assert fitted <= min(none, last) + 3 * cost
    if zeta == 0.3:
        assert fitted < 0.7 * min(none, last)


def test_noise_alone_is_not_corrected():
    """Gradients that are pure noise: <d_i, m_i> has mean zero, so that beta lies around 0 with a standard deviation of
    about sqrt(f/(2-f)) / sqrt(N d) = 1/3 / 16 = 0.021 for one gain and zeta = 0. One alone is clipped to [0, 1], which
    leaves half a normal distribution: mean 0.4 standard deviations, at most 4 of them. SCAFFOLD has beta = 1."""
    found = simulate(noisy(0.0)[0], rc_pg(ETA, H, (1.0,)), 30, 20, metrics_every=30).final("beta")
    assert found.mean() < 0.4 * 0.021 + 4 * 0.6 * 0.021 / np.sqrt(20)
    assert found.max() < 4.5 * 0.021
    assert found.max() > 0


def test_what_is_sent():
    """For m gains d numbers and m (m + 3)/2 scalars up, d + m down."""
    for gains, up, down in (((1.0,), 2, 1), ((1.0, 0.25), 5, 2), ((1.0, 0.5, 0.25), 9, 3)):
        assert message_sizes(EXACT, rc_pg(ETA, H, gains), jnp.zeros(6))[:2] == (6 + up, 6 + down)


@BOTH
def test_fewer_agents_are_refused(run):
    with pytest.raises(InputError, match="participants = 3 of 4 agents: corrections add up to zero only if all"):
        run(EXACT, RC, 1, participants=3)
    run(EXACT, RC, 1, participants=4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gains": ()}, r"gains = \(\); there must be at least one"),
        ({"gains": (0.0, 1.0)}, r"each must lie in \(0, 1\]"),
        ({"gains": (1.5,)}, r"each must lie in \(0, 1\]"),
        ({"forget": 0.0}, r"forget = 0; it must lie in \(0, 1\]"),
        ({"beta": (1.0,)}, "there must be a finite number for each of 2 gains"),
        ({"beta": (1.0, float("nan"))}, "there must be a finite number for each of 2 gains"),
    ],
)
def test_bad_arguments_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        rc_pg(ETA, H, **settings)
