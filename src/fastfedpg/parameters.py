"""The parameters of factories: their kinds, their defaults, and the ranges of the paper's letters."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from fastfedpg.errors import InputError, unknown
from fastfedpg.kinds import KIND_OF_TYPE, Kind, one_of

NEEDED: Any = object()
"""The default of a parameter that has none."""

WHOLE_LIMIT = 2**31


class Parameter(NamedTuple):
    """One setting of a factory."""

    name: str
    kind: Kind
    default: Any
    help: str
    optional: bool = False  # may be None
    letter: bool = True  # whether it means what the paper's letter of that name does


class Letter(NamedTuple):
    """What a letter of the paper means, wherever it is a parameter, and which values it can have."""

    help: str
    fits: Callable[[Any], bool] = lambda x: True
    must: str = ""
    usual: Any = NEEDED  # where a factory has no default


_step = Letter("", lambda x: math.isfinite(x) and x > 0, "a step size must be positive and finite")
_count = Letter("", lambda n: 1 <= n < WHOLE_LIMIT, "at least 1")
LETTERS: dict[str, Letter] = {
    "eta": Letter(
        "Local step size.", lambda x: math.isfinite(x) and x > 0, "a step size must be positive and finite", 0.1
    ),
    "H": _count._replace(help="Local steps in a round.", usual=10),
    "alpha_g": Letter("Server step size, in (0, 1].", lambda x: 0 < x <= 1, "it must lie in (0, 1]"),
    "B": _count._replace(help="Trajectories in an estimate.", usual=16),
    "B0": _count._replace(help="Trajectories for the gradient that is sent; B unless given."),
    "K": _count._replace(help="Steps in a trajectory; an environment's own horizon, or 50, unless given.", usual=None),
    "baseline": Letter("What is subtracted from the return."),
    "option": Letter("How control variates are renewed."),
    "optimiser": Letter("What takes the local steps; all but sgd start afresh in every round unless they are kept."),
    "server": Letter("What takes the server's step, of size alpha_g."),
    "critic_eta": _step._replace(help="Step size of each agent's own value network."),
    "critic_steps": _count._replace(help="Steps of the value network after each batch."),
}
"""A factory that takes one of these need neither explain it nor check it."""


def check_letter(name: str, value: Any) -> None:
    """Refuse a value that a letter can't have; what is traced has no value yet."""
    letter = LETTERS.get(name)
    if letter is None or isinstance(value, str) or not isinstance(value, int | float):
        return
    said = f"{name} = {value if isinstance(value, int) else format(value, 'g')}"
    if letter.must == "at least 1" and value >= WHOLE_LIMIT:
        raise InputError(f"{said}; it must be below 2^31")
    if not letter.fits(value):
        raise InputError(f"{said}; {'it must be ' if letter.must == 'at least 1' else ''}{letter.must}")


def read_parameter(what: str, parameter: Parameter, value: Any) -> Any:
    """The value as the parameter's own kind; a word that a command line or a file has for it is read."""
    if value is None and parameter.optional:
        return None
    try:
        return parameter.kind.read(value)
    except (TypeError, ValueError, OverflowError):
        if parameter.kind.choices:
            where, _, name = what.rpartition(": ")
            error = unknown(name or what, str(value), [str(c) for c in parameter.kind.choices])
            raise InputError(f"{where}: {error}" if where else str(error)) from None
        raise InputError(f"{what} is {value!r}; it must be {parameter.kind.words}") from None


def of_type(name: str, hint: Any, default: Any = NEEDED, help: str = "") -> Parameter:
    """A parameter from its type."""
    optional = type(None) in get_args(hint)
    inner = next(k for k in get_args(hint) if k is not type(None)) if optional else hint
    return Parameter(name, KIND_OF_TYPE.get(inner) or one_of(get_args(inner)), default, help, optional)


def fit(what: str, hint: Any, value: Any) -> Any:
    """The value, if it is of the type that a setting must be."""
    return read_parameter(what, of_type(what, hint), value)


def _is_plain(value: Any) -> bool:
    """Whether a value can be written into a configuration."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, int | float | str)


def bind(what: str, parameters: Mapping[str, Parameter], args: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument of a factory: those that are given, as what they must be, and the defaults of the others."""
    for name in args:
        if name not in parameters:
            raise InputError(f"{what}: {unknown('argument', name, parameters)}")
    bound = {}
    for name, parameter in parameters.items():
        if name in args:
            bound[name] = read_parameter(f"argument {name} of {what}", parameter, args[name])
        elif parameter.default is NEEDED:
            raise InputError(f"{what} needs {name}: give --{name.replace('_', '-')} ({parameter.kind.words})")
        elif _is_plain(parameter.default):
            bound[name] = parameter.default
        else:
            continue  # a user's own function knows it itself, and nowhere else can it be written down
        if parameter.letter:
            check_letter(name, bound[name])
    return bound
