"""The oracles: exact means and variances by enumeration, then z-tests that real estimators pass and mutants fail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import reference as ref
from fastfedpg import TabularProblem, with_oracle
from fastfedpg.oracles import ORACLES, gpomdp, reinforce, sampled
from fastfedpg.problems import tabular_exact as known

K = 3


class Enumerated:
    """S = A = 2, K = 3: all 64 trajectories of agent 0, with their probabilities."""

    def __init__(self):
        self.problem = ref.small_problem(N=2, S=2, A=2, gamma=0.7, seed=20)
        self.theta = np.random.default_rng(21).normal(size=4)
        p = self.problem
        self.cost = p.cost[0]
        self.all = list(ref.all_trajectories(p.P, p.rho, self.theta, K))
        self.weight = np.array([t.probability for t in self.all])
        pairs = [[2 * s + a for s, a in zip(t.states, t.actions, strict=True)] for t in self.all]
        self.batch = sampled.Trajectories(jnp.array(pairs, jnp.int32)[:, None], 2)

    def oracle(self, name, tau, **settings):
        problem = with_oracle(self.problem, name, tau, K=K, **settings)
        return problem.oracle(jnp.asarray(problem.tasks[0]))

    def gradients(self, oracle, batch):
        return np.asarray(jax.vmap(lambda b: oracle.gradient(jnp.asarray(self.theta), (), b))(batch))


@pytest.fixture(scope="module")
def tiny():
    return Enumerated()


@pytest.fixture(params=[0.0, 0.3], ids=["plain", "entropy"])
def tau(request):
    return request.param


def moments(values, probability):
    """Mean, and the total variance E||x - E x||^2, which is the sigma^2 of Assumption 3."""
    mean = probability @ values
    return mean, probability @ ((values - mean) ** 2).sum(axis=1)


def test_enumeration_is_complete(tiny):
    assert len(tiny.all) == 64
    assert tiny.weight.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(("name", "definition"), [("reinforce", ref.eq5), ("gpomdp", ref.causal)])
def test_each_estimator_is_its_own_definition_on_every_trajectory(tiny, tau, name, definition):
    """Term by term equal to the written-out sums; hence the same mean and the same variance, to 1e-12."""
    p = tiny.problem
    got = tiny.gradients(tiny.oracle(name, tau, B=1), tiny.batch)
    expected = np.array([definition(tiny.cost, p.gamma, tiny.theta, t, tau) for t in tiny.all])
    np.testing.assert_allclose(got, expected, atol=1e-12)
    (mean, variance), (mean_ref, variance_ref) = moments(got, tiny.weight), moments(expected, tiny.weight)
    np.testing.assert_allclose(mean, mean_ref, atol=1e-12)
    assert variance == pytest.approx(variance_ref, abs=1e-12)


def test_reinforce_and_gpomdp_share_the_mean_and_differ_in_variance(tiny, tau):
    """The mean of both is `truncated`, to 1e-12; their variances are far apart, so neither can pass for the other."""
    target = tiny.oracle("truncated", tau).gradient(jnp.asarray(tiny.theta), (), ())
    results = {
        n: moments(tiny.gradients(tiny.oracle(n, tau, B=1), tiny.batch), tiny.weight) for n in ("reinforce", "gpomdp")
    }
    for mean, _ in results.values():
        np.testing.assert_allclose(mean, target, atol=1e-12)
    assert results["gpomdp"][1] < 0.9 * results["reinforce"][1]


@pytest.fixture(scope="module")
def pairs(tiny):
    """All 64^2 pairs of independent trajectories, as batches of B = 2."""
    i, j = (x.reshape(-1) for x in np.meshgrid(range(64), range(64), indexing="ij"))
    both = jax.tree.map(lambda x: jnp.concatenate([x[i], x[j]], axis=1), tiny.batch)
    return i, j, both, tiny.weight[i] * tiny.weight[j]


def test_two_trajectories_halve_the_variance(tiny, pairs, tau):
    _, _, both, probability = pairs
    one = moments(tiny.gradients(tiny.oracle("reinforce", tau, B=1), tiny.batch), tiny.weight)[1]
    assert moments(tiny.gradients(tiny.oracle("reinforce", tau, B=2), both), probability)[1] == pytest.approx(one / 2)


def test_leave_one_out_is_unbiased_and_the_batch_mean_would_not_be(tiny, pairs, tau):
    """Over all pairs the mean is `truncated` to 1e-12, and each pair equals the written-out sum.

    With B = 2 the baseline of one trajectory is the other's cost-to-go. The batch's own mean instead gives exactly half
    of the gradient, (B - 1) / B.
    """
    i, j, both, probability = pairs
    p = tiny.problem
    got = tiny.gradients(tiny.oracle("gpomdp", tau, B=2, baseline="leave-one-out"), both)
    target = np.asarray(tiny.oracle("truncated", tau).gradient(jnp.asarray(tiny.theta), (), ()))
    np.testing.assert_allclose(probability @ got, target, atol=1e-12)

    pi = ref.policy(tiny.theta, 2, 2)
    score = np.array([ref.scores(tiny.theta, 2, 2, t) for t in tiny.all])
    costs = np.array(
        [[tiny.cost[s, a] + tau * np.log(pi[s, a]) for s, a in zip(t.states, t.actions, strict=True)] for t in tiny.all]
    )
    to_go = np.array([[sum(p.gamma**t * c[t] for t in range(k, K)) for k in range(K)] for c in costs])
    first = np.einsum("nk,nkd->nd", to_go[i] - to_go[j], score[i])
    second = np.einsum("nk,nkd->nd", to_go[j] - to_go[i], score[j])
    np.testing.assert_allclose(got, (first + second) / 2, atol=1e-12)

    own_mean = (to_go[i] + to_go[j]) / 2
    biased = np.einsum("nk,nkd->nd", to_go[i] - own_mean, score[i]) + np.einsum(
        "nk,nkd->nd", to_go[j] - own_mean, score[j]
    )
    np.testing.assert_allclose(probability @ biased / 2, target / 2, atol=1e-12)
    plain = moments(tiny.gradients(tiny.oracle("gpomdp", tau, B=2), both), probability)[1]
    assert moments(got, probability)[1] < plain, "on this MDP the baseline pays"


def test_variance_respects_the_bound_for_eq_5(tiny):
    """Assumption 3 with sigma^2 = K (1 - 1/A) ((1-gamma^K)/(1-gamma))^2 for one trajectory.

    |G| <= (1-gamma^K)/(1-gamma). Scores have mean zero given the past, so E||sum_k score_k||^2 = sum_k E||score_k||^2,
    and each of these is 1 - sum_a pi_a^2 <= 1 - 1/A.
    """
    gamma = tiny.problem.gamma
    _, variance = moments(tiny.gradients(tiny.oracle("reinforce", 0.0, B=1), tiny.batch), tiny.weight)
    assert variance <= K * (1 - 1 / 2) * ((1 - gamma**K) / (1 - gamma)) ** 2


LARGE = ref.small_problem(N=1, S=6, A=4, gamma=0.9, seed=22)
LARGE_K, SAMPLES = 6, 200_000
LARGE_THETA = jnp.asarray(np.random.default_rng(23).normal(size=24))
FAMILY = 1e-6  # a right estimator fails at most this often, over all coordinates together


def largest_z(oracle, tau=0.0):
    """How many standard errors the mean of independent estimates is off the exact `truncated` gradient, at worst."""
    truncated = with_oracle(LARGE, "truncated", tau, K=LARGE_K)
    target = truncated.oracle(jnp.asarray(truncated.tasks[0])).gradient(LARGE_THETA, (), ())

    def one(i):
        batch, _ = oracle.sample(LARGE_THETA, (), jax.random.fold_in(jax.random.key(7), i), None)
        return oracle.gradient(LARGE_THETA, (), batch)

    g = np.asarray(jax.jit(jax.vmap(one))(jnp.arange(SAMPLES)))
    return np.abs((g.mean(axis=0) - target) / (g.std(axis=0, ddof=1) / np.sqrt(len(g)))).max()


def critical():
    """Bonferroni over 24 coordinates at family-wise error 1e-6, with a normal mean: 5.48 standard errors."""
    return stats.norm.isf(FAMILY / (2 * LARGE_THETA.size))


SOUND = {
    "reinforce": lambda *a, **k: reinforce(*a, B=1, **k),
    "gpomdp": lambda *a, **k: gpomdp(*a, B=1, **k),
    "gpomdp-leave-one-out": lambda *a, **k: gpomdp(*a, B=2, baseline="leave-one-out", **k),
}


@pytest.mark.parametrize("name", SOUND)
def test_sampled_estimators_have_the_right_mean(name, tau):
    model = sampled.prepare(LARGE.P, LARGE.rho)
    assert largest_z(SOUND[name](model, jnp.asarray(LARGE.cost[0]), LARGE.gamma, K=LARGE_K, tau=tau), tau) < critical()


def to_go(r):
    return jnp.cumsum(r[:, ::-1], axis=1)[:, ::-1]


MUTANTS = {
    "a flipped sign": lambda r: -to_go(r),
    "gamma^(t+1)": lambda r: LARGE.gamma * to_go(r),
    "K-1 scores": lambda r: to_go(r).at[:, -1].set(0.0),
    "scores that look ahead": lambda r: to_go(r) - r,
    "the batch's own mean": lambda r: to_go(r) - to_go(r).mean(axis=0),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_rejected(name):
    """The same test, at the same size, on estimators that are wrong in one place."""
    model = sampled.prepare(LARGE.P, LARGE.rho)
    mutant = sampled._oracle(model, jnp.asarray(LARGE.cost[0]), LARGE.gamma, 0.0, 2, LARGE_K, MUTANTS[name])
    assert largest_z(mutant) > critical()


def test_a_wrong_model_is_rejected():
    """Two rows of P swapped, and another start: the sampler itself is under test too."""
    swapped = LARGE.P.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    for P, rho in ((swapped, LARGE.rho), (LARGE.P, np.roll(LARGE.rho, 1))):
        oracle = gpomdp(sampled.prepare(P, rho), jnp.asarray(LARGE.cost[0]), LARGE.gamma, B=2, K=LARGE_K)
        assert largest_z(oracle) > critical()


def test_transitions_follow_P_by_chi_square():
    """Counts of s' after each (s, a) against P, chi-square over all rows at 1e-6."""
    problem = with_oracle(LARGE, "reinforce", B=8000, K=40)
    oracle = problem.oracle(jnp.asarray(problem.tasks[0]))
    batch, _ = oracle.sample(LARGE_THETA, (), jax.random.key(1), None)
    s, a = np.asarray(batch.states), np.asarray(batch.actions)
    counts = np.zeros((6, 4, 6))
    np.add.at(counts, (s[:, :-1], a[:, :-1], s[:, 1:]), 1)
    expected = counts.sum(axis=2, keepdims=True) * LARGE.P
    assert expected.min() > 5
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, 6 * 4 * 5) > 1e-6
    assert batch.states.dtype == batch.actions.dtype == jnp.int32


