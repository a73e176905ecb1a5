"""What every runtime is asked, what it yields while it runs, and what that adds up to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Evaluation, Oracle, Problem, Sums, key_for
from fastfedpg.errors import InputError
from fastfedpg.runtime.diagnosis import explain_value


@dataclass(frozen=True)
class Schedule:
    """What both runtimes are asked for.

    Args:
        rounds: communication rounds T.
        seeds: how many seeds, counted from `first_seed`.
        metrics_every: rounds between two records; there is one at the start and one at the end in any case.
        participants: how many agents take part in a round; all, unless given.
        theta0: (d,), or (seeds, d); the problem's own start, the uniform policy, unless given. Its dtype decides.
        first_seed: the first seed.
        agent_batch: agents computed at a time, all unless given; `simulate` alone. It changes memory, and no number.
        shards: devices that the agents are split over, one unless given; `simulate` alone. It changes no number.
    """

    rounds: int
    seeds: int = 1
    metrics_every: int = 1
    participants: int | None = None
    theta0: Any = None
    first_seed: int = 0
    agent_batch: int | None = None
    shards: int | None = None

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
        names = [e.name for e in algorithm.exchanges]
        if len({*names, *RESERVED}) < len(names) + len(RESERVED):
            raise InputError(f"exchange names {names} must differ from each other and from {', '.join(RESERVED)}")

    def taking_part(self, problem: Problem) -> int:
        """How many agents take part in a round."""
        return self.participants or problem.N

    def starts(self, problem: Problem) -> Any:
        """One theta per seed."""
        if not isinstance(problem, Problem):
            raise InputError(f"a problem with an oracle is needed, as from with_oracle, not a {type(problem).__name__}")
        theta = jnp.asarray(problem.theta0 if self.theta0 is None else self.theta0)
        d = np.shape(problem.theta0)[-1]
        if theta.shape not in ((d,), (self.seeds, d)) or not jnp.issubdtype(theta.dtype, jnp.floating):
            raise InputError(
                f"theta0 has shape {theta.shape} and type {theta.dtype}; it must be ({d},), or ({self.seeds}, {d}) "
                f"for {self.seeds} seeds, of floating-point numbers"
            )
        return jnp.broadcast_to(theta, (self.seeds, d))

    def recorded(self) -> Iterator[int]:
        """The rounds after which metrics are taken: none yet, every so many, and the last."""
        return chain(range(0, self.rounds, self.metrics_every), (self.rounds,))


RESERVED = ("own", "participants")
"""Labels of random keys that are the runtimes' own."""


def participants_of(seed: Any, round: Any, N: int, m: int) -> Any:
    """Who takes part in a round, in all its exchanges: m of the N positions, drawn without replacement, in order."""
    if m == N:
        return jnp.arange(N)
    return jnp.sort(jax.random.choice(key_for(seed, round, "participants"), N, (m,), replace=False))


class Record(NamedTuple):
    """The run as it stands after `round` rounds; the leading axis holds the runs (seeds, or settings x seeds)."""

    round: int
    theta: np.ndarray  # (runs, d), or (runs, N, d) for one policy per agent
    evaluation: Evaluation
    drift: np.ndarray  # (runs,): Lemma 1's sum over agents and local steps in the last round; NaN before the first
    env_steps: np.ndarray  # (runs,): all agents together, from the start
    rounds_taken: np.ndarray  # (runs,): rounds an agent took part in, on average over the agents


def checked(problem: Problem, record: Record, seeds: Sequence[int] | np.ndarray, all_of_them: bool = False) -> Record:
    """The record, if the policy still has a value in every run; or in some, unless all of them must be lost."""
    bad = np.flatnonzero(~np.isfinite(record.evaluation.J))
    if len(bad) >= (len(seeds) if all_of_them else 1):
        why = explain_value(problem, record.theta[bad[0]])
        raise Diverged(record.round, None, None, int(seeds[bad[0]]), why=why)
    return record


class MessageSizes(NamedTuple):
    """What one agent sends (up) and is sent (down) in one round, from the messages' own shapes."""

    floats_up: int
    floats_down: int
    bytes_up: int
    bytes_down: int
    syncs: int


def message_sizes(problem: Problem, algorithm: Algorithm, theta: Any) -> MessageSizes:
    """Trace one agent through a round and add up its messages; nothing is computed."""
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)
    one = lambda theta, tasks: walk(algorithm, problem.oracle(first(tasks)), theta, problem.N)
    ups, downs, _ = jax.eval_shape(one, theta, problem.tasks)
    ups, downs = ups[algorithm.opening :], downs[algorithm.opening :]  # those of every round
    count = lambda tree: sum(x.size for x in jax.tree.leaves(tree))
    size = lambda tree: sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))
    return MessageSizes(count(ups), count(downs), size(ups), size(downs), len(ups))


def samples_in_a_round(algorithm: Algorithm, of_estimate: Callable[[int | None], int]) -> int:
    """What one agent's round costs, if an estimate with B trajectories (or the oracle's own number) costs so much."""
    return int(walk(algorithm, counting_oracle(of_estimate), jnp.zeros(1), 1)[2])


