"""A user's own module:function, which makes environments or a problem."""

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastfedpg.errors import InputError, unknown

SUITES = ("gym", "gymnax")
"""What stands before a colon and is no module of the user's."""

RETURNS = "a gymnasium environment, or a problem"


def is_own(problem: str) -> bool:
    """Whether a problem is a module:function."""
    module, colon, _ = problem.partition(":")
    return bool(colon) and module not in SUITES and not problem.endswith(".npz")


def called(problem: str, number: int) -> Any:
    """What the function returns; one with a parameter is given the agent's number."""
    make = function(problem)
    try:
        return make(number) if takes_number(make) else make()
    except (Exception, SystemExit) as error:
        words = f"problem '{problem}' can't be made: {raised(error)}"
        raise InputError(f"{words}; called with the agent's number, or nothing, it returns {RETURNS}") from error


def parts(problem: str) -> tuple[str, str]:
    """The module and the function."""
    module, _, name = problem.partition(":")
    if not (module and name):
        raise InputError(
            f"problem '{problem}': an agent knows its own; name a problem, or a module:function of this site's"
        )
    return module, name


def takes_number(make: Callable[..., Any]) -> bool:
    """Whether a function makes one agent's environment, by its number, and not those of all."""
    return any(name != "render_mode" for name in inspect.signature(make).parameters)


def function(problem: str) -> Callable[..., Any]:
    """The function that a problem names, for example `hospital:make`."""
    module, name = parts(problem)
    try:
        with _beside(Path.cwd()):
            found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        gone = error.name if isinstance(error, ModuleNotFoundError) else None
        if gone is None or not f"{module}.".startswith(f"{gone}."):
            raise InputError(f"problem '{problem}': module '{module}' can't be imported: {raised(error)}") from error
        raise InputError(
            f"problem '{problem}': no module '{gone}' in {Path.cwd()}, where this was started, nor among those that "
            "are installed; start it in the module's folder"
        ) from None
    make = getattr(found, name, None)
    if callable(make):
        return make
    own = [k for k, f in vars(found).items() if inspect.isfunction(f) and f.__module__ == module]
    raise unknown(f"function of {found.__file__ or module}", name, own)


@contextmanager
def _beside(folder: Path) -> Iterator[None]:
    """Modules in that folder can be imported."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def stays() -> None:
    """Modules of this folder can be imported from now on, also by the processes that play."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def raised(error: BaseException) -> str:
    """What was raised, and the first place on the way there that is not ours."""
    ours = ("<frozen importlib", __file__, importlib.__file__)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(ours)]
    where = f" ({frames[0].filename}, line {frames[0].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