def test_more_trajectories_begin_with_the_same_ones():
    """B0 = 7 after B = 3: the first three are the same, trajectory by trajectory."""
    problem = with_oracle(LARGE, "gpomdp", B=3, K=5)
    oracle = problem.oracle(jnp.asarray(problem.tasks[0]))
    few, _ = oracle.sample(LARGE_THETA, (), jax.random.key(2), None)
    many, _ = oracle.sample(LARGE_THETA, (), jax.random.key(2), 7)
    assert many.states.shape == (7, 5)
    np.testing.assert_array_equal(many.states[:3], few.states)
    np.testing.assert_array_equal(many.actions[:3], few.actions)
    assert (oracle.steps(few), oracle.steps(many)) == (15, 35)


def test_exact_oracle_is_eq_9_and_truncated_is_not(tau):
    p, theta = ref.small_problem(seed=25), np.random.default_rng(26).normal(size=12)
    full = known.gradients(p, theta, tau).reshape(p.N, -1)
    for name, far in (("exact", 0.0), ("truncated", 1e-3)):
        problem = with_oracle(p, name, tau, **({"K": 4} if name == "truncated" else {}))
        ask = lambda task, problem=problem: problem.oracle(task).gradient(jnp.asarray(theta), (), ())
        off = np.abs(np.asarray(jax.vmap(ask)(jnp.asarray(problem.tasks))) - full).max()
        assert off > far if far else off < 1e-13


