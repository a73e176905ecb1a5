"""What both kinds of problems have in common: files, optima, and how a policy is worth what it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fastfedpg.core import Evaluation
from fastfedpg.envs.environments import Environments
from fastfedpg.errors import InputError
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.problems import lqr, lqr_exact, tabular, tabular_exact
from fastfedpg.problems.lqr import LQRProblem
from fastfedpg.problems.tabular import TabularProblem, read_npz
from fastfedpg.problems.tabular_exact import Best

KnownProblem: TypeAlias = TabularProblem | LQRProblem
"""A problem whose numbers are known."""

AnyProblem: TypeAlias = KnownProblem | Environments
"""Those that can only be played too; a site's own function is another."""


def load(path: Path | str, reward_range: tuple[float, float] | None = None) -> KnownProblem:
    """A problem from an `.npz` file with exactly the arrays P, reward, rho and gamma, or those of a regulator.

    Where transitions are sparse, `next` and `p` take the place of P. A regulator has A, B, Q, R, Sigma0 and gamma, and
    may have noise and F0.
    """
    arrays: dict[str, Any] = dict(read_npz(path, tabular.NAMES, tabular.SPARSE_NAMES, lqr.NAMES))
    name = Path(path).name
    if "A" in arrays:
        if reward_range is not None:
            raise InputError(
                f"{path}: a linear-quadratic regulator, whose rewards have no range; leave reward_range out"
            )
        return LQRProblem(**arrays, name=name)
    if "P" not in arrays:
        arrays["P"] = Sparse(arrays.pop("next"), arrays.pop("p"))
    return TabularProblem(**arrays, reward_range=reward_range or (0.0, 1.0), name=name)


def optimum(problem: KnownProblem, tau: float = 0.0) -> Best:
    """J* in cost units and a best common policy; only where dynamics are shared."""
    return lqr_exact.optimum(problem) if isinstance(problem, LQRProblem) else tabular_exact.optimum(problem, tau)


def own_optima(problem: KnownProblem, tau: float = 0.0) -> list[Best]:
    """Each agent's own optimum, were it alone."""
    return lqr_exact.own_optima(problem) if isinstance(problem, LQRProblem) else tabular_exact.own_optima(problem, tau)


def evaluator(problem: KnownProblem, tau: float = 0.0) -> Callable[[Any], Evaluation]:
    """The runtimes' view of policies."""
    return lqr_exact.evaluator(problem) if isinstance(problem, LQRProblem) else tabular_exact.evaluator(problem, tau)


def gradient_function(problem: KnownProblem, tau: float = 0.0) -> Callable[[Any], Any]:
    """Every agent's exact gradient as a pure JAX function, theta (d,) to (N, d); for 64-bit mode."""
    if isinstance(problem, LQRProblem):
        return lqr_exact.gradient_function(problem)
    return tabular_exact.gradient_function(problem, tau)


def gap_function(problem: KnownProblem, tau: float = 0.0) -> Callable[[Any], Any]:
    """J - J* as a pure JAX function; where dynamics differ, J less the mean of the agents' own optima."""
    if isinstance(problem, LQRProblem):
        return lqr_exact.gap_function(problem)
    J, least = tabular_exact.objective_function(problem, tau), lower_bound(problem, tau)
    return lambda theta: J(theta) - least


def lower_bound(problem: KnownProblem, tau: float = 0.0) -> float:
    """J*, or where dynamics differ the mean of the agents' own optima."""
    if problem.shared:
        return optimum(problem, tau).J
    return float(np.mean([best.J for best in own_optima(problem, tau)]))


def theta_of(problem: KnownProblem, policy: np.ndarray) -> np.ndarray:
    """A theta (d,) with this policy: the gain, or logits, where what is never done has probability 1e-300."""
    return (policy if isinstance(problem, LQRProblem) else np.log(np.maximum(policy, 1e-300))).reshape(-1)
