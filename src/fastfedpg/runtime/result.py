"""What every runtime yields while it runs, and what that adds up to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.core import Algorithm, Evaluation, Problem
from fastfedpg.errors import InputError
from fastfedpg.runtime import views
from fastfedpg.runtime.diagnosis import explain_value
from fastfedpg.runtime.walk import MessageSizes, in_form


class Record(NamedTuple):
    """The run as it stands after `round` rounds; the leading axis holds the runs (seeds, or settings x seeds)."""

    round: int
    theta: np.ndarray  # (runs, d), or (runs, N, d) for one policy per agent
    evaluation: Evaluation
    drift: np.ndarray  # (runs,): Lemma 1's sum over agents and local steps in the last round; NaN before the first
    env_steps: np.ndarray  # (runs,): all agents together, from the start
    rounds_taken: np.ndarray  # (runs,): rounds an agent took part in, on average over the agents
    extra: Mapping[str, np.ndarray] = {}  # each (runs,): what else the agents log; NaN before a round


METRICS = (
    *("J", "gap", "grad_norm_sq", "return_mean", "return_worst", "return_q25", "return_median", "return_q75", "drift"),
    *("env_steps", "floats_up", "floats_down", "bytes_up", "bytes_down", "syncs"),
)
"""The columns of every run; what an algorithm's agents log beside them follows."""

BY_MODE = "return_mode"
"""One more where a policy is shown by its mode, too."""


def extras(problem: Problem, algorithm: Algorithm, theta: Any) -> tuple[str, ...]:
    """The names of what an algorithm's agents log, if they can be columns of their own."""
    found = in_form(problem, algorithm, theta)[0].extra
    for name, x in found.items():
        if name in (*METRICS, BY_MODE, "seed", "round"):
            raise InputError(f"the algorithm's agents log '{name}', which is the name of a metric; take another")
        if x.shape:
            raise InputError(f"the algorithm's agents log '{name}' of shape {x.shape}; it must be a single number")
    return tuple(found)


def checked(problem: Problem, record: Record, seeds: Sequence[int] | np.ndarray, all_of_them: bool = False) -> Record:
    """The record, if the policy still has a value in every run; or in some, unless all of them must be lost."""
    bad = np.flatnonzero(~np.isfinite(record.evaluation.J))
    if len(bad) >= (len(seeds) if all_of_them else 1):
        why = explain_value(problem, record.theta[bad[0]])
        raise Diverged(record.round, None, None, int(seeds[bad[0]]), why=why)
    return record


@dataclass(frozen=True, repr=False)
class Result:
    """A run, finished or not: arrays with a leading axis for seeds, or for settings and seeds.

    `metrics[name]` has a trailing axis for the recorded rounds, `returns` a further one for the agents. Seeds are
    counted from `first_seed`.
    """

    rounds: np.ndarray
    metrics: dict[str, np.ndarray]
    returns: np.ndarray
    theta: np.ndarray
    first_seed: int = 0

    def __post_init__(self) -> None:
        """A metric that is asked for by a wrong name is answered with the nearest."""
        object.__setattr__(self, "metrics", views.Metrics(self.metrics))

    def __repr__(self) -> str:
        """A line or two."""
        return views.words(self)

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row for each seed and recorded round: seed, round and all metrics."""
        return views.frame(self)

    def plot(self, metric: str | None = None) -> Any:
        """A matplotlib Figure of a metric over rounds; of the gap where it is known, else the return, unless named."""
        return views.plot(self, metric)

    def final(self, name: str) -> np.ndarray:
        """The last recorded value of a metric, one per run."""
        return self.metrics[name][..., -1]

    def then(self, later: "Result") -> "Result":
        """This result and what was recorded after it, as one."""
        axis = self.metrics["J"].ndim - 1
        joined = lambda a, b: np.concatenate([a, b], axis=axis)
        metrics = {name: joined(x, later.metrics[name]) for name, x in self.metrics.items()}
        rounds = np.concatenate([self.rounds, later.rounds])
        return Result(rounds, metrics, joined(self.returns, later.returns), later.theta, self.first_seed)


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


def gather(running: Iterable[Record], sizes: MessageSizes, shape: Sequence[int], first_seed: int = 0) -> Result:
    """Run to the end; a divergence on the way keeps what was recorded."""
    records: list[Record] = []
    try:
        for record in running:
            add(records, record)
    except Diverged as error:
        error.result = collect(records, sizes, shape, first_seed) if records else None
        raise
    return collect(records, sizes, shape, first_seed)


def add(records: list[Record], record: Record, policies: int = 1) -> None:
    """One more; policies, which may be large, are let go but for those of the last few: no other is asked for again."""
    records.append(record)
    for old in records[-policies - 1 : -policies]:
        records[len(records) - policies - 1] = old._replace(theta=np.empty(0))


def collect(
    records: Sequence[Record], sizes: MessageSizes, shape: Sequence[int] | None = None, first_seed: int = 0
) -> Result:
    """Everything that was recorded; `shape` gives the runs' axis back its form, for example (settings, seeds)."""
    shape = tuple(shape or records[0].drift.shape)
    stack = lambda values: np.stack(list(values), axis=1)
    form = lambda x: x.reshape(shape + x.shape[1:])
    e = Evaluation(
        *(None if x is None else stack(r.evaluation[k] for r in records) for k, x in enumerate(records[0].evaluation))
    )
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
        **({} if e.by_mode is None else {BY_MODE: e.by_mode.mean(axis=-1)}),
        "drift": stack(r.drift for r in records),
        "env_steps": stack(r.env_steps for r in records),
        "floats_up": taken * sizes.floats_up,
        "floats_down": taken * sizes.floats_down,
        "bytes_up": taken * sizes.bytes_up,
        "bytes_down": taken * sizes.bytes_down,
        "syncs": np.outer(np.ones(len(taken), int), [r.round * sizes.syncs for r in records]),
        **{name: stack(r.extra[name] for r in records) for name in records[0].extra},
    }
    return Result(
        np.array([r.round for r in records]),
        {name: form(x) for name, x in metrics.items()},
        form(e.returns),
        form(records[-1].theta),
        first_seed,
    )
