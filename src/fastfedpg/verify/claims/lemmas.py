"""Lemmas 1 and 2 and Theorem 1: one round from a fixed theta_bar, exactly and in many replicas."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from fastfedpg import theory
from fastfedpg.algorithms.fedavg_pg import fedavg_pg
from fastfedpg.core import Problem
from fastfedpg.verify.controls import flipped, without_guide
from fastfedpg.verify.listening import say
from fastfedpg.verify.recording import Replicas, gradients_at, one_round
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Estimate, Row, claim, exactly, mean_of, not_applicable

NEAR = 1e-6
"""Of the first gap: the last point along the pilot; nearer ones have differences of J that float64 can't tell."""
FAR = 1e4
"""Times ||grad J||: where zeta is less, what FedAvg-PG drifts by can be within what the claims allow."""
TOLD = 10
"""Times the rounding of J: a change that float64 can tell."""
TRIES, MORE = 5, 1.1
"""How often a step is made smaller for the L that was met, and by how much more than it takes."""
SEGMENTS = 8
"""Replicas whose ways L is looked for on."""


class Constants(NamedTuple):
    """What stands for the assumptions' constants in a row, and where from."""

    L: float
    sigma_sq: float
    truncation_sq: float  # (D gamma^K)^2
    source: str


def points(subject: Subject, n: int) -> np.ndarray:
    """Places along the pilot, from the first theta to next to the optimum, evenly by the logarithm of the gap."""
    gaps = np.log(np.maximum(subject.pilot.gaps, NEAR * subject.pilot.gaps[0]))
    wanted = np.linspace(gaps[0], gaps.min(), n)
    return subject.pilot.thetas[[int(np.argmin(np.abs(gaps - w))) for w in wanted]]


def settled(subject: Subject, watched: Problem, thetas: np.ndarray, replicas: int) -> tuple[Replicas, float, float]:
    """A round at eta = 1/(4CLH) whose L is that of the ways gone, which depend on eta: until it is no larger."""
    L = subject.L
    for _ in range(TRIES):
        eta = subject.eta(L)
        seen = one_round(watched, subject.fast, eta, thetas, subject.H, replicas, subject.first_seed)
        if (met := on_the_way(subject, seen)) <= L:
            return seen, eta, L
        L = MORE * met
    raise Unsettled(f"L on the ways gone rises with every smaller step: {met:.3g} at eta = {eta:.3g}")


class Unsettled(Exception):
    """No step was found that is small enough for what it meets."""


def exact(subject: Subject, n: int) -> Iterator[Row]:
    """Without noise, from n points along the pilot."""
    assert subject.L > 0  # or it says why there is nothing to check
    seen, eta, L = settled(subject, subject.watched, points(subject, n), n)
    what = f"exact gradients, {n} points"
    yield from rows(subject, seen, eta, Constants(L, 0.0, 0.0, "L_estimate"), what, ", exact", _each)


def on_the_way(subject: Subject, seen: Replicas) -> float:
    """L_estimate on the ways from theta_bar to each agent's last point and to the next theta_bar.

    Of some replicas only: L may be larger elsewhere. Right sides rise with L, so a claim that passes would pass still.
    """
    ends = np.concatenate([seen.iterates[:SEGMENTS, :, -1], seen.end[:SEGMENTS, None]], axis=1)
    starts = np.broadcast_to(seen.theta_bar[: len(ends), None], ends.shape)
    segments = np.stack([starts, ends], axis=2).reshape(-1, 2, ends.shape[-1])
    heard = lambda k, n: say(f"Hessians at {k} of {n} points")
    return theory.smoothness_estimate(subject.gradients, segments, points=3, heard=heard)


def sampled(subject: Subject, replicas: int) -> Iterator[Row]:
    """With Eq. (5), many replicas of one round from the first theta; sigma and the truncation as they were met."""
    seen, eta, L = settled(subject, subject.watched_sampled, subject.pilot.thetas[0], replicas)
    means = gradients_at(subject.truncated, seen.iterates)
    full = gradients_at(subject.exact, seen.iterates)
    squares = mean_of(np.sum((seen.answers - means) ** 2, axis=-1))
    sigma_sq = max(float(squares.interval(1e-6)[0].max()), 0.0)  # its lower end makes right sides smaller, never larger
    cut = float(np.max(np.sum((means - full) ** 2, axis=-1)))
    of = Constants(L, sigma_sq, cut, "L, sigma, D as met")
    yield from rows(subject, seen, eta, of, f"Eq. (5), {replicas} replicas", ", sampled", mean_of)


