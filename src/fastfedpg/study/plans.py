"""From a configuration to what it names, with everything checked that can be checked before anything is run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from fastfedpg import optimisers, policies, problems, runtime
from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.algorithms.normalised import normalised
from fastfedpg.config import Config
from fastfedpg.core import Algorithm, Evaluation, Problem, key_for
from fastfedpg.envs import Environments
from fastfedpg.errors import InputError, unknown
from fastfedpg.oracles import ORACLES
from fastfedpg.policies import Policy
from fastfedpg.policies.words import switch
from fastfedpg.problems import PLAYED, AnyProblem, KnownProblem, TabularProblem, with_policy
from fastfedpg.problems.known import gradient_function
from fastfedpg.problems.own import is_own
from fastfedpg.problems.tabular import read_npz
from fastfedpg.runtime import MessageSizes, Schedule
from fastfedpg.runtime.record import counting_oracle
from fastfedpg.spaces import Box
from fastfedpg.study.scheduled import Scheduled, Standpoint, scheduled, standpoint
from fastfedpg.theory import lemma2_step_limit, smoothness_bound, smoothness_estimate, theorem1_step_limit

PRIVATE = "private"
"""The name of a problem that only the agents' own sites know."""

STEPS = 50
"""Of a trajectory in a finite MDP, where K does not say otherwise."""

LARGEST_LOGIT = 1e100
"""Far beyond any policy that float64 can tell from a deterministic one."""


@dataclass(frozen=True)
class Plan:
    """A configuration that has passed every check, with all that it names built."""

    config: Config
    known: AnyProblem | None  # None where only the agents' own sites know it
    problem: Problem
    algorithm: Algorithm
    schedule: Schedule
    sizes: MessageSizes
    theta0: np.ndarray | None  # as in the file; None is the problem's own start
    notes: tuple[str, ...]
    theorem: Scheduled | None = None  # what its schedule says, if it has one
    policy: Policy | None = None  # in environments

    @property
    def here(self) -> AnyProblem:
        """The problem, which must not be private."""
        if self.known is None:
            raise InputError("the problem is private: only the agents' own sites know it")
        return self.known

    @property
    def arrays(self) -> KnownProblem:
        """The problem's arrays."""
        if isinstance(self.here, Environments):
            raise InputError(f"problem '{self.name}' can only be played: its numbers are not known")
        return self.here

    @property
    def steps(self) -> int:
        """Of a trajectory, at most."""
        if self.config.K is not None:
            return self.config.K
        return self.known.horizon if isinstance(self.known, Environments) else STEPS

    @property
    def tabular(self) -> TabularProblem:
        """The arrays of a finite problem."""
        if not isinstance(self.arrays, TabularProblem):
            raise InputError(f"problem '{self.name}' is not a finite MDP")
        return self.arrays

    def with_eta(self, eta: Any) -> Algorithm:
        """The algorithm at another step size."""
        new = ALGORITHMS[self.config.algorithm](**{**algorithm_settings(self.config), "eta": eta})
        return opened(self.config, new, self.known, self.policy)

    @property
    def name(self) -> str:
        """What the problem is called."""
        return PRIVATE if self.known is None else self.known.name

    @property
    def theta_shape(self) -> tuple[int, ...]:
        """How theta is written down: a table or a gain where the problem is known, or a vector."""
        if self.known is None or isinstance(self.known, Environments):
            return np.shape(self.problem.theta0)[-1:]
        return self.known.theta_shape

    @property
    def smoothness(self) -> float:
        """The bound on L of Assumption 1."""
        return smoothness_bound(self.tabular.gamma, self.tabular.A, self.config.tau)

    @property
    def step_limit(self) -> float:
        """Lemma 2's limit on eta, with that bound."""
        return lemma2_step_limit(self.smoothness, self.local_steps)

    @property
    def theorem1_step_limit(self) -> float:
        """Theorem 1's limit on eta, with that bound."""
        return theorem1_step_limit(self.smoothness, self.local_steps)

    @cached_property
    def standpoint(self) -> Standpoint:
        """How the run stands to Theorem 1; a regulator has no bound on L, but one at its first gain."""
        estimate = None if self.theorem is None else self.theorem.L
        bound = self.smoothness if isinstance(self.arrays, TabularProblem) else None
        if bound is None and estimate is None:
            start = np.atleast_2d(self.problem.theta0)[:1]
            gradients = gradient_function(self.arrays)
            estimate = smoothness_estimate(gradients, np.stack([start, start], axis=1), points=2)
        return standpoint(self.config, self.problem.N, self.local_steps, bound, estimate)

    @property
    def local_steps(self) -> int:
        """H as the algorithm uses it."""
        return _local_steps(self.config)


