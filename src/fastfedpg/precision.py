"""64-bit mode, at the doors of the package alone: what is called from there need not ask for it again."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

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


def precision_of(theta: Any) -> AbstractContextManager[None]:
    """The mode in which rounds from this start are computed: with a theta of float32 nothing in them is float64.

    It is around rounds alone. What a policy is worth is computed by functions that are `float64` themselves.
    """
    return jax.enable_x64(theta.dtype != "float32")
