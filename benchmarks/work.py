"""The work that is timed, and the library doing it: Fast-FedPG with Eq. (5) on a dense random MDP."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from fastfedpg import fast_fedpg, problems, simulate
from fastfedpg.core import Algorithm, Evaluation, Problem
from fastfedpg.problems import TabularProblem, with_oracle

AGENT_BATCH = 1024


class Work(NamedTuple):
    """Sizes and step size. A round of one agent is H + 1 estimates of B trajectories of K steps."""

    S: int = 25
    A: int = 4
    B: int = 16
    K: int = 50
    H: int = 10
    eta: float = 0.05

    @property
    def steps(self) -> int:
        """Environment steps of one agent in one round."""
        return (self.H + 1) * self.B * self.K

    def problem(self, N: int) -> TabularProblem:
        """N agents with one kernel, its rows from Dirichlet(1), and costs of their own."""
        return problems.random(agents=N, S=self.S, A=self.A)


class Timed(NamedTuple):
    """A run: its seconds, and where it ended."""

    seconds: float
    theta: np.ndarray


class Library:
    """The compiled simulation in float64, as from the command line. Policies are not evaluated while it is timed."""

    def __init__(self, work: Work, problem: TabularProblem) -> None:
        self.problem = unevaluated(with_oracle(problem, "reinforce", B=work.B, K=work.K))
        self.algorithm = fast_fedpg(work.eta, work.H)

    def __call__(self, rounds: int, seed: int = 0) -> Timed:
        """Seconds of the whole call."""
        return timed(self.problem, self.algorithm, rounds, seed)


def timed(problem: Problem, algorithm: Algorithm, rounds: int, seed: int = 0) -> Timed:
    """One call of `simulate`; more than 1024 agents go in batches of about so many."""
    batch = max(k for k in range(1, AGENT_BATCH + 1) if problem.N % k == 0)
    with jax.enable_x64(True):
        began = time.perf_counter()
        result = simulate(problem, algorithm, rounds, metrics_every=rounds, first_seed=seed, agent_batch=batch)
        return Timed(time.perf_counter() - began, result.theta[0])


def unevaluated(problem: Problem) -> Problem:
    """The same problem, whose policies are not evaluated."""
    nothing = lambda thetas: Evaluation(*3 * (np.zeros(len(thetas)),), np.zeros((len(thetas), 1)))
    return problem._replace(evaluate=nothing)


def rounds_for(way: Callable[[int], Any], seconds: float) -> int:
    """How many rounds take about so long, beyond what a call costs by itself; at most 20,000."""
    call, rounds = way(1)[0], 1
    while call < seconds and rounds < 20_000:
        took = way(4 * rounds)[0] - call
        rounds *= 4
        if took > seconds / 4:
            rounds = max(1, int(rounds * seconds / took))
            break
    return min(rounds, 20_000)
