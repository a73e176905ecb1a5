"""From a problem and an oracle's name to what the runtimes take."""

from typing import Any

import numpy as np

from fastfedpg.core import Problem
from fastfedpg.errors import InputError
from fastfedpg.oracles import ORACLES
from fastfedpg.problems.base import AnyProblem


def with_oracle(problem: AnyProblem, oracle: str = "exact", tau: float = 0.0, **settings: Any) -> Problem:
    """N agents that each ask their own MDP by the named oracle; settings are that oracle's (B, K, baseline).

    What the agents share is a closure; what differs between them, their costs and perhaps their dynamics, is the task.

    Examples:
        >>> from fastfedpg import problems
        >>> with_oracle(problems.compromise(), "gpomdp", B=8, K=20, baseline="leave-one-out").N
        2
    """
    if not problem.played:
        ORACLES.resolve(oracle)
        if not (np.isfinite(tau) and tau >= 0):
            raise InputError(f"tau = {tau:g}; the entropy weight must be finite and at least 0")
    return problem.with_oracle(oracle, tau, settings)
