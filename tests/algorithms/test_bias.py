"""Where methods with local steps stop, to first order in eta: by Newton's method on a round of the algorithm."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import fast_fedpg, fedavg_pg, fedsvrpg_m, with_oracle
from fastfedpg.core import key_for, pairwise_mean
from fastfedpg.problems import lqr_exact, tabular_exact
from fastfedpg.problems import make as problem_of

H = 5


def tables():
    """A softmax table with entropy; its optimum is the soft-optimal policy's logarithm, each row centred."""
    problem = ref.small_problem(N=3, S=3, A=2, seed=70)
    best = np.log(tabular_exact.optimum(problem, 0.2).policy)
    return with_oracle(problem, "exact", 0.2), (best - best.mean(axis=1, keepdims=True)).ravel()


def regulator():
    problem = problem_of("lqr", {"n": 2, "m": 1}, 3)
    return with_oracle(problem), lqr_exact.optimum(problem).policy.ravel()


PROBLEMS = {"tau > 0": tables, "lqr": regulator}


def move(make, problem, eta, theta):
    """What a round that begins at theta, with nothing remembered, moves it by."""
    algorithm = make(eta)
    state, down, memory = algorithm.init(theta, problem.N)
    tasks = jax.tree.map(jnp.asarray, problem.tasks)
    for e in algorithm.exchanges:
        ask = lambda task, memory, e=e, down=down: e.agent(memory, (), down, problem.oracle(task), key_for(0, 0, "", 0))
        memory, _, ups, _ = jax.vmap(ask)(tasks, memory)
        state, down = e.server(state, pairwise_mean(ups), 1.0, key_for(0, 0, ""))
    return algorithm.policy(state) - theta


def stops(make, problem, best, etas):
    """Newton's method from the optimum, in the directions that the steps have: a table's rows keep their sums."""
    moved = partial(move, make, problem)
    at = jax.jit(lambda eta, x: (moved(eta, x), jax.jacfwd(partial(moved, eta))(x)))
    found = []
    for eta in etas:
        here = jnp.asarray(best)
        for _ in range(5):
            step, slope = at(eta, here)
            here = here - np.linalg.lstsq(slope, step, rcond=1e-9)[0]
        assert np.abs(at(eta, here)[0]).max() < 1e-14
        found.append(here)
    return np.array(found)


def first_order(problem, best):
    """(H-1)/2 (hess J)^-1 mean_i[hess J_i grad J_i].

    x_l = theta - eta l grad J_i + O(eta^2), so that the mean gradient of a round is grad J - eta (H-1)/2 mean_i[hess
    J_i grad J_i] + O(eta^2), which is 0 where it stops.
    """
    gradient = lambda task, x: problem.oracle(task).gradient(x, (), ())
    tasks, x = jax.tree.map(jnp.asarray, problem.tasks), jnp.asarray(best)
    g = jax.vmap(lambda task: gradient(task, x))(tasks)
    hess = jax.vmap(lambda task: jax.jacfwd(partial(gradient, task))(x))(tasks)
    push = jnp.einsum("nij,nj->i", hess, g) / problem.N
    return (H - 1) / 2 * np.linalg.lstsq(hess.mean(axis=0), push, rcond=1e-9)[0]


@pytest.mark.parametrize("name", PROBLEMS)
def test_fedavgs_bias_is_eta_half_of_h_less_one_times_the_conflict(name):
    """(theta_FedAvg - theta*)/eta -> (H-1)/2 (hess J)^-1 mean_i[hess J_i grad J_i]; what is missing falls with eta.

    FedSVRPG-M stops there too, whatever b is; Fast-FedPG stops at theta*.
    """
    problem, best = PROBLEMS[name]()
    wanted = first_order(problem, best)
    assert np.linalg.norm(wanted) > 1e-2
    etas = np.array([2e-3, 2e-4])
    for make in (lambda eta: fedavg_pg(eta, H), lambda eta: fedsvrpg_m(eta, H, 0.3)):
        bias = (stops(make, problem, best, etas) - best) / etas[:, None]
        off = np.linalg.norm(bias - wanted, axis=1) / np.linalg.norm(wanted)
        assert off[1] < 0.01
        assert off[1] == pytest.approx(off[0] / 10, rel=0.2)
    there = stops(lambda eta: fast_fedpg(eta, H), problem, best, etas)
    np.testing.assert_allclose(there, np.tile(best, (2, 1)), atol=1e-10)
