"""What a run writes down: checkpoints while it goes, its files when it ends."""

import platform
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import jax

from fastfedpg import kernels, runtime
from fastfedpg.experiment import checkpoints, results, run_folder
from fastfedpg.experiment.checkpoints import Checkpoint, Keeper
from fastfedpg.experiment.copies import described
from fastfedpg.experiment.plan import Plan
from fastfedpg.experiment.problem import is_file
from fastfedpg.experiment.record_table import RecordTable
from fastfedpg.experiment.tracked import Tracked
from fastfedpg.problems import AnyProblem
from fastfedpg.runtime import Record, Result, Standing
from fastfedpg.statistics import bootstrap

Note: TypeAlias = Callable[[str], None]
"""Hears what a person should know but what stops nothing."""


def unsaid(words: str) -> None:
    """Nobody listens."""


def identity(planned: Plan) -> checkpoints.Identity:
    """What a checkpoint of this run must have in common with it."""
    config = described(planned.config)
    who = checkpoints.identity(config, planned.known, planned.theta0, run_folder.versions())
    return who._replace(computed=computed_with(planned))


def computed_with(planned: Plan) -> dict[str, str]:
    """What decides how numbers are rounded, beside the versions: it need not be the same, but then it is said."""
    config, known = planned.config, planned.known
    sampled = known is not None and not known.played and config.oracle in ("reinforce", "gpomdp")
    return {
        "sampling": kernels.build() if sampled else "none",
        "agent_batch": str(config.agent_batch or "all"),
        "shards": str(config.shards or 1),
        "processor": _processor(),
    }


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{jax.default_backend()} {platform.machine()} {name}".strip()


BUFFER_RECORDS, BUFFER_BYTES = 1024, 1 << 24
"""Records that are held in memory at most, and numbers in them, before they go to disk."""


class Journal:
    """One run's records, and its folder if it has one; a run that goes on begins with what was found."""

    def __init__(self, planned: Plan, out: Path | None, found: Checkpoint | None, note: Note) -> None:
        self.planned, self.out, self.note = planned, out, note
        self.who = identity(planned)
        self.start = found.standing if found else None
        self.table: RecordTable | None = None
        if out is not None:
            self.table = found.table if found else RecordTable(checkpoints.records_of(out), capacity(planned))
        self.tracked = Tracked(planned, out, self.table, note)
        self.records: list[Record] = []  # all of them, or where there is a table those that are not in it yet
        self.last = 0 if self.start is None else max(0, self.start.recorded)
        self.began = time.monotonic() - (found.seconds if found else 0.0)
        self.keeper = Keeper(planned.config, self.start.round if self.start else 0)
        self.standing: Callable[[], Standing] | None = None
        self.begun: int | None = None  # the round of the last checkpoint that was begun
        self.kept: int | None = None  # and of the last that was written

    def add(self, record: Record) -> None:
        """One more record; from time to time they go to disk."""
        runtime.add(self.records, record, policies=2)  # an interruption's own, and the one before it
        if self.tracked.to is not None:
            self.tracked.add(self._collected([record]))
        self.last = record.round
        size = len(self.records) * record.evaluation.returns.nbytes
        if self.table is not None and (len(self.records) >= BUFFER_RECORDS or size >= BUFFER_BYTES):
            with suppress(OSError):  # of which the next checkpoint will tell
                self._flush(self.records[-2].round if len(self.records) > 1 else -1)  # the last may be no part of it

    def _flush(self, last: int) -> None:
        """Records up to a round go to disk. Interrupted at any moment, what is on disk is never added again."""
        if self.table is None:
            return
        begun = self.table.written.last
        if new := [r for r in self.records if begun < r.round <= last]:
            checkpoints.folder_in(self.table.path.parent.parent)
            self.table.append(self._collected(new))
        begun = self.table.written.last
        self.records = [r for r in self.records if r.round > begun]

    def _collected(self, records: list[Record]) -> Result:
        return runtime.collect(records, self.planned.sizes, first_seed=self.planned.schedule.first_seed)

    def tick(self, done: int, standing: Callable[[], Standing]) -> None:
        """The run stands between two rounds: put it away if it is time."""
        self.standing = standing
        if self.out is not None and self.keeper.due(done):
            self.keep(standing())

    def keep(self, standing: Standing) -> None:
        """Write a checkpoint; where that fails, say so and go on: the run itself is well."""
        assert self.out is not None
        assert self.table is not None
        began = time.monotonic()
        try:
            # A record that only an interruption asked for is no part of the run that goes on.
            self._flush(standing.recorded)
            # One that was on its way here when it was interrupted is made again.
            standing = standing._replace(recorded=min(standing.recorded, self.table.written.last))
            begun, self.begun = self.begun, standing.round
            checkpoints.write(self.out, self.who, standing, self.table, began - self.began, begun == standing.round)
            self.kept = standing.round
        except OSError as error:
            self.note(f"no checkpoint after round {standing.round}: {error.strerror}; {run_folder.kept(self.out)}")
        self.keeper.kept(standing.round, began)

    def close(self, state: str, message: str) -> Result | None:
        """Write the run's files, whatever ended it; only a finished run has no more use for its checkpoints."""
        out, table = self.out, self.table
        self.tracked.close(state)
        if out is None or table is None:
            return self._collected(self.records) if self.records else None
        if state in ("interrupted", "failed") and self.standing is not None:
            standing = self.standing()
            if standing.round != self.kept:
                self.keep(standing)
        self._flush(self.last)
        result = None
        if table.count:
            planned, ran_with = self.planned, run_folder.ran_with(self.planned.config)
            results.write(out, table, planned.schedule.first_seed, planned.theta_shape, ran_with)
            result = results.read(out / results.FILE).result
        run_folder.write_summary(out, summary(self.planned, result, state, message, time.monotonic() - self.began))
        if state == "finished" or not checkpoints.present(out):
            checkpoints.clear(out)
        return result


