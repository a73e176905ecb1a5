"""What every kind of problem offers: the one description that the rest of the package asks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from fastfedpg.core import Evaluate, Problem
from fastfedpg.envs.environments import Environments
from fastfedpg.policies import Acting
from fastfedpg.problems.lqr import LQRProblem
from fastfedpg.problems.tabular import TabularProblem
from fastfedpg.problems.tabular_exact import Best

KnownProblem: TypeAlias = TabularProblem | LQRProblem
"""A problem whose numbers are known."""

KINDS = (TabularProblem, LQRProblem, Environments)
"""Those of this library."""


@runtime_checkable
class AnyProblem(Protocol):
    """N agents and what they are to learn together.

    What a kind can't answer it refuses with an InputError in words; where a caller must choose another way, it says so
    beforehand: by `played`, or by an answer of None.
    """

    @property
    def name(self) -> str:
        """What it is called in tables and pictures."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def N(self) -> int:
        """The number of agents."""

    @property
    def gamma(self) -> float:
        """The discount factor."""

    @property
    def scale(self) -> float:
        """Reward units per unit of cost."""

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Where rewards lie, in the user's units; None where that is not stated."""

    @property
    def shared(self) -> bool:
        """Whether all agents have the same dynamics and start, and there is a J*."""

    @property
    def played(self) -> bool:
        """Whether it can only be played, by a policy with parameters: then none of its numbers are known."""

    @property
    def horizon(self) -> int | None:
        """The steps of an episode, where K does not say otherwise; None where nothing ends one."""

    @property
    def sizes(self) -> dict[str, int]:
        """What a summary says of it."""

    @property
    def theta_shape(self) -> tuple[int, ...]:
        """How theta is written down; empty where that is the policy's affair."""

    @property
    def theta_axes(self) -> str:
        """What those axes are."""

    @property
    def source(self) -> str:
        """What decides its numbers and is no array, in words: a run may go on with another, and is told."""

    @property
    def no_picture(self) -> str:
        """Why it can't be drawn, in words; nothing where `as_table` can."""

    def acting(self) -> Acting | None:
        """The policy whose parameters are theta, with its spaces; None where a run names one."""

    def optimum(self, tau: float = 0.0) -> Best:
        """J* in cost units and a best common policy; only where dynamics are shared."""

    def own_optima(self, tau: float = 0.0) -> list[Best]:
        """Each agent's own optimum, were it alone."""

    def lower_bound(self, tau: float = 0.0) -> float:
        """J*, or where dynamics differ the mean of the agents' own optima; in cost units."""

    def evaluator(self, tau: float = 0.0) -> Evaluate:
        """The runtimes' view of policies, in the user's units."""

    def gradients(self, tau: float = 0.0) -> Callable[[Any], Any]:
        """Every agent's exact gradient as a pure JAX function, theta (d,) to (N, d); for 64-bit mode."""

    def gap(self, tau: float = 0.0) -> Callable[[Any], Any]:
        """J less its lower bound, as a pure JAX function of theta (d,); for 64-bit mode."""

    def theta_of(self, policy: np.ndarray) -> np.ndarray:
        """A theta (d,) with this policy, as `optimum` gives it."""

    def smoothness(self, tau: float = 0.0) -> float | None:
        """The bound on L of Assumption 1; None where there is none."""

    def undominated(self, tau: float = 0.0) -> str:
        """Why gradient domination (12) is not there, in words; nothing where it is."""

    def facts(self, tau: float = 0.0) -> dict[str, Any]:
        """What is known without running anything, for a run's summary."""

    def describe(self) -> dict[str, str]:
        """What `fastfedpg show` prints."""

    def with_oracle(self, oracle: str, tau: float, settings: Mapping[str, Any]) -> Problem:
        """What the runtimes take, with an oracle of the table and its settings."""

    def as_environments(self) -> Environments | None:
        """The same, played; None where it can't be."""

    def as_table(self) -> TabularProblem | None:
        """The finite MDP that it is, to be sampled and drawn; None where it is none."""

    def only(self, i: int) -> "AnyProblem":
        """The same with one of its agents; nothing is left of the others."""

    def arrays(self) -> dict[str, Any]:
        """All that decides its numbers, but for the units, as it is put away and compared."""

    def identity(self) -> list[Any]:
        """The arrays that a checkpoint must have in common with the run that goes on from it."""

    def save(self, path: Path) -> None:
        """Write an `.npz` that `load` reads."""
