"""What every runtime is asked: how many rounds and seeds, from where, and who takes part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Oracle, Problem, count_dtype, key_for
from fastfedpg.errors import InputError
from fastfedpg.memory import check_fits
from fastfedpg.oracles import ANSWERED_BY
from fastfedpg.runtime.diagnosis import explain_value

Order: TypeAlias = Literal["random", "cyclic", "arrival"]
"""How the agents that take part in a round are chosen."""


@dataclass(frozen=True)
class Schedule:
    """What both runtimes are asked for.

    Args:
        rounds: communication rounds T.
        seeds: how many seeds, counted from `first_seed`.
        metrics_every: rounds between two records; there is one at the start and one at the end in any case.
        participants: how many agents take part in a round; all, or as the algorithm wants it, unless given.
        theta0: (d,), or (seeds, d); the problem's own start, the uniform policy, unless given. Its dtype decides.
        first_seed: the first seed.
        agent_batch: agents computed at a time, all unless given; `simulate` alone. It changes memory and rounding.
        shards: devices that the agents are split over, one unless given; `simulate` alone. It changes rounding at most.
        order: which agents they are: drawn at random, in turn (cyclic), or those that arrive first (arrival).
        speeds: arrival: each agent's mean number of arrivals in a unit of time, equal unless given.
        go_on: a seed that diverges has NaN from then on, and the others go on, if there are any.
    """

    rounds: int
    seeds: int = 1
    metrics_every: int = 1
    participants: int | None = None
    theta0: Any = None
    first_seed: int = 0
    agent_batch: int | None = None
    shards: int | None = None
    order: Order = "random"
    speeds: Sequence[float] | None = None
    go_on: bool = False

    def settled(self, algorithm: Algorithm) -> "Schedule":
        """With the algorithm's own number of participants and their order, where it has one and none was asked for."""
        if self.participants is not None or not isinstance(algorithm, Algorithm) or algorithm.turns is None:
            return self
        wanted = algorithm.turns
        order = wanted.order if self.order == "random" else self.order
        return replace(self, participants=wanted.participants, order=order)

    def check(self, problem: Problem, algorithm: Algorithm) -> None:
        """Everything that can be wrong before the first round."""
        if not isinstance(algorithm, Algorithm):
            raise InputError(
                f"an Algorithm is needed, not a {type(algorithm).__name__} (a function of one needs sweep=)"
            )
        for name in ("rounds", "seeds", "metrics_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)}; it must be at least 1")
        for theta in np.asarray(self.starts(problem)):
            if said := explain_value(problem, theta):
                raise InputError(f"theta0: {said}")
        if not 0 <= self.first_seed < 2**31 - self.seeds:
            raise InputError(f"first_seed = {self.first_seed}, seeds = {self.seeds}; all seeds must lie in [0, 2^31)")
        if self.participants is not None and not 1 <= self.participants <= problem.N:
            raise InputError(
                f"participants = {self.participants}; it must be between 1 and the number of agents, {problem.N}"
            )
        if algorithm.everybody and self.taking_part(problem) < problem.N:
            raise InputError(f"participants = {self.participants} of {problem.N} agents: {algorithm.everybody}")
        if algorithm.turns is not None and self.taking_part(problem) != algorithm.turns.participants:
            raise InputError(
                f"participants = {self.taking_part(problem)}; each round of this algorithm is for "
                f"{algorithm.turns.participants} of the agents: leave it out, or say so"
            )
        if self.order not in get_args(Order):
            raise InputError(f"order = {self.order!r}; it must be one of {', '.join(get_args(Order))}")
        if self.speeds is not None:
            s = np.asarray(self.speeds, float)
            if self.order != "arrival":
                raise InputError(f"speeds are for order = 'arrival', and it is {self.order!r}")
            if s.shape != (problem.N,) or not (np.isfinite(s) & (s > 0)).all():
                raise InputError(
                    f"speeds = {self.speeds}; there must be a positive number for each of {problem.N} agents"
                )
        for e in algorithm.exchanges:
            if (fits := e.combine.of(problem.N).agents) not in (None, problem.N):
                raise InputError(
                    f"exchange '{e.name}' combines the uploads of {fits} agents, and there are {problem.N}"
                )
        check_answers(algorithm, problem.oracle(jax.tree.map(lambda x: x[0], problem.tasks)))
        names = [e.name for e in algorithm.exchanges]
        if len({*names, *RESERVED}) < len(names) + len(RESERVED):
            raise InputError(f"exchange names {names} must differ from each other and from {', '.join(RESERVED)}")

    def taking_part(self, problem: Problem) -> int:
        """How many agents take part in a round."""
        return self.participants or problem.N

    def who(self, problem: Problem, seed: int, round: int) -> Any:
        """The positions of the agents that take part in a round, in all its exchanges."""
        return participants_of(seed, round, problem.N, self.taking_part(problem), self.order, self.speeds)

    def starts(self, problem: Problem) -> Any:
        """One theta per seed."""
        if not isinstance(problem, Problem):
            raise InputError(f"a problem with an oracle is needed, as from with_oracle, not a {type(problem).__name__}")
        d = np.shape(problem.theta0)[-1]
        check_seeds(self.seeds, d)
        theta = jnp.asarray(problem.theta0 if self.theta0 is None else self.theta0)
        if self.theta0 is None and problem.start is not None and theta.ndim == 1:
            seeds = range(self.first_seed, self.first_seed + self.seeds)
            theta = jnp.stack([jnp.asarray(problem.start(seed)) for seed in seeds])
        if theta.shape not in ((d,), (self.seeds, d)) or not jnp.issubdtype(theta.dtype, jnp.floating):
            raise InputError(
                f"theta0 has shape {theta.shape} and type {theta.dtype}; it must be ({d},), or ({self.seeds}, {d}) "
                f"for {self.seeds} seeds, of floating-point numbers"
            )
        return jnp.broadcast_to(theta, (self.seeds, d))

    def recorded(self) -> Iterator[int]:
        """The rounds after which metrics are taken: none yet, every so many, and the last."""
        return chain(range(0, self.rounds, self.metrics_every), (self.rounds,))


