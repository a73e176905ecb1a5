"""From a problem and an oracle's name to what the runtimes take."""

from typing import Any

import jax
import numpy as np

from fastfedpg.core import Oracle, Problem, Task
from fastfedpg.envs.environments import Environments
from fastfedpg.errors import InputError, unknown
from fastfedpg.oracles import ORACLES
from fastfedpg.oracles.regulated import lqr
from fastfedpg.problems import lqr_exact
from fastfedpg.problems.base import AnyProblem
from fastfedpg.problems.lqr import LQRProblem, why_undefined
from fastfedpg.problems.tabular_checks import oracle_settings
from fastfedpg.problems.tabular_exact import evaluator


def with_oracle(problem: AnyProblem, oracle: str = "exact", tau: float = 0.0, **settings: Any) -> Problem:
    """N agents that each ask their own MDP by the named oracle; settings are that oracle's (B, K, baseline).

    What the agents share is a closure; what differs between them, their costs and perhaps their dynamics, is the task.

    Example:
        >>> from fastfedpg import problems
        >>> with_oracle(problems.compromise(), "gpomdp", B=8, K=20, baseline="leave-one-out").N
        2
    """
    if isinstance(problem, Environments):
        raise InputError(f"{problem.name} can only be played; with_policy(environments, policy, oracle) is for it")
    if oracle not in ORACLES:
        raise unknown("oracle", oracle, ORACLES)
    if not (np.isfinite(tau) and tau >= 0):
        raise InputError(f"tau = {tau:g}; the entropy weight must be finite and at least 0")
    if isinstance(problem, LQRProblem):
        return _regulated(problem, oracle, tau, settings)
    prepare, make = ORACLES[oracle].prepare, ORACLES[oracle].make
    settings = oracle_settings(oracle, ORACLES[oracle].settings, settings)

    def build(model: Any, cost: Any) -> Oracle:
        return make(model, cost, problem.gamma, tau=tau, **settings)

    if problem.shared:
        model = prepare(problem.P, problem.rho)
        tasks: Task = problem.cost
        of_task = lambda cost: build(model, cost)
    else:
        P = jax.tree.map(lambda x: np.broadcast_to(x, (problem.N, *x.shape[-3:])), problem.P)
        rho = np.broadcast_to(problem.rho, (problem.N, problem.S))
        tasks = (prepare(P, rho), problem.cost)
        of_task = lambda task: build(*task)
    theta0 = np.zeros(problem.S * problem.A)
    return Problem(tasks, np.arange(problem.N, dtype=np.int32), of_task, evaluator(problem, tau), theta0)


def _regulated(problem: LQRProblem, oracle: str, tau: float, settings: dict[str, Any]) -> Problem:
    """Agents that know their regulator; the costs (Q_i, R_i) are the task, and a gain that is not stable is outside."""
    if oracle != "exact":
        raise InputError(
            f"oracle '{oracle}' plays or sums over a finite MDP; a linear-quadratic regulator ({problem.name}) has the "
            "oracle 'exact' alone"
        )
    if tau != 0:
        raise InputError(
            f"tau = {tau:g}; a linear-quadratic regulator ({problem.name}) has no entropy, so it must be 0"
        )
    oracle_settings(oracle, ORACLES[oracle].settings, settings)
    model = problem.model
    return Problem(
        (problem.Q, problem.R),
        np.arange(problem.N, dtype=np.int32),
        lambda task: lqr(model, *task),
        lqr_exact.evaluator(problem),
        problem.F0.reshape(-1),
        lambda theta: why_undefined(problem, theta),
    )
