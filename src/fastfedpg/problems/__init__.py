"""Problems: finite MDPs and linear-quadratic regulators from arrays, from `.npz` files, or by name."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fastfedpg.errors import InputError, unknown
from fastfedpg.problems import exact, lqr_exact
from fastfedpg.problems.federated import with_oracle
from fastfedpg.problems.grids import compromise_grid, mazes, windy_cliff
from fastfedpg.problems.known import KnownProblem, load
from fastfedpg.problems.lines import opposed_line, river_swim
from fastfedpg.problems.lqr import LQRProblem
from fastfedpg.problems.makers import compromise, garnet, random
from fastfedpg.problems.makers import lqr as _lqr
from fastfedpg.problems.tabular import Grid, TabularProblem
from fastfedpg.problems.toy_text import cliff_walking, frozen_lake, taxi
from fastfedpg.transitions import Sparse

PROBLEMS: dict[str, Callable[..., KnownProblem]] = {
    "compromise": compromise,
    "compromise-grid": compromise_grid,
    "mazes": mazes,
    "windy-cliff": windy_cliff,
    "opposed-line": opposed_line,
    "river-swim": river_swim,
    "frozen-lake": frozen_lake,
    "cliff-walking": cliff_walking,
    "taxi": taxi,
    "lqr": _lqr,
    "random": random,
    "garnet": garnet,
}


def make(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    agents: int | None = None,
    reward_range: tuple[float, float] | None = None,
) -> KnownProblem:
    """A problem by its maker's name, or from the path of an `.npz` file."""
    arguments = dict(arguments or {})
    if name.endswith(".npz") or (name not in PROBLEMS and _exists(name)):
        if arguments or agents is not None:
            raise InputError(f"{name} is a file; its arrays say everything, so problem_args and agents do not apply")
        return load(name, reward_range)
    if name not in PROBLEMS:
        raise unknown("problem", name, PROBLEMS)
    if reward_range is not None:
        raise InputError(
            f"problem '{name}' says itself what its rewards range over; reward_range is for problems from a file"
        )
    if "agents" in arguments:
        raise InputError("the number of agents is set with --agents (agents=…), not as a problem argument")
    if agents is not None:
        arguments["agents"] = agents
    signature = inspect.signature(PROBLEMS[name]).parameters
    for key, value in arguments.items():
        if key not in signature:
            raise unknown(f"argument of problem '{name}'", key, [k for k in signature if k != "agents"])
        arguments[key] = _as(f"argument {key} of problem '{name}'", signature[key].annotation, value)
    try:
        return PROBLEMS[name](**arguments)
    except (MemoryError, OverflowError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        given = " ".join(f"{k}={v}" for k, v in arguments.items())
        raise InputError(f"problem '{name}' can't be made with {given}: {error or 'too little memory'}") from None


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # a name that no file can have
        return False


def _as(what: str, kind: type, value: Any) -> Any:
    """The value as the maker's own type; 7.0 is not silently an int, nor 'x' a number."""
    try:
        result = kind(value)
        if kind is int and float(value) != result:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} is {value!r}; it must be {'a whole number' if kind is int else 'a number'}") from None
    return result


__all__ = [
    "PROBLEMS",
    "Grid",
    "KnownProblem",
    "LQRProblem",
    "Sparse",
    "TabularProblem",
    "cliff_walking",
    "compromise",
    "compromise_grid",
    "exact",
    "frozen_lake",
    "garnet",
    "load",
    "lqr_exact",
    "make",
    "mazes",
    "opposed_line",
    "random",
    "river_swim",
    "taxi",
    "windy_cliff",
    "with_oracle",
]
