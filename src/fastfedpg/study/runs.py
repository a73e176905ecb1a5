"""One run from a configuration: checked first, then run, then on disk, whatever ended it."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fastfedpg import problems, runtime
from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.config import Config
from fastfedpg.core import Algorithm, Problem
from fastfedpg.errors import InputError, unknown
from fastfedpg.oracles import ORACLES
from fastfedpg.problems import TabularProblem, exact
from fastfedpg.problems.tabular import read_npz
from fastfedpg.runtime import Diverged, MessageSizes, Record, Result, Schedule
from fastfedpg.study import output
from fastfedpg.study.progress import Report, silent
from fastfedpg.study.statistics import bootstrap
from fastfedpg.theory import lemma2_step_limit, smoothness_bound

LARGEST_LOGIT = 1e100
"""Far beyond any policy that float64 can tell from a deterministic one."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; what was recorded until then was kept."""


@dataclass(frozen=True)
class Plan:
    """A configuration that has passed every check, with all that it names built."""

    config: Config
    tabular: TabularProblem
    problem: Problem
    algorithm: Algorithm
    schedule: Schedule
    sizes: MessageSizes
    theta0: np.ndarray | None  # as in the file; None is the uniform policy
    notes: tuple[str, ...]

    @property
    def smoothness(self) -> float:
        """The bound on L of Assumption 1."""
        return smoothness_bound(self.tabular.gamma, self.tabular.A, self.config.tau)

    @property
    def step_limit(self) -> float:
        """Lemma 2's limit on eta, with that bound."""
        return lemma2_step_limit(self.smoothness, self.local_steps)

    @property
    def local_steps(self) -> int:
        """H as the algorithm uses it."""
        return int(self.config.taken_by(ALGORITHMS[self.config.algorithm]).get("H", 1))


def plan(config: Config) -> Plan:
    """Check a configuration and build what it names; nothing is run and nothing is written."""
    config.check()
    if config.algorithm not in ALGORITHMS:
        raise unknown("algorithm", config.algorithm, ALGORITHMS)
    if config.oracle not in ORACLES:
        raise unknown("oracle", config.oracle, ORACLES)
    tabular = problems.make(config.problem, config.problem_args, config.agents, config.reward_range)
    factory = ALGORITHMS[config.algorithm]
    lacking = config.lacked_by(factory)
    if lacking:
        raise InputError(
            f"algorithm '{config.algorithm}' needs {', '.join(lacking)}, which is no setting: "
            "give the parameter a default, or add a field of that name to Config"
        )
    settings = {name: getattr(config, name) for name in ORACLES[config.oracle].settings}
    problem = problems.with_oracle(tabular, config.oracle, config.tau, **settings)
    theta0 = None if config.theta0 is None else _read_theta0(config, tabular)
    if theta0 is not None:
        start = np.broadcast_to(theta0, (config.seeds, tabular.S, tabular.A))
        problem = problem._replace(theta0=start.reshape(config.seeds, -1))
    algorithm = factory(**config.taken_by(factory))
    schedule = Schedule(
        config.rounds, config.seeds, config.metrics_every, config.participants, first_seed=config.first_seed
    )
    with jax.enable_x64(True):
        schedule.check(problem, algorithm)
        sizes = runtime.message_sizes(problem, algorithm, np.zeros(tabular.S * tabular.A))
    return Plan(config, tabular, problem, algorithm, schedule, sizes, theta0, tuple(_without_effect(config)))


def run(config: Config, out: Path | str | None = None, overwrite: bool = False, report: Report = silent) -> Result:
    """Run a configuration; with `out`, leave its folder behind, also when interrupted or diverged."""
    planned = plan(config) if out is None else begin(config, Path(out), overwrite)
    return execute(planned, None if out is None else Path(out), report)


def begin(config: Config, out: Path, overwrite: bool = False) -> Plan:
    """Check the folder and the configuration, and only then open the folder."""
    output.check_folder(out, overwrite)
    planned = plan(config)
    output.open_folder(out, config, planned.tabular, planned.theta0, overwrite)
    return planned


