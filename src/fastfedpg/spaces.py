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
    """A vector of real numbers between bounds, which may be infinite; arrays of other shapes are laid flat."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def width(self) -> int:
        """The length of the vector."""
        return len(self.low)

    @property
    def bounded(self) -> bool:
        """Whether every bound is finite."""
        return all(map(math.isfinite, (*self.low, *self.high)))


Space: TypeAlias = Discrete | MultiDiscrete | Box


def box(width: int, low: float = -math.inf, high: float = math.inf) -> Box:
    """A box with the same bounds on every side.

    Example:
        >>> box(2, 0, 1)
        Box(low=(0, 0), high=(1, 1))
    """
    return Box((low,) * width, (high,) * width)


def said(space: Space) -> str:
    """A space in words."""
    if isinstance(space, Box):
        sides = {*zip(space.low, space.high, strict=True)}
        bounds = f"{min(space.low):g} to {max(space.high):g}" if len(sides) > 1 else "{:g} to {:g}".format(*sides.pop())
        return f"Box of {space.width} number{'s' * (space.width != 1)} ({bounds})"
    return f"{type(space).__name__}({space.n})"
