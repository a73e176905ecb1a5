"""64-bit mode, at the doors of the package alone: what is called from there need not ask for it again."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def float64(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, with JAX in 64-bit mode while it is called: the user's setting is neither needed nor changed.

    Not for a generator, whose body runs after the call. (`jax.enable_x64` as a decorator keeps the mode before in one
    place for all calls, so that a function which comes to call itself would leave 64-bit mode on.)
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return call
