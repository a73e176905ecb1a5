"""A user's own module:function, which makes environments or a problem."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastfedpg import registry
from fastfedpg.errors import InputError
from fastfedpg.registry import SUITES as SUITES
from fastfedpg.registry import told

RETURNS = "a gymnasium environment, or a problem"


def is_own(problem: str) -> bool:
    """Whether a problem is a module:function, or a file.py:function."""
    module, colon, _ = problem.partition(":")
    return bool(colon) and module not in SUITES and not problem.endswith(".npz")


def called(problem: str, number: int) -> Any:
    """What the function returns; one with a parameter is given the agent's number."""
    make = function(problem)
    with told(
        f"problem '{problem}' can't be made", f"; called with the agent's number, or nothing, it returns {RETURNS}"
    ):
        return make(number) if takes_number(make) else make()


def check_name(problem: str) -> None:
    """Refuse what names no module and function."""
    module, _, name = problem.rpartition(":")
    if not (module and name):
        raise InputError(
            f"problem '{problem}': an agent knows its own; name a problem, or a module:function of this site's"
        )


def takes_number(make: Callable[..., Any]) -> bool:
    """Whether a function makes one agent's environment, by its number, and not those of all."""
    return any(name != "render_mode" for name in inspect.signature(make).parameters)


def function(problem: str) -> Callable[..., Any]:
    """The function that a problem names, for example `hospital:make`."""
    check_name(problem)
    return registry.load("problem", problem)


def stays(problem: str) -> None:
    """Modules of the function's folder can be imported from now on, also by the processes that play."""
    place = problem.rpartition(":")[0]
    folder = str((Path.cwd() / place).parent if place.endswith(".py") else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
