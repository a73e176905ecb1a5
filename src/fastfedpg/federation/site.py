"""What an agent is made from: a problem of this library with one agent's task, or a function of the site's own."""

import hashlib
import json

import numpy as np

from fastfedpg import problems
from fastfedpg.core import Problem
from fastfedpg.errors import InputError
from fastfedpg.experiment.algorithm import algorithm_of, with_opening
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.problem import Built, build_known, in_context, is_file, is_private
from fastfedpg.federation import protocol
from fastfedpg.federation.agent import QUESTIONS, Site
from fastfedpg.federation.terms import Keys
from fastfedpg.problems import user_function


def build(config: Config, number: int, keys: Keys = "counter", tells: bool = True, questions: int = QUESTIONS) -> Site:
    """One agent's own part of what a configuration describes, checked."""
    algorithm = algorithm_of(config)
    built, N = _own(config, number) if is_private(config.problem) else _library(config, number)
    problem, algorithm = built.problem, with_opening(config, algorithm, built.known, built.policy)
    if not 0 <= number < N:
        raise InputError(f"agent = {number}; the agents are numbered from 0 to {N - 1}")
    problem = problem._replace(ids=np.array([number], np.int32))
    declared = protocol.declaration(config, N, protocol.theta_of(problem), keys)
    # What is each site's own affair, and must not change in the middle of a run.
    own = {
        k: v
        for k, v in config.flat().items()
        if k == "reward_range" or k.split(".")[0] in ("problem", "oracle", "policy")
    }
    context = getattr(built.known, "context", None)
    told = [] if context is None else [context.tolist()]
    settled = json.dumps([number, own, *told], default=str)
    return Site(number, algorithm, problem, declared, tells, questions, hashlib.sha256(settled.encode()).hexdigest())


def _library(config: Config, number: int) -> tuple[Built, int]:
    file = is_file(config.problem)
    agents = None if file else config.agents
    every = problems.make(config.problem, config.problem_args, agents, config.reward_range)
    if file and config.agents is not None and every.N == 1:  # the site's own file has its own task alone
        return build_known(config, in_context(config, every, number, config.agents)), config.agents
    if not 0 <= number < every.N:
        raise InputError(f"agent = {number}; problem '{config.problem}' has agents 0 to {every.N - 1}")
    return build_known(config, in_context(config, every.only(number), number, every.N)), every.N


def _own(config: Config, number: int) -> tuple[Built, int]:
    """What a site's own function returns, for example `hospital:make`; one with a parameter is given the number."""
    user_function.check_name(config.problem)
    if config.agents is None:
        raise InputError(
            f"problem '{config.problem}' is a function of this site: give --agents, the number of all agents"
        )
    if not 0 <= number < config.agents:
        raise InputError(f"agent = {number}; with --agents {config.agents} they are numbered 0 to {config.agents - 1}")
    made = user_function.called(config.problem, number)
    if isinstance(made, Problem) and config.context is not None:
        raise InputError(
            f"problem '{config.problem}' returns a Problem, which has its own policy; put the context there"
        )
    if isinstance(made, Problem):
        return Built(None, _checked(config, made)), config.agents
    here = problems.own_environments(config.problem, config.problem_args, config.reward_range, number, made)
    return build_known(config, in_context(config, here, number, config.agents)), config.agents


def _checked(config: Config, made: Problem) -> Problem:
    if made.N != 1 or np.ndim(made.theta0) != 1 or not np.issubdtype(np.asarray(made.theta0).dtype, np.floating):
        raise InputError(
            f"problem '{config.problem}' has {made.N} tasks and a theta0 of shape {np.shape(made.theta0)}; an agent "
            "has one task, and theta0 is a vector of floating-point numbers"
        )
    return made
