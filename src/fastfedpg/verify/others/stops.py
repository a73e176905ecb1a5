"""Where a method with exact gradients stops, how far that is from theta*, and what may be said of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from fastfedpg.core import Algorithm
from fastfedpg.runtime import Schedule, simulate_records
from fastfedpg.verify.claims.lemmas import Unsettled
from fastfedpg.verify.listening import say
from fastfedpg.verify.others.methods import METHODS, Methods
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import UNDECIDED, Measured, Row, claim, exactly, near

MOVED = 1e-12
"""By how much a second start is moved, to see whether rounding grows; and the least that anything is known to."""
SETTLED = 1e-6
"""Of the way from the start to theta*: a run whose last half, or whose moved start, changes more has no stop."""
CLEARLY = 1e3
"""A stop is off theta* where the distance is so many times what it is known to."""
NOTHING = 1e-6
"""Of FedAvg-PG's bias: what is less counts as none."""
FIRST_ORDER = 0.1
"""How near a law for eta -> 0 has to be met at the smallest eta."""
HALVINGS = 4
"""Steps of 1/(2 L H), and half of it, and half of that."""
SHARES = (0.2, 0.5, 0.8)
"""b of FedSVRPG-M; the first is MFPO's a too: the weight of the fresh gradient."""
RELAXATIONS = 120.0
"""Rounds of a run are so many times 1/(alpha mu), of the smallest step."""


class Stop(NamedTuple):
    """Where runs with several settings end, rows centred, and what each of them is known to."""

    theta: np.ndarray  # (E, d)
    off: np.ndarray  # (E, d): theta - theta*
    slack: np.ndarray  # (E,)
    gap: np.ndarray  # (E,): J - J*, as a share of the first

    @property
    def distance(self) -> np.ndarray:
        """||theta - theta*||, for each setting."""
        return np.linalg.norm(self.off, axis=-1)

    def some(self, which: slice) -> "Stop":
        """Those of some settings."""
        return Stop(*(x[which] for x in self))


def steps(subject: Subject) -> np.ndarray:
    """1/(2 L H) and its halves: the same for all methods."""
    return 0.5 ** np.arange(HALVINGS) / (2 * subject.L * subject.H)


def centred(subject: Subject, theta: Any) -> np.ndarray:
    """Logits with rows that sum to 0: their policies are the same, and gradients leave such sums alone."""
    table = np.asarray(theta).reshape(*np.shape(theta)[:-1], subject.tabular.S, subject.tabular.A)
    return (table - table.mean(axis=-1, keepdims=True)).reshape(np.shape(theta))


