"""What an observation or an action can be; on the way through the library each is a vector of numbers."""

import math
from typing import NamedTuple, TypeAlias


class Discrete(NamedTuple):
    """One of 0, …, n - 1; the vector holds its number."""

    n: int

    @property
    def width(self) -> int:
        """The length of the vector."""
        return 1


class MultiDiscrete(NamedTuple):
    """Several of the kind, each with its own n."""

    n: tuple[int, ...]

    @property
    def width(self) -> int:
        """The length of the vector."""
        return len(self.n)


class Box(NamedTuple):
    """A vector of real numbers between bounds, which may be infinite; arrays of other shapes are laid flat.

    Where it was laid flat, `shape` may say from which shape: to most it is a vector all the same.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """The length of the vector."""
        return len(self.low)

    @property
    def bounded(self) -> bool:
        """Whether every bound is finite."""
        return all(map(math.isfinite, (*self.low, *self.high)))


Space: TypeAlias = Discrete | MultiDiscrete | Box


def box(width: int | tuple[int, ...], low: float = -math.inf, high: float = math.inf) -> Box:
    """A box with the same bounds on every side; of an array that is laid flat, such as an image, by its shape.

    Examples:
        >>> box(2, 0, 1)
        Box(low=(0, 0), high=(1, 1), shape=())
        >>> box((8, 8, 3), 0, 255).width
        192
    """
    shape = () if isinstance(width, int) else width
    n = width if isinstance(width, int) else math.prod(width)
    return Box((low,) * n, (high,) * n, shape)


def said(space: Space) -> str:
    """A space in words."""
    if isinstance(space, Box):
        sides = {*zip(space.low, space.high, strict=True)}
        bounds = f"{min(space.low):g} to {max(space.high):g}" if len(sides) > 1 else "{:g} to {:g}".format(*sides.pop())
        size = "x".join(map(str, space.shape)) or f"{space.width}"
        return f"Box of {size} number{'s' * (space.width != 1)} ({bounds})"
    return f"{type(space).__name__}({space.n})"
