"""What a setting can be: in words, on the command line, and how a value or a word for it is read."""

import sys
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """What a parameter can be: in words, on the command line, and how a value or a word for it is read."""

    words: str
    metavar: str
    read: Callable[[Any], Any]  # raises ValueError
    choices: tuple[Any, ...] = ()


def _whole(value: Any) -> int:
    if isinstance(value, str):
        return int(value)
    if type(value) is not int:
        raise ValueError
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not (isinstance(value, int | float | str) or hasattr(value, "dtype")):
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
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    return value


def _sizes(value: Any) -> tuple[int, ...]:
    given = value if isinstance(value, tuple | list) else [value]
    return tuple(_whole(part) for x in given for part in (x.split("x") if isinstance(x, str) else [x]))


def _pair(value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError
    low, high = value
    return float(_number(low)), float(_number(high))


def _numbers(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(float(_number(x)) for x in value)


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, [value] if isinstance(value, str) else _listed(value)))


def _rows(value: Any) -> str | tuple[tuple[float, ...], ...]:
    return _text(value) if isinstance(value, str) else tuple(_numbers(row) for row in _listed(value))


def _listed(value: Any) -> list[Any]:
    rows = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(rows, list | tuple):
        raise ValueError
    return list(rows)


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
TEXT = Kind("text, without a NUL", "STR", _text)
SIZES = Kind("the layers' sizes, such as 64 or 64x64", "INTxINT…", _sizes)
PAIR = Kind("two numbers", "LO HI", _pair)
NUMBERS = Kind("numbers", "FLOAT …", _numbers)
NAMES = Kind("names", "NAME …", _names)
ROWS = Kind("a name, a file, or rows of numbers", "STR", _rows)
ANYTHING = Kind("a value", "VALUE", _anything)


def one_of(choices: tuple[Any, ...]) -> Kind:
    """One of some names."""

    def read(value: Any) -> Any:
        if isinstance(value, Hashable) and value in choices:
            return value
        raise ValueError

    return Kind(f"one of {', '.join(map(str, choices))}", "{" + ",".join(map(str, choices)) + "}", read, choices)


OPTIMISERS = ("sgd", "momentum", "rmsprop", "adam", "yogi", "adagrad")

KIND_OF_TYPE: dict[Any, Kind] = {
    int: WHOLE,
    float: NUMBER,
    bool: TRUTH,
    str: TEXT,
    tuple[float, float]: PAIR,
    tuple[float, ...]: NUMBERS,
    tuple[str, ...]: NAMES,
}