class Built(NamedTuple):
    """What a configuration names, beside its algorithm."""

    known: AnyProblem | None  # None where only the agents' own sites know it
    problem: Problem
    theta0: np.ndarray | None = None  # as in the file; None is the problem's own start
    policy: Policy | None = None  # in environments


def plan(config: Config, like: Plan | None = None) -> Plan:
    """Check a configuration and build what it names; nothing is run and nothing is written.

    With `like`, a plan for the same problem, oracle and start, those are taken from there instead of built again.
    """
    algorithm = algorithm_of(config)
    built = Built(like.known, like.problem, like.theta0, like.policy) if like else _built(config)
    known, problem, theta0, policy = built
    algorithm = opened(config, algorithm, known, policy)
    theorem = like.theorem if like and like.config == config else None
    if config.schedule is not None and theorem is None:
        config, theorem = scheduled(config, _local_steps(config), known, problem.theta0)
        algorithm = algorithm_of(config)
        if isinstance(known, KnownProblem) and "K" in oracle_settings(config):
            problem = problem._replace(oracle=_with_oracle(config, known).oracle)
    schedule = Schedule(
        config.rounds,
        config.seeds,
        config.metrics_every,
        config.participants,
        first_seed=config.first_seed,
        agent_batch=config.agent_batch,
        shards=config.shards,
    )
    with jax.enable_x64(True):
        schedule.check(problem, algorithm)
        if config.runtime == "simulate":
            runtime.layout_of(problem, schedule)
            runtime.check_memory(problem, algorithm, schedule)
        sizes = runtime.message_sizes(problem, algorithm, np.zeros(np.shape(problem.theta0)[-1]))
    notes = (*_without_effect(config, known), *(theorem.notes if theorem else ()))
    return Plan(config, known, problem, algorithm, schedule, sizes, theta0, notes, theorem, policy)


def algorithm_of(config: Config) -> Algorithm:
    """The algorithm that a configuration names, with its settings."""
    config.check()
    if config.algorithm not in ALGORITHMS:
        raise unknown("algorithm", config.algorithm, ALGORITHMS)
    factory = ALGORITHMS[config.algorithm]
    lacking = config.lacked_by(factory)
    if lacking:
        raise InputError(
            f"algorithm '{config.algorithm}' needs {', '.join(lacking)}, which is no setting: "
            "give the parameter a default, or add a field of that name to Config"
        )
    try:
        return factory(**algorithm_settings(config))
    except ValueError as error:
        raise InputError(f"algorithm '{config.algorithm}': {error}") from None


def algorithm_settings(config: Config) -> dict[str, Any]:
    """The settings of the algorithm that a configuration names; an optimiser by itself, and not by its name."""
    given = config.taken_by(ALGORITHMS[config.algorithm])
    return {**given, **({"optimiser": optimisers.make(config.optimiser)} if "optimiser" in given else {})}


def opened(config: Config, algorithm: Algorithm, known: AnyProblem | None, policy: Policy | None) -> Algorithm:
    """The algorithm, with an opening that measures observations if the configuration asks for it."""
    if not config.normalise:
        return algorithm
    if known is None:
        raise InputError(
            "normalise needs to know what an observation is, and the problem is private: give the server one with the "
            "same spaces, such as gym:ID; what the agents play remains theirs"
        )
    if config.theta0 is not None:
        raise InputError(
            "normalise measures observations before the first round, and theta0 may hold measured ones already: give "
            "one or the other"
        )
    if algorithm.per_agent and config.participants is not None:
        raise InputError(
            f"normalise with algorithm {config.algorithm}: who is not in the first round would never measure its "
            "observations; leave participants out"
        )
    if not isinstance(known, Environments) or policy is None or policy.normalise is None:
        raise InputError(f"normalise is for observations in environments; problem '{known.name}' has none to measure")
    return normalised(algorithm, known.observations.width, policy.normalise)