def check_seeds(seeds: int, d: int) -> None:
    """Refuse more seeds than there is memory for their first policies, before it is taken."""
    check_fits(f"a policy of {d} numbers for each of {seeds} seeds", 8 * seeds * d, "take fewer seeds")


def check_answers(algorithm: Algorithm, oracle: Oracle) -> None:
    """Refuse an algorithm that needs what the oracle does not answer, by name."""
    for need in algorithm.needs:
        names = need.split(" or ")
        if all(getattr(oracle, name, None) is None or getattr(oracle, name) is False for name in names):
            said = f"the algorithm needs {need}, which the problem's oracle does not answer"
            if not {*names} <= {*ANSWERED_BY}:
                raise InputError(f"{said}, nor any other: what can be needed is {', '.join(ANSWERED_BY)}")
            who = dict.fromkeys(by for name in names for by in ANSWERED_BY[name])
            raise InputError(f"{said}; these do: {', '.join(who)}")


RESERVED = ("own", "participants")
"""Labels of random keys that are the runtimes' own."""


def participants_of(
    seed: Any, round: Any, N: int, m: int, order: Order = "random", speeds: Sequence[float] | None = None
) -> Any:
    """Who takes part in a round, in all its exchanges: m of the N positions.

    random: drawn without replacement, in order. cyclic: t m, t m + 1, …, t m + m - 1 modulo N in round t. arrival: the
    first m of a race in which agent i takes an exponential time with the rate speeds_i, as they arrive.
    """
    key = key_for(seed, round, "participants")
    if order == "arrival":
        times = jax.random.exponential(key, (N,), jnp.float32)
        return jnp.argsort(times if speeds is None else times / jnp.asarray(speeds, jnp.float32))[:m]
    if m == N:
        return jnp.arange(N)
    if order == "cyclic":
        return (jnp.asarray(round, count_dtype()) * m + jnp.arange(m)) % N
    return jnp.sort(jax.random.choice(key, N, (m,), replace=False))