def stop(subject: Subject, make: Callable[[Any], Algorithm], settings: Any, rounds: int | None = None) -> Stop:
    """A long run from the uniform policy, recorded at two lengths, and once more from a start moved by MOVED."""
    if rounds is None:
        rounds = int(np.ceil(RELAXATIONS / (steps(subject)[-1] * subject.H * subject.pilot.mu)))
    best = centred(subject, subject.stationary)
    starts = np.zeros((2, best.size))
    starts[1] += MOVED * np.random.default_rng(0).normal(size=best.size)
    tick = lambda done, standing: say(f"round {done:,} of {rounds:,}")
    schedule = Schedule(2 * (rounds // 2), 2, rounds // 2, theta0=starts)
    records = list(simulate_records(subject.exact, make, schedule, tick, sweep=settings))
    half, end = (centred(subject, np.asarray(r.theta)).reshape(-1, 2, best.size) for r in records[-2:])
    far = lambda x: np.linalg.norm(x, axis=-1)
    slack = np.maximum(MOVED, np.maximum(far(end - half).max(axis=1), far(end[:, 0] - end[:, 1])))
    if not (slack <= SETTLED * far(best)).all():  # as it is where something is not finite
        raise Unsettled(f"a run of {rounds:,} rounds has not come to rest: it is known to {slack.max():.2g} only")
    gaps, _ = subject.gaps(subject.exact, np.concatenate([end[:, 0], starts[:1]]))
    return Stop(end[:, 0], end[:, 0] - best, slack, gaps[:-1] / gaps[-1])


@dataclass(frozen=True)
class Exact:
    """A problem and the methods that are run on it without noise; what several statements ask for is run once."""

    subject: Subject
    methods: Methods = METHODS

    @property
    def H(self) -> int:
        """Local steps."""
        return self.subject.H

    @cached_property
    def etas(self) -> np.ndarray:
        """The step sizes of all."""
        return steps(self.subject)

    def stop(self, make: Callable[[Any], Algorithm], settings: Any = None) -> Stop:
        """Where one of them stops, for each eta unless other settings are given."""
        return stop(self.subject, make, self.etas if settings is None else settings)

    @cached_property
    def average(self) -> Stop:
        """FedAvg-PG."""
        return self.stop(lambda eta: self.methods.fedavg(eta, self.H))

    @cached_property
    def fast(self) -> Stop:
        """Fast-FedPG."""
        return self.stop(lambda eta: self.methods.fast(eta, self.H))

    @cached_property
    def svrpg(self) -> dict[float, Stop]:
        """FedSVRPG-M for each b, with the server's step fixed at 1/(4 L) while eta -> 0, as its theory has it."""
        n, lam = len(self.etas), 1 / (4 * self.subject.L)
        settings = {"eta": np.tile(self.etas, len(SHARES)), "b": np.repeat(SHARES, n)}
        found = self.stop(lambda s: self.methods.svrpg(s["eta"], self.H, s["b"], lam), settings)
        return {b: found.some(slice(k * n, (k + 1) * n)) for k, b in enumerate(SHARES)}

    @cached_property
    def law(self) -> np.ndarray:
        """FedAvg-PG's bias over eta, for eta -> 0."""
        return first_order(self.subject)


def first_order(subject: Subject) -> np.ndarray:
    """FedAvg-PG's bias for eta -> 0, divided by eta: (H-1)/2 (hess J)^+ mean_i[hess J_i grad J_i] at theta*.

    Local steps go to theta - eta l grad J_i + O(eta^2), so the mean gradient of a round is grad J - eta (H-1)/2
    mean_i[hess J_i grad J_i] + O(eta^2), and where it stops that is 0. The inverse is taken where rows sum to 0.
    """
    best = centred(subject, subject.stationary)
    hess = np.asarray(jax.jit(jax.jacfwd(subject.gradients))(best))
    push = np.einsum("nij,nj->i", hess, subject.gradients_at(best)) / subject.N
    return np.asarray((subject.H - 1) / 2 * np.linalg.lstsq(hess.mean(axis=0), push, rcond=1e-9)[0])


def _words(found: Stop) -> str:
    return f"J - J* is {found.gap[0]:.2g} of the first gap; distances {' '.join(f'{x:.3g}' for x in found.distance)}"


def biased(name: str, found: Stop) -> Row:
    """It stops away from theta*, by far more than what its stop is known to, at every eta."""
    says = f"{CLEARLY:g} times what rounding and more rounds can change <= ||theta - theta*||, every eta"
    measured = Measured(float(found.distance[0]), slack=float(found.slack[0]))
    return claim(name, says, CLEARLY * found.slack, found.distance, bound=False, measured=measured, note=_words(found))


def unbiased(name: str, found: Stop, average: Stop, **more: Any) -> Row:
    """It stops at theta*, at every eta; next to FedAvg-PG's distance there is nothing.

    Open where what a stop is known to could turn it.
    """
    says = f"||theta - theta*|| <= {NOTHING:g} of FedAvg-PG's, every eta"
    measured = Measured(float(found.distance[0]), slack=float(found.slack[0]))
    right = NOTHING * average.distance
    row = claim(name, says, found.distance, right, bound=False, measured=measured, note=_words(found), **more)
    at_most, at_least = found.distance + found.slack, found.distance - found.slack
    known = (at_most <= right).all() or (at_least > right).any()
    return row if known else replace(row, margin=None, verdict=UNDECIDED)


def _slack(found: Stop) -> float:
    """Of the logarithm of a distance."""
    return float((found.slack / found.distance)[-2:].sum())


def grows_with_eta(name: str, found: Stop, etas: np.ndarray) -> Row:
    """The distance is proportional to eta: the slope between the two smallest."""
    slope = float(np.diff(np.log(found.distance[-2:]))[0] / np.diff(np.log(etas[-2:]))[0])
    says = f"|slope of ||theta - theta*|| in eta - 1| <= {FIRST_ORDER:g}, smallest two"
    return _near_one(name, says, Measured(slope, slack=2 * _slack(found)), _words(found))


def as_predicted(name: str, found: Stop, eta: float, law: np.ndarray) -> Row:
    """The whole vector is that of `first_order`, at the smallest eta."""
    wanted = np.linalg.norm(law)
    off = float(np.linalg.norm(found.off[-1] / eta - law) / wanted)
    says = f"||(theta - theta*)/eta - law|| <= {FIRST_ORDER:g} ||law||, smallest eta"
    measured = Measured(off, slack=float(found.slack[-1] / (eta * wanted)))
    return claim(name, says, off, FIRST_ORDER, bound=False, measured=measured, note=f"||law|| = {wanted:.3g}")


def as_fedavg(name: str, found: Stop, average: Stop) -> Row:
    """Its bias over FedAvg-PG's is 1, at the smallest eta."""
    ratio = float(found.distance[-1] / average.distance[-1])
    says = f"|bias over FedAvg-PG's - 1| <= {FIRST_ORDER:g}, smallest eta"
    return _near_one(name, says, Measured(ratio, slack=ratio * (_slack(found) + _slack(average))), _words(found))


def _near_one(name: str, says: str, found: Measured, note: str) -> Row:
    """With all that may move it."""
    row = near(name, says, exactly(found.value), 1, FIRST_ORDER, measured=found, note=note)
    assert row.margin is not None
    return replace(row, margin=exactly(row.margin.mean - found.slack))
