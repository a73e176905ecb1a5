"""From a configuration to what it names, with everything checked that can be checked before anything is run."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np

from fastfedpg import problems, runtime
from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.config import Config
from fastfedpg.core import Algorithm, Problem
from fastfedpg.errors import InputError, unknown
from fastfedpg.oracles import ORACLES
from fastfedpg.problems import TabularProblem
from fastfedpg.problems.tabular import read_npz
from fastfedpg.runtime import MessageSizes, Schedule
from fastfedpg.theory import lemma2_step_limit, smoothness_bound

LARGEST_LOGIT = 1e100
"""Far beyond any policy that float64 can tell from a deterministic one."""


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


def plan(config: Config, like: Plan | None = None) -> Plan:
    """Check a configuration and build what it names; nothing is run and nothing is written.

    With `like`, a plan for the same problem, oracle and start, those are taken from there instead of built again.
    """
    config.check()
    if config.algorithm not in ALGORITHMS:
        raise unknown("algorithm", config.algorithm, ALGORITHMS)
    if config.oracle not in ORACLES:
        raise unknown("oracle", config.oracle, ORACLES)
    factory = ALGORITHMS[config.algorithm]
    lacking = config.lacked_by(factory)
    if lacking:
        raise InputError(
            f"algorithm '{config.algorithm}' needs {', '.join(lacking)}, which is no setting: "
            "give the parameter a default, or add a field of that name to Config"
        )
    tabular, problem, theta0 = (like.tabular, like.problem, like.theta0) if like else _built(config)
    algorithm = factory(**config.taken_by(factory))
    _check_memory(config, tabular)
    schedule = Schedule(
        config.rounds, config.seeds, config.metrics_every, config.participants, first_seed=config.first_seed
    )
    with jax.enable_x64(True):
        schedule.check(problem, algorithm)
        sizes = runtime.message_sizes(problem, algorithm, np.zeros(tabular.S * tabular.A))
    return Plan(config, tabular, problem, algorithm, schedule, sizes, theta0, tuple(_without_effect(config)))


def _built(config: Config) -> tuple[TabularProblem, Problem, np.ndarray | None]:
    tabular = problems.make(config.problem, config.problem_args, config.agents, config.reward_range)
    settings = {name: getattr(config, name) for name in ORACLES[config.oracle].settings}
    problem = problems.with_oracle(tabular, config.oracle, config.tau, **settings)
    theta0 = None if config.theta0 is None else _read_theta0(config, tabular)
    if theta0 is not None:
        start = np.broadcast_to(theta0, (config.seeds, tabular.S, tabular.A))
        problem = problem._replace(theta0=start.reshape(config.seeds, -1))
    return tabular, problem, theta0


def _check_memory(config: Config, tabular: TabularProblem) -> None:
    """Refuse what can't be held: the least is theta and one message of every agent, for every seed."""
    least = 8 * config.seeds * tabular.S * tabular.A * (tabular.N + 2)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if least > there:
        raise InputError(
            f"seeds = {config.seeds}: {tabular.N} agents with {tabular.S} x {tabular.A} parameters need at least "
            f"{least / 2**30:,.0f} GB, and this machine has {there / 2**30:,.0f}; take fewer seeds"
        )


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
