"""FedLin: Fast-FedPG where agents are alike, its fixed points where they are not, and gradients in parts."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import fastfedpg as ff
import reference as ref
from fastfedpg import Config, InputError, loop, simulate, with_oracle
from fastfedpg.algorithms.wrappers.compressed import compressed, top_k
from fastfedpg.experiment import budgets, plan
from fastfedpg.kinds import SIZES
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import Schedule, message_sizes, samples_in_a_round

fedlin_pg, fast_fedpg = (cache(make) for make in (ff.fedlin_pg, ff.fast_fedpg))  # one is compiled once for all tests
H, ETA, TAU = 3, 0.3, 0.2
P = ref.small_problem(N=3, S=3, A=2, seed=82)
THETA0 = np.random.default_rng(83).normal(size=6)
EXACT, SAMPLED = with_oracle(P, "exact", TAU), with_oracle(P, "gpomdp", B=2, K=4)
BOTH = pytest.mark.parametrize("run", [loop, simulate])
STEPS = (1, 2, 5)
UNEQUAL = fedlin_pg(ETA, H, STEPS)
g = lambda theta: tabular_exact.gradients(P, theta, TAU).reshape(P.N, -1)


EQUAL = [fedlin_pg(ETA, H, steps) for steps in (None, (H, H, H))]


@pytest.mark.parametrize(
    ("run", "problem"), [(simulate, EXACT), (simulate, SAMPLED), (loop, SAMPLED)], ids=["exact", "sampled", "loop"]
)
def test_with_equal_steps_it_is_fast_fedpg_without_reuse(run, problem):
    """To the bit, with the same keys; H/H_i = 1."""
    expected = run(problem, fast_fedpg(ETA, H), 3, 2, theta0=THETA0)
    for equal in EQUAL:
        found = run(problem, equal, 3, 2, theta0=THETA0)
        np.testing.assert_array_equal(found.theta, expected.theta)
        np.testing.assert_array_equal(found.metrics["env_steps"], expected.metrics["env_steps"])


def test_with_reuse_one_estimate_less_would_be_drawn():
    reused = simulate(SAMPLED, fast_fedpg(ETA, H, reuse=True), 3, 2, theta0=THETA0)
    for equal in EQUAL:
        assert np.abs(simulate(SAMPLED, equal, 3, 2, theta0=THETA0).theta - reused.theta).max() > 1e-4


@BOTH
def test_unequal_steps_are_the_equation(run):
    """Two rounds with 1, 2 and 5 local steps of 3 eta, 3 eta/2 and 3 eta/5, written out."""
    theta = THETA0
    for _ in range(2):
        g_i, ends = g(theta), []
        for i, n in enumerate(STEPS):
            x = theta
            for _ in range(n):
                x = x - ETA * H / n * (g(x)[i] - g_i[i] + g_i.mean(axis=0))
            ends.append(x)
        theta = np.mean(ends, axis=0)
    np.testing.assert_allclose(run(EXACT, UNEQUAL, 2, theta0=THETA0).theta[0], theta, atol=1e-13)
    found = run(SAMPLED, UNEQUAL, 2, theta0=THETA0)
    assert found.final("env_steps")[0] == 2 * (3 + sum(STEPS)) * 2 * 4
    assert samples_in_a_round(UNEQUAL, lambda B: 8, 3, 6) * 3 == (3 + sum(STEPS)) * 8


def test_loop_equals_simulate_with_noise_and_with_some_agents():
    arguments = (SAMPLED, UNEQUAL, 6, 2)
    for some in ({}, {"participants": 2}):
        one, two = loop(*arguments, **some), simulate(*arguments, **some)
        np.testing.assert_allclose(one.theta, two.theta, atol=1e-12)
        np.testing.assert_array_equal(one.metrics["env_steps"], two.metrics["env_steps"])


def test_over_flower_an_agent_has_its_own_number_of_steps(tmp_path):
    grid = pytest.importorskip("grid", exc_type=ImportError)
    with grid.grid_of(grid.agents_of(EXACT, UNEQUAL, tmp_path)) as nodes:
        there = grid.federated(grid.engine_of(nodes), EXACT, UNEQUAL, Schedule(3))
    np.testing.assert_allclose(there[-1].theta, simulate(EXACT, UNEQUAL, 3).theta, atol=1e-13, rtol=0)


def test_its_fixed_point_is_stationary_and_that_of_averaging_is_not():
    """theta* = log of the soft-optimal policy, where grad J = 0. Agents that walk H_i steps of one eta without the
    correction leave it, to first order by -eta (1 grad J_1 + 2 grad J_2 + 5 grad J_3)/3, which is not 0."""
    theta = np.log(tabular_exact.optimum(P, TAU).policy).reshape(-1)
    stay = simulate(EXACT, UNEQUAL, 5, theta0=theta)
    np.testing.assert_allclose(stay.theta[0], theta, atol=1e-12)
    ends = []
    for i, n in enumerate(STEPS):
        x = theta
        for _ in range(n):
            x = x - 1e-3 * g(x)[i]
        ends.append(x)
    moved = np.mean(ends, axis=0) - theta
    first = -1e-3 * np.einsum("n,nd->d", STEPS, g(theta)) / 3
    np.testing.assert_allclose(moved, first, atol=0.01 * np.abs(first).max())
    assert np.abs(first).max() > 1e-5
    reached = simulate(EXACT, fedlin_pg(1.0, H, STEPS), 400, metrics_every=400)
    assert reached.final("grad_norm_sq")[0] < 1e-24


@BOTH
def test_parts_of_gradients_are_the_equation(run):
    """c_i = the 2 largest of e_i + g_i, e_i what is left out, local steps with all of g_i: three rounds written out."""
    theta, e = THETA0, np.zeros((P.N, 6))
    for _ in range(3):
        g_i, c = g(theta), np.zeros((P.N, 6))
        for i in range(P.N):
            at = np.argsort(-np.abs(e[i] + g_i[i]))[:2]
            c[i, at] = (e[i] + g_i[i])[at]
        e, ends = e + g_i - c, []
        for i in range(P.N):
            x = theta
            for _ in range(H):
                x = x - ETA * (g(x)[i] - g_i[i] + c.mean(axis=0))
            ends.append(x)
        theta = np.mean(ends, axis=0)
    np.testing.assert_allclose(run(EXACT, fedlin_pg(ETA, H, k=2), 3, theta0=THETA0).theta[0], theta, atol=1e-13)


def test_all_entries_are_as_good_as_none_left_out():
    """k = d: e_i stays 0, and bits are those without a code; with fewer, the first exchange has fewer bytes. The other
    one is sent whole, unlike in `compressed`."""
    run = lambda **settings: simulate(SAMPLED, fedlin_pg(ETA, H, **settings), 3, theta0=THETA0)
    np.testing.assert_array_equal(run(k=6).theta, run().theta)
    assert np.abs(run(k=1).theta - run().theta).max() > 1e-4
    of = lambda algorithm: message_sizes(EXACT, algorithm, jnp.zeros(6)).bytes_up
    assert (of(fedlin_pg(ETA, H)), of(fedlin_pg(ETA, H, k=2))) == (96, 48 + 2 * 12)
    assert of(compressed(fast_fedpg(ETA, H), top_k(2))) == 2 * 24


def test_steps_are_said_with_an_x_between_them():
    """On the command line a flag's words come as a list, whose one word may be several numbers; so do layers' sizes."""
    assert [SIZES.read(said) for said in ("1x2x5", ["1x2x5"], ["1", "2", "5"], (1, 2, 5))] == [STEPS] * 4
    with pytest.raises(ValueError, match="invalid literal"):
        SIZES.read(["1x"])
    planned = plan(Config("compromise", algorithm="fedlin_pg", steps="1x3", H=2, oracle="gpomdp", B=2, K=3))
    assert budgets.samples(planned) == (1 + 3 + 2) * 2 * 3


@BOTH
def test_steps_for_another_number_of_agents_are_refused(run):
    with pytest.raises(InputError, match="combines the uploads of 2 agents, and there are 3"):
        run(EXACT, fedlin_pg(ETA, H, (1, 2)), 1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": ()}, r"steps = \(\); there must be a number for each agent, at least 1"),
        ({"steps": (1, 0, 2)}, "there must be a number for each agent, at least 1"),
        ({"k": 0}, "k = 0; at least 1 entry must be sent"),
    ],
)
def test_bad_arguments_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        fedlin_pg(ETA, H, **settings)
