"""What a factory takes, read off its signature: types from annotations, help from `Args:`, ranges from the letters.

A factory of ours is read without importing it, so that help needs neither JAX nor the factory's own imports.
"""

import ast
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from fastfedpg.errors import InputError, unknown

NEEDED: Any = object()
"""The default of a parameter that has none."""

WHOLE_LIMIT = 2**31


class Kind(NamedTuple):
    """What a parameter can be: in words, on the command line, and how a value or a word for it is read."""

    words: str
    metavar: str
    read: Callable[[Any], Any]  # raises ValueError
    choices: tuple[Any, ...] = ()


class Parameter(NamedTuple):
    """One setting of a factory."""

    name: str
    kind: Kind
    default: Any
    help: str
    optional: bool = False  # may be None


class Described(NamedTuple):
    """A factory by its docstring and its parameters."""

    doc: str
    parameters: dict[str, Parameter]

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, as one line."""
        return " ".join(self.doc.split("\n\n")[0].split())


def _whole(value: Any) -> int:
    if isinstance(value, str):
        return int(value)
    if type(value) is not int:
        raise ValueError
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool | list | dict) or value is None:
        raise ValueError
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError
    return float(value) if isinstance(value, int | str) else value  # a traced step size stays as it is


def _truth(value: Any) -> bool:
    said = value.lower() if isinstance(value, str) else value
    if said is True or said in ("true", "yes", "1"):
        return True
    if said is False or said in ("false", "no", "0"):
        return False
    raise ValueError


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _sizes(value: Any) -> tuple[int, ...]:
    parts = value.split("x") if isinstance(value, str) else value if isinstance(value, tuple | list) else [value]
    return tuple(_whole(part) for part in parts)


def _pair(value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError
    low, high = value
    return float(_number(low)), float(_number(high))


def _numbers(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(float(_number(x)) for x in value)


def _anything(value: Any) -> Any:
    """A word as the number or truth that it looks like."""
    if not isinstance(value, str):
        return value
    for read in (_whole, float):
        try:
            return read(value)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(value.lower(), value)


WHOLE = Kind("a whole number", "INT", _whole)
NUMBER = Kind("a number", "FLOAT", _number)
TRUTH = Kind("true or false", "", _truth)
TEXT = Kind("text", "STR", _text)
SIZES = Kind("the layers' sizes, such as 64 or 64x64", "INTxINT…", _sizes)
PAIR = Kind("two numbers", "LO HI", _pair)
NUMBERS = Kind("numbers", "FLOAT …", _numbers)
ANYTHING = Kind("a value", "VALUE", _anything)


def one_of(choices: tuple[Any, ...]) -> Kind:
    """One of some names."""

    def read(value: Any) -> Any:
        if value not in choices and not callable(value):  # an optimiser may be given itself
            raise ValueError
        return value

    return Kind(f"one of {', '.join(map(str, choices))}", "{" + ",".join(map(str, choices)) + "}", read, choices)


OPTIMISERS = ("sgd", "momentum", "rmsprop", "adam")


def kind_of(name: str, annotation: str, default: Any) -> Kind:
    """The kind that an annotation means, as it is written; without one, the default's own."""
    if name == "optimiser":
        return one_of(OPTIMISERS)
    if found := re.search(r"Literal\[(.*?)\]", annotation):
        return one_of(tuple(ast.literal_eval(f"({found.group(1)},)")))
    if re.search(r"tuple\[int, ?\.\.\.\]", annotation):
        return SIZES
    words = set(re.findall(r"\w+", annotation))
    for kind, names in ((TRUTH, {"bool"}), (NUMBER, {"float", "Scalar"}), (WHOLE, {"int"}), (TEXT, {"str"})):
        if words & names:
            return kind
    by_default = {bool: TRUTH, int: WHOLE, float: NUMBER, str: TEXT}
    return by_default.get(type(default), ANYTHING)


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
    "lam": Letter("Lambda of the generalised advantages, in [0, 1].", lambda x: 0 <= x <= 1, "it must lie in [0, 1]"),
    "baseline": Letter("What is subtracted from the return."),
    "option": Letter("How control variates are renewed."),
    "optimiser": Letter("What takes the local steps; all but sgd are optax's and start afresh in every round."),
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


