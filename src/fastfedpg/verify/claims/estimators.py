"""Assumption 2 of every estimator, at a random policy and a small K, where a wrong score or horizon shows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from fastfedpg.core import Oracle, Problem, Task, estimate, key_for
from fastfedpg.problems import with_oracle
from fastfedpg.verify.claims.structure import policies, unbiased
from fastfedpg.verify.recording import gradients_at
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Row, not_applicable

K, B = 2, 2
"""Steps and trajectories: a horizon of K - 1 halves the estimate here, and a batch's own mean as a baseline too."""
SAMPLES = 2**16
AT_ONCE = 256
"""Estimates that are computed together."""
ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "reinforce": ("reinforce", {}),
    "gpomdp": ("gpomdp", {}),
    "leave-one-out": ("gpomdp", {"baseline": "leave-one-out"}),
}


def rows(subject: Subject) -> Iterator[Row]:
    """A row for each estimator: its mean over many estimates is grad_K J_i, in every coordinate of every agent."""
    theta = policies(subject)[1]
    cut = with_oracle(subject.known, "truncated", subject.tau, K=K)
    means = gradients_at(cut, np.broadcast_to(theta, (1, subject.N, 1, theta.size)))[0, :, 0]
    for name, (oracle, settings) in ESTIMATORS.items():
        claimed = f"Assumption 2, {name}"
        if not np.abs(means).max() > 0:
            yield not_applicable(claimed, "unbiased", f"grad_K J_i = 0 for K = {K}: so short a game tells nothing")
            continue
        problem = subject.ask(subject.known, oracle, subject.tau, K=K, B=B, **settings)
        row = unbiased(draws(problem, theta, subject.replicas(SAMPLES), subject.first_seed), means)
        says = row.says.replace("Eq. (5)", name).replace("the first theta", f"a random theta, K = {K}, B = {B}")
        yield replace(row, claim=claimed, says=says)


def draws(problem: Problem, theta: np.ndarray, samples: int, first_seed: int) -> np.ndarray:
    """Independent estimates of every agent at one theta: (samples, N, d)."""
    seeds = np.arange(first_seed, first_seed + samples, dtype=np.int32)
    return np.swapaxes(np.asarray(_draws(problem.oracle, problem.tasks, problem.ids, theta, seeds)), 0, 1)


@partial(jax.jit, static_argnums=0)
def _draws(oracle: Callable[[Task], Oracle], tasks: Any, ids: Any, theta: Any, seeds: Any) -> Any:
    def agent(given: tuple[Task, Any]) -> Any:
        task, i = given

        def one(seed: Any) -> Any:
            key = key_for(seed, 0, "estimate", i)
            return estimate(oracle(task), theta, oracle(task).init(key), key)[0]

        return lax.map(one, seeds, batch_size=AT_ONCE)

    return lax.map(agent, (tasks, ids))
