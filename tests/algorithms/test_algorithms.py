"""Closed forms of the algorithms, references in plain NumPy, and the measured numbers of the two compromises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import centralised_pg, fast_fedpg, fedavg_pg, independent_pg, loop, scaffold_pg, simulate, with_oracle
from fastfedpg.core import key_for, pairwise_mean
from fastfedpg.problems import compromise, compromise_grid, tabular_exact

P = ref.small_problem(N=4, S=3, A=3, seed=40)
THETA0 = np.random.default_rng(41).normal(size=9)
g = lambda theta: tabular_exact.gradients(P, theta).reshape(P.N, -1)


@pytest.fixture(params=[loop, simulate], ids=["loop", "simulate"])
def run(request):
    """A run in either runtime: every closed form must hold in both."""

    def start(algorithm, rounds, theta0=THETA0, problem=P, oracle="exact", tau=0.0, **settings):
        extra = {name: settings.pop(name) for name in ("participants", "metrics_every") if name in settings}
        bound = with_oracle(problem, oracle, tau, **settings)
        return request.param(bound, algorithm, rounds, theta0=theta0, **extra)

    return start


# The loop takes long over hundreds of rounds; that it equals the simulation is in test_conformance.py.
BOTH = pytest.mark.parametrize(
    "run",
    [pytest.param(loop, marks=pytest.mark.claims, id="loop"), pytest.param(simulate, id="simulate")],
    indirect=True,
)


def local(i, theta, H, direction, eta):
    for _ in range(H):
        theta = theta - eta * direction(g(theta)[i])
    return theta


def test_fast_fedpg_against_algorithm_1_written_out(run):
    """Lines 1-16 as loops over t, i and l, with the initial global gradient of line 1."""
    eta, H, alpha_g, T = 0.4, 4, 0.7, 3
    theta_bar, g_i = THETA0, g(THETA0)
    for _ in range(T):
        g_bar = g_i.mean(axis=0)
        ends = [local(i, theta_bar, H, lambda x, i=i: x - g_i[i] + g_bar, eta) for i in range(P.N)]
        theta_bar = theta_bar + alpha_g * np.mean([x - theta_bar for x in ends], axis=0)
        g_i = g(theta_bar)
    np.testing.assert_allclose(run(fast_fedpg(eta, H, alpha_g), T).theta[0], theta_bar, atol=1e-12)


def test_fedavg_and_independent_against_loops(run):
    eta, H = 0.4, 3
    theta, each = THETA0, [THETA0] * P.N
    for _ in range(2):
        theta = np.mean([local(i, theta, H, lambda x: x, eta) for i in range(P.N)], axis=0)
        each = [local(i, each[i], H, lambda x: x, eta) for i in range(P.N)]
    np.testing.assert_allclose(run(fedavg_pg(eta, H), 2).theta[0], theta, atol=1e-12)
    alone = run(independent_pg(eta, H), 2)
    np.testing.assert_allclose(alone.theta[0], each, atol=1e-12)
    own = [tabular_exact.returns(P, x)[i] for i, x in enumerate(each)]
    np.testing.assert_allclose(alone.returns[0, -1], own, atol=1e-12)
    costs = [tabular_exact.J_i(P, x)[i] for i, x in enumerate(each)]
    assert alone.final("J")[0] == pytest.approx(np.mean(costs), abs=1e-12)
    assert alone.final("gap")[0] == pytest.approx(np.mean(costs) - tabular_exact.optimum(P).J, abs=1e-12)
    norms = [(g(x)[i] ** 2).sum() for i, x in enumerate(each)]
    assert alone.final("grad_norm_sq")[0] == pytest.approx(np.mean(norms), rel=1e-10)


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_against_loops(run, option):
    eta, H, alpha_g = 0.4, 3, 0.8
    theta, c, c_i = THETA0, np.zeros(9), np.zeros((P.N, 9))
    for _ in range(3):
        ends = np.array([local(i, theta, H, lambda x, i=i: x - c_i[i] + c, eta) for i in range(P.N)])
        new = g(theta) if option == "I" else c_i - c + (theta - ends) / (eta * H)
        theta, c, c_i = theta + alpha_g * (ends - theta).mean(axis=0), c + (new - c_i).mean(axis=0), new
    np.testing.assert_allclose(run(scaffold_pg(eta, H, alpha_g, option), 3).theta[0], theta, atol=1e-12)


def test_scaffold_with_some_agents_moves_its_variate_by_their_share(run):
    """One of four agents a round: c moves by a quarter of that agent's change, which the second round shows."""
    eta, H, seed = 0.4, 2, 0
    who = []
    for t in range(2):
        who.append(int(jax.random.choice(key_for(seed, t, "participants"), P.N, (1,), replace=False)[0]))
    theta, c, c_i = THETA0, np.zeros(9), np.zeros((P.N, 9))
    for i in who:
        end = local(i, theta, H, lambda x, i=i: x - c_i[i] + c, eta)
        new = c_i[i] - c + (theta - end) / (eta * H)
        theta, c = end, c + (new - c_i[i]) / P.N
        c_i[i] = new
    result = run(scaffold_pg(eta, H, everybody=False), 2, participants=1)
    np.testing.assert_allclose(result.theta[0], theta, atol=1e-12)


