"""Values from the words of a command line."""

from typing import Any

from fastfedpg.errors import InputError


def whole(name: str, value: Any) -> int:
    """A whole number."""
    try:
        return int(str(value))
    except ValueError:
        raise InputError(f"{name} = {value}; it must be a whole number") from None


def number(name: str, value: Any) -> float:
    """A number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} = {value}; it must be a number, such as 0.5") from None


def switch(name: str, value: Any) -> bool:
    """A choice between two."""
    said = str(value).lower()
    if said in ("true", "yes", "1"):
        return True
    if said in ("false", "no", "0"):
        return False
    raise InputError(f"{name} = {value}; it must be true or false")


def sizes(name: str, value: Any) -> tuple[int, ...]:
    """Whole numbers: 64x64, (64, 64), or 64 for one."""
    parts = value.split("x") if isinstance(value, str) else value if isinstance(value, (tuple, list)) else [value]
    try:
        return tuple(whole(name, part) for part in parts)
    except InputError:
        raise InputError(f"{name} = {value}; it must be the layers' sizes, such as 64 or 64x64") from None
