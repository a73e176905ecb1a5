"""The step sizes, roll-out lengths and numbers of rounds that the paper puts into Theorems 2 and 3."""

import math
from collections.abc import Callable
from typing import NamedTuple

from fastfedpg.errors import InputError
from fastfedpg.theory.constants import C


class Condition(NamedTuple):
    """One thing that a schedule asks of T."""

    name: str  # in words
    required: float
    given: int

    @property
    def holds(self) -> bool:
        """Whether T is large enough."""
        return self.given >= self.required

    @property
    def factor(self) -> float:
        """T over what is required of it: at least 1 where the condition holds."""
        return self.given / self.required if self.required > 0 else math.inf

    def words(self) -> str:
        """The condition and how it stands."""
        stands = "holds" if self.holds else f"fails by a factor {1 / self.factor:.4g}"
        return f"{self.name}: {stands} (T = {self.given:,}, needed {self.required:,.0f})"


class Parameters(NamedTuple):
    """What a theorem's schedule gives for N, H and T, and what it asks of T."""

    name: str
    eta: float
    K: int
    T_least: int
    conditions: tuple[Condition, ...]

    @property
    def holds(self) -> bool:
        """Whether T meets every condition."""
        return all(c.holds for c in self.conditions)

    def words(self) -> str:
        """Which conditions fail for this T, and by what factor."""
        if self.holds:
            return f"{self.name}'s schedule: T meets its conditions, the least that does is {_count(self.T_least)}"
        failing = "; ".join(c.words() for c in self.conditions if not c.holds)
        return f"outside {self.name}'s schedule, which needs T >= {_count(self.T_least)}: {failing}"


def theorem2(N: int, H: int, T: int, mu: float, L: float, gamma: float, C: float = C) -> Parameters:
    """eta = 4 log(NHT)/(mu H T), K = ceil(log(NHT)/(2 log(1/gamma))), T >= (L/mu) max{16 C log(NHT), NH}.

    The first condition is eta <= 1/(4CLH), the second makes alpha^2 L^2 at most alpha L/(NH), up to the logarithm.
    """
    _check(N, H, T, gamma, mu=mu, L=L, C=C)
    step = lambda T: L / mu * 16 * C * math.log(N * H * T)
    noise = L / mu * N * H
    # T / log(NHT) rises once NHT >= e: from there on a T that is enough stays enough.
    least = _least(lambda T: max(step(T), noise) <= T, math.ceil(math.e / (N * H)))
    conditions = (
        Condition("T >= (L/mu) 16 C log(NHT), that is eta <= 1/(4CLH)", step(T), T),
        Condition("T >= (L/mu) NH, for the rate 1/(NHT)", noise, T),
    )
    return Parameters("Theorem 2", 4 * math.log(N * H * T) / (mu * H * T), horizon(N, H, T, gamma), least, conditions)


def theorem3(N: int, H: int, T: int, L: float, gamma: float, C: float = C) -> Parameters:
    """eta = (4/H) sqrt(NH/T), K as for Theorem 2, T >= L^2 max{256 C^2 NH, N^3 H^3}."""
    _check(N, H, T, gamma, L=L, C=C)
    step, noise = L**2 * 256 * C**2 * N * H, L**2 * float(N * H) ** 3
    conditions = (
        Condition("T >= 256 C^2 L^2 NH, that is eta <= 1/(4CLH)", step, T),
        Condition("T >= L^2 (NH)^3, for the rate 1/sqrt(NHT)", noise, T),
    )
    least = max(1, math.ceil(max(step, noise)))
    return Parameters("Theorem 3", 4 / H * math.sqrt(N * H / T), horizon(N, H, T, gamma), least, conditions)


def horizon(N: int, H: int, T: int, gamma: float) -> int:
    """The least K >= log(NHT)/(2 log(1/gamma)), at least 1: then gamma^(2K) <= 1/(NHT)."""
    return 1 if gamma == 0 else max(1, math.ceil(math.log(N * H * T) / (2 * math.log(1 / gamma))))


def not_covered(
    algorithm: str, alpha_g: float = 1.0, reuse: bool = False, absent: int = 0, optimiser: str = "sgd"
) -> list[str]:
    """What of a run the theorems do not cover, in words.

    They are for Fast-FedPG with alpha_g = 1, gradient steps, fresh trajectories at every step, and all agents in every
    round.
    """
    if algorithm != "fast_fedpg":
        return [f"it is about fast_fedpg, not {algorithm}"]
    said = {
        f"optimiser {optimiser}, whose local steps are outside the theorem: it is about sgd": optimiser != "sgd",
        f"alpha_g = {alpha_g:g}, not 1": alpha_g != 1,
        "reuse, where local step 0 draws no fresh trajectories": reuse,
        f"{absent} agents that sit out each round": absent > 0,
    }
    return [words for words, broken in said.items() if broken]


def _least(enough: Callable[[int], bool], start: int) -> int:
    """The least T >= start that is enough, by doubling and bisection; whatever is larger must be enough too."""
    if enough(start):
        return start
    low, high = start, 2 * start
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _check(N: int, H: int, T: int, gamma: float, **positive: float) -> None:
    for name, value in {"N": N, "H": H, "T": T, **positive}.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} = {value:g}; a schedule needs it positive and finite")
    if not 0 <= gamma < 1:
        raise InputError(f"gamma = {gamma:g}; it must lie in [0, 1)")


def _count(T: int) -> str:
    return f"{T:,}" if T < 10**9 else f"{T:.4g}"