def _local_steps(config: Config) -> int:
    return int(config.taken_by(ALGORITHMS[config.algorithm]).get("H", 1))


def is_private(problem: str) -> bool:
    """Whether only the agents' own sites know the problem: it says so, or it is a module:function of theirs."""
    return problem == PRIVATE or is_own(problem)


def is_file(problem: str) -> bool:
    """Whether a problem is a path of arrays."""
    suite = problem.partition(":")[0] in problems.SUITES
    return not (problem in problems.PROBLEMS or is_private(problem) or suite)


def oracle_settings(config: Config) -> dict[str, Any]:
    """The settings of the oracle that a configuration names."""
    if config.oracle not in ORACLES:
        raise unknown("oracle", config.oracle, ORACLES)
    given = {name: getattr(config, name) for name in ORACLES[config.oracle].settings}
    return {**given, **({"K": STEPS} if given.get("K", 0) is None else {})}


def _built(config: Config) -> Built:
    if config.problem == PRIVATE or (is_own(config.problem) and config.parameters is not None):
        return Built(None, *_private(config))
    built = build_known(config, problems.make(config.problem, config.problem_args, config.agents, config.reward_range))
    known = built.known
    assert known is not None
    if isinstance(known, Environments):
        return _started(config, built)
    theta0 = None if config.theta0 is None else _read_theta0(config, known.theta_shape, known.theta_axes)
    if theta0 is None:
        return built
    start = np.broadcast_to(theta0, (config.seeds, *known.theta_shape)).reshape(config.seeds, -1)
    return built._replace(problem=built.problem._replace(theta0=start), theta0=theta0)


def _started(config: Config, built: Built) -> Built:
    """In environments every seed starts from a theta of its own."""
    assert built.policy is not None
    if config.theta0 is None:
        seeds = range(config.first_seed, config.first_seed + config.seeds)
        with jax.enable_x64(True):
            start = np.stack([np.asarray(built.policy.init(key_for(seed, 0, "policy"))) for seed in seeds])
        return built._replace(problem=built.problem._replace(theta0=start))
    theta0 = _read_theta0(config, (built.policy.size,), "theta's length")
    start = np.broadcast_to(theta0, (config.seeds, built.policy.size))
    return built._replace(problem=built.problem._replace(theta0=start), theta0=theta0)


def build_known(config: Config, known: AnyProblem) -> Built:
    """A problem with a configuration's oracle, and in environments its policy too.

    A finite MDP is an environment, where a policy or an oracle for environments was asked for.
    """
    if isinstance(known, TabularProblem) and (config.policy is not None or config.oracle == "actor_critic"):
        known = problems.as_environments(known)
    return _play(config, known) if isinstance(known, Environments) else Built(known, _with_oracle(config, known))


def _play(config: Config, environments: Environments) -> Built:
    if config.policy is None:
        raise InputError(
            f"problem '{environments.name}' is played by a policy with parameters: name one with --policy "
            f"({', '.join(policies.POLICIES)})"
        )
    if config.oracle not in PLAYED:
        raise InputError(
            f"oracle '{config.oracle}' knows a finite MDP; problem '{environments.name}' can only be played: name "
            f"{' or '.join(PLAYED)} with --oracle"
        )
    policy = policies.make(
        config.policy, environments.observations, environments.actions, config.normalise, config.policy_args
    )
    clipped = isinstance(environments.actions, Box) and environments.actions.bounded
    if config.tau and clipped and not switch("squash", config.policy_args.get("squash", False)):
        raise InputError(
            f"tau = {config.tau:g} with actions that are clipped has no minimum, since a spread that grows for ever "
            "always gains entropy: take --policy-args squash=true"
        )
    given = {name: getattr(config, name) for name in problems.settings_of(config.oracle)}
    with jax.enable_x64(True):
        problem = with_policy(
            environments, policy, config.oracle, config.tau, episodes=config.evaluation_episodes, **given
        )
    return Built(environments, problem, policy=policy)


def _with_oracle(config: Config, known: KnownProblem) -> Problem:
    if config.policy is not None:
        raise InputError(f"policy = {config.policy}; problem '{known.name}' has its own: a gain for every state")
    return problems.with_oracle(known, config.oracle, config.tau, **oracle_settings(config))


