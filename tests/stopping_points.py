"""Where an algorithm with exact gradients stops: by Newton's method on one round of it, or on one pass of agents."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import reference as ref
from fastfedpg import with_oracle
from fastfedpg.core import key_for, pairwise_mean
from fastfedpg.problems import lqr_exact, tabular_exact
from fastfedpg.problems import make as problem_of


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
    """What a round that begins at theta, with nothing remembered, moves it by; where agents take turns, what a pass."""
    algorithm = make(eta)
    state, down, memory = algorithm.init(theta, problem.N)
    tasks = jax.tree.map(jnp.asarray, problem.tasks)
    at = lambda tree, who: jax.tree.map(lambda x: x[who], tree)
    for who in range(problem.N) if algorithm.turns else [None]:
        who = np.arange(problem.N) if who is None else np.array([who])
        for e in algorithm.exchanges:
            ask = lambda task, kept, e=e, down=down: e.agent(kept, (), down, problem.oracle(task), key_for(0, 0, "", 0))
            kept, _, ups, _ = jax.vmap(ask)(at(tasks, who), at(memory, who))
            memory = jax.tree.map(lambda x, new, who=who: x.at[who].set(new), memory, kept)
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


def derivatives(problem, theta):
    """Every agent's gradient and Hessian there."""
    gradient = lambda task, x: problem.oracle(task).gradient(x, (), ())
    tasks, x = jax.tree.map(jnp.asarray, problem.tasks), jnp.asarray(theta)
    hessian = lambda task: jax.jacfwd(partial(gradient, task))(x)
    return np.asarray(jax.vmap(lambda task: gradient(task, x))(tasks)), np.asarray(jax.vmap(hessian)(tasks))


def pushed(hess, push):
    """(hess J)^-1 push, in the directions that matter."""
    return np.linalg.lstsq(hess.mean(axis=0), push, rcond=1e-9)[0]
