"""Words such as name=value on a command line, and the dictionary that they are."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import tyro

from fastfedpg.kinds import Kind


def read_pairs(words: Sequence[str]) -> dict[str, str]:
    """The dictionary of some words."""
    for word in words:
        if "=" not in word[1:]:
            raise ValueError(f"'{word}' is not of the form name=value")
    return dict(word.split("=", 1) for word in words)


PAIRS = Kind("names and values", "NAME=VALUE …", lambda words: read_pairs([words] if isinstance(words, str) else words))


def words_of(metavar: str, read: Callable[[list[str]], dict[str, Any]]) -> Any:
    """How a flag with such words becomes a dictionary, and is shown again."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda pairs: [f"{v:g}" if k == "all" else f"{k}={v}" for k, v in pairs.items()],
    )


Pairs = Annotated[dict[str, Any], words_of("NAME=VALUE …", read_pairs)]
