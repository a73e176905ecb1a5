"""What an agent is made from: a problem of this library with one agent's task, or a function of the site's own."""

import hashlib
import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fastfedpg import problems
from fastfedpg.config import Config
from fastfedpg.core import Problem
from fastfedpg.errors import InputError, unknown
from fastfedpg.federation import protocol
from fastfedpg.federation.agent import Site
from fastfedpg.federation.settings import Keys
from fastfedpg.problems import KnownProblem, LQRProblem
from fastfedpg.study.plans import algorithm_of, is_private, oracle_settings

OWN = ("problem", "problem_args", "reward_range", "oracle", "B", "K", "baseline")
"""Settings that are each site's own affair, and that must not change in the middle of a run."""


def build(config: Config, number: int, keys: Keys = "counter", tells: bool = True) -> Site:
    """One agent's own part of what a configuration describes, checked."""
    algorithm = algorithm_of(config)
    problem, N = _own(config, number) if is_private(config.problem) else _library(config, number)
    if not 0 <= number < N:
        raise InputError(f"agent = {number}; the agents are numbered from 0 to {N - 1}")
    problem = problem._replace(ids=np.array([number], np.int32))
    declared = protocol.declaration(config, N, protocol.theta_of(problem), keys)
    own = json.dumps([number, *(getattr(config, name) for name in OWN)])
    return Site(number, algorithm, problem, declared, tells, hashlib.sha256(own.encode()).hexdigest())


def only(problem: KnownProblem, number: int) -> KnownProblem:
    """The same problem with one of its agents; nothing is left of the others."""
    if isinstance(problem, LQRProblem):
        return problem.only(number)
    part = lambda x: x[number : number + 1]
    return replace(
        problem,
        P=jax.tree.map(part, problem.P) if problem.own_kernels else problem.P,
        reward=part(problem.reward),
        rho=part(problem.rho) if problem.own_starts else problem.rho,
        agents=part(problem.agents),
        grid=None,
    )


def _library(config: Config, number: int) -> tuple[Problem, int]:
    file = config.problem not in problems.PROBLEMS
    agents = None if file else config.agents
    every = problems.make(config.problem, config.problem_args, agents, config.reward_range)
    if file and config.agents is not None and every.N == 1:  # the site's own file has its own task alone
        return problems.with_oracle(every, config.oracle, config.tau, **oracle_settings(config)), config.agents
    if not 0 <= number < every.N:
        raise InputError(f"agent = {number}; problem '{config.problem}' has agents 0 to {every.N - 1}")
    settings = oracle_settings(config)
    return problems.with_oracle(only(every, number), config.oracle, config.tau, **settings), every.N


def _own(config: Config, number: int) -> tuple[Problem, int]:
    """What a site's own function returns, for example `hospital:make`; one with a parameter is given the number."""
    module, _, name = config.problem.partition(":")
    if not (module and name):
        raise InputError(
            f"problem '{config.problem}': an agent knows its own; name a problem, or a module:function of this site's"
        )
    if config.agents is None:
        raise InputError(
            f"problem '{config.problem}' is a function of this site: give --agents, the number of all agents"
        )
    if not 0 <= number < config.agents:
        raise InputError(f"agent = {number}; with --agents {config.agents} they are numbered 0 to {config.agents - 1}")
    with _beside(Path.cwd()):
        make = _function(config.problem, module, name)
        try:
            with jax.enable_x64(True):  # as everywhere in a deployed run: the problem's own theta0 decides its dtype
                made = make(number) if inspect.signature(make).parameters else make()
        except Exception as error:
            words = f"problem '{config.problem}' can't be made: {_raised(error)}"
            raise InputError(f"{words}; called with the agent's number, or nothing, it returns a Problem") from error
    if not isinstance(made, Problem):
        raise InputError(
            f"problem '{config.problem}' returns a {type(made).__name__}; it must return a fastfedpg.Problem"
        )
    if made.N != 1 or np.ndim(made.theta0) != 1 or not np.issubdtype(np.asarray(made.theta0).dtype, np.floating):
        raise InputError(
            f"problem '{config.problem}' has {made.N} tasks and a theta0 of shape {np.shape(made.theta0)}; an agent "
            "has one task, and theta0 is a vector of floating-point numbers"
        )
    return made, config.agents


@contextmanager
def _beside(folder: Path) -> Iterator[None]:
    """Modules in that folder can be imported."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _function(problem: str, module: str, name: str) -> Callable[..., Any]:
    """The function that a problem names."""
    try:
        found = importlib.import_module(module)
    except Exception as error:
        gone = error.name if isinstance(error, ModuleNotFoundError) else None
        if gone is None or not f"{module}.".startswith(f"{gone}."):
            raise InputError(f"problem '{problem}': module '{module}' can't be imported: {_raised(error)}") from error
        raise InputError(
            f"problem '{problem}': no module '{gone}' in {Path.cwd()}, where the agent was started, nor among those "
            "that are installed; start the agent in the module's folder"
        ) from None
    make = getattr(found, name, None)
    if callable(make):
        return make
    own = [k for k, f in vars(found).items() if inspect.isfunction(f) and f.__module__ == module]
    raise unknown(f"function of {found.__file__ or module}", name, own)


def _raised(error: Exception) -> str:
    """What was raised, and the first place on the way there that is not ours."""
    ours = ("<frozen importlib", __file__, importlib.__file__)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(ours)]
    where = f" ({frames[0].filename}, line {frames[0].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
