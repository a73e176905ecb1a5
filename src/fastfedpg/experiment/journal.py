"""What a run writes down: checkpoints while it goes, its files when it ends."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from fastfedpg import runtime
from fastfedpg.experiment import checkpoints, results, run_folder
from fastfedpg.experiment.checkpoints import Checkpoint, Keeper
from fastfedpg.experiment.plan import Plan
from fastfedpg.experiment.problem import is_file
from fastfedpg.problems import AnyProblem
from fastfedpg.runtime import Record, Result, Standing
from fastfedpg.statistics import bootstrap

Note: TypeAlias = Callable[[str], None]
"""Hears what a person should know but what stops nothing."""


def unsaid(words: str) -> None:
    """Nobody listens."""


def identity(planned: Plan) -> checkpoints.Identity:
    """What a checkpoint of this run must have in common with it."""
    config = run_folder.described(planned.config)
    return checkpoints.identity(config, planned.known, planned.theta0, run_folder.versions())


class Journal:
    """One run's records, and its folder if it has one; a run that goes on begins with what was found."""

    def __init__(self, planned: Plan, out: Path | None, found: Checkpoint | None, note: Note) -> None:
        self.planned, self.out, self.note = planned, out, note
        self.who = identity(planned)
        self.start = found.standing if found else None
        self.first_seed = planned.schedule.first_seed
        self.before = replace(found.result, first_seed=self.first_seed) if found and found.result else None
        self.records: list[Record] = []
        self.began = time.monotonic() - (found.seconds if found else 0.0)
        self.keeper = Keeper(planned.config, self.start.round if self.start else 0)
        self.standing: Callable[[], Standing] | None = None
        self.kept: int | None = None  # the round of the last checkpoint

    @property
    def last(self) -> int:
        """The last round that was recorded."""
        if self.records:
            return self.records[-1].round
        return 0 if self.before is None else int(self.before.rounds[-1])

    def result(self, records: list[Record] | None = None) -> Result | None:
        """Everything that was recorded."""
        records = self.records if records is None else records
        new = runtime.collect(records, self.planned.sizes, first_seed=self.first_seed) if records else None
        return new if self.before is None else self.before if new is None else self.before.then(new)

    def tick(self, done: int, standing: Callable[[], Standing]) -> None:
        """The run stands between two rounds: put it away if it is time."""
        self.standing = standing
        if self.out is not None and self.keeper.due(done):
            self.keep(standing())

    def keep(self, standing: Standing) -> None:
        """Write a checkpoint; where that fails, say so and go on: the run itself is well."""
        assert self.out is not None
        began = time.monotonic()
        try:
            # A record that only an interruption asked for is no part of the run that goes on.
            result = self.result([r for r in self.records if r.round <= standing.recorded])
            checkpoints.write(self.out, self.who, standing, result, began - self.began)
            self.kept = standing.round
        except OSError as error:
            self.note(f"no checkpoint after round {standing.round}: {error.strerror}; {run_folder.kept(self.out)}")
        self.keeper.kept(standing.round, began)

    def close(self, state: str, message: str) -> Result | None:
        """Write the run's files, whatever ended it; only a finished run has no more use for its checkpoints."""
        result, out = self.result(), self.out
        if out is None:
            return result
        if state in ("interrupted", "failed") and self.standing is not None:
            standing = self.standing()
            if standing.round != self.kept:
                self.keep(standing)
        if result is not None:
            results.write(out, result, self.planned.theta_shape)
        run_folder.write_summary(out, summary(self.planned, result, state, message, time.monotonic() - self.began))
        if state == "finished":
            shutil.rmtree(out / checkpoints.FOLDER, ignore_errors=True)
        return result


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