def counting_oracle(of_estimate: Callable[[int | None], int]) -> Oracle:
    """An oracle that knows no environment: its gradients are zero, and an estimate costs so many steps."""
    return Oracle(
        init=lambda key: (),
        sample=lambda theta, own, key, B: (of_estimate(B), own),
        gradient=lambda theta, own, batch: jnp.zeros_like(theta),
        steps=lambda batch: batch,
        observe=lambda own, key, o: (Sums(jnp.ones(()), jnp.zeros(o), jnp.zeros(o)), 0),
    )


def walk(algorithm: Algorithm, oracle: Oracle, theta: Any, N: int) -> tuple[list[Any], list[Any], Any]:
    """One agent's messages up and down in the first round, and the steps it takes in every round."""
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)
    state, down, memory = algorithm.init(theta, N)
    key, memory = key_for(0, 0, "", 0), first(memory)
    own = oracle.init(key)
    if algorithm.per_agent:
        state, down = first(state), first(down)
    ups, downs = [], []
    steps: Any = 0
    for number, e in enumerate(algorithm.exchanges):
        memory, own, up, info = e.agent(memory, own, down, oracle, key)
        steps = steps + info.steps if number >= algorithm.opening else steps
        if e.combine.sent:
            ups.append(up)
            downs.append(down)
        combined = e.combine.merge(jax.tree.map(lambda x: x[None], up))
        state, down = e.server(state, first(combined) if e.combine.per_agent else combined, 1.0, key)
    return ups, downs, steps


@dataclass(frozen=True)
class Result:
    """A run, finished or not: arrays with a leading axis for seeds, or for settings and seeds.

    `metrics[name]` has a trailing axis for the recorded rounds, `returns` a further one for the agents.
    """

    rounds: np.ndarray
    metrics: dict[str, np.ndarray]
    returns: np.ndarray
    theta: np.ndarray

    def final(self, name: str) -> np.ndarray:
        """The last recorded value of a metric, one per run."""
        return self.metrics[name][..., -1]

    def then(self, later: "Result") -> "Result":
        """This result and what was recorded after it, as one."""
        axis = self.metrics["J"].ndim - 1
        joined = lambda a, b: np.concatenate([a, b], axis=axis)
        metrics = {name: joined(x, later.metrics[name]) for name, x in self.metrics.items()}
        rounds = np.concatenate([self.rounds, later.rounds])
        return Result(rounds, metrics, joined(self.returns, later.returns), later.theta)


NOT_FINITE = "theta or its value became non-finite at the server, though every agent's message was finite"


class Diverged(ArithmeticError):
    """A message or theta stopped being finite; `result` holds what was recorded before, `why` what the problem says."""

    def __init__(
        self, round: int, exchange: str | None, agent: int | None, seed: int, advice: str = "", why: str = ""
    ) -> None:
        self.round, self.exchange, self.agent, self.seed, self.why = round, exchange, agent, seed, why
        self.result: Result | None = None
        where = f"agent {agent} sent a non-finite '{exchange}' message" if exchange else NOT_FINITE
        super().__init__(f"diverged in round {round} (seed {seed}): {where}{why and f': {why}'}{advice}")


def gather(running: Iterable[Record], sizes: MessageSizes, shape: Sequence[int]) -> Result:
    """Run to the end; a divergence on the way keeps what was recorded."""
    records: list[Record] = []
    try:
        records.extend(running)
    except Diverged as error:
        error.result = collect(records, sizes, shape) if records else None
        raise
    return collect(records, sizes, shape)


def collect(records: Sequence[Record], sizes: MessageSizes, shape: Sequence[int] | None = None) -> Result:
    """Everything that was recorded; `shape` gives the runs' axis back its form, for example (settings, seeds)."""
    shape = tuple(shape or records[0].drift.shape)
    stack = lambda values: np.stack(list(values), axis=1)
    form = lambda x: x.reshape(shape + x.shape[1:])
    e = Evaluation(*(stack(r.evaluation[k] for r in records) for k in range(len(Evaluation._fields))))
    taken = stack(r.rounds_taken for r in records)
    low, middle, high = np.quantile(e.returns, (0.25, 0.5, 0.75), axis=-1)
    metrics = {
        "J": e.J,
        "gap": e.gap,
        "grad_norm_sq": e.grad_norm_sq,
        "return_mean": e.returns.mean(axis=-1),
        "return_worst": e.returns.min(axis=-1),
        "return_q25": low,
        "return_median": middle,
        "return_q75": high,
        "drift": stack(r.drift for r in records),
        "env_steps": stack(r.env_steps for r in records),
        "floats_up": taken * sizes.floats_up,
        "floats_down": taken * sizes.floats_down,
        "bytes_up": taken * sizes.bytes_up,
        "bytes_down": taken * sizes.bytes_down,
        "syncs": np.outer(np.ones(len(taken), int), [r.round * sizes.syncs for r in records]),
    }
    return Result(
        np.array([r.round for r in records]),
        {name: form(x) for name, x in metrics.items()},
        form(e.returns),
        form(records[-1].theta),
    )
