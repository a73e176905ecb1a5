"""The theorems' inverse: from a target gap back to T, and to the N and B with which it could be met."""

import math
from collections.abc import Callable, Sequence

from fastfedpg.theory.advice import ALONE, Landscape, Method, least_target
from fastfedpg.theory.constants import C
from fastfedpg.theory.right_sides import theorem2_floor

MOST_TIMES = 2**40
"""More agents, or trajectories, than this many times those there are help nobody."""


def theorem2_rounds(at: Landscape, H: int, target: float) -> float:
    """T of Theorem 2 with its own constants: alpha so that (13)'s floor is half the target, the transient the rest."""
    alpha = 1 / (4 * C * at.L)
    while theorem2_floor(alpha, at.mu, at.L, at.N, H, at.sigma_sq, 0.0) > target / 2:
        alpha /= 2
    return math.ceil(math.log(max(1.0, 2 * at.gap / target)) * 4 / (alpha * at.mu))


def agents_for(target: float, methods: Sequence[Method], at: Landscape, eta: float | None = None) -> int | None:
    """The least N with which a method comes to the target, all else as it is; nothing where no N is enough.

    zeta^2 and sigma^2 are means over agents, so that others of the same kind change neither.
    """
    each = _nearest(methods, at, eta)
    return _least(lambda N: _meets(target, each, at._replace(N=N), eta), at.N)


def trajectories_for(target: float, methods: Sequence[Method], at: Landscape, eta: float | None = None) -> int | None:
    """The least B with which a method comes to the target, as sigma^2 is one over B; nothing where no B is enough."""
    each = [method for method in _nearest(methods, at, eta) if method.B]
    with_B = lambda B: [method._replace(noise=method.noise * (method.B or 1) / B) for method in each]
    return _least(lambda B: _meets(target, with_B(B), at, eta), min(method.B or 1 for method in each)) if each else None


def _nearest(methods: Sequence[Method], at: Landscape, eta: float | None) -> list[Method]:
    """Of each method the settings that come to the smallest gap."""
    found: dict[str, Method] = {}
    for method in sorted(methods, key=lambda method: least_target(method, at, eta)):
        found.setdefault(method.name, method)
    return [method for name, method in found.items() if name != ALONE]


def _meets(target: float, methods: Sequence[Method], at: Landscape, eta: float | None) -> bool:
    return any(least_target(method, at, eta) <= target for method in methods)


def _least(enough: Callable[[int], bool], first: int) -> int | None:
    """The least number, `first` or more, that is enough, if all that are larger are: by doubling and halving."""
    high = first
    while not enough(high):
        high *= 2
        if high > first * MOST_TIMES:
            return None
    low = high // 2 if high > first else first - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