def _private(config: Config) -> tuple[Problem, np.ndarray | None]:
    """What a server knows of a problem that only its agents know: how many they are, and theta's length."""
    if config.agents is None or (config.parameters is None and config.theta0 is None):
        agents = "" if config.agents is not None else "--agents, how many there are, and "
        raise InputError(
            f"problem '{config.problem}' says nothing of itself: give {agents}--parameters, theta's length (states x "
            "actions for a table), or --theta0"
        )
    if config.oracle not in {**ORACLES, **PLAYED}:
        raise unknown("oracle", config.oracle, {**ORACLES, **PLAYED})
    theta0 = None if config.theta0 is None else _read_theta0(config, (config.parameters,), "theta's length")
    start = np.zeros(config.parameters or 0) if theta0 is None else theta0
    ids = np.arange(config.agents, dtype=np.int32)
    return Problem(np.zeros(config.agents), ids, lambda task: counting_oracle(lambda B: 0), _unknown, start), theta0


def _unknown(thetas: Any) -> Evaluation:
    raise InputError("the problem is private: only the agents' own sites can evaluate a policy (fastfedpg server)")


def _read_theta0(config: Config, shape: tuple[int | None, ...], axes: str) -> np.ndarray:
    """theta from a file; a length that is not set is the file's own."""
    path = str(config.theta0)
    given = read_npz(path, ("theta",))["theta"]
    if given.dtype.kind not in "fiu":
        raise InputError(f"{path}: theta has type {given.dtype}; it must hold real numbers")
    theta = given.astype(np.float64) if np.abs(given).max(initial=0) < LARGEST_LOGIT else np.full(given.shape, np.nan)
    if shape == (None,):
        shape = theta.shape[-1:]
    if not theta.size or not shape:
        raise InputError(f"{path}: theta has shape {theta.shape}; it must hold numbers: {axes}")
    if theta.shape not in (shape, (config.seeds, *shape)):
        raise InputError(
            f"{path}: theta has shape {theta.shape}; it must be {shape}: {axes}, "
            f"or {(config.seeds, *shape)} with one for each of {config.seeds} seeds"
        )
    if theta.shape == (1, *shape):
        theta = theta[0]
    if not np.isfinite(theta).all():
        raise InputError(f"{path}: theta must hold finite numbers, none larger than {LARGEST_LOGIT:g}")
    return theta


def _without_effect(config: Config, known: AnyProblem | None) -> Iterator[str]:
    """Settings that were changed but that the chosen algorithm or oracle does not have."""
    defaults = Config()
    played = isinstance(known, Environments)
    if config.oracle == "actor_critic":
        yield "oracle actor_critic is biased by its critic: the theorems do not cover it"
    if config.optimiser != "sgd":
        yield f"optimiser {config.optimiser} keeps the fixed point of exact steps alone; the theorems are about sgd"
    if not played:
        for setting in ("policy_args", "normalise", "evaluation_episodes"):
            if getattr(config, setting) != getattr(defaults, setting):
                yield f"{setting} = {getattr(config, setting)} has no effect: it is for environments that are played"
    makers: dict[str, Callable[..., Any]] = {name: kind.make for name, kind in ORACLES.items()}
    makers |= {} if isinstance(known, KnownProblem) else PLAYED
    used = {*config.taken_by(ALGORITHMS[config.algorithm]), *config.taken_by(makers[config.oracle]), *["K"] * played}
    for what, name, table in (("algorithm", config.algorithm, ALGORITHMS), ("oracle", config.oracle, makers)):
        settings = {setting for factory in table.values() for setting in config.taken_by(factory)}
        for setting in sorted(settings - used):
            if setting == "K" and config.schedule is not None:
                continue  # the schedule has a word of its own on it
            if getattr(config, setting) != getattr(defaults, setting):
                yield f"{setting} = {getattr(config, setting)} has no effect: {what} {name} does not use it"
    for setting in ("agent_batch", "shards"):
        if config.runtime == "loop" and getattr(config, setting) is not None:
            yield f"{setting} = {getattr(config, setting)} has no effect: the loop computes one agent after another"
    if config.B0 is not None and "B" not in used and "B0" in used:
        yield f"B0 = {config.B0} has no effect: oracle {config.oracle} plays no trajectories"
