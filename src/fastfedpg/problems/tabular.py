"""Finite MDPs that N agents share, and all that is to be asked of them."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fastfedpg import policies
from fastfedpg.core import Evaluate, Oracle, Problem, Task
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.finite_env import finite, moves
from fastfedpg.envs.jax_env import play
from fastfedpg.oracles import ORACLES, preparation
from fastfedpg.policies import Acting
from fastfedpg.problems import tabular_exact
from fastfedpg.problems.tabular_arrays import TabularArrays
from fastfedpg.problems.tabular_checks import oracle_settings
from fastfedpg.problems.tabular_exact import Best
from fastfedpg.problems.wording import FEW, by_agent
from fastfedpg.spaces import Discrete
from fastfedpg.theory.constants import smoothness_bound

LEFT = 1e-3
"""A finite MDP is played until no more than this share of its discounted weight is left."""


class TabularProblem(TabularArrays):
    """N agents in finite MDPs M_i = (S, A, R_i, P, gamma), Eq. (1).

    Args:
        P: (S, A, S) transition probabilities, or (N, S, A, S) where the agents' dynamics differ; or a `Sparse`, whose
            `next` and `p` are (S, A, W) or (N, S, A, W).
        reward: (N, S, A), in the user's units; in [0, 1] unless `reward_range` says otherwise.
        rho: (S,) initial distribution, or (N, S).
        gamma: discount factor in [0, 1).
        reward_range: (lo, hi) of the rewards; results are reported in these units.

    Examples:
        >>> import numpy as np
        >>> p = TabularProblem(P=np.ones((1, 2, 1)), reward=[[[1, 0]], [[0, 1]]], rho=[1], gamma=0.5)
        >>> p.N, p.S, p.A, p.shared
        (2, 1, 2, True)
    """

    played = False
    horizon = None
    source = ""
    no_picture = ""

    def acting(self) -> Acting:
        """Eq. (2), from a state's number to an action's."""
        spaces = Discrete(self.S), Discrete(self.A)
        return Acting(policies.table(*spaces), *spaces)

    def optimum(self, tau: float = 0.0) -> Best:
        """J* in cost units and a best common policy; only where dynamics are shared."""
        return tabular_exact.optimum(self, tau)

    def own_optima(self, tau: float = 0.0) -> list[Best]:
        """Each agent's own optimum, were it alone."""
        return tabular_exact.own_optima(self, tau)

    def lower_bound(self, tau: float = 0.0) -> float:
        """J*, or where dynamics differ the mean of the agents' own optima."""
        return self.optimum(tau).J if self.shared else float(np.mean([best.J for best in self.own_optima(tau)]))

    def evaluator(self, tau: float = 0.0) -> Evaluate:
        """The runtimes' view of policies, in the user's units."""
        return tabular_exact.evaluator(self, tau)

    def gradients(self, tau: float = 0.0) -> Callable[[Any], Any]:
        """Every agent's exact gradient as a pure JAX function, theta (d,) to (N, d); for 64-bit mode."""
        return tabular_exact.gradient_function(self, tau)

    def gap(self, tau: float = 0.0) -> Callable[[Any], Any]:
        """J less its lower bound, as a pure JAX function of theta (d,); for 64-bit mode."""
        J, least = tabular_exact.objective_function(self, tau), self.lower_bound(tau)
        return lambda theta: J(theta) - least

    def theta_of(self, policy: np.ndarray) -> np.ndarray:
        """Logits (d,) of a policy (S, A), where what is never done has probability 1e-300."""
        return np.log(np.maximum(policy, 1e-300)).reshape(-1)

    def smoothness(self, tau: float = 0.0) -> float:
        """The bound on L of Assumption 1."""
        return smoothness_bound(self.gamma, self.A, tau)

    def undominated(self, tau: float = 0.0) -> str:
        """Why gradient domination (12) is not there, in words; nothing where it is."""
        if not self.shared:
            return "P or rho differ between agents: (12) is about the average MDP"
        return "tau = 0: for softmax tables (12) fails on R^d, mu is 0" if tau == 0 else ""

    def facts(self, tau: float = 0.0) -> dict[str, Any]:
        """What is known without running anything, for a run's summary."""
        least = self.scale * self.lower_bound(tau)
        return {"J_star": least} if self.shared else {"J_star": None, "J_lower_bound": least}

    def describe(self) -> dict[str, str]:
        """What `fastfedpg show` prints; numbers in the user's units, as those of runs are."""
        least = f"{self.scale * self.lower_bound():.6g}"
        if self.shared:
            best = {"J*, best common policy": least}
        else:
            best = {"J, lower bound": f"{least} (no J*: kernels or starts differ; the mean of the own optima)"}
        own = np.array([best.J for best in self.own_optima()])
        return {
            "agents": str(self.N),
            "states": str(self.S),
            "actions": f"{self.A} ({', '.join(self.actions)})" if self.A <= FEW else str(self.A),
            "gamma": f"{self.gamma:g}",
            "rewards": f"in [{self.reward.min():g}, {self.reward.max():g}]; "
            f"reward range {self.reward_range[0]:g} to {self.reward_range[1]:g}",
            "kernels": "differ between agents" if self.own_kernels else "shared by all agents",
            "starts": "differ between agents" if self.own_starts else "shared by all agents",
            "J, uniform policy": f"{self.scale * tabular_exact.J(self, np.zeros((self.S, self.A))):.6g}",
            **best,
            "own best returns": by_agent(self.agents, self.reward_range[1] / (1 - self.gamma) - self.scale * own),
        }

    def with_oracle(self, oracle: str, tau: float, settings: Mapping[str, Any]) -> Problem:
        """What the runtimes take: what the agents share is a closure, and their costs, or all they have, the task."""
        make = ORACLES.resolve(oracle)
        prepare, settings = preparation(make), oracle_settings(oracle, ORACLES.takes(oracle), dict(settings))

        def build(model: Any, cost: Any) -> Oracle:
            return make(model, cost, self.gamma, tau=tau, **settings)

        if self.shared:
            model = prepare(self.P, self.rho)
            tasks: Task = self.cost
            of_task = lambda cost: build(model, cost)
        else:
            tasks = (prepare(*self._each()), self.cost)
            of_task = lambda task: build(*task)
        ids = np.arange(self.N, dtype=np.int32)
        return Problem(tasks, ids, of_task, self.evaluator(tau), np.zeros(self.S * self.A))

    def _each(self) -> tuple[Any, np.ndarray]:
        """Every agent's own P and rho, also where one is shared."""
        P = jax.tree.map(lambda x: np.broadcast_to(x, (self.N, *x.shape[-3:])), self.P)
        return P, np.broadcast_to(self.rho, (self.N, self.S))

    def as_environments(self) -> Environments:
        """The same, played: for policies that are no table, and for the critic."""
        own = moves(*self._each()) if not self.shared else None
        env = finite(self.S, self.A, moves(self.P, self.rho) if own is None else None)
        reward = np.asarray(self.reward)
        return Environments(
            self.name,
            env.observations,
            env.actions,
            reward if own is None else (own, reward),
            partial(play, env),
            horizon=math.ceil(math.log(LEFT) / math.log(self.gamma)) if self.gamma > LEFT else 1,
            gamma=self.gamma,
            reward_range=self.reward_range,
            reward_scale=1 / self.scale,
            reward_offset=self.reward_range[1],
            agents=self.agents,
            source=self.name,
            made_of=self,
        )

    def as_table(self) -> "TabularProblem":
        """Itself."""
        return self

    def identity(self) -> list[Any]:
        """The arrays that a checkpoint must have in common with the run that goes on from it."""
        return [*self.arrays().values(), self.reward_range]

    def save(self, path: Path) -> None:
        """Write an `.npz` that `load` reads."""
        np.savez(path, **self.arrays(), **self.about())
