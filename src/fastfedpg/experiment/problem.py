"""The problem that a configuration names, with its oracle, its policy and where it starts."""

from typing import Any, NamedTuple

import numpy as np

from fastfedpg import policies, problems
from fastfedpg.core import Evaluation, Problem
from fastfedpg.envs import Environments, with_context
from fastfedpg.envs.context import checked
from fastfedpg.errors import InputError
from fastfedpg.experiment.choices import PRIVATE
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.made_once import built_key, once, problem_key
from fastfedpg.oracles import ORACLES
from fastfedpg.policies import Policy
from fastfedpg.problems import PLAYED, AnyProblem, with_policy
from fastfedpg.problems.context_file import read_context
from fastfedpg.problems.npz import read_npz
from fastfedpg.problems.user_function import is_own
from fastfedpg.runtime import counting_oracle
from fastfedpg.runtime.schedule import check_seeds
from fastfedpg.spaces import Box
from fastfedpg.tables import BIASED

STEPS = 50
"""Of a trajectory in a finite MDP, where K does not say otherwise."""

LARGEST_LOGIT = 1e100
"""Far beyond any policy that float64 can tell from a deterministic one."""


class Built(NamedTuple):
    """What a configuration names, beside its algorithm."""

    known: AnyProblem | None  # None where only the agents' own sites know it
    problem: Problem
    theta0: np.ndarray | None = None  # as in the file; None is the problem's own start
    policy: Policy | None = None  # in environments


def is_private(problem: str) -> bool:
    """Whether only the agents' own sites know the problem: it says so, or it is a module:function of theirs."""
    return problem == PRIVATE or is_own(problem)


def is_file(problem: str) -> bool:
    """Whether a problem is a path of arrays."""
    suite = problem.partition(":")[0] in problems.SUITES
    return not (problem in problems.PROBLEMS or is_private(problem) or suite)


def oracle_settings(config: Config) -> dict[str, Any]:
    """The settings of the oracle that a configuration names."""
    takes, args = ORACLES.takes(config.oracle), config.choice("oracle").args
    given = {name: args[name] for name in takes}
    return {**given, **({"K": STEPS} if given.get("K", 0) is None else {})}


def build(config: Config) -> Built:
    """What a configuration names, beside its algorithm."""
    return in_dtype(config, _built(config))


def _built(config: Config) -> Built:
    if config.problem == PRIVATE or (is_own(config.problem) and config.parameters is not None):
        return Built(None, *_private(config))
    key = problem_key(config, config.problem in problems.PROBLEMS and config.reward_range is None)
    make = lambda: problems.make(config.problem, config.problem_args, config.agents, config.reward_range)
    made = in_context(config, once("problem", key, make))
    built = once("built", built_key(config, key), lambda: build_known(config, made))
    check_seeds(config.seeds, np.shape(built.problem.theta0)[-1])
    known = built.known
    assert known is not None
    if known.played:
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
        begin, seeds = built.problem.start, range(config.first_seed, config.first_seed + config.seeds)
        assert begin is not None
        start = np.stack([begin(seed) for seed in seeds])
        return built._replace(problem=built.problem._replace(theta0=start))
    theta0 = _read_theta0(config, (built.policy.size,), "theta's length")
    start = np.broadcast_to(theta0, (config.seeds, built.policy.size))
    return built._replace(problem=built.problem._replace(theta0=start), theta0=theta0)


def in_context(config: Config, known: AnyProblem, number: int | None = None, N: int | None = None) -> AnyProblem:
    """A problem whose agents' policies are told the context that a configuration names, where it names one.

    With a `number` it is the problem of that one among N agents: the file has a row for each, or its own alone.
    """
    if config.context is None:
        return known
    environments = known.as_environments() if known.played or config.policy is not None else None
    if environments is None:
        raise InputError(
            f"context is for policies in environments; problem '{known.name}' is learned as a table or a gain, which "
            f"sees its state alone: name one with --policy ({', '.join(policies.POLICIES)})"
        )
    rows = read_context(config.context)
    try:
        if number is not None and len(rows) != 1:
            rows = checked(rows, N or 0)[number : number + 1]
        return with_context(environments, rows)
    except InputError as error:
        raise InputError(f"{config.context}: {error}") from None