@pytest.mark.parametrize("name", ORACLES)
def test_the_dtype_of_theta_decides(name):
    settings = {"truncated": {"K": 4}, "reinforce": {"B": 2, "K": 4}, "gpomdp": {"B": 2, "K": 4}}.get(name, {})
    problem = with_oracle(ref.small_problem(), name, **settings)
    oracle = problem.oracle(jnp.asarray(problem.tasks[0]))
    for dtype in (jnp.float32, jnp.float64):
        theta = jnp.zeros(12, dtype)
        batch, _ = oracle.sample(theta, (), jax.random.key(0), None)
        assert oracle.gradient(theta, (), batch).dtype == dtype


def test_agents_with_their_own_kernels_play_and_know_their_own():
    """Each agent's exact and sampled oracles follow its own P_i and rho_i; four chi-square tests at 1e-6 each."""
    p = ref.small_problem(N=2, S=3, A=2, seed=27, kernels=True, rhos=True)
    theta = np.random.default_rng(28).normal(size=6)
    exact = with_oracle(p, "exact")
    got = jax.vmap(lambda task: exact.oracle(task).gradient(jnp.asarray(theta), (), ()))(
        jax.tree.map(jnp.asarray, exact.tasks)
    )
    for i in range(2):
        alone = TabularProblem(p.P[i], p.reward[i : i + 1], p.rho[i], p.gamma)
        np.testing.assert_allclose(got[i], known.gradient(alone, theta).reshape(-1), atol=1e-13)
    playing = with_oracle(p, "reinforce", B=20_000, K=2)
    for i in range(2):
        task = jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), playing.tasks)
        batch, _ = playing.oracle(task).sample(jnp.asarray(theta), (), jax.random.key(i), None)
        counts = np.bincount(np.asarray(batch.states[:, 0]), minlength=3)
        assert stats.chisquare(counts, p.rho[i] * counts.sum()).pvalue > 1e-6
        s, a, s2 = batch.states[:, 0], batch.actions[:, 0], batch.states[:, 1]
        into = np.bincount(np.asarray(s2[(s == 0) & (a == 0)]), minlength=3)
        assert stats.chisquare(into, p.P[i, 0, 0] * into.sum()).pvalue > 1e-6
