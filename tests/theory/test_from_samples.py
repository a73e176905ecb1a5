"""sigma^2, zeta^2, ||grad J||^2 and L from estimates alone: unbiased, and with intervals that hold their level."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg import policies, problems, theory
from fastfedpg.errors import InputError
from fastfedpg.theory import from_samples

GROUPS, R = 150, 24


@pytest.fixture(scope="module")
def table():
    """4 agents' estimates by Eq. (5) at a random theta, in groups, and a step ahead; and what they estimate."""
    mdp = problems.random(agents=4, S=3, A=2, gamma=0.5)
    theta = np.random.default_rng(1).normal(size=6)
    u = np.random.default_rng(2).normal(size=6)
    u /= np.linalg.norm(u)
    problem, exact = problems.with_oracle(mdp, "reinforce", B=4, K=8), problems.with_oracle(mdp, "truncated", K=8)
    tasks = [jax.tree.map(lambda x, i=i: x[i], exact.tasks) for i in range(4)]
    true = lambda at: np.stack([np.asarray(exact.oracle(task).gradient(jnp.asarray(at), (), ())) for task in tasks])
    draws = [from_samples.draw_estimates(problem, at, GROUPS * R, seed=3) for at in (theta, theta - 2 * u)]
    here, ahead = (d.g.reshape(GROUPS, R, 4, 6) for d in draws)
    g, change = true(theta), true(theta - 2 * u) - true(theta)
    targets = {
        "norm_sq": float(np.sum(g.mean(axis=0) ** 2)),
        "zeta_sq": float(np.mean(np.sum((g - g.mean(axis=0)) ** 2, axis=1))),
        "sigma_sq": float(np.mean(np.sum((draws[0].g - g) ** 2, axis=-1))),
        "L": float(np.sqrt(np.mean(np.sum(change**2, axis=1))) / 2),
    }
    return here, ahead, targets, draws[0].steps


def found(name: str, here: np.ndarray, ahead: np.ndarray) -> theory.Estimate:
    if name == "L":
        return theory.smoothness_from(here, ahead, 2.0)
    return {"norm_sq": theory.norm_sq_from, "zeta_sq": theory.zeta_sq_from, "sigma_sq": theory.sigma_sq_from}[name](
        here
    )


@pytest.mark.parametrize("name", ["norm_sq", "zeta_sq", "sigma_sq", "L"])
def test_intervals_on_a_table_hold_their_level(name, table):
    """95% intervals in 150 groups: fewer than 134 that cover has probability 1% at most if each covers with 95%,
    since a binomial of 150 and .95 is below 134 with .3%."""
    here, ahead, targets, _ = table
    every = [found(name, h, a) for h, a in zip(here, ahead, strict=True)]
    assert sum(e.low <= targets[name] <= e.high for e in every) >= 134


@pytest.mark.parametrize("name", ["norm_sq", "zeta_sq", "sigma_sq"])
def test_estimates_on_a_table_are_unbiased(name, table):
    """The mean over 150 groups within 4 of its standard errors; squares of means, noise and all, are not."""
    here, ahead, targets, _ = table
    every = np.array([found(name, h, a).mean for h, a in zip(here, ahead, strict=True)])
    error = every.std(ddof=1) / np.sqrt(GROUPS)
    assert abs(every.mean() - targets[name]) < 4 * error
    if name == "zeta_sq":
        g = here.mean(axis=1)
        naive = np.mean(np.sum((g - g.mean(axis=1, keepdims=True)) ** 2, axis=-1), axis=1)
        assert abs(naive.mean() - targets[name]) > 10 * error


def test_steps_are_counted(table):
    """150 * 24 replicas of 4 agents with B = 4 and K = 8."""
    assert table[3] == GROUPS * R * 4 * 4 * 8


def test_a_replica_is_the_same_with_however_many_others_it_is_drawn():
    """16 are drawn in blocks of 8, and 17 at once: the first 16 of these are the same to the bit, and none is twice."""
    problem = problems.with_oracle(problems.compromise(), "reinforce", B=2, K=3)
    some, all_of_them = (from_samples.draw_estimates(problem, np.zeros(3), n, seed=5) for n in (16, 17))
    np.testing.assert_array_equal(some.g, all_of_them.g[:16])
    assert len(np.unique(some.g.reshape(16, -1), axis=0)) > 8
    assert (some.steps, all_of_them.steps) == (16 * 2 * 2 * 3, 17 * 2 * 2 * 3)


def test_agents_that_are_alike_have_no_zeta():
    """zeta^2 = 0: its interval holds 0 in at least 95% of cases (the jackknife is wide there), and noise alone is 8."""
    rng = np.random.default_rng(0)
    every = [theory.zeta_sq_from(rng.normal(size=(16, 5, 10)) + 1) for _ in range(200)]
    assert sum(e.low <= 0 <= e.high for e in every) >= 190
    assert abs(np.mean([e.mean for e in every])) < 0.1


