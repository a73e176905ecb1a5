"""Problems: finite MDPs and linear-quadratic regulators from arrays, from `.npz` files, or by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastfedpg.envs.environments import Environments
from fastfedpg.errors import InputError
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.problems import lqr_exact
from fastfedpg.problems import tabular_exact as exact
from fastfedpg.problems.base import AnyProblem, KnownProblem
from fastfedpg.problems.by_name import foreign, own_environments
from fastfedpg.problems.catalogue.basics import compromise, garnet, random
from fastfedpg.problems.catalogue.grids import compromise_grid, mazes, windy_cliff
from fastfedpg.problems.catalogue.hard_mdp import hard_mdp
from fastfedpg.problems.catalogue.lines import opposed_line, river_swim
from fastfedpg.problems.catalogue.toy_text import cliff_walking, frozen_lake, taxi
from fastfedpg.problems.grid import Grid
from fastfedpg.problems.lqr import LQRProblem
from fastfedpg.problems.npz import load
from fastfedpg.problems.tabular import TabularProblem
from fastfedpg.problems.user_function import SUITES, is_own
from fastfedpg.problems.with_oracle import with_oracle
from fastfedpg.problems.with_policy import settings_of, with_policy
from fastfedpg.tables import ENVIRONMENTS, PLAYED, PROBLEMS


def make(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    agents: int | None = None,
    reward_range: tuple[float, float] | None = None,
) -> AnyProblem:
    """A problem by its maker's name, from the path of an `.npz` file, or by SUITE:ID or module:function."""
    arguments = dict(arguments or {})
    if is_own(name) or name.partition(":")[0] in SUITES:
        return foreign(name, arguments, agents, reward_range)
    if name.endswith(".npz") or (name not in PROBLEMS and _exists(name)):
        if arguments or agents is not None:
            raise InputError(f"{name} is a file; its arrays say everything, so problem_args and agents do not apply")
        return load(name, reward_range)
    make = PROBLEMS.resolve(name)
    if reward_range is not None:
        raise InputError(
            f"problem '{name}' says itself what its rewards range over; reward_range is for problems from a file"
        )
    if "agents" in arguments:
        raise InputError("the number of agents is set with --agents (agents=…), not as a problem argument")
    given = {**PROBLEMS.choose(name, arguments).args, **({} if agents is None else {"agents": agents})}
    try:
        made: AnyProblem = make(**given)
        return made
    except (MemoryError, OverflowError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        words = " ".join(f"{k}={v}" for k, v in {**arguments, "agents": agents}.items() if v is not None)
        raise InputError(f"problem '{name}' can't be made with {words}: {error or 'too little memory'}") from None


def as_environments(problem: TabularProblem) -> Environments:
    """A finite MDP that is played: for policies that are no table, and for the critic."""
    return problem.as_environments()


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # a name that no file can have
        return False


__all__ = [
    "ENVIRONMENTS",
    "PLAYED",
    "PROBLEMS",
    "SUITES",
    "AnyProblem",
    "Environments",
    "Grid",
    "KnownProblem",
    "LQRProblem",
    "Sparse",
    "TabularProblem",
    "as_environments",
    "cliff_walking",
    "compromise",
    "compromise_grid",
    "exact",
    "frozen_lake",
    "garnet",
    "hard_mdp",
    "load",
    "lqr_exact",
    "make",
    "mazes",
    "opposed_line",
    "own_environments",
    "random",
    "river_swim",
    "settings_of",
    "taxi",
    "windy_cliff",
    "with_oracle",
    "with_policy",
]
