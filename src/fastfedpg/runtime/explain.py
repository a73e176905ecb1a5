"""Why a message is not finite, where the problem can say: the local step that led to a theta without a value."""

from typing import Any

import jax
import numpy as np

from fastfedpg.core import Batch, Exchange, Oracle, Own, Problem, Task, Theta


def explain(
    problem: Problem, e: Exchange, task: Task, memory: Any, own: Any, down: Any, key: Any, theta_bar: Any
) -> str:
    """The agent's half of the exchange once more, step by step, in words; nothing where the problem has none."""
    if problem.outside is None:
        return ""
    asked: list[np.ndarray] = []
    oracle = problem.oracle(task)

    def gradient(theta: Theta, own: Own, batch: Batch) -> Theta:
        asked.append(np.asarray(theta))
        return oracle.gradient(theta, own, batch)

    watched: Oracle = oracle._replace(gradient=gradient)
    with jax.disable_jit():
        e.agent(memory, own, down, watched, key)
    moves, before = 0, np.asarray(theta_bar)
    for theta in asked:
        moves += not np.array_equal(theta, before)  # the first may be asked where the round began, or after a step
        before = theta
        if said := problem.outside(theta):
            return f"after local step {moves} {said}" if moves else f"where the round began {said}"
    return ""


def explain_value(problem: Problem, theta: Any) -> str:
    """Why a policy (d,), or one of the agents' own (N, d), has no value."""
    if problem.outside is None:
        return ""
    said = (problem.outside(each) for each in np.reshape(theta, (-1, np.shape(theta)[-1])))
    return next((words for words in said if words), "")
