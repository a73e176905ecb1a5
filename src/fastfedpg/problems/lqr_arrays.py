"""Linear-quadratic regulators that N agents share: the arrays, checked, and the Riccati equation."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.mdp import regulator
from fastfedpg.problems import lqr_checks, tabular_checks

NAMELESS = "lqr"
NUMBERS = ("A", "B", "Q", "R", "Sigma0", "gamma", "noise", "F0")
"""All that decides what a regulator is."""

LAZY = 100.0
"""The price of inputs, beside that of states, for which the default start is best where doing nothing is not stable."""


@dataclass(frozen=True, eq=False)
class LQRArrays:
    """The numbers of N agents that steer one linear system, with their names, as `LQRProblem` says."""

    A: Any  # all: whatever numpy.array takes; afterwards float64 arrays, and floats
    B: Any
    Q: Any
    R: Any
    Sigma0: Any
    gamma: Any
    noise: Any = 0.0
    F0: Any = None
    name: str = NAMELESS
    agents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Convert to float64 and check everything that can be wrong."""
        put = lambda name, value: object.__setattr__(self, name, value)
        for name in ("A", "B", "Q", "R", "Sigma0"):
            put(name, tabular_checks.array(name, getattr(self, name)))
        put("gamma", tabular_checks.gamma(self.gamma))
        put("noise", lqr_checks.noise(self.noise))
        lqr_checks.shapes(self.A, self.B, self.Q, self.R, self.Sigma0)
        for name in ("Q", "R"):
            for i, matrix in enumerate(getattr(self, name)):
                matrix[:] = lqr_checks.symmetric(f"{name} of agent {i}", matrix)
                lqr_checks.positive(f"{name} of agent {i}", matrix, definite=name == "R")
        put("Sigma0", lqr_checks.symmetric("Sigma0", self.Sigma0))
        lqr_checks.positive("Sigma0", self.Sigma0, definite=True)
        lqr_checks.stabilisable(self.A, self.B, self.gamma)
        put("agents", tabular_checks.names("agents", self.agents, self.usual_names(), distinct=False))
        put("F0", _default(self) if self.F0 is None else tabular_checks.array("F0", self.F0))
        if self.F0.shape != self.theta_shape:
            raise InputError(f"F0 has shape {self.F0.shape}; it must be {self.theta_shape}: inputs, states")
        if said := why_undefined(self, self.F0):
            raise InputError(f"F0: {said}")

    @property
    def N(self) -> int:
        """Number of agents."""
        return len(self.Q)

    @property
    def n(self) -> int:
        """Number of states' components."""
        return len(self.A)

    @property
    def m(self) -> int:
        """Number of inputs' components."""
        return int(self.B.shape[1])

    @property
    def theta_shape(self) -> tuple[int, int]:
        """How theta is written down: the gain F."""
        return self.m, self.n

    theta_axes = "inputs, states"
    shared = True  # all agents have the same dynamics and start, so there is a J*
    scale = 1.0  # reward units per unit of cost

    @property
    def sizes(self) -> dict[str, int]:
        """What a summary says of it."""
        return {"n": self.n, "m": self.m}

    @property
    def model(self) -> regulator.LinearSystem:
        """What all agents share, as the equations take it."""
        Sigma = self.Sigma0 + self.gamma * self.noise**2 / (1 - self.gamma) * self.B @ self.B.T
        return regulator.LinearSystem(self.A, self.B, Sigma, self.gamma, self.noise)

    def average(self) -> Self:
        """The one agent with the costs Qbar and Rbar: J and its gradient are its own, by linearity."""
        mean = lambda x: x.mean(axis=0, keepdims=True)
        return replace(self, Q=mean(self.Q), R=mean(self.R), agents=(), name=f"average of {self.name}")

    def only(self, i: int) -> Self:
        """The same problem with one of its agents; nothing is left of the others."""
        part = lambda x: x[i : i + 1]
        return replace(self, Q=part(self.Q), R=part(self.R), agents=part(self.agents))

    def arrays(self) -> dict[str, Any]:
        """All that decides its numbers, as it is put away."""
        return {name: np.asarray(getattr(self, name)) for name in NUMBERS}

    def usual_names(self) -> tuple[str, ...]:
        """What agents are called unless somebody says otherwise."""
        return tuple(f"agent {i}" for i in range(self.N))

    def about(self) -> dict[str, Any]:
        """What else a file holds: what is not called as usual."""
        called = {} if self.name == NAMELESS else {"name": self.name}  # a file gives its own name to what has none
        return {**called, **({"agents": self.agents} if self.agents != self.usual_names() else {})}


def radius(problem: LQRArrays, F: Any) -> float:
    """The spectral radius of sqrt(gamma) (A - B F); F is stable where it is below 1."""
    F = np.asarray(F, np.float64).reshape(problem.theta_shape)
    if not np.isfinite(F).all():
        return float("nan")
    return float(np.sqrt(problem.gamma) * np.abs(np.linalg.eigvals(problem.A - problem.B @ F)).max())


def why_undefined(problem: LQRArrays, F: Any) -> str:
    """Why a gain has no value, in words; nothing where it has one."""
    r = radius(problem, F)
    return "" if r < 1 else f"the gain is not stable: sqrt(gamma) (A - B F) has spectral radius {r:.6g}, not below 1"


def riccati(problem: LQRArrays, Q: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P and the best gain of one agent: P = Q + gamma A'P A - gamma A'P B F, F = gamma (R + gamma B'P B)^-1 B'P A.

    That is the Riccati equation of the undiscounted problem with sqrt(gamma) A and sqrt(gamma) B.
    """
    from scipy.linalg import LinAlgError, solve_discrete_are  # slow to import

    A, B, gamma = problem.A, problem.B, problem.gamma
    try:
        P = solve_discrete_are(np.sqrt(gamma) * A, np.sqrt(gamma) * B, Q, R)
    except LinAlgError as error:
        raise InputError(
            f"there is no best stable gain ({' '.join(str(error).split())}): some mode of sqrt(gamma) A on the unit "
            "circle costs nothing; make the Q positive definite"
        ) from None
    return P, np.linalg.solve(R + gamma * B.T @ P @ B, gamma * B.T @ P @ A)


def _default(problem: LQRArrays) -> np.ndarray:
    nothing = np.zeros(problem.theta_shape)
    if radius(problem, nothing) < 1:
        return nothing
    return riccati(problem, np.eye(problem.n), LAZY * np.eye(problem.m))[1]
