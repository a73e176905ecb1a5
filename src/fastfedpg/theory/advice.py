"""What each method costs until a target gap, by the theorems' terms with the constants that they have to leading order.

A model and no bound: one L, one mu, noise that is the same everywhere. docs/advise.md derives it, and says how often it
is right.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

MOST_ROUNDS = 10**7
HALVINGS, BETWEEN = 40, 8
"""How far below 1/L step sizes are looked for, and how many from one to its half."""

SLOWEST = 1e-3
"""The least of 1 - eta L/2 that is reckoned with."""

KNOWN = ("fast_fedpg", "heavy_anchor", "fedavg_pg", "scaffold_pg", "minibatch_pg", "centralised_pg", "independent_pg")
"""The methods that this is a model of."""

UNKNOWN = ("adaptive_anchor", "rc_pg")
"""Methods that docs/suite.md compares with these, and that there is no model of."""

ALONE = "independent_pg"
"""Whose agents share no policy."""


class Landscape(NamedTuple):
    """What decides: the first gap, mu and L of (12) and Assumption 1, noise and heterogeneity, the number of agents."""

    gap: float
    mu: float
    L: float
    sigma_sq: float  # of one estimate, with the B that was measured with
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
    B: int | None = None  # trajectories of an estimate; nothing where none are played
    noise: float = 1.0  # sigma^2 of an estimate over the landscape's: B there over B here

    @property
    def at_once(self) -> int:
        """How many of a round's H estimates go into one step, where it begins; the others are local steps."""
        return {"minibatch_pg": self.H, "heavy_anchor": max(1, self.H // 2)}.get(self.name, 0)

    @property
    def local(self) -> int:
        """How many are local steps."""
        return self.H - self.at_once

    @property
    def label(self) -> str:
        """The method, and what is unusual about it."""
        return f"{self.name}, reuse" if self.reuse else self.name


ANCHOR = Method("fast_fedpg", 1, 0.0, 0.0, 2)
"""Whose correction `balance` is about: B0 = B, at any H."""


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
    shared = {"scaffold_pg": method.H, "heavy_anchor": method.at_once}.get(method.name)
    return (1 - 1 / N) * sigma_sq / shared if shared else 0.0


def balance(sigma_sq: float, zeta_sq: float, N: int, B_over_B0: float = 1.0) -> float:
    """N zeta^2 over Fast-FedPG's anchor noise: above 1 drift decides, and a correction pays; below 1 noise does.

    Agents' noise is independent, so that its effect on their mean falls like 1/N; heterogeneity's does not.
    """
    noise = (1 - 1 / N) * sigma_sq * B_over_B0
    return math.inf if noise <= 0 else N * max(0.0, zeta_sq) / noise


def floor(method: Method, eta: ArrayLike, at: Landscape) -> np.ndarray:
    """The gap that a step size leaves, as on a parabola: eta/4 times the mean step's noise, and a bias's b^2/(2L).

    Beside sigma^2/N of fresh noise there is what noise does through drift, the same in all H steps of a round and
    independent between agents; and of FedAvg-PG the drift towards each agent's own optimum, which no N averages away.
    Drift is the law's; where eta L l is not small it saturates, eta l at (1 - e^(-eta L l))/L. Estimates that are taken
    at once drift nowhere: all of minibatch PG's, one step of H eta with a noise of sigma^2/H; heavy anchor's first q.
    """
    eta, sigma_sq = np.asarray(eta, float), method.noise * at.sigma_sq
    if method.name == ALONE:
        return eta / 4 * sigma_sq
    if method.local == 0:
        return eta / 4 * sigma_sq / at.N
    pushed = eta[..., None] * at.L * np.arange(method.local)
    walked = eta * at.L / 2 * -np.expm1(-2 * pushed).mean(-1)  # of fresh noise, per sigma^2
    drift = _steady(method, eta, at) * anchor_noise(method, sigma_sq, at.N) + walked * sigma_sq
    bias = _steady(method, eta, at) * at.zeta_sq / (2 * at.L) if method.name == "fedavg_pg" else 0.0
    return eta / 4 * (sigma_sq + method.local**2 / method.H * drift) / at.N + bias


def _steady(method: Method, eta: np.ndarray, at: Landscape) -> np.ndarray:
    """L^2 times the square of where a constant push takes an agent, the mean over a round's steps."""
    return np.asarray((np.expm1(-eta[..., None] * at.L * np.arange(method.local)) ** 2).mean(-1))


def rate(method: Method, eta: ArrayLike, at: Landscape) -> np.ndarray:
    """By what factor a round lowers the gap: 1 - eta mu (1 - eta L/2), H times; old control variates slow SCAFFOLD.

    What is taken at once is one step, of so many eta. Beyond 2/L a parabola's gap grows; J is none, so that a step that
    is given is called slow there, and a trial tells.
    """
    eta, pace = np.asarray(eta, float), np.array(1.0)
    if method.name == "scaffold_pg":
        pace = np.maximum(0.05, 1 - _steady(method, eta, at) * np.minimum(1.0, eta * at.L * method.H))
    by = lambda step: np.maximum(1e-6, 1 - pace * step * at.mu * np.maximum(SLOWEST, 1 - step * at.L / 2))
    return np.asarray(by(method.at_once * eta) * by(eta) ** method.local)


def steps_of(method: Method, at: Landscape) -> np.ndarray:
    """The step sizes that are weighed: what a method takes at once is at most 1/L."""
    largest = 1 / (at.L * max(1, method.at_once))
    return np.asarray(2.0 ** (-np.arange(HALVINGS * BETWEEN) / BETWEEN) * largest)


def _with_the_edge(method: Method, at: Landscape, target: float) -> np.ndarray:
    """The same, and between two of them the largest that leaves half the target: methods differ by less than a grid."""
    steps = steps_of(method, at)
    left = floor(method, steps, at)
    if not left[-1] > 0:
        return steps
    edge = np.exp(np.interp(math.log(target / 2), np.log(left[::-1]), np.log(steps[::-1])))
    return np.append(steps, (1 - 1e-4) * edge)


def cost(method: Method, at: Landscape, target: float, eta: float | None = None) -> Cost:
    """The fewest rounds until the gap is `target`: half for the transient, half for what the step size leaves."""
    steps = np.array([eta]) if eta is not None else _with_the_edge(method, at, target)
    left = floor(method, steps, at)
    rounds = np.maximum(1.0, np.ceil(math.log(max(1.0, 2 * at.gap / target)) / -np.log(rate(method, steps, at))))
    rounds = np.where((left <= target / 2) & (rounds <= MOST_ROUNDS), rounds, np.inf)
    k = int(np.lexsort((left, rounds))[0])
    return Cost(method, float(steps[k]), float(rounds[k]), float(left[k]))


def least_target(method: Method, at: Landscape, eta: float | None = None) -> float:
    """The smallest gap that a method comes to, at this step size or in MOST_ROUNDS rounds at its best one."""
    if eta is not None:
        return float(2 * floor(method, eta, at))
    steps = steps_of(method, at)
    after = 2 * at.gap * np.exp(np.maximum(-700.0, MOST_ROUNDS * np.log(rate(method, steps, at))))
    return float(np.maximum(after, 2 * floor(method, steps, at)).min())


def ranked(costs: Sequence[Cost]) -> list[Cost]:
    """Best first, by the product of samples and bytes; independent agents solve another problem, and come last."""
    return sorted(costs, key=lambda c: (c.method.name == ALONE, c.toll, c.rounds * c.method.syncs, c.samples))


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
