"""Environments by name: of this library, of a suite (Gymnasium, gymnax and others), or of a user's own function."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any

from fastfedpg.core import Problem
from fastfedpg.errors import InputError
from fastfedpg.kinds import NUMBER, TRUTH, WHOLE
from fastfedpg.parameters import Parameter, read_parameter
from fastfedpg.problems import user_function
from fastfedpg.problems.base import KINDS, AnyProblem

SETTINGS = {
    name: Parameter(name, kind, None, "")
    for name, kind in (
        ("gamma", NUMBER), ("horizon", WHOLE), ("reward_scale", NUMBER), ("patience", NUMBER), ("workers", WHOLE),
        ("vectors", TRUTH),
    )
}  # fmt: skip
"""Arguments of an adapter; all others are the foreign environment's own."""


def foreign(
    problem: str, arguments: Mapping[str, Any], agents: int | None, reward_range: tuple[float, float] | None
) -> AnyProblem:
    """What gym:ID, gymnax:ID, mo:ID, sumo:NET or a module:function names."""
    if user_function.is_own(problem):
        return _own(problem, arguments, agents, reward_range)
    suite, _, name = problem.partition(":")
    given, rest = _split(problem, arguments)
    if suite == "gymnax":
        from fastfedpg.envs.gymnax import gymnax_environments

        wrong = [*rest, *(k for k in given if k != "gamma")]
        if wrong:
            raise InputError(f"problem '{problem}' has no argument {wrong[0]}; it takes gamma")
        made_of = gymnax_environments(name, agents=agents or 1, **given)
        return replace(made_of, reward_range=reward_range, name=problem)
    if suite in ("mo", "sumo"):
        from fastfedpg.gym_workers import mo_gymnasium, sumo

        make = {"mo": mo_gymnasium.mo_environments, "sumo": sumo.sumo_environments}[suite]
        return make(name, rest.pop("weights", None), agents, rest, reward_range=reward_range, **given)
    from fastfedpg.gym_workers.adapter import environments, made

    return environments(made(name, rest), agents=agents or 1, reward_range=reward_range, name=problem, **given)


def own_environments(
    problem: str,
    arguments: Mapping[str, Any],
    reward_range: tuple[float, float] | None,
    number: int,
    made: Any,
) -> AnyProblem:
    """One agent's environments at its own site, from what the site's function has returned."""
    from fastfedpg.gym_workers.adapter import environments, is_environment

    _close(made)
    given, rest = _split(problem, arguments)
    if rest:
        raise InputError(f"problem '{problem}' has no argument {next(iter(rest))}; it takes {', '.join(SETTINGS)}")
    if is_environment(made):
        user_function.stays(problem)
        make = user_function.function(problem)
        factory = partial(make, number) if user_function.takes_number(make) else make
        return environments([factory], reward_range=reward_range, name=problem, first=number, **given)
    if isinstance(made, KINDS) and made.N == 1:
        return made
    what = type(made).__name__ + (f" of {made.N} agents" if isinstance(made, KINDS) else "")
    raise InputError(f"problem '{problem}' returns a {what}; it must return {user_function.RETURNS} of one agent")


def _own(
    problem: str, arguments: Mapping[str, Any], agents: int | None, reward_range: tuple[float, float] | None
) -> AnyProblem:
    """Those of all agents: from a function of the agent's number, or from one that makes all at once."""
    from fastfedpg.gym_workers.adapter import environments, is_environment

    given, rest = _split(problem, arguments)
    if rest:
        raise InputError(f"problem '{problem}' has no argument {next(iter(rest))}; it takes {', '.join(SETTINGS)}")
    make = user_function.function(problem)
    if user_function.takes_number(make) and agents is None:
        raise InputError(f"problem '{problem}' is made for one agent at a time: give --agents, how many there are")
    made = user_function.called(problem, 0)
    _close(made)
    if is_environment(made):
        user_function.stays(problem)
        factories = (
            [partial(make, i) for i in range(agents or 1)]
            if user_function.takes_number(make)
            else [make] * (agents or 1)
        )
        return environments(factories, reward_range=reward_range, name=problem, **given)
    if isinstance(made, list | tuple):
        user_function.stays(problem)
        return environments(made, reward_range=reward_range, name=problem, **given)
    if isinstance(made, KINDS):
        if agents is not None and agents != made.N:
            raise InputError(f"agents = {agents}; problem '{problem}' has {made.N}")
        return made
    if isinstance(made, Problem):
        raise InputError(
            f"problem '{problem}' is one agent's own at its site, a Problem; fastfedpg server and agent run it there"
        )
    raise InputError(f"problem '{problem}' returns a {type(made).__name__}; it must return {user_function.RETURNS}")


def _close(made: Any) -> None:
    """Close what a function has built in this process: what is played is made anew, where it is played.

    Whatever somebody's `close` makes of it, and in the time that it has there too: so it is not waited for.
    """
    from fastfedpg.gym_workers.adapter import is_environment
    from fastfedpg.gym_workers.worker_handle import CLOSE_SECONDS

    envs = [*filter(is_environment, made if isinstance(made, list | tuple) else [made])]

    def close() -> None:
        for env in envs:
            with suppress(BaseException):
                env.close()

    if envs:
        closing = Thread(target=close, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


def _split(problem: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """An adapter's own arguments, as what they must be, and the others."""
    words = "argument {} of problem '" + problem + "'"
    given = {k: read_parameter(words.format(k), SETTINGS[k], v) for k, v in arguments.items() if k in SETTINGS}
    return given, {k: v for k, v in arguments.items() if k not in SETTINGS}
