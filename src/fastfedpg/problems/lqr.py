"""Linear-quadratic regulators that N agents share, and all that is to be asked of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg import policies
from fastfedpg.core import Evaluate, Problem
from fastfedpg.errors import InputError
from fastfedpg.oracles import ORACLES
from fastfedpg.oracles.regulated import lqr
from fastfedpg.policies import Acting
from fastfedpg.problems import lqr_exact
from fastfedpg.problems.lqr_arrays import LQRArrays, radius, why_undefined
from fastfedpg.problems.tabular_checks import oracle_settings
from fastfedpg.problems.tabular_exact import Best
from fastfedpg.problems.wording import by_agent
from fastfedpg.spaces import box


class LQRProblem(LQRArrays):
    """N agents that steer one linear system and pay for it differently: x'Q_i x + u'R_i u, discounted by gamma.

        x_{t+1} = A x_t + B u_t,   u_t = -F x_t + noise eps_t,   eps_t ~ N(0, I),   E[x_0 x_0'] = Sigma0

    Args:
        A: (n, n).
        B: (n, m); (sqrt(gamma) A, sqrt(gamma) B) can be stabilised.
        Q: (N, n, n), each symmetric and positive semidefinite.
        R: (N, m, m), each symmetric and positive definite.
        Sigma0: (n, n), symmetric and positive definite.
        gamma: discount factor in [0, 1).
        noise: standard deviation of a Gaussian policy around -F x; none unless given.
        F0: (m, n) stable gain to start from. Unless given, 0 where that is stable, else the best gain for the cost
            x'x + 100 u'u, which depends on A, B and gamma alone and hardly steers.

    Examples:
        >>> p = LQRProblem(A=[[1]], B=[[1]], Q=[[[1]], [[3]]], R=[[[2]], [[2]]], Sigma0=[[1]], gamma=0.5)
        >>> p.N, p.n, p.m, p.F0.tolist()
        (2, 1, 1, [[0.0]])
    """

    played = False
    horizon = None
    source = ""
    reward_range = None
    no_picture = "a linear-quadratic regulator has no table of states and actions to draw"

    def acting(self) -> Acting:
        """-F x, with the noise around it, from a state to the inputs."""
        return Acting(policies.regulator(self.n, self.m, self.noise), box(self.n), box(self.m))

    def optimum(self, tau: float = 0.0) -> Best:
        """J* and the best common gain."""
        return lqr_exact.optimum(self)

    def own_optima(self, tau: float = 0.0) -> list[Best]:
        """Each agent's own optimum, were it alone."""
        return lqr_exact.own_optima(self)

    def lower_bound(self, tau: float = 0.0) -> float:
        """J*."""
        return self.optimum().J

    def evaluator(self, tau: float = 0.0) -> Evaluate:
        """The runtimes' view of gains."""
        return lqr_exact.evaluator(self)

    def gradients(self, tau: float = 0.0) -> Callable[[Any], Any]:
        """Every agent's exact gradient as a pure JAX function, theta (d,) to (N, d); for 64-bit mode."""
        return lqr_exact.gradient_function(self)

    def gap(self, tau: float = 0.0) -> Callable[[Any], Any]:
        """J - J* as a pure JAX function of theta (d,); for 64-bit mode."""
        return lqr_exact.gap_function(self)

    def theta_of(self, policy: np.ndarray) -> np.ndarray:
        """The gain (m, n), as a vector (d,)."""
        return policy.reshape(-1)

    def smoothness(self, tau: float = 0.0) -> None:
        """No bound on L: a regulator is smooth on sublevel sets alone."""

    def undominated(self, tau: float = 0.0) -> str:
        """Gradient domination (12) holds for every stable gain."""
        return ""

    def facts(self, tau: float = 0.0) -> dict[str, Any]:
        """What is known without running anything, for a run's summary."""
        return {"J_star": self.optimum().J, "mu_bound": lqr_exact.gradient_domination_bound(self)}

    def describe(self) -> dict[str, str]:
        """What `fastfedpg show` prints; rewards are minus the costs."""
        best, root = self.optimum(), np.sqrt(self.gamma)
        radii = f"{radius(self, self.F0):.6g}, with F* {radius(self, best.policy):.6g}"
        return {
            "agents": str(self.N),
            "states": f"{self.n} components",
            "inputs": f"{self.m} components; noise {self.noise:g}",
            "gamma": f"{self.gamma:g}",
            "eigenvalues": f"of sqrt(gamma) A: {', '.join(_complex(x) for x in np.linalg.eigvals(root * self.A))}",
            "spectral radius": f"of sqrt(gamma) (A - B F), with F0 {radii}",
            "J, at F0": f"{lqr_exact.J(self, self.F0):.6g}",
            "J*, best common gain": f"{best.J:.6g}",
            "F*": "; ".join(" ".join(f"{x:.6g}" for x in row) for row in best.policy),
            "mu, of Eq. (12)": f"at least {lqr_exact.gradient_domination_bound(self):.4g} for every stable gain",
            "own best returns": by_agent(self.agents, -np.array([each.J for each in self.own_optima()])),
        }

    def with_oracle(self, oracle: str, tau: float, settings: Mapping[str, Any]) -> Problem:
        """What the runtimes take: the costs (Q_i, R_i) are the task, and a gain that is not stable is outside."""
        if oracle != "exact":
            raise InputError(
                f"oracle '{oracle}' plays or sums over a finite MDP; a linear-quadratic regulator ({self.name}) has "
                "the oracle 'exact' alone"
            )
        if tau != 0:
            raise InputError(
                f"tau = {tau:g}; a linear-quadratic regulator ({self.name}) has no entropy, so it must be 0"
            )
        oracle_settings(oracle, ORACLES.takes(oracle), dict(settings))
        model = self.model
        return Problem(
            (self.Q, self.R),
            np.arange(self.N, dtype=np.int32),
            lambda task: lqr(model, *task),
            self.evaluator(),
            self.F0.reshape(-1),
            lambda theta: why_undefined(self, theta),
        )

    def as_environments(self) -> None:
        """Nothing: it is known, and not played."""

    def as_table(self) -> None:
        """Nothing: its states are not finite."""

    def identity(self) -> list[Any]:
        """The arrays that a checkpoint must have in common with the run that goes on from it."""
        return list(self.arrays().values())

    def save(self, path: Path) -> None:
        """Write an `.npz` that `load` reads."""
        np.savez(path, **self.arrays(), **self.about())


def _complex(x: complex) -> str:
    return f"{x.real:.4g}" if x.imag == 0 else f"{x.real:.4g}{x.imag:+.4g}i"