def test_one_local_step_is_gradient_descent_on_J(run):
    """H = 1 exact: theta+ = theta - alpha_g eta grad J(theta)."""
    theta = THETA0
    for _ in range(5):
        theta = theta - 0.6 * 0.5 * g(theta).mean(axis=0)
    np.testing.assert_allclose(run(fast_fedpg(0.5, 1, alpha_g=0.6), 5).theta[0], theta, atol=1e-12)
    np.testing.assert_allclose(run(centralised_pg(0.3), 5).theta[0], theta, atol=1e-12)


def test_corrections_average_to_zero_even_with_noise():
    """mean_i (g_bar - g_i) = 0 with `mean` and all agents, so the average moves by the average of fresh gradients.

    The first display in the proof of Lemma 1: theta_bar+ - theta_bar = -(alpha_g eta / N) sum_{i,l} g_i(theta_il).
    """
    problem, H, eta = with_oracle(P, "reinforce", B=2, K=4), 3, 0.2
    algorithm = fast_fedpg(eta, H)
    theta = jnp.asarray(THETA0)
    _, _, memory = algorithm.init(theta, P.N)
    gradient, change = algorithm.exchanges
    oracles = [problem.oracle(jnp.asarray(task)) for task in problem.tasks]
    at = lambda i: jax.tree.map(lambda x: x[i], memory)
    sent = [gradient.agent(at(i), (), theta, o, key_for(0, 0, "gradient", i)) for i, o in enumerate(oracles)]
    g_bar = pairwise_mean(jnp.stack([up for _, _, up, _ in sent]))
    assert np.abs(np.mean([g_bar - up for _, _, up, _ in sent], axis=0)).max() < 1e-15
    assert np.abs(sent[0][2] - sent[1][2]).max() > 1e-3, "they do differ"

    Delta, fresh = [], []
    for i, o in enumerate(oracles):
        seen = []

        def watched(theta, own, batch, o=o, seen=seen):
            value = o.gradient(theta, own, batch)
            seen.append(value)
            return value

        with jax.disable_jit():
            _, _, up, _ = change.agent(sent[i][0], (), g_bar, o._replace(gradient=watched), key_for(0, 0, "local", i))
        Delta.append(up)
        fresh.append(sum(seen))
    np.testing.assert_allclose(np.mean(Delta, axis=0), -eta * np.mean(fresh, axis=0), atol=1e-14)


