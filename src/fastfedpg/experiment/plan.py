"""From a configuration to what it names, with everything checked that can be checked before anything is run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fastfedpg import runtime, tracking
from fastfedpg.core import Algorithm, Problem
from fastfedpg.errors import InputError, text_of
from fastfedpg.experiment import choices
from fastfedpg.experiment.algorithm import algorithm_of, local_steps, steps_in_a_round, with_opening, with_turns
from fastfedpg.experiment.choices import PRIVATE
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.made_once import algorithm_key, once
from fastfedpg.experiment.problem import STEPS, Built, build, oracle_settings, with_its_oracle
from fastfedpg.experiment.theory_schedule import Scheduled, Standpoint, scheduled, standpoint
from fastfedpg.policies import Policy
from fastfedpg.precision import float64, precision_of
from fastfedpg.problems import AnyProblem
from fastfedpg.problems.with_policy import in_lanes
from fastfedpg.registry import is_own, told
from fastfedpg.runtime import MessageSizes, Schedule
from fastfedpg.tables import BIASED
from fastfedpg.theory import lemma2_step_limit, smoothness_estimate, theorem1_step_limit


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
    advice: dict[str, Any] | None = None  # why its algorithm was chosen, if it was asked for that

    @property
    def here(self) -> AnyProblem:
        """The problem, which must not be private."""
        if self.known is None:
            raise InputError("the problem is private: only the agents' own sites know it")
        return self.known

    @property
    def arrays(self) -> AnyProblem:
        """The problem, whose numbers must be known."""
        if self.here.played:
            raise InputError(f"problem '{self.name}' can only be played: its numbers are not known")
        return self.here

    @property
    def steps(self) -> int:
        """Of a trajectory, at most."""
        if (K := self.config.get("oracle.K")) is not None:
            return int(K)
        return STEPS if self.known is None else self.known.horizon or STEPS

    @property
    def episode(self) -> int:
        """Steps of an episode, at most, where a policy is shown or evaluated."""
        lanes = in_lanes(self.config.oracle, self.config.choice("oracle").args) if self.here.played else False
        return (self.here.horizon if lanes else None) or self.steps

    @property
    def with_eta(self) -> Callable[[Any], Algorithm]:
        """The algorithm at another step size, which may be traced; equal plans have one function, hence one program."""
        config, known, policy = self.config, self.known, self.policy
        args = {name: value for name, value in config.choice("algorithm").args.items() if name != "eta"}
        key = None if config.normalise else algorithm_key(config, args)
        make = lambda eta: with_opening(config, algorithm_of(config, eta=eta), known, policy)
        return once("maker", key, lambda: make)

    def for_rounds(self, rounds: int) -> "Plan":
        """The same for another number of rounds; nothing is checked again, or built but steps that decay over them."""
        schedule = replace(self.schedule, rounds=rounds)
        new = replace(self, config=replace(self.config, rounds=rounds), schedule=schedule)
        return new.at_eta(self.config.eta) if self.config.decay else new

    def at_eta(self, eta: float) -> "Plan":
        """The same at another step size."""
        return replace(self, config=self.config.but(eta=eta), algorithm=self.with_eta(eta))

    @property
    def name(self) -> str:
        """What the problem is called."""
        return PRIVATE if self.known is None else self.known.name

    @property
    def theta_shape(self) -> tuple[int, ...]:
        """How theta is written down: a table or a gain where the problem is known, or a vector."""
        own = () if self.known is None else self.known.theta_shape
        return own or np.shape(self.problem.theta0)[-1:]

    @property
    def smoothness(self) -> float:
        """The bound on L of Assumption 1."""
        bound = self.arrays.smoothness(self.config.tau)
        if bound is None:
            raise InputError(f"problem '{self.name}' is not a finite MDP")
        return bound

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
        bound = self.arrays.smoothness(self.config.tau)
        if bound is None and estimate is None:
            start = np.atleast_2d(self.problem.theta0)[:1]
            estimate = smoothness_estimate(self.arrays.gradients(), np.stack([start, start], axis=1), points=2)
        return standpoint(self.config, self.problem.N, self.local_steps, bound, estimate)

    @property
    def local_steps(self) -> int:
        """H as the algorithm uses it."""
        return local_steps(self.config)


@float64
def plan(config: Config, like: Plan | None = None) -> Plan:
    """Check a configuration and build what it names; nothing is run and nothing is written.

    With `like`, a plan for the same problem, oracle and start, those are taken from there instead of built again.
    """
    tracking.check(config.track or ())
    algorithm = algorithm_of(config)
    built = Built(like.known, like.problem, like.theta0, like.policy) if like else build(config)
    known, problem, theta0, policy = built
    algorithm = with_opening(config, algorithm, known, policy)
    config = with_turns(config, algorithm)
    theorem = like.theorem if like and like.config == config else None
    if config.schedule is not None and theorem is None:
        config, theorem = scheduled(config, local_steps(config), known, problem.theta0)
        algorithm = algorithm_of(config)
        if known is not None and not known.played and "K" in oracle_settings(config):
            problem = problem._replace(oracle=with_its_oracle(config, known).oracle)
    schedule = Schedule(
        config.rounds,
        config.seeds,
        config.metrics_every,
        config.participants,
        first_seed=config.first_seed,
        agent_batch=config.agent_batch,
        shards=config.shards,
        order=config.order,
        speeds=config.speeds,
    )
    with _of_the_users_own(config), precision_of(problem.theta0):
        schedule.check(problem, algorithm)
        if config.runtime == "simulate":
            runtime.layout_of(problem, schedule)
            runtime.check_memory(problem, algorithm, schedule)
        form = np.zeros(np.shape(problem.theta0)[-1], config.dtype)
        sizes = runtime.message_sizes(problem, algorithm, form, schedule)
        if is_own(config.algorithm):
            runtime.check_forms(f"algorithm '{config.algorithm}'", problem, algorithm, form)
    notes = (*_without_effect(config, known), *(theorem.notes if theorem else ()))
    return Plan(config, known, problem, algorithm, schedule, sizes, theta0, notes, theorem, policy)


@contextmanager
def _of_the_users_own(config: Config) -> Iterator[None]:
    """What a user's own algorithm or oracle raises when it is first walked through, told as every other mistake."""
    own = [kind for kind in ("algorithm", "oracle") if is_own(getattr(config, kind))]
    what = " or ".join(f"{kind} '{getattr(config, kind)}'" for kind in own)
    try:
        with told(f"{what}, in its first round") if own else nullcontext():
            yield
    except InputError:
        raise
    except ValueError as error:  # of an algorithm of ours, about what it is given to work with
        raise InputError(f"algorithm '{config.algorithm}': {text_of(error)}") from None


