"""What every runtime yields while it runs, what that adds up to, and what the messages cost."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Evaluation, Problem, alone, key_for
from fastfedpg.errors import InputError


class Record(NamedTuple):
    """The run as it stands after `round` rounds; the leading axis holds the runs (seeds, or settings x seeds)."""

    round: int
    theta: np.ndarray  # (runs, d), or (runs, N, d) for one policy per agent
    evaluation: Evaluation
    drift: np.ndarray  # (runs,): Lemma 1's sum over agents and local steps in the last round; NaN before the first
    env_steps: np.ndarray  # (runs,): all agents together, from the start
    rounds_taken: np.ndarray  # (runs,): rounds an agent took part in, on average over the agents


class Diverged(ArithmeticError):
    """A message or theta stopped being finite."""

    def __init__(self, round: int, exchange: str | None, agent: int | None, seed: int) -> None:
        self.round, self.exchange, self.agent, self.seed = round, exchange, agent, seed
        where = f"agent {agent} sent a non-finite '{exchange}' message" if exchange else "theta became non-finite"
        super().__init__(f"diverged in round {round} (seed {seed}): {where}")


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

    def one_round(theta: Any, tasks: Any) -> tuple[list[Any], list[Any]]:
        state, down, memory = algorithm.init(theta, problem.N)
        oracle, key = problem.oracle(first(tasks)), key_for(0, 0, "", 0)
        own, memory = oracle.init(key), first(memory)
        if algorithm.per_agent:
            state, down = first(state), first(down)
        ups, downs = [], []
        for e in algorithm.exchanges:
            memory, own, up, _ = e.agent(memory, own, down, oracle, key)
            if e.combine is not alone:
                ups.append(up)
                downs.append(down)
            state, down = e.server(state, up, 1.0, key)
        return ups, downs

    ups, downs = jax.eval_shape(one_round, theta, problem.tasks)
    count = lambda tree: sum(x.size for x in jax.tree.leaves(tree))
    size = lambda tree: sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))
    return MessageSizes(count(ups), count(downs), size(ups), size(downs), len(ups))


@dataclass(frozen=True)
class Result:
    """A finished (or interrupted) run: arrays with a leading axis for seeds, or for settings and seeds.

    `metrics[name]` has a trailing axis for the recorded rounds, `returns` a further one for the agents.
    """

    rounds: np.ndarray
    metrics: dict[str, np.ndarray]
    returns: np.ndarray
    theta: np.ndarray

    def final(self, name: str) -> np.ndarray:
        """The last recorded value of a metric, one per run."""
        return self.metrics[name][..., -1]


def collect(records: Iterable[Record], sizes: MessageSizes, shape: Sequence[int] | None = None) -> Result:
    """Everything that was recorded; `shape` gives the runs' axis back its form, for example (settings, seeds)."""
    records = list(records)
    if not records:
        raise ValueError("nothing was recorded")
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


def recorded_rounds(rounds: int, every: int) -> Iterator[int]:
    """The rounds after which metrics are taken: none yet, every so many, and the last."""
    return chain(range(0, rounds, every), (rounds,))


def check_arguments(problem: Problem, rounds: int, every: int, participants: int | None) -> int:
    """The number of agents that take part in a round, after checking the runtimes' common arguments."""
    for name, value in (("rounds", rounds), ("metrics_every", every)):
        if value < 1:
            raise InputError(f"{name} = {value}; it must be at least 1")
    if participants is not None and not 1 <= participants <= problem.N:
        raise InputError(f"participants = {participants}; it must be between 1 and the number of agents, {problem.N}")
    return participants or problem.N


def participants_of(seed: Any, round: Any, N: int, m: int) -> Any:
    """Who takes part in a round, in all its exchanges: m of the N positions, drawn without replacement, in order."""
    if m == N:
        return jnp.arange(N)
    return jnp.sort(jax.random.choice(key_for(seed, round, "participants"), N, (m,), replace=False))


def starting_points(problem: Problem, theta0: Any, runs: int) -> Any:
    """One theta per run, in theta0's own dtype as far as JAX's 64-bit setting has it."""
    theta = jnp.asarray(problem.theta0 if theta0 is None else theta0)
    d = np.shape(problem.theta0)[-1]
    if theta.shape not in ((d,), (runs, d)):
        raise InputError(f"theta0 has shape {theta.shape}; it must be ({d},), or ({runs}, {d}) for {runs} runs")
    return jnp.broadcast_to(theta, (runs, d))
