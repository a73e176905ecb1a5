"""What an agent is made from: a problem of this library with one agent's task, or a function of the site's own."""

import hashlib
import importlib
import inspect
import json
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from fastfedpg import problems
from fastfedpg.config import Config
from fastfedpg.core import Problem
from fastfedpg.errors import InputError
from fastfedpg.federation import protocol
from fastfedpg.federation.agent import Site
from fastfedpg.federation.settings import Keys
from fastfedpg.problems import TabularProblem
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


def only(problem: TabularProblem, number: int) -> TabularProblem:
    """The same problem with one of its agents; nothing is left of the others."""
    part = lambda x, shared: x if x.ndim == shared else x[number : number + 1]
    return replace(
        problem,
        P=part(problem.P, 3),
        reward=problem.reward[number : number + 1],
        rho=part(problem.rho, 1),
        agents=problem.agents[number : number + 1],
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
    if not name:
        raise InputError(
            f"problem '{config.problem}': an agent knows its own; name a problem, or a module:function of this site's"
        )
    if config.agents is None:
        raise InputError(
            f"problem '{config.problem}' is a function of this site: give --agents, the number of all agents"
        )
    if not 0 <= number < config.agents:
        raise InputError(f"agent = {number}; with --agents {config.agents} they are numbered 0 to {config.agents - 1}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        make = getattr(importlib.import_module(module), name)
        with jax.enable_x64(True):  # as everywhere in a deployed run: the problem's own theta0 decides its dtype
            made = make(number) if inspect.signature(make).parameters else make()
    except Exception as error:
        raise InputError(f"problem '{config.problem}' can't be made: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
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