@pytest.mark.parametrize("size", [8, 32])
def test_intervals_hold_their_level_for_normal_noise(size):
    """400 times: a binomial with .95 is below 366 with probability .1%."""
    rng = np.random.default_rng(size)
    mean = rng.normal(size=(3, 6))
    true = np.mean(np.sum((mean - mean.mean(axis=0)) ** 2, axis=1)), np.sum(mean.mean(axis=0) ** 2), 6.0
    inside = np.zeros(3)
    for _ in range(400):
        g = mean + rng.normal(size=(size, 3, 6))
        each = theory.zeta_sq_from(g), theory.norm_sq_from(g), theory.sigma_sq_from(g)
        inside += [e.low <= t <= e.high for e, t in zip(each, true, strict=True)]
    assert (inside >= 366).all()


@pytest.mark.parametrize("size", [8, 32])
@pytest.mark.parametrize("errors", [0, 1, 2])
def test_intervals_hold_their_level_near_0_in_one_dimension(size, errors):
    """zeta^2, ||grad J||^2 and L^2 that are 0, 1 or 4 times what noise makes of them, 400 times, as above. The
    jackknife alone covers in 82 to 87% there: it estimates an error of the first order, which vanishes at 0."""
    rng, inside = np.random.default_rng(10 * size + errors), np.zeros(3)
    m = errors / np.sqrt(size)  # the noise of a mean of `size` is 1 of these
    for _ in range(400):
        one, two = m + rng.normal(size=(2, size, 1, 1))
        apart = np.concatenate([one, -one], axis=1)  # two agents, as far from their mean as `one` from 0
        each = theory.zeta_sq_from(apart), theory.norm_sq_from(one), theory.smoothness_from(0 * two, two, 1.0)
        inside += [e.low <= t <= e.high for e, t in zip(each, (m**2, m**2, m), strict=True)]
    assert (inside >= 366).all()


@pytest.mark.parametrize("pull", [0.0, 2.0])
def test_the_direction_is_chosen_by_other_samples_than_those_that_tell_L(pull, monkeypatch):
    """One agent, g = pull e_1 + L theta + noise of size 1 in each of 64 dimensions, 8 replicas, 200 times: `measure`
    covers L in at least 179, below which a binomial with .95 is with probability .1%.

    Were the estimates that chose the direction also one end of the difference, their mean's noise, sqrt(64/8) long,
    would lie along it where pull = 0, and L s would seem longer by so much: such intervals cover in 46 and 59%."""
    L, rng = 2.0, np.random.default_rng(16)
    start = pull * np.eye(64)[0]

    def draw(problem, theta, replicas, seed, first=0):
        return from_samples.Drawn(start + L * theta + rng.normal(size=(replicas, 1, 64)), 0)

    monkeypatch.setattr(from_samples, "draw_estimates", draw)
    every = [from_samples.measure(None, np.zeros(64), 8).L for _ in range(200)]
    assert sum(e.low <= L <= e.high for e in every) >= 179


def test_exact_gradients_are_measured_exactly():
    """Without noise intervals are points: zeta^2 and ||grad J||^2 by their definitions, L by a difference."""
    mdp = problems.random(agents=3, S=4, A=3, gamma=0.5)
    theta = np.random.default_rng(0).normal(size=12)
    got = theory.measure(problems.with_oracle(mdp, "exact"), theta, replicas=4, steps=(1e-4,))
    g = problems.exact.gradients(mdp, theta).reshape(3, 12)
    mean = g.mean(axis=0)
    assert got.sigma_sq == (0, 0, 0)
    assert got.norm_sq.mean == pytest.approx(mean @ mean)
    assert got.zeta_sq.mean == pytest.approx(np.mean(np.sum((g - mean) ** 2, axis=1)))
    assert got.zeta_sq.high - got.zeta_sq.low < 1e-12
    u = mean / np.linalg.norm(mean)
    _, times = jax.linearize(mdp.gradients(), jnp.asarray(theta))
    assert got.L.mean == pytest.approx(
        np.sqrt(np.mean(np.sum(np.asarray(times(jnp.asarray(u))) ** 2, axis=1))), rel=1e-3
    )
    assert got.steps == 0


def test_played_environments_are_measured():
    """Point masses with a linear policy: agents' goals differ, and all intervals leave out 0."""
    known = problems.make("point-mass", {}, 3)
    policy = policies.make("linear", known.observations, known.actions, False, {})
    problem = problems.with_policy(known, policy, "gpomdp", B=8, baseline="leave-one-out")
    theta = np.asarray(policy.init(jax.random.key(0)))
    got = theory.measure(problem, theta, replicas=8)
    assert got.sigma_sq.low > 0
    assert got.zeta_sq.low > 0
    assert got.steps > 0
    assert got.L.mean >= 0


def test_too_few_replicas_are_refused():
    with pytest.raises(InputError, match="3 replicas; an interval needs at least 4"):
        theory.zeta_sq_from(np.zeros((3, 2, 2)))
    with pytest.raises(InputError, match="0 replicas"):
        from_samples.draw_estimates(problems.with_oracle(problems.compromise(), "exact"), np.zeros(3), 0)