def build_known(config: Config, known: AnyProblem) -> Built:
    """A problem with a configuration's oracle, and in environments its policy too.

    A finite MDP is an environment, where a policy or an oracle for environments was asked for.
    """
    asked = known.played or config.policy is not None or config.oracle in BIASED
    environments = known.as_environments() if asked else None
    if environments is None:
        return in_dtype(config, Built(known, with_its_oracle(config, known)))
    return in_dtype(config, _play(config, environments, known.played))


def in_dtype(config: Config, built: Built) -> Built:
    """The same, starting from numbers of the type that a configuration asks for; that decides how it is run."""
    start = np.asarray(built.problem.theta0, config.dtype)
    return built._replace(problem=built.problem._replace(theta0=start))


def _play(config: Config, environments: Environments, always: bool) -> Built:
    if config.policy is None:
        raise InputError(
            f"problem '{environments.name}' is played by a policy with parameters: name one with --policy "
            f"({', '.join(policies.POLICIES)})"
        )
    if config.oracle not in PLAYED and not is_own(config.oracle):
        name, others = environments.name, f"name {' or '.join(PLAYED)} with --oracle"
        if not always:
            raise InputError(
                f"policy '{config.policy}' plays problem '{name}' as an environment, and oracle '{config.oracle}' "
                f"knows tables alone: {others}, or leave --policy out, which gives every state a row of its own"
            )
        raise InputError(f"oracle '{config.oracle}' knows a finite MDP; problem '{name}' can only be played: {others}")
    policy = policies.make(
        config.policy, environments.observations, environments.actions, config.normalise, config.policy_args
    )
    clipped = isinstance(environments.actions, Box) and environments.actions.bounded
    if config.tau and clipped and not config.choice("policy").args.get("squash"):
        raise InputError(
            f"tau = {config.tau:g} with actions that are clipped has no minimum, since a spread that grows for ever "
            "always gains entropy: take --policy-args squash=true"
        )
    args = config.choice("oracle").args
    given = {name: args[name] for name in problems.settings_of(config.oracle)}
    episodes, how = config.evaluation_episodes, config.evaluate_by
    problem = with_policy(environments, policy, config.oracle, config.tau, episodes=episodes, evaluate=how, **given)
    return Built(environments, problem, policy=policy)


def with_its_oracle(config: Config, known: AnyProblem) -> Problem:
    """A problem whose numbers are known, with a configuration's oracle."""
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
    if config.context is not None:
        raise InputError(
            f"problem '{config.problem}' is private, and so are contexts: give --context at the agents' sites"
        )
    config.choice("oracle")
    theta0 = None if config.theta0 is None else _read_theta0(config, (config.parameters,), "theta's length")
    start = np.zeros(config.parameters or 0) if theta0 is None else theta0
    ids = np.arange(config.agents, dtype=np.int32)
    oracle = lambda task: counting_oracle(lambda B: 0, start.shape[-1])
    return Problem(np.zeros(config.agents), ids, oracle, _unknown, start), theta0


def _unknown(thetas: Any, seeds: Any = None) -> Evaluation:
    raise InputError("the problem is private: only the agents' own sites can evaluate a policy (fastfedpg server)")


def _read_theta0(config: Config, shape: tuple[int | None, ...], axes: str) -> np.ndarray:
    """theta from a file; a length that is not set is the file's own."""
    path = str(config.theta0)

    def check(arrays: dict[str, np.ndarray]) -> None:
        found = arrays["theta"].shape
        right = shape if shape != (None,) else found[-1:]
        if not arrays["theta"].size or not right:
            raise InputError(f"theta has shape {found}; it must hold numbers: {axes}")
        if found not in (right, (config.seeds, *right)):
            raise InputError(
                f"theta has shape {found}; it must be {right}: {axes}, "
                f"or {(config.seeds, *right)} with one for each of {config.seeds} seeds"
            )

    given = read_npz(path, ("theta",), check=check)["theta"]
    if given.dtype.kind not in "fiu":
        raise InputError(f"{path}: theta has type {given.dtype}; it must hold real numbers")
    theta = given.astype(np.float64) if np.abs(given).max(initial=0) < LARGEST_LOGIT else np.full(given.shape, np.nan)
    if theta.shape == (1, *(shape if shape != (None,) else theta.shape[-1:])):
        theta = theta[0]
    if not np.isfinite(theta).all():
        raise InputError(f"{path}: theta must hold finite numbers, none larger than {LARGEST_LOGIT:g}")
    return theta