def test_at_a_stationary_point_of_J_no_agent_moves_but_fedavg_does(run):
    """theta* = log of the soft-optimal policy, exact gradients: Fast-FedPG stays, without drift, for any H and eta.

    FedAvg's agents walk off towards their own optima, and their average is not theta*: the negative control. Only at
    H = 1 is theta* a fixed point of FedAvg too.
    """
    tau = 0.2
    theta = np.log(tabular_exact.optimum(P, tau).policy).reshape(-1)
    stay = run(fast_fedpg(1.0, 20), 5, theta, tau=tau)
    np.testing.assert_allclose(stay.theta[0], theta, atol=1e-11)
    assert stay.metrics["drift"][0, 1:].max() < 1e-20
    away = run(fedavg_pg(1.0, 20), 5, theta, tau=tau)
    assert np.abs(away.theta[0] - theta).max() > 0.05
    assert away.metrics["drift"][0, 1:].min() > 1.0
    one_step = run(fedavg_pg(1.0, 1), 5, theta, tau=tau)
    np.testing.assert_allclose(one_step.theta[0], theta, atol=1e-12)


def test_identical_agents_equal_H_gradient_steps(run):
    same = ref.TabularProblem(P.P, np.repeat(P.reward[:1], 3, axis=0), P.rho, P.gamma)
    theta = THETA0
    for _ in range(2 * 5):
        theta = theta - 0.4 * tabular_exact.gradient(same, theta).reshape(-1)
    for algorithm in (fast_fedpg(0.4, 5), fedavg_pg(0.4, 5), scaffold_pg(0.4, 5)):
        np.testing.assert_allclose(run(algorithm, 2, problem=same).theta[0], theta, atol=1e-12)


def test_drift_is_the_sum_in_lemma_1(run):
    """sum_i sum_{l<H} ||theta_{i,l} - theta_bar||^2 in the round before the record, written out for FedAvg."""
    eta, H = 0.4, 3
    expected = 0.0
    for i in range(P.N):
        for l in range(H):
            expected += ((local(i, THETA0, l, lambda x: x, eta) - THETA0) ** 2).sum()
    assert run(fedavg_pg(eta, H), 1).final("drift")[0] == pytest.approx(expected, rel=1e-12)
    assert np.isnan(run(fedavg_pg(eta, H), 1).metrics["drift"][0, 0])


def test_reuse_changes_nothing_but_the_samples(run):
    """With exact gradients local step 0 is the same either way; with noise its direction is the average sent."""
    np.testing.assert_allclose(
        run(fast_fedpg(0.4, 3, reuse=True), 3).theta, run(fast_fedpg(0.4, 3), 3).theta, atol=1e-13
    )
    settings = {"oracle": "reinforce", "B": 2, "K": 4}
    one, central = run(fast_fedpg(0.4, 1, reuse=True), 3, **settings), run(centralised_pg(0.4), 3, **settings)
    np.testing.assert_allclose(one.theta, central.theta, atol=1e-12)
    assert one.final("env_steps")[0] == central.final("env_steps")[0] == 3 * P.N * 2 * 4


def test_B0_sets_the_trajectories_of_the_gradient_sent(run):
    """T N (B0 + H B) K environment steps."""
    result = run(fast_fedpg(0.1, 3, B0=7), 2, oracle="gpomdp", B=2, K=4)
    assert result.final("env_steps")[0] == 2 * P.N * (7 + 3 * 2) * 4
    assert result.final("env_steps")[0] != run(fast_fedpg(0.1, 3), 2, oracle="gpomdp", B=2, K=4).final("env_steps")[0]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_mean_adds_in_one_order_that_blocks_do_not_change(n):
    """The mean; and power-of-two blocks summed apart give bit for bit the same, as on several devices."""
    x = np.random.default_rng(n).normal(size=(n, 7)) * 10.0 ** np.random.default_rng(0).integers(-6, 6, (n, 1))
    got = np.asarray(pairwise_mean(jnp.asarray(x)))
    np.testing.assert_allclose(got, x.mean(axis=0), rtol=1e-12)
    blocks = [jnp.asarray(x[k : k + 4]) for k in range(0, n, 4)]
    sums = []
    for block in blocks:
        full = jnp.concatenate([block, jnp.zeros((4 - len(block), 7))])
        sums.append((full[0] + full[1]) + (full[2] + full[3]))
    while len(sums) > 1:
        sums = [sums[k] + sums[k + 1] if k + 1 < len(sums) else sums[k] for k in range(0, len(sums), 2)]
    np.testing.assert_array_equal(got, np.asarray(sums[0] / n))