def a_priori(subject: Subject, replicas: int) -> Iterator[Row]:
    """The same with the bounds that are known before anything is run, at the step that they allow."""
    known = subject.tabular
    L = theory.smoothness_bound(known.gamma, known.A, subject.tau)
    sigma_sq = theory.variance_bound(known.gamma, known.A, subject.K, subject.B, subject.tau)
    cut = theory.truncation_bound(known.gamma, known.A, subject.K, subject.tau) * known.gamma**subject.K
    eta = subject.eta(L)
    start, seed = subject.pilot.thetas[0], subject.first_seed
    seen = one_round(subject.watched_sampled, subject.fast, eta, start, subject.H, replicas, seed)
    of = Constants(L, sigma_sq, cut**2, "a-priori bounds")
    yield from rows(subject, seen, eta, of, f"Eq. (5), {replicas} replicas", ", a-priori bounds", mean_of)


def rows(
    subject: Subject,
    seen: Replicas,
    eta: float,
    of: Constants,
    what: str,
    name: str,
    together: Callable[[np.ndarray], Estimate],
) -> Iterator[Row]:
    """Lemma 2 at every local step, Lemma 1 and Theorem 1; `together` tells replicas with noise from other starts."""
    N, H, alpha = subject.N, subject.H, eta * subject.H
    start, norm_sq = subject.gaps(subject.exact, seen.theta_bar)
    after, _ = subject.gaps(subject.exact, seen.end)
    note = f"{what}; eta = {eta:.3g}, {of.source}"

    def inequality(claimed: str, says: str, left: np.ndarray, right: np.ndarray) -> Row:
        found = together(left), together(right)
        return claim(f"{claimed}{name}", says, found[0].mean, found[1].mean, together(right - left), note=note)

    if H > 1:
        drift = seen.drift[:, :, 1:]  # at l = 0 it is zero
        bound = np.asarray(theory.lemma2_right(eta, H, theory.G(norm_sq, of.sigma_sq, of.truncation_sq)))
        says = "E||Delta_{i,l}||^2 <= 32 eta^2 H^2 G, every agent and local step"
        yield inequality("Lemma 2", says, drift, np.broadcast_to(bound[:, None, None], drift.shape))
    fall = start - after + subject.rounding
    sums = seen.drift.sum(axis=(1, 2))
    one = theory.lemma1_terms(alpha, of.L, N, H, norm_sq, sums, of.sigma_sq, of.truncation_sq)
    says = "(alpha/2)(1 - 8 alpha L)||grad J||^2 <= J - E J+ + drift, noise, truncation"
    right = fall + np.asarray(one.drift) + one.truncation + one.noise
    yield inequality("Lemma 1", says, -np.asarray(one.progress), right)
    both = theory.theorem1_terms(alpha, of.L, N, H, of.sigma_sq, of.truncation_sq)
    says = "(alpha/4)||grad J||^2 <= J - E J+ + noise, truncation"
    yield inequality("Theorem 1", says, alpha / 4 * norm_sq, fall + both.noise + both.truncation)


def _each(values: np.ndarray) -> Estimate:
    """Every start for itself, without noise."""
    return exactly(np.asarray(values).reshape(-1))


def controls(subject: Subject) -> Iterator[Row]:
    """What must violate them, with exact gradients at a stationary point (Lemma 1: at the first theta)."""
    near = subject.stationary[None]
    zeta = theory.heterogeneity(subject.gradients_at(near[0]))
    norm = float(np.sqrt(subject.gaps(subject.exact, near)[1][0]))
    eta, H, of = subject.eta(), subject.H, Constants(subject.L, 0.0, 0.0, "L_estimate")
    what = f"exact gradients, ||grad J|| = {norm:.2g}, zeta = {zeta:.2g}"
    for name, make in (("FedAvg-PG", fedavg_pg), ("flipped correction", flipped)):
        if H == 1 or zeta <= FAR * norm:
            differ = f"zeta = {zeta:.2g} beside ||grad J|| = {norm:.2g}"
            why = "H = 1: there is no drift" if H == 1 else f"agents hardly differ at the stationary point: {differ}"
            yield not_applicable(f"Lemma 2 and Theorem 1, {name}", "must be violated where agents differ", why)
            continue
        seen = one_round(subject.watched, partial(make, H=H), eta, near, H, 1)
        for row in rows(subject, seen, eta, of, what, f", {name}", _each):
            if row.claim.startswith("Theorem 1") and abs(row.right) < TOLD * subject.rounding:
                yield not_applicable(row.claim, row.says, "J changes by less than float64 can tell")
            elif not row.claim.startswith("Lemma 1"):  # it holds: the mean of their corrections is zero, as it asks
                yield replace(row, control=True)
    seen = one_round(subject.watched, partial(without_guide, H=H), eta, subject.pilot.thetas[:1], H, 1)
    found = rows(subject, seen, eta, of, "exact gradients, the first theta", ", no global gradient", _each)
    yield from (replace(row, control=True) for row in found if row.claim.startswith("Lemma 1"))
