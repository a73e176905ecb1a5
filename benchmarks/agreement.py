"""That the three ways do the same work: J at their final thetas, and the C program's tables and mean gradient."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import jax
import numpy as np
from numpy_loop import Loop
from rollouts import Rollouts
from scipy.stats import norm, ttest_ind
from work import Library, Timed, Work

from fastfedpg.problems import TabularProblem, tabular_exact, with_oracle

LEVEL = 0.001
"""A check that holds fails this often."""

SMALL = Work(S=5, B=8, K=10, H=3, eta=0.2)


def check_gradient(work: Work, folder: Path, vectors: bool, rounds: int = 2000, N: int = 64) -> dict:
    """The C program's mean gradient against E[Eq. (5)] at a random policy: the largest |z| of S A + 1, and its limit.

    The last is the mean gradient's length along the exact one, in units of the exact one's: its `along` should be 1.

    With eta = 0 theta stays where it is, so that each round is an independent mean of N B trajectories. The limit is
    Bonferroni's. gamma = 1/2 and rare costs make the gradient large beside its noise, and the check sharp.
    """
    problem = work.problem(N)
    problem = replace(problem, reward=1 - (1.5 * problem.cost).clip(0, 1) ** 16, gamma=0.5)
    theta = np.random.default_rng(0).normal(size=work.S * work.A)
    sampled = Rollouts(work._replace(eta=0.0, H=1), problem, folder, vectors).run(rounds, theta0=theta)[2]
    truncated = with_oracle(problem, "truncated", K=work.K)
    with jax.enable_x64(True):
        each = jax.vmap(lambda cost: truncated.oracle(cost).gradient(theta, (), ()))(problem.cost)
        mean = np.asarray(each).mean(axis=0)
    seen, expected = np.c_[sampled, sampled @ mean / (mean @ mean)], np.append(mean, 1.0)
    found, error = seen.mean(axis=0), seen.std(axis=0, ddof=1) / np.sqrt(rounds)
    z = np.abs((found - expected) / error).max()
    limit = norm.isf(LEVEL / (2 * len(expected)))
    return {
        "trajectories": rounds * N * work.B,
        "largest_z": float(z),
        "limit": float(limit),
        "along": [float(found[-1]), float(error[-1])],
        "holds": bool(z < limit),
    }


def check_tables(work: Work, folder: Path) -> dict:
    """The probabilities that the C program's alias tables hold, added up in integers, against P and rho."""
    problem = work.problem(1)
    table = Rollouts(work, problem, folder).run(1)[3].astype(np.int64) + 2**31
    rows, bins = table.shape
    kept, alias = table // bins, table % bins
    mass = kept.copy()
    np.add.at(mass, (np.arange(rows)[:, None], alias), 2**32 // bins - kept)
    wanted = np.vstack([problem.P.reshape(-1, work.S), problem.rho])
    error = np.abs(mass[:, : work.S] / 2**32 - wanted).max()
    whole = (mass[:, : work.S].sum(axis=1) == 2**32).all()
    return {"largest_error": float(error), "holds": bool(whole and error <= 2.0**-32)}


def check_J(ways: dict[str, Callable[..., Timed]], runs: dict[str, int], problem: TabularProblem, rounds: int) -> dict:
    """J after so many rounds, from several seeds of each way; Welch's test for each pair, Bonferroni over them."""
    J = {
        name: [tabular_exact.J(problem, way(rounds, seed).theta) for seed in range(runs[name])]
        for name, way in ways.items()
    }
    pairs = list(combinations(J, 2))
    p = {f"{a}, {b}": float(ttest_ind(J[a], J[b], equal_var=False).pvalue) for a, b in pairs}
    return {
        "J_start": tabular_exact.J(problem, np.zeros(problem.S * problem.A)),
        "J": {name: float(np.mean(x)) for name, x in J.items()},
        "standard_error": {name: float(np.std(x, ddof=1) / np.sqrt(len(x))) for name, x in J.items()},
        "p": p,
        "holds": min(p.values()) > LEVEL / len(pairs),
    }


def check(work: Work, folder: Path, quick: bool) -> dict:
    """Tables and gradient; J of all three ways on a small problem, of the library and C on the work that is timed."""
    small, large = SMALL.problem(4), work.problem(64)
    ways: dict = {
        "library": Library(SMALL, small),
        "C": Rollouts(SMALL, small, folder),
        "NumPy": Loop(SMALL, small),
    }
    found = {
        "tables": check_tables(work, folder),
        "gradient": check_gradient(work, folder, vectors=False),
        "gradient, AVX2": check_gradient(work, folder, vectors=True),
        "small": check_J(ways, {"library": 16, "C": 100, "NumPy": 4 if quick else 16}, small, 20),
    }
    if not quick:
        ways = {"library": Library(work, large), "C": Rollouts(work, large, folder)}
        found["work"] = check_J(ways, {"library": 4, "C": 32}, large, 20)
    return found