def weighing(gamma_weights: bool) -> str:
    """What an estimate weighs the steps of an episode by, in words."""
    if gamma_weights:
        return "step k of an episode weighs gamma^k (gamma_weights = true)"
    return "all steps of an episode weigh the same (gamma_weights = false)"


def _without_effect(config: Config, known: AnyProblem | None) -> Iterator[str]:
    """Settings that were changed but that the chosen algorithm or oracle does not have."""
    played = known is not None and known.played
    if config.oracle in BIASED:
        how = weighing(config.choice("oracle").args["gamma_weights"])
        yield f"oracle {config.oracle} is biased by its critic: the theorems do not cover it; {how}"
    if config.oracle == "trpo" and (eta := config.get("eta") or 0) > 1 and "H" in config.choice("algorithm").args:
        yield f"eta = {eta:g} multiplies each step of oracle trpo, and leads out of its region: 1 is the whole step"
    K, episode = config.get("oracle.K"), (known and known.horizon) or 0
    if played and K is not None and int(K) < episode and in_lanes(config.oracle, config.choice("oracle").args):
        yield (
            f"K = {K} is less than an episode's {episode} steps, and lanes begin anew in every batch: later steps are "
            f"evaluated and never learned from; take K = {episode}, or horizon={K} where a problem has that"
        )
    steps, local = steps_in_a_round(config), "H" in config.choice("algorithm").args
    if config.get("optimiser") in ("adam", "yogi") and steps == 1 and not config.keep_optimiser and local:
        name = config.get("optimiser")
        where = "afresh and with one step a round, is sign descent where nothing is corrected"
        yield f"optimiser {name}, {where}: --keep-optimiser, or H > 1"
    if (optimiser := config.get("optimiser") or "sgd") != "sgd":
        yield f"optimiser {optimiser} keeps the fixed point of exact steps alone; the theorems are about sgd"
    if not played:
        for setting in ("policy_args", "normalise", "evaluation_episodes", "evaluate_by"):
            value = getattr(config, setting)
            if value and value != getattr(Config(), setting):
                yield f"{setting} = {value} has no effect: it is for environments that are played"
    for kind, bare, value in sorted((choices.kind_with(name), name, value) for name, value in config.unused().items()):
        if bare == "K" and (config.schedule is not None or played):
            continue  # the schedule has a word of its own on it, and an environment is played for K steps
        if value != choices.known_arguments(config.algorithm, config.oracle)[bare].default:
            yield f"{bare} = {value} has no effect: {kind} {getattr(config, kind)} does not use it"
    for setting in ("agent_batch", "shards"):
        if config.runtime == "loop" and getattr(config, setting) is not None:
            yield f"{setting} = {getattr(config, setting)} has no effect: the loop computes one agent after another"
    B0, trajectories = config.choice("algorithm").args.get("B0"), config.choice("oracle").args.get("B")
    if B0 is not None and trajectories is None:
        yield f"B0 = {B0} has no effect: oracle {config.oracle} plays no trajectories"
