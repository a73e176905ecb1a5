"""What each method costs until a target gap, by the theorems' terms with the constants that they have to leading order.

A model and no bound: one L, one mu, noise that is the same everywhere. docs/advise.md derives it, and says how often it
is right.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fastfedpg.theory.constants import C
from fastfedpg.theory.right_sides import theorem2_floor

MOST_ROUNDS = 10**7
HALVINGS = 40
"""How far below 1/L step sizes are looked for."""

MODELLED = ("fast_fedpg", "fedavg_pg", "scaffold_pg", "centralised_pg", "independent_pg")
"""The methods whose costs are known here."""

ALONE = "independent_pg"
"""Whose agents share no policy."""


class Landscape(NamedTuple):
    """What decides: the first gap, mu and L of (12) and Assumption 1, noise and heterogeneity, the number of agents."""

    gap: float
    mu: float
    L: float
    sigma_sq: float  # of one estimate
    zeta_sq: float
    N: int


class Method(NamedTuple):
    """A method's settings, and what a round of it costs."""

    name: str
    H: int
    samples: float  # of all agents
    bytes: float  # of one agent, both ways
    syncs: int
    B_over_B0: float = 1.0
    reuse: bool = False

    @property
    def label(self) -> str:
        """The method, and what is unusual about it."""
        return f"{self.name}, reuse" if self.reuse else self.name


class Cost(NamedTuple):
    """What a method takes until the target: infinity where it does not get there."""

    method: Method
    eta: float
    rounds: float
    floor: float  # what noise and drift leave at this step size

    @property
    def samples(self) -> float:
        """Of all agents, until then."""
        return self.rounds * self.method.samples

    @property
    def bytes(self) -> float:
        """Of one agent, both ways, until then."""
        return self.rounds * self.method.bytes

    @property
    def toll(self) -> float:
        """What methods are ranked by: samples times bytes, so that a tenth of either weighs alike."""
        return self.samples * self.bytes if math.isfinite(self.rounds) else math.inf


def anchor_noise(method: Method, sigma_sq: float, N: int) -> float:
    """The mean square noise in a method's correction, which all local steps of a round share: of the law's l^2."""
    if method.name == "fast_fedpg":
        return (1 - 1 / N) * sigma_sq * method.B_over_B0
    return (1 - 1 / N) * sigma_sq / method.H if method.name == "scaffold_pg" else 0.0


def balance(sigma_sq: float, zeta_sq: float, N: int, B_over_B0: float = 1.0) -> float:
    """N zeta^2 over Fast-FedPG's anchor noise: above 1 drift decides, and a correction pays; below 1 noise does.

    Agents' noise is independent, so that its effect on their mean falls like 1/N; heterogeneity's does not.
    """
    noise = (1 - 1 / N) * sigma_sq * B_over_B0
    return math.inf if noise <= 0 else N * max(0.0, zeta_sq) / noise


def floor(method: Method, eta: float, at: Landscape) -> float:
    """The gap that a step size leaves, as on a parabola: eta/4 times the mean step's noise, and a bias's b^2/(2L).

    Beside sigma^2/N of fresh noise there is what noise does through drift, the same in all H steps of a round and
    independent between agents; and of FedAvg-PG the drift towards each agent's own optimum, which no N averages away.
    Drift is the law's; where eta L l is not small it saturates, eta l at (1 - e^(-eta L l))/L.
    """
    l = np.arange(method.H)
    steady = float(np.mean(np.expm1(-eta * at.L * l) ** 2))  # L^2 times where a constant push takes an agent, squared
    walked = float(np.mean(eta * at.L / 2 * -np.expm1(-2 * eta * at.L * l)))  # and fresh noise, per sigma^2
    drift = steady * anchor_noise(method, at.sigma_sq, at.N) + walked * at.sigma_sq
    if method.name == ALONE:
        return eta / 4 * at.sigma_sq
    bias = steady * at.zeta_sq / (2 * at.L) if method.name == "fedavg_pg" else 0.0
    return eta / 4 * (at.sigma_sq + method.H * drift) / at.N + bias


def rate(method: Method, eta: float, at: Landscape) -> float:
    """By what factor a round lowers the gap: 1 - eta mu (1 - eta L/2), H times; old control variates slow SCAFFOLD."""
    pace = 1.0
    if method.name == "scaffold_pg":
        steady = float(np.mean(np.expm1(-eta * at.L * np.arange(method.H)) ** 2))
        pace = max(0.05, 1 - steady * min(1.0, eta * at.L * method.H))
    return float(max(1e-6, 1 - pace * eta * at.mu * (1 - eta * at.L / 2)) ** method.H)


def cost(method: Method, at: Landscape, target: float, eta: float | None = None) -> Cost:
    """The fewest rounds until the gap is `target`: half for the transient, half for what the step size leaves."""
    tried = [eta] if eta is not None else [2.0 ** (-k / 2) / at.L for k in range(2 * HALVINGS)]
    best = Cost(method, tried[-1], math.inf, math.inf)
    for step in tried:
        left = floor(method, step, at)
        best = min(best, Cost(method, step, math.inf, left), key=lambda c: (c.rounds, c.floor))
        if left <= target / 2:
            factor = rate(method, step, at)
            rounds = max(1.0, math.ceil(math.log(max(1.0, 2 * at.gap / target)) / -math.log(factor)))
            if rounds <= MOST_ROUNDS:
                best = min(best, Cost(method, step, rounds, left), key=lambda c: (c.rounds, c.floor))
    return best


def least_target(method: Method, at: Landscape, eta: float | None = None) -> float:
    """The smallest gap that a method comes to, at this step size or in MOST_ROUNDS rounds at its best one."""
    if eta is not None:
        return 2 * floor(method, eta, at)
    steps = [2.0 ** (-k / 2) / at.L for k in range(2 * HALVINGS)]
    after = lambda step: 2 * at.gap * math.exp(max(-700.0, MOST_ROUNDS * math.log(rate(method, step, at))))
    return min(max(after(step), 2 * floor(method, step, at)) for step in steps)


def ranked(costs: Sequence[Cost]) -> list[Cost]:
    """Best first, by the product of samples and bytes; independent agents solve another problem, and come last."""
    return sorted(costs, key=lambda c: (c.method.name == ALONE, c.toll, c.rounds * c.method.syncs))


def theorem2_rounds(at: Landscape, H: int, target: float) -> float:
    """T of Theorem 2 with its own constants: alpha so that (13)'s floor is half the target, the transient the rest."""
    alpha = 1 / (4 * C * at.L)
    while theorem2_floor(alpha, at.mu, at.L, at.N, H, at.sigma_sq, 0.0) > target / 2:
        alpha /= 2
    return math.ceil(math.log(max(1.0, 2 * at.gap / target)) * 4 / (alpha * at.mu))


def regret(method: Method, every: Sequence[Sequence[Cost]]) -> float:
    """How many times the best method's toll this one's is, at most, over several cases."""

    def of(costs: Sequence[Cost]) -> float:
        mine = next(c.toll for c in costs if c.method == method)
        least = min(c.toll for c in costs if c.method.name != ALONE)
        return mine / least if math.isfinite(least) else 1.0

    return max(map(of, every))


def cases(at: Landscape, low: float, high: float) -> Iterator[Landscape]:
    """The ends of zeta^2's interval."""
    yield at._replace(zeta_sq=max(0.0, low))
    yield at._replace(zeta_sq=max(0.0, high))