KIND_OF_TYPE: dict[Any, Kind] = {
    int: WHOLE,
    float: NUMBER,
    bool: TRUTH,
    str: TEXT,
    tuple[float, float]: PAIR,
    tuple[float, ...]: NUMBERS,
}


def of_type(name: str, hint: Any, default: Any = NEEDED, help: str = "") -> Parameter:
    """A parameter from its type."""
    optional = type(None) in get_args(hint)
    inner = next(k for k in get_args(hint) if k is not type(None)) if optional else hint
    return Parameter(name, KIND_OF_TYPE.get(inner) or one_of(get_args(inner)), default, help, optional)


def fit(what: str, hint: Any, value: Any) -> Any:
    """The value, if it is of the type that a setting must be."""
    return read_parameter(what, of_type(what, hint), value)


def bind(what: str, parameters: Mapping[str, Parameter], args: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument of a factory: those that are given, as what they must be, and the defaults of the others."""
    for name in args:
        if name not in parameters:
            raise unknown(f"argument of {what}", name, parameters)
    bound = {}
    for name, parameter in parameters.items():
        if name in args:
            bound[name] = read_parameter(f"argument {name} of {what}", parameter, args[name])
        elif parameter.default is NEEDED:
            raise InputError(f"{what} needs {name}: give --{name.replace('_', '-')} ({parameter.kind.words})")
        else:
            bound[name] = parameter.default
        check_letter(name, bound[name])
    return bound


def describe_source(file: Path, function: str) -> Described:
    """A factory from its source alone: nothing of it is imported."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    node = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function)
    given, doc = node.args, ast.get_docstring(node) or ""
    defaults = [None] * (len(given.args) - len(given.defaults)) + list(given.defaults)
    pairs = [*zip(given.args, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    raw = [(a.arg, ast.unparse(a.annotation) if a.annotation else "", _literal(d)) for a, d in pairs]
    return _described(doc, raw)


def describe_function(function: Callable[..., Any]) -> Described:
    """A factory that is loaded: a user's own."""
    raw = []
    for p in inspect.signature(function).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        written = p.annotation if isinstance(p.annotation, str) else inspect.formatannotation(p.annotation)
        raw.append((p.name, "" if p.annotation is p.empty else written, NEEDED if p.default is p.empty else p.default))
    return _described(inspect.getdoc(function) or "", raw)


def _described(doc: str, raw: list[tuple[str, str, Any]]) -> Described:
    body, _, args = doc.partition("\nArgs:")
    said = _help(args)
    found = {}
    for name, annotation, default in raw:
        words = said.get(name) or (LETTERS[name].help if name in LETTERS else "")
        optional = default is None or bool(re.search(r"\bNone\b|Optional", annotation))
        default = "sgd" if name == "optimiser" and callable(default) else default
        if default is NEEDED and name in LETTERS:
            default, optional = LETTERS[name].usual, optional or LETTERS[name].usual is None
        found[name] = Parameter(name, kind_of(name, annotation, default), default, words, optional)
    return Described(body.strip(), found)


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return NEEDED
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)  # a name, such as sgd


def _help(args: str) -> dict[str, str]:
    """What a docstring says under `Args:`, by name; `a, b: words` is about both."""
    said: dict[str, str] = {}
    for block in re.split(r"\n    (?=\w)", args.split("\n\n")[0]):
        names, colon, words = block.strip().partition(": ")
        text = " ".join(words.split())
        said |= {n.strip(): text[:1].upper() + text[1:] for n in names.split(",")} if colon else {}
    return said
