"""From a problem and an oracle's name to what the runtimes take."""

from typing import Any

import jax
import numpy as np

from fastfedpg.core import Oracle, Problem, Task
from fastfedpg.errors import InputError, unknown
from fastfedpg.oracles import ORACLES
from fastfedpg.oracles.lqr import lqr
from fastfedpg.problems import lqr_exact
from fastfedpg.problems.exact import evaluator
from fastfedpg.problems.known import KnownProblem
from fastfedpg.problems.lqr import LQRProblem, outside


def with_oracle(problem: KnownProblem, oracle: str = "exact", tau: float = 0.0, **settings: Any) -> Problem:
    """N agents that each ask their own MDP by the named oracle; settings are that oracle's (B, K, baseline).

    What the agents share is a closure; what differs between them, their costs and perhaps their dynamics, is the task.

    Example:
        >>> from fastfedpg import problems
        >>> with_oracle(problems.compromise(), "gpomdp", B=8, K=20, baseline="leave-one-out").N
        2
    """
    if oracle not in ORACLES:
        raise unknown("oracle", oracle, ORACLES)
    if not (np.isfinite(tau) and tau >= 0):
        raise InputError(f"tau = {tau:g}; the entropy weight must be finite and at least 0")
    if isinstance(problem, LQRProblem):
        return _regulated(problem, oracle, tau, settings)
    prepare, make = ORACLES[oracle].prepare, ORACLES[oracle].make
    settings = _checked(oracle, settings)

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
    _checked(oracle, settings)
    model = problem.model
    return Problem(
        (problem.Q, problem.R),
        np.arange(problem.N, dtype=np.int32),
        lambda task: lqr(model, *task),
        lqr_exact.evaluator(problem),
        problem.F0.reshape(-1),
        lambda theta: outside(problem, theta),
    )


def _checked(oracle: str, settings: dict[str, Any]) -> dict[str, Any]:
    takes = ORACLES[oracle].settings
    for name in settings:
        if name not in takes:
            raise InputError(f"oracle '{oracle}' has no setting {name}; it takes {', '.join(takes) or 'none'}")
    for name, needed in takes.items():
        if needed and settings.get(name) is None:
            raise InputError(f"oracle '{oracle}' needs {name}")
    for name in ("B", "K"):
        if name in settings and settings[name] < 1:
            raise InputError(f"{name} = {settings[name]}; it must be at least 1")
    baseline = settings.get("baseline", "none")
    if baseline not in ("none", "leave-one-out"):
        raise unknown("baseline", baseline, ("none", "leave-one-out"))
    return settings
