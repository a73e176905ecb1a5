"""What is verified: a problem with its exact oracle, and what an exact pilot met on the way to its optimum."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from fastfedpg.algorithms.fast_fedpg import fast_fedpg
from fastfedpg.core import Algorithm, Problem
from fastfedpg.errors import InputError
from fastfedpg.problems import AnyProblem, TabularProblem, with_oracle
from fastfedpg.theory import Pilot, pilot, theorem1_step_limit
from fastfedpg.verify.listening import say
from fastfedpg.verify.recording import recording

PILOT = 2000
"""Steps after which a pilot ends, wherever it is."""
TARGET = 1e-12
"""The part of the first gap at which it ends."""
MEMORY = 2**28
"""Bytes of what the oracles of one recorded round remember."""
HEADROOM = 1.5
"""Times the pilot's L: where noise leads, off the pilot's way, Hessians are larger."""


@dataclass(frozen=True)
class Subject:
    """One problem. Everything is in cost units, where a table's costs lie in [0, 1]."""

    known: AnyProblem
    tau: float
    H: int
    K: int  # of sampled estimates, as B
    B: int
    name: str
    first_seed: int = 0
    make: Callable[..., Algorithm] = fast_fedpg  # what every row runs: make(eta, H, alpha_g, reuse, B0)
    ask: Callable[..., Problem] = with_oracle  # what every row samples: ask(known, oracle, tau, K, B)

    @property
    def tabular(self) -> TabularProblem:
        """The arrays of a table; only a table can be sampled."""
        table = self.known.as_table()
        if table is None:
            raise InputError(f"problem '{self.name}' is not a finite MDP")
        return table

    @property
    def N(self) -> int:
        """The number of agents."""
        return self.known.N

    @cached_property
    def exact(self) -> Problem:
        """With the exact oracle."""
        return with_oracle(self.known, "exact", self.tau)

    @cached_property
    def truncated(self) -> Problem:
        """With the mean of Eq. (5)."""
        return with_oracle(self.known, "truncated", self.tau, K=self.K)

    @cached_property
    def sampled(self) -> Problem:
        """With Eq. (5) itself."""
        return self.drawn(self.known)

    def drawn(self, known: TabularProblem | AnyProblem) -> Problem:
        """Eq. (5) of another problem of this kind."""
        return self.ask(known, "reinforce", self.tau, K=self.K, B=self.B)

    @cached_property
    def gradients(self) -> Callable[[Any], Any]:
        """Every agent's exact gradient, a pure JAX function."""
        return self.known.gradients(self.tau)

    @cached_property
    def pilot(self) -> Pilot:
        """An exact run to the optimum."""
        heard = lambda steps: say(f"step {steps:,} of an exact run to the optimum")
        return pilot(self.gradients, self.known.gap(self.tau), self.exact.theta0, PILOT, TARGET, heard=heard)

    @cached_property
    def least(self) -> float:
        """J*, or where the agents' dynamics differ the mean of their own optima, which is less."""
        return self.known.lower_bound(self.tau)

    @property
    def L(self) -> float:
        """L_estimate along the pilot."""
        if not self.pilot.L > 0:
            raise InputError("L = 0 along the pilot: J does not depend on the policy, so there is nothing to learn")
        if self.pilot.gaps[0] <= self.rounding:
            raise InputError("the first policy is already optimal, so that no claim about progress can be checked")
        return self.pilot.L

    @property
    def undominated(self) -> str:
        """Why gradient domination (12) is not there, in words; nothing where it is."""
        return self.known.undominated(self.tau)

    @property
    def J_size(self) -> float:
        """How large J is, for what float64 loses of differences."""
        return abs(self.least) + float(self.pilot.gaps[0])

    @property
    def noisy_L(self) -> float:
        """L with room for where noise leads, off the pilot's way."""
        return HEADROOM * self.L

    @property
    def alpha(self) -> float:
        """The largest effective step that Theorem 1 allows with it."""
        return self.eta(self.noisy_L) * self.H

    def replicas(self, wanted: int) -> int:
        """So many replicas of a recorded round, or as many as fit into MEMORY."""
        d = np.shape(self.exact.theta0)[-1]
        return int(np.clip(MEMORY // (16 * self.N * self.asked * d), 64, wanted))

    def eta(self, L: float | None = None) -> float:
        """Theorem 1's largest step."""
        return theorem1_step_limit(L or self.L, self.H)

    @cached_property
    def fast(self) -> Callable[[Any], Algorithm]:
        """Fast-FedPG as the theorems are about it, for any eta."""
        return lambda eta: self.make(eta, self.H)

    @cached_property
    def watched(self) -> Problem:
        """The exact problem with oracles that remember one round."""
        return recording(self.exact, self.asked)

    @cached_property
    def watched_sampled(self) -> Problem:
        """The sampled problem with such oracles."""
        return recording(self.sampled, self.asked)

    @property
    def asked(self) -> int:
        """Questions to an oracle in a round, and one more than Algorithm 1 has, so that one too many is seen."""
        return self.H + 2

    @cached_property
    def stationary(self) -> np.ndarray:
        """A stationary point: the optimum where it can be computed and is finite, or where the pilot ended."""
        if not self.undominated:
            return self.known.theta_of(self.known.optimum(self.tau).policy)
        return np.asarray(self.pilot.thetas[-1])

    @property
    def rounding(self) -> float:
        """What float64 loses of a difference of two gaps; a regulator's gaps are no differences themselves."""
        return 4 * np.finfo(float).eps * self.J_size if self.known.as_table() is not None else 0.0

    def gaps(self, problem: Problem, thetas: Any) -> tuple[np.ndarray, np.ndarray]:
        """J - J* and ||grad J||^2 of policies (n, d); J itself where there is no J*."""
        found = problem.evaluate(thetas)
        value = found.gap if self.known.shared else found.J
        return value / self.known.scale, found.grad_norm_sq / self.known.scale**2

    def gradients_at(self, theta: Any) -> np.ndarray:
        """Every agent's exact gradient: (N, d)."""
        return np.asarray(self._compiled(np.asarray(theta, np.float64)))

    @cached_property
    def _compiled(self) -> Callable[[Any], Any]:
        return jax.jit(self.gradients)
