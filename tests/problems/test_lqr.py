"""The linear-quadratic regulator: its equations against others, the methods on it, and every mistake in it."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from commands import command
from fastfedpg import Config, Diverged, InputError, fast_fedpg, fedavg_pg, independent_pg, loop, simulate
from fastfedpg.experiment import begin, execute
from fastfedpg.experiment.config import from_toml
from fastfedpg.federation import site
from fastfedpg.mdp import regulator
from fastfedpg.problems import LQRProblem, compromise, load, lqr_exact, make, with_oracle
from fastfedpg.problems.lqr import radius, why_undefined

P = make("lqr")
NOISY = make("lqr", {"noise": 0.7, "seed": 3})
STABLE = P.F0 + 0.05 * np.random.default_rng(0).normal(size=P.theta_shape)
BOTH = pytest.mark.parametrize("run", [simulate, loop], ids=["simulate", "loop"])
EXACT = with_oracle(P)
FAST, FEDAVG = fast_fedpg(0.01, 10), fedavg_pg(0.01, 10)


def gains(problem, number, seed=0):
    """Stable gains around F*, near and far."""
    rng, best = np.random.default_rng(seed), lqr_exact.optimum(problem).policy
    drawn = (best + 10 ** rng.uniform(-3, 0.3) * rng.normal(size=best.shape) for _ in range(20 * number))
    return [F for F in drawn if radius(problem, F) < 1][:number]


def textbook(problem, i, F):
    """J_i from the value: tr(P Sigma0) + s^2 (tr R + gamma tr B'P B) / (1 - gamma), with scipy's Lyapunov solver."""
    g, s, A, B, Q, R = problem.gamma, problem.noise, problem.A, problem.B, problem.Q[i], problem.R[i]
    V = solve_discrete_lyapunov(np.sqrt(g) * (A - B @ F).T, Q + F.T @ R @ F)
    return np.trace(V @ problem.Sigma0) + s**2 * (np.trace(R) + g * np.trace(B.T @ V @ B)) / (1 - g)


# Equations


@pytest.mark.parametrize("problem", [P, NOISY], ids=["plain", "noisy"])
def test_the_objective_is_the_textbooks(problem):
    for F in gains(problem, 10):
        expected = [textbook(problem, i, F) for i in range(problem.N)]
        np.testing.assert_allclose(lqr_exact.J_i(problem, F), expected, rtol=1e-11)
        assert lqr_exact.J(problem, F) == pytest.approx(np.mean(expected), rel=1e-11)
        np.testing.assert_allclose(lqr_exact.returns(problem, F), -np.array(expected), rtol=1e-11)


@pytest.mark.parametrize("problem", [P, NOISY], ids=["plain", "noisy"])
def test_gradient_is_autodiff_is_finite_differences(problem):
    """2 E_F Sigma_F beside the derivative of tr((Q + F'R F) Sigma_F) by autodiff, and of the textbook's J_i.

    A central difference with h = 1e-5 is off by h^2 J'''/6 and by eps J / h, both below 1e-7 of the gradient's size.
    """
    model = problem.model.like(jnp.zeros(1))
    J_i = lambda Q, R, F: regulator.objective(model, Q, R, F)
    autodiff = jax.jit(jax.vmap(jax.grad(J_i, argnums=2), in_axes=(0, 0, None)))
    for F in gains(problem, 5):
        found = lqr_exact.gradients(problem, F)
        np.testing.assert_allclose(found, autodiff(problem.Q, problem.R, F), rtol=1e-10, atol=1e-10)
        steps = 1e-5 * np.eye(F.size).reshape(-1, *F.shape)
        slopes = [(textbook(problem, 0, F + h) - textbook(problem, 0, F - h)) / 2e-5 for h in steps]
        np.testing.assert_allclose(found[0].ravel(), slopes, atol=1e-6 * np.abs(slopes).max())


def test_the_oracle_has_a_hessian():
    """Curvature is asked for by jvp through the oracle's gradient: H u is a central difference's, and v'H u = u'H v."""
    oracle = EXACT.oracle((jnp.asarray(P.Q[1]), jnp.asarray(P.R[1])))
    f = lambda theta: oracle.gradient(theta, (), ())
    at, (u, v) = STABLE.ravel(), np.random.default_rng(2).normal(size=(2, P.m * P.n))
    times = jax.jit(lambda v: jax.jvp(f, (jnp.asarray(at),), (v,))[1])
    g = lambda theta: lqr_exact.gradients(P, theta)[1].ravel()
    found = np.asarray(times(u))
    np.testing.assert_allclose(found, (g(at + 1e-5 * u) - g(at - 1e-5 * u)) / 2e-5, atol=1e-6 * np.abs(found).max())
    assert v @ found == pytest.approx(u @ np.asarray(times(v)), rel=1e-9)
    assert jax.eval_shape(f, jnp.asarray(at, jnp.float32)).dtype == np.float32


def test_the_optimum_solves_the_riccati_equation():
    """P = Qbar + gamma A'P A - gamma^2 A'P B (Rbar + gamma B'P B)^-1 B'P A, J* = tr(P Sigma0), no gradient at F*.

    No stable gain is better, and each agent's own optimum is at least as good for it as the common one.
    """
    g, A, B, Q, R = P.gamma, P.A, P.B, P.Q.mean(axis=0), P.R.mean(axis=0)
    best = lqr_exact.optimum(P)
    J_star = best.J
    V = solve_discrete_lyapunov(np.sqrt(g) * (A - B @ best.policy).T, Q + best.policy.T @ R @ best.policy)
    right = Q + g * A.T @ V @ A - g**2 * A.T @ V @ B @ np.linalg.solve(R + g * B.T @ V @ B, B.T @ V @ A)
    np.testing.assert_allclose(V, right, rtol=1e-12)
    assert J_star == pytest.approx(np.trace(V @ P.Sigma0), rel=1e-12)
    assert np.abs(lqr_exact.gradient(P, best.policy)).max() < 1e-10
    assert min(lqr_exact.J(P, F) for F in gains(P, 100)) > J_star
    own = [each.J for each in lqr_exact.own_optima(P)]
    assert (lqr_exact.J_i(P, best.policy) > np.array(own) + 1e-6).all()


def test_noise_moves_the_cost_and_not_the_optimum():
    """At F* it is E_F that vanishes, whatever the correlation that multiplies it."""
    quiet = replace(NOISY, noise=0.0)
    loud, plain = lqr_exact.optimum(NOISY), lqr_exact.optimum(quiet)
    np.testing.assert_allclose(loud.policy, plain.policy, atol=1e-12)
    assert np.abs(lqr_exact.gradient(NOISY, plain.policy)).max() < 1e-10
    assert loud.J > plain.J + 1


def test_noise_formula_is_what_a_simulation_finds():
    """40,000 trajectories of 220 steps (0.9^220 = 1e-10 is left), all agents' costs within 4.5 standard errors (7e-6).

    The same interval rejects a J without the noise, without its gamma, and with a discount that starts at gamma.
    """
    rng, p, F = np.random.default_rng(1), NOISY, lqr_exact.optimum(NOISY).policy
    x, total = rng.normal(size=(40_000, p.n)), np.zeros((40_000, p.N))
    for t in range(220):
        u = -x @ F.T + p.noise * rng.normal(size=(len(x), p.m))
        cost = np.einsum("bj,ijk,bk->bi", x, p.Q, x) + np.einsum("bj,ijk,bk->bi", u, p.R, u)
        total += p.gamma**t * cost
        x = x @ p.A.T + u @ p.B.T
    mean, error = total.mean(axis=0), total.std(axis=0) / np.sqrt(len(total))
    expected = lqr_exact.J_i(p, F)
    assert (np.abs(mean - expected) < 4.5 * error).all()
    input_noise = p.noise**2 * np.trace(p.R, axis1=1, axis2=2) / (1 - p.gamma)
    plain = lqr_exact.J_i(replace(p, noise=0.0), F)
    for mutant in (plain, plain + input_noise, plain + (expected - plain - input_noise) / p.gamma, p.gamma * expected):
        assert (np.abs(mean - mutant) > 4.5 * error).all()


@pytest.mark.parametrize("problem", [P, NOISY], ids=["plain", "noisy"])
def test_proposition_1_by_linearity(problem):
    for F in gains(problem, 10):
        mean = lqr_exact.gradients(problem, F).mean(axis=0)
        np.testing.assert_allclose(lqr_exact.gradient(problem, F), mean, atol=1e-12 * np.abs(mean).max())
        assert lqr_exact.J(problem.average(), F) == pytest.approx(lqr_exact.J(problem, F), rel=1e-12)


@pytest.mark.parametrize(
    ("problem", "factor"),
    [(P, 100), (NOISY, 1000), (make("lqr", {"gamma": 0.5, "n": 2}), 100)],
    ids=["plain", "noisy", "short"],
)
def test_gradient_domination_holds_on_the_stable_set(problem, factor):
    """||grad J||^2 / (J - J*) is never below mu, and somewhere below so many times mu: a bound that says something."""
    found = lqr_exact.evaluator(problem)(np.stack([F.ravel() for F in gains(problem, 400)]))
    ratio = found.grad_norm_sq / found.gap
    mu = lqr_exact.gradient_domination_bound(problem)
    assert len(ratio) == 400
    assert (ratio >= mu).all()
    assert ratio.min() < factor * mu


def test_gradient_domination_is_tight_without_a_future():
    """gamma = 0, n = m = 1: J = (Q + R F^2) Sigma0, so ||grad J||^2 / (J - J*) = 4 R Sigma0 = mu for every F."""
    p = LQRProblem([[2.0]], [[1.0]], [[[1.0]]], [[[3.0]]], [[5.0]], 0.0)
    found = lqr_exact.evaluator(p)(np.array([[-1.0], [0.3], [2.0]]))
    np.testing.assert_allclose(found.grad_norm_sq / found.gap, 60, rtol=1e-12)
    assert lqr_exact.gradient_domination_bound(p) == pytest.approx(60, rel=1e-12)


@pytest.mark.parametrize("problem", [P, NOISY], ids=["plain", "noisy"])
def test_an_evaluation_is_all_of_it(problem):
    F = np.stack([each.ravel() for each in gains(problem, 6)])
    found = lqr_exact.evaluator(problem)(F)
    J_star = lqr_exact.optimum(problem).J
    np.testing.assert_allclose(found.returns, [-lqr_exact.J_i(problem, f) for f in F], rtol=1e-12)
    np.testing.assert_allclose(found.J, [lqr_exact.J(problem, f) for f in F], rtol=1e-12)
    np.testing.assert_allclose(found.gap, found.J - J_star, atol=1e-12 * J_star)
    norms = [np.sum(lqr_exact.gradient(problem, f) ** 2) for f in F]
    np.testing.assert_allclose(found.grad_norm_sq, norms, rtol=1e-9)
    own = lqr_exact.evaluator(problem)(F[None, : problem.N])
    each = np.array([lqr_exact.J_i(problem, F[i])[i] for i in range(problem.N)])
    np.testing.assert_allclose(own.returns[0], -each, rtol=1e-12)
    np.testing.assert_allclose(own.gap, each.mean() - J_star, rtol=1e-12)


def test_outside_the_stable_set_nothing_has_a_value():
    """Also where the system explodes: Acl has the eigenvalues 0.5 and 1e10 in a basis that is turned by 30 degrees.

    Both solutions of the linear equations exist there, too, and are no correlation and no value.
    """
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    turn = np.array([[c, -s], [s, c]])
    p = LQRProblem(np.zeros((2, 2)), np.eye(2), np.eye(2)[None], np.eye(2)[None], np.eye(2), 0.99)
    for eigenvalue in (1.0051, 3.0, 1e10, 1e200):
        F = -turn @ np.diag([0.5, eigenvalue]) @ turn.T
        assert radius(p, F) > 1
        assert f"spectral radius {radius(p, F):.6g}" in why_undefined(p, F)
        assert np.isinf(lqr_exact.J(p, F))
        assert np.isnan(lqr_exact.gradient(p, F)).all()
        for part in jax.tree.leaves(lqr_exact.evaluator(p)(F.reshape(1, -1))):
            assert np.isnan(part).all()
    F = -turn @ np.diag([0.5, 1.0049]) @ turn.T
    assert why_undefined(p, F) == ""
    assert np.isfinite(lqr_exact.J(p, F))


# Makers and files


def test_the_maker_holds_the_average_fixed():
    one, many = make("lqr", {"kappa": 0.3}, agents=2), make("lqr", agents=7)
    for name in ("Q", "R"):
        np.testing.assert_allclose(getattr(one, name).mean(axis=0), getattr(many, name).mean(axis=0), atol=1e-14)
        assert np.linalg.eigvalsh(getattr(many, name)).min() >= 0.1
        assert np.ptp(getattr(make("lqr", {"kappa": 0}), name), axis=0).max() < 1e-14
    np.testing.assert_array_equal(one.A, many.A)
    draws = lambda p: p.Q - p.Q.mean(axis=0)
    few = draws(make("lqr", agents=3))
    np.testing.assert_allclose(draws(many)[1] - draws(many)[0], few[1] - few[0], atol=1e-14)
    assert radius(P, P.F0) == pytest.approx(0.9 * np.sqrt(0.9))


def test_the_default_start_is_stable_where_doing_nothing_is_not():
    p = LQRProblem(np.diag([1.3, 0.2]), np.eye(2), np.stack([np.eye(2)] * 2), np.stack([np.eye(2)] * 2), np.eye(2), 0.9)
    assert np.sqrt(0.9) * 1.3 > 1 > radius(p, p.F0)
    assert lqr_exact.J(p, p.F0) > 1.2 * lqr_exact.optimum(p).J
    np.testing.assert_array_equal(p.only(1).F0, p.F0)


def test_a_file_brings_the_same_problem(tmp_path):
    p = replace(NOISY, F0=STABLE)
    p.save(tmp_path / "mine.npz")
    q = load(tmp_path / "mine.npz")
    assert (q.name, q.noise) == ("mine.npz", 0.7)
    for name, x in p.arrays().items():
        np.testing.assert_array_equal(x, getattr(q, name))
    np.savez(tmp_path / "least.npz", **{k: x for k, x in p.arrays().items() if k not in ("noise", "F0")})
    q = make(str(tmp_path / "least.npz"))
    assert (q.noise, q.F0.any()) == (0.0, False)
    with pytest.raises(InputError, match="no range; leave reward_range out"):
        load(tmp_path / "mine.npz", (0, 1))
    np.savez(tmp_path / "lacks.npz", **{k: x for k, x in p.arrays().items() if k != "B"})
    with pytest.raises(InputError, match=r"lacks B; the names are exactly .*A, B, Q, R, Sigma0, gamma, \[noise\], \[F"):
        load(tmp_path / "lacks.npz")


# Methods


@pytest.mark.parametrize("method", [FAST, FEDAVG, independent_pg(0.01, 10)])
def test_the_loop_and_the_compiled_program_agree(method):
    one, other = (run(EXACT, method, 5, metrics_every=2) for run in (loop, simulate))
    np.testing.assert_allclose(one.theta, other.theta, rtol=1e-12, atol=1e-14)
    for name in ("J", "return_worst", "drift", "bytes_up"):
        np.testing.assert_allclose(one.metrics[name], other.metrics[name], rtol=1e-10)


def test_fast_fedpg_converges_linearly_and_fedavg_does_not():
    """eta = 0.01, H = 10: every round takes off a quarter of the gap at least, as far as 1e-12 within 40 rounds.

    FedAvg stands still at its own fixed point: the second hundred rounds change nothing.
    """
    gap = simulate(EXACT, FAST, 60).metrics["gap"][0]
    above = gap[: np.argmax(gap <= 1e-12) + 1]
    assert 10 < len(above) <= 40
    assert (above[1:] < 0.75 * above[:-1]).all()
    assert gap[-1] < 1e-22
    biased = simulate(EXACT, FEDAVG, 200).metrics["gap"][0]
    assert biased[-1] > 1e-6
    assert biased[200] == pytest.approx(biased[100], rel=1e-9)


def test_one_local_step_is_gradient_descent():
    F = P.F0.copy()
    for _ in range(20):
        F = F - 0.02 * lqr_exact.gradient(P, F)
    found = simulate(EXACT, fast_fedpg(0.02, 1), 20).theta[0]
    np.testing.assert_allclose(found, F.ravel(), rtol=1e-11)


def by_hand(theta, eta, H, rounds, corrected):
    """Where an agent first asks for the gradient of a gain that is not stable: (round, exchange, agent, local step)."""
    g = lambda F: lqr_exact.gradients(P, F)
    for t in range(rounds):
        if radius(P, theta) >= 1:
            return t + 1, "gradient" if corrected else "local", 0, 0
        start, ends = g(theta), []
        for i in range(P.N):
            F = theta
            for l in range(H):
                if radius(P, F) >= 1:
                    return t + 1, "local", i, l
                F = F - eta * (g(F)[i] + (start.mean(axis=0) - start[i] if corrected else 0))
            ends.append(F)
        theta = np.mean(ends, axis=0)
    raise AssertionError("never left")


@BOTH
@pytest.mark.parametrize(
    ("eta", "method", "kind"),
    [
        (0.24, fast_fedpg(0.24, 4, reuse=True), "an agent after the first"),
        (0.25, fast_fedpg(0.25, 4), "theta_bar"),
    ],
    ids=["fast", "bar"],
)
def test_an_iterate_that_leaves_the_stable_set_is_named(run, eta, method, kind):
    """Near F*, with a step that is too large: round, agent and local step are those that a calculation by hand finds.

    Where theta_bar itself has left, all agents are lost where the round begins, and the first is named.
    """
    start = lqr_exact.optimum(P).policy + 0.01
    t, exchange, agent, step = by_hand(start, eta, 4, 20, len(method.exchanges) == 2)
    assert t > 1
    assert kind == ("theta_bar" if step == 0 else "an agent after the first" if agent else "the first")
    with pytest.raises(Diverged) as caught:
        run(EXACT, method, 20, metrics_every=20, theta0=start.ravel())
    error = caught.value
    assert (error.round, error.exchange, error.agent) == (t, exchange, agent)
    words = f"after local step {step} the gain" if step else "where the round began the gain"
    assert f"agent {agent} sent a non-finite '{exchange}' message: {words} is not stable" in str(error)
    assert "has spectral radius" in error.why


def test_a_policy_without_a_value_is_named():
    """One step of 0.5 from F0 leaves at once, and every message was finite: the record after it says so."""
    with pytest.raises(Diverged, match=r"at the server.*: the gain is not stable.*spectral radius") as caught:
        loop(EXACT, fedavg_pg(0.5, 1), 5)
    assert (caught.value.round, len(caught.value.result.rounds)) == (1, 1)


def test_in_a_sweep_the_stable_step_sizes_go_on():
    found = simulate(EXACT, lambda eta: fedavg_pg(eta, 3), 5, sweep=[0.01, 0.5])
    assert np.isfinite(found.metrics["gap"][0]).all()
    assert np.isnan(found.metrics["gap"][1, 0, -1])


# The command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


RUN = ("--problem", "lqr", "--eta", 0.02, "--H", 5)


def test_a_run_from_the_command_line(folder, capsys):
    """Its files; and cut off after six rounds it goes on to the same bytes."""
    assert command("run", *RUN, "--rounds", 40, "--checkpoint-rounds", 4, "--out", "out") == 0
    summary = json.loads(Path("out/summary.json").read_text())
    assert (summary["N"], summary["n"], summary["m"], summary["state"]) == (4, 3, 2, "finished")
    assert summary["J_star"] == pytest.approx(lqr_exact.optimum(P).J)
    assert summary["mu_bound"] == pytest.approx(lqr_exact.gradient_domination_bound(P))
    assert summary["final"]["gap"]["mean"] < 1e-12
    theta = np.load("out/final.npz")["theta"]
    np.testing.assert_allclose(theta, lqr_exact.optimum(P).policy[None], atol=1e-6)
    with Path("out/metrics.csv").open(newline="") as file:
        assert len([*csv.DictReader(file)]) == 41

    def stop(done, record=None):
        if done >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), begin(from_toml("out/config.toml"), folder / "cut") as planned:
        execute(planned, folder / "cut", stop)
    assert command("resume", "cut") == 0
    for name in ("final.npz", "metrics.csv"):
        assert Path("cut", name).read_bytes() == Path("out", name).read_bytes()


def test_a_comparison_and_a_portrait_in_words(folder, capsys):
    methods = ("--algorithms", "fast_fedpg", "fedavg_pg")
    assert command("compare", *RUN, *methods, "--rounds", 10, "--seeds", 1, "--out", "side") == 0
    assert {p.name for p in Path("side").glob("*.png")} == {"curves.png", "agents.png"}
    capsys.readouterr()
    assert command("show", "lqr") == 0
    said = capsys.readouterr().out
    best = lqr_exact.optimum(P)
    for part in (f"{best.J:.6g}", f"{best.policy[0, 0]:.6g}", f"{0.9 * np.sqrt(0.9):.4g}", "no picture: "):
        assert part in said
    assert not [*folder.glob("lqr.*")]
    NOISY.save(folder / "mine.npz")
    np.savez("start.npz", theta=STABLE)
    start = ("--theta0", "start.npz", "--H", 1, "--eta", 0.001)
    assert command("run", "--problem", "mine.npz", *start, "--rounds", 1, "--out", "other") == 0
    assert json.loads(Path("other/summary.json").read_text())["J_best_found"] < lqr_exact.J(NOISY, STABLE)
    assert load("other/problem.npz").noise == 0.7
    capsys.readouterr()
    assert command("compare", "side/fast_fedpg", "other", "--out", "never") == 2
    assert "problem is lqr in side/fast_fedpg and problem.npz in other" in capsys.readouterr().err


def test_an_agent_of_a_deployment_has_its_own_costs_alone():
    built = site.build(Config(problem="lqr"), 2)
    np.testing.assert_array_equal(built.problem.tasks[0], P.Q[2:3])
    np.testing.assert_array_equal(built.problem.theta0, P.F0.ravel())


# Mistakes


def but(x, index, value):
    x = np.array(x, float)
    x[index] = value
    return x


GOOD = {k: x for k, x in P.arrays().items() if k not in ("noise", "F0")}
ONE = {"A": [[0.5]], "B": [[1.0]], "Q": [[[1.0]]], "R": [[[1.0]]], "Sigma0": [[1.0]], "gamma": 0.81}  # 0.9 (0.5 - F)
TWO = {"A": np.diag([0.5, 1.2]), "B": [[1.0], [0.0]], "Q": [np.eye(2)], "R": [[[1.0]]], "Sigma0": np.eye(2)}
WRONG = {
    "unstable": ({**ONE, "F0": [[-1.5]]}, "F0: the gain is not stable: .* has spectral radius 1.8, not below 1"),
    "unreachable": (TWO, r"can't be stabilised: the eigenvalue 1\.13842 of sqrt\(gamma\) A is uncontrollable"),
    "Q asymmetric": ({"Q": but(P.Q, (2, 0, 1), 9.0)}, r"Q of agent 2 is not symmetric: \[0, 1\] is 9 and \[1, 0\]"),
    "Q negative": ({"Q": but(P.Q, 1, np.diag([1.0, 2.0, -0.5]))}, "Q of agent 1 must be positive semi.* is -0.5"),
    "R singular": ({"R": but(P.R, 3, np.diag([1.0, 0.0]))}, "R of agent 3 must be positive definite.* is 0"),
    "R asymmetric": ({"R": but(P.R, (0, 1, 0), 7.0)}, "R of agent 0 is not symmetric"),
    "Sigma0 singular": ({"Sigma0": np.diag([1.0, 1, 0])}, "Sigma0 must be positive definite; .* eigenvalue is 0"),
    "Sigma0 asymmetric": ({"Sigma0": but(np.eye(3), (0, 1), 1.0)}, "Sigma0 is not symmetric"),
    "A not square": ({"A": np.ones((3, 2))}, r"A has shape \(3, 2\); it must be \(n, n\)"),
    "B": ({"B": np.ones((2, 2))}, r"B has shape \(2, 2\); .* it must be \(3, m\)"),
    "Q shape": ({"Q": np.eye(3)}, r"Q has shape \(3, 3\); .* it must be \(N, 3, 3\)"),
    "R shape": ({"R": P.R[:2]}, r"R has shape \(2, 2, 2\); .* it must be \(4, 2, 2\)"),
    "Sigma0 shape": ({"Sigma0": np.eye(2)}, r"Sigma0 has shape \(2, 2\); .* it must be \(3, 3\)"),
    "F0 shape": ({"F0": np.zeros((3, 2))}, r"F0 has shape \(3, 2\); it must be \(2, 3\)"),
    "NaN": ({"Q": but(P.Q, (1, 0, 0), np.nan)}, r"Q\[1, 0, 0\] is nan"),
    "gamma": ({"gamma": 1.0}, r"gamma is 1.0; it must be one number in \[0, 1\)"),
    "noise": ({"noise": -1.0}, "noise is -1.0; it must be one number in"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arrays_are_refused(name, folder, capsys):
    changes, words = WRONG[name]
    with pytest.raises(InputError, match=words):
        LQRProblem(**{**GOOD, **changes})
    if name in ("unstable", "Q negative"):
        np.savez("wrong.npz", **{**GOOD, **changes})
        assert command("run", "--problem", "wrong.npz", "--out", "out") == 2
        assert not Path("out").exists()
        assert "Traceback" not in capsys.readouterr().err


def test_an_invisible_mode_on_the_unit_circle_has_no_best_gain():
    p = LQRProblem(np.diag([2.0, 0.5]), np.eye(2), [np.diag([0.0, 1.0])], [np.eye(2)], np.eye(2), 0.25)
    with pytest.raises(InputError, match="no best stable gain"):
        lqr_exact.optimum(p)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--tau", -0.1), "tau = -0.1; the entropy weight must be"),
        (("--tau", 0.1), "has no entropy, so it must be 0"),
        (("--oracle", "gpomdp"), "has the oracle 'exact' alone"),
        (("--problem-args", "kappa=2"), "kappa = 2; it must lie in [0, 1]"),
        (("--problem-args", "n=1025"), "n = 1025; it must be at most 1024"),
        (("--problem-args", "m=0"), "m = 0; it must be at least 1"),
        (("--theta0", "far.npz"), "theta0: the gain is not stable: sqrt(gamma) (A - B F) has spectral radius 1.38772"),
        (("--theta0", "shape.npz"), "theta has shape (3, 2); it must be (2, 3): inputs, states"),
    ],
)
def test_wrong_settings_are_refused(folder, capsys, words, says):
    np.savez("far.npz", theta=np.full((2, 3), 2.0))
    np.savez("shape.npz", theta=np.zeros((3, 2)))
    assert command("run", *RUN, *words, "--out", "out") == 2
    assert says in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not Path("out").exists()


def test_wrong_arguments_in_python():
    with pytest.raises(InputError, match="tau = -1; the entropy weight"):
        with_oracle(P, tau=-1.0)
    with pytest.raises(InputError, match="has no setting B"):
        with_oracle(P, B=3)
    with pytest.raises(InputError, match=r"F has shape \(2,\); it must be \(2, 3\)"):
        lqr_exact.J(P, [1.0, 2.0])
    with pytest.raises(InputError, match="theta0: the gain is not stable"):
        simulate(EXACT, fast_fedpg(0.1, 1), 1, theta0=np.full(6, 2.0))
    assert with_oracle(compromise()).why_undefined is None