def capacity(planned: Plan) -> int:
    """The records that a run may come to; an interruption may ask for one more."""
    return len(range(0, planned.schedule.rounds, planned.schedule.metrics_every)) + 2


def summary(planned: Plan, result: Result | None, state: str, message: str, seconds: float) -> dict[str, Any]:
    """What a person or a program wants to know first about a run."""
    config = planned.config
    found = {} if result is None else {"J_best_found": float(result.metrics["J"].min())}
    final = {}
    if result is not None:
        for name in result.metrics:
            mean, low, high = bootstrap(result.final(name))
            final[name] = {"mean": float(mean), "low": float(low), "high": float(high)}
    return {
        "state": state,
        "message": message,
        "problem": planned.name if is_file(config.problem) else config.problem,
        "algorithm": config.algorithm,
        "oracle": config.oracle,
        "N": planned.problem.N,
        **_of_problem(planned.known),
        "rounds_done": 0 if result is None else int(result.rounds[-1]),
        "rounds": config.rounds,
        "seeds": config.seeds,
        "eta": config.eta,
        **_theory(planned),
        **({"advice": planned.advice} if planned.advice else {}),
        **found,
        "final": final,
        "interval": "95% bootstrap over seeds",
        "seconds": seconds,
        "versions": run_folder.versions(),
        "notes": list(planned.notes),
    }


def _of_problem(known: AnyProblem | None) -> dict[str, Any]:
    return {} if known is None else {**known.sizes, "gamma": known.gamma}


def _theory(planned: Plan) -> dict[str, Any]:
    """What is known of the problem without running anything; nothing where it is private, or can only be played."""
    known = planned.known
    if known is None or known.played:
        return {}
    limit: dict[str, Any] = {"theorem_1": planned.standpoint._asdict()}
    if planned.theorem is not None:
        limit["schedule"] = planned.theorem.summary()
    if known.smoothness() is not None:
        limit |= {"eta_limit_lemma_2": planned.step_limit, "eta_limit_theorem_1": planned.theorem1_step_limit}
    return {**limit, **known.facts(planned.config.tau)}