def execute(planned: Plan, out: Path | None = None, report: Report = silent) -> Result:
    """Run what was planned, into a folder that is open already; in 64-bit mode, whatever the caller's is."""
    config, records, state, began = planned.config, [], "finished", time.monotonic()
    start = runtime.simulate_records if config.runtime == "simulate" else runtime.loop_records
    stopped: BaseException | None = None
    try:
        with jax.enable_x64(True):
            for record in start(planned.problem, planned.algorithm, planned.schedule, report):
                records.append(record)
                report(record.round, record)
    except KeyboardInterrupt:
        state, stopped = "interrupted", Interrupted(f"interrupted after round {_last(records)} of {config.rounds}")
    except Diverged as e:
        state, stopped = "diverged", Diverged(e.round, e.exchange, e.agent, e.seed, f". {_advice(planned)}")
    except BaseException as error:  # whatever it is, what was recorded goes to disk before it goes on up
        state, stopped = "failed", error
    with _uninterrupted():
        result = runtime.collect(records, planned.sizes) if records else None
        if out is not None:
            if result is not None:
                output.write_result(out, result, (planned.tabular.S, planned.tabular.A), config.first_seed)
            output.write_summary(out, summary(planned, result, state, str(stopped or ""), time.monotonic() - began))
    if isinstance(stopped, Diverged):
        stopped.result = result
    if stopped is not None:
        raise stopped
    assert result is not None
    return result


def summary(planned: Plan, result: Result | None, state: str, message: str, seconds: float) -> dict[str, Any]:
    """What a person or a program wants to know first about a run."""
    config, tabular = planned.config, planned.tabular
    known: dict[str, Any]
    if tabular.shared:
        known = {"J_star": tabular.scale * exact.optimum(tabular, config.tau).J}
    else:
        own = [best.J for best in exact.own_optima(tabular, config.tau)]
        known = {"J_star": None, "J_lower_bound": tabular.scale * float(np.mean(own))}
    found = {} if result is None else {"J_best_found": float(result.metrics["J"].min())}
    final = {}
    if result is not None:
        for name in result.metrics:
            mean, low, high = bootstrap(result.final(name))
            final[name] = {"mean": float(mean), "low": float(low), "high": float(high)}
    return {
        "state": state,
        "message": message,
        "problem": config.problem,
        "algorithm": config.algorithm,
        "oracle": config.oracle,
        "N": tabular.N,
        "S": tabular.S,
        "A": tabular.A,
        "gamma": tabular.gamma,
        "rounds_done": 0 if result is None else int(result.rounds[-1]),
        "rounds": config.rounds,
        "seeds": config.seeds,
        "eta": config.eta,
        "eta_limit_lemma_2": planned.step_limit,
        **known,
        **found,
        "final": final,
        "interval": "95% bootstrap over seeds",
        "seconds": seconds,
        "versions": output.versions(),
        "notes": list(planned.notes),
    }


def _read_theta0(config: Config, tabular: TabularProblem) -> np.ndarray:
    path, shape = str(config.theta0), (tabular.S, tabular.A)
    given = read_npz(path, ("theta",))["theta"]
    if given.dtype.kind not in "fiu":
        raise InputError(f"{path}: theta has type {given.dtype}; it must hold real numbers")
    theta = given.astype(np.float64) if np.abs(given).max(initial=0) < LARGEST_LOGIT else np.full(given.shape, np.nan)
    if theta.shape not in (shape, (config.seeds, *shape)):
        raise InputError(
            f"{path}: theta has shape {theta.shape}; it must be {shape}: states, actions, "
            f"or {(config.seeds, *shape)} with one for each of {config.seeds} seeds"
        )
    if not np.isfinite(theta).all():
        raise InputError(f"{path}: theta must hold finite numbers, none larger than {LARGEST_LOGIT:g}")
    return theta


def _without_effect(config: Config) -> Iterator[str]:
    """Settings that were changed but that the chosen algorithm or oracle does not have."""
    defaults = Config()
    makers = {name: kind.make for name, kind in ORACLES.items()}
    used = {*config.taken_by(ALGORITHMS[config.algorithm]), *config.taken_by(makers[config.oracle])}
    for what, name, table in (("algorithm", config.algorithm, ALGORITHMS), ("oracle", config.oracle, makers)):
        known = {setting for factory in table.values() for setting in config.taken_by(factory)}
        for setting in sorted(known - used):
            if getattr(config, setting) != getattr(defaults, setting):
                yield f"{setting} = {getattr(config, setting)} has no effect: {what} {name} does not use it"
    if config.B0 is not None and "B" not in used and "B0" in used:
        yield f"B0 = {config.B0} has no effect: oracle {config.oracle} plays no trajectories"


def _advice(planned: Plan) -> str:
    return (
        f"The step size is eta = {planned.config.eta:g}; Lemma 2 asks for at most 1/(3LH) = {planned.step_limit:.3g}, "
        f"with H = {planned.local_steps} and the bound L = {planned.smoothness:.4g}. Try a smaller eta."
    )


def _last(records: list[Record]) -> int:
    return records[-1].round if records else 0


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second Ctrl-C must not cut the files short."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread, where no Ctrl-C arrives
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