@BOTH
def test_the_compromise(run):
    """Exact, gamma .5, H 10, eta .5, 300 rounds: gaps 4.6e-4 and 2.0e-1; the policies to the digits stated.

    FedAvg ends at the worst common policy there is; at eta = .05 both agree, since the drift is O(eta H).
    """
    problem = compromise()
    fast, avg = (run(a, 300, None, problem, metrics_every=100) for a in (fast_fedpg(0.5, 10), fedavg_pg(0.5, 10)))
    assert fast.final("gap")[0] == pytest.approx(4.6e-4, abs=0.05e-4)
    assert avg.final("gap")[0] == pytest.approx(2.0e-1, abs=0.05e-1)
    np.testing.assert_allclose(ref.policy(fast.theta[0], 1, 3)[0], (0.001, 0.001, 0.998), atol=5e-4)
    np.testing.assert_allclose(ref.policy(avg.theta[0], 1, 3)[0], (0.499, 0.499, 0.002), atol=5e-4)
    worst = (
        max(np.mean(problem.cost[:, 0, a]) for a in range(3)) / (1 - problem.gamma) - tabular_exact.optimum(problem).J
    )
    assert avg.final("gap")[0] == pytest.approx(worst, rel=0.01)
    fast, avg = (run(a, 300, None, problem, metrics_every=100) for a in (fast_fedpg(0.05, 10), fedavg_pg(0.05, 10)))
    assert fast.final("gap")[0] < 0.02
    assert avg.final("gap")[0] == pytest.approx(fast.final("gap")[0], rel=0.5)


@BOTH
def test_the_compromise_grid_exact(run):
    """n 5, N 4, mid .5, slip .1, gamma .9, H 20, eta 2, 200 rounds: gaps .005, .75, .006, each to its last digit.

    But FedAvg-PG's, which is torn between the corners: rounding grows there, so that it lies at .744 or .749, as the
    compiler's settings will.
    """
    algorithms = (fast_fedpg(2.0, 20), fedavg_pg(2.0, 20), scaffold_pg(2.0, 20))
    gaps = [run(a, 200, None, compromise_grid(), metrics_every=200).final("gap")[0] for a in algorithms]
    assert (np.abs(np.array(gaps) - (0.005, 0.75, 0.006)) < (0.0005, 0.01, 0.0005)).all(), gaps


@pytest.mark.long
def test_the_compromise_grid_sampled():
    """GPOMDP with leave-one-out baseline, B 32, K 50, 100 rounds, 4 seeds: about .006, .32, .007.

    Over seeds a single gap of FedAvg varies with standard deviation .15 and one of Fast-FedPG by a factor of 3, so the
    mean of four is asked to lie within a factor of 2.5 of the stated one; the methods are 40-fold apart.
    """
    problem = with_oracle(compromise_grid(), "gpomdp", B=32, K=50, baseline="leave-one-out")
    for algorithm, stated in ((fast_fedpg(2.0, 20), 0.006), (fedavg_pg(2.0, 20), 0.32), (scaffold_pg(2.0, 20), 0.007)):
        gap = simulate(problem, algorithm, 100, seeds=4, metrics_every=100).final("gap").mean()
        assert stated / 2.5 < gap < stated * 2.5


@pytest.mark.long
def test_eq_5_drowns_in_noise_on_the_compromise_grid():
    """The negative result: with Eq. (5), B 16, the same steps, nobody comes near (1.7, 1.95, 2.4 after 200 rounds).

    The three gaps vary a lot; what is asserted is that each stays 100 times above what Fast-FedPG reaches with GPOMDP,
    although theta has moved far.
    """
    problem = with_oracle(compromise_grid(), "reinforce", B=16, K=50)
    for algorithm in (fast_fedpg(2.0, 20), fedavg_pg(2.0, 20), scaffold_pg(2.0, 20)):
        result = simulate(problem, algorithm, 200, seeds=2, metrics_every=200)
        assert 0.6 < result.final("gap").mean() < 3.5
        assert np.abs(result.theta).max() > 5
