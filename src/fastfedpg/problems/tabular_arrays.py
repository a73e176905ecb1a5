"""Finite MDPs that N agents share: the arrays, checked."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import jax
import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.problems import grid as grids
from fastfedpg.problems import tabular_checks
from fastfedpg.problems.grid import Grid

NAMELESS = "tabular"
UNIT = (0.0, 1.0)
"""The range of rewards where nothing is said of it."""


@dataclass(frozen=True, eq=False)
class TabularArrays:
    """The numbers of N agents in finite MDPs, with their names, as `TabularProblem` says."""

    P: Any  # all four: whatever numpy.array takes, or a Sparse of such; afterwards float64 arrays, and a float
    reward: Any
    rho: Any
    gamma: Any
    reward_range: tuple[float, float] = UNIT
    name: str = NAMELESS
    states: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    grid: Grid | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Convert to float64 and check everything that can be wrong."""
        put = lambda name, value: object.__setattr__(self, name, value)
        for name in ("reward", "rho"):
            put(name, tabular_checks.array(name, getattr(self, name)))
        sparse = isinstance(self.P, Sparse)
        put(
            "P",
            Sparse(*map(tabular_checks.array, Sparse._fields, self.P)) if sparse else tabular_checks.array("P", self.P),
        )
        put("gamma", tabular_checks.gamma(self.gamma))
        put("reward_range", tabular_checks.reward_range(self.reward_range))
        tabular_checks.shapes(self.P, self.reward, self.rho)
        if sparse:
            put("P", Sparse(tabular_checks.successors(self.P.next, self.S), self.P.p))
        name, p = list(self.kernel_arrays().items())[-1]
        tabular_checks.distributions(name, p, ("agent", "state", "action") if self.own_kernels else ("state", "action"))
        tabular_checks.distributions("rho", self.rho, ("agent",) if self.own_starts else ())
        tabular_checks.rewards(self.reward, self.reward_range)
        for what, usual in self.usual_names().items():
            put(what, tabular_checks.names(what, getattr(self, what), usual, distinct=what != "agents"))
        if self.grid is not None:
            grids.check(self.grid, self.N, self.S, self.A)

    def usual_names(self) -> dict[str, tuple[str, ...]]:
        """What states, actions and agents are called unless somebody says otherwise."""
        sizes = {"states": ("s", self.S), "actions": ("a", self.A), "agents": ("agent ", self.N)}
        return {what: tuple(f"{word}{k}" for k in range(number)) for what, (word, number) in sizes.items()}

    @property
    def N(self) -> int:
        """Number of agents."""
        return int(self.reward.shape[0])

    @property
    def S(self) -> int:
        """Number of states."""
        return int(self.reward.shape[1])

    @property
    def A(self) -> int:
        """Number of actions."""
        return int(self.reward.shape[2])

    @property
    def shared(self) -> bool:
        """Whether all agents have the same dynamics and start: only then J*, gap and the average MDP are defined."""
        return not (self.own_kernels or self.own_starts)

    @property
    def own_kernels(self) -> bool:
        """Whether P has an agent axis."""
        return int((self.P.p if isinstance(self.P, Sparse) else self.P).ndim) == 4

    @property
    def own_starts(self) -> bool:
        """Whether rho has an agent axis."""
        return int(self.rho.ndim) == 2

    @property
    def theta_shape(self) -> tuple[int, int]:
        """How theta is written down: a table."""
        return self.S, self.A

    theta_axes = "states, actions"

    @property
    def sizes(self) -> dict[str, int]:
        """What a summary says of it."""
        return {"S": self.S, "A": self.A}

    def kernel(self, i: int) -> Any:
        """Agent i's own P."""
        return jax.tree.map(lambda x: x[i], self.P) if self.own_kernels else self.P

    def kernel_arrays(self) -> dict[str, np.ndarray]:
        """P as it is put away: P, or next and p; the probabilities come last."""
        return self.P._asdict() if isinstance(self.P, Sparse) else {"P": self.P}

    @property
    def scale(self) -> float:
        """Reward units per unit of cost."""
        return self.reward_range[1] - self.reward_range[0]

    @property
    def cost(self) -> np.ndarray:
        """The paper's R <- 1 - R, in [0, 1]: (hi - reward) / (hi - lo)."""
        return (self.reward_range[1] - self.reward) / self.scale

    def average(self) -> Self:
        """The average MDP of Proposition 1, as a problem with one agent."""
        if not self.shared:
            raise InputError("the average MDP is defined only for agents that share P and rho; here they differ")
        mean = self.reward.mean(axis=0, keepdims=True).clip(*self.reward_range)  # a mean can round past its range
        return replace(self, reward=mean, agents=(), grid=None, name=f"average of {self.name}")

    def only(self, i: int) -> Self:
        """The same problem with one of its agents; nothing is left of the others."""
        part = lambda x: x[i : i + 1]
        return replace(
            self,
            P=jax.tree.map(part, self.P) if self.own_kernels else self.P,
            reward=part(self.reward),
            rho=part(self.rho) if self.own_starts else self.rho,
            agents=part(self.agents),
            grid=None,
        )

    def arrays(self) -> dict[str, Any]:
        """All that decides its numbers, but for the units; as it is put away."""
        return {**self.kernel_arrays(), "reward": self.reward, "rho": self.rho, "gamma": np.float64(self.gamma)}

    def about(self) -> dict[str, Any]:
        """What else a file holds: units and names that are not the usual ones, and how it is drawn."""
        own = {what: getattr(self, what) for what in self.usual_names()}
        named = {what: own[what] for what, usual in self.usual_names().items() if own[what] != usual}
        drawn = {} if self.grid is None else {"grid": grids.to_json(self.grid)}
        units = {} if self.reward_range == UNIT else {"reward_range": self.reward_range}
        called = {} if self.name == NAMELESS else {"name": self.name}  # a file gives its own name to what has none
        return {**called, **units, **named, **drawn}
