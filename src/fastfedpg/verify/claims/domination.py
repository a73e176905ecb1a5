"""Eq. (12) for softmax tables with entropy: with a mu of each policy, as there is none that serves all of them."""

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from fastfedpg.mdp import finite
from fastfedpg.problems import tabular_exact
from fastfedpg.verify.claims.lemmas import points
from fastfedpg.verify.claims.structure import POINTS, policies
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Row, claim, not_applicable


def rows(subject: Subject, n: int) -> Iterator[Row]:
    """At random policies, and at n points along the pilot."""
    name, says = "Eq. (12), entropy", "mu(theta) <= ||grad J||^2/(J - J*), derived in docs/theory.md"
    if why := subject.undominated:
        yield not_applicable(name, says, why)
        return
    thetas = np.concatenate([policies(subject), points(subject, n)])
    gaps, norms_sq = subject.gaps(subject.exact, thetas)
    least = [domination_bound(subject, theta) for theta in thetas]
    note = f"{POINTS} random policies, {n} points along the pilot; mu = {subject.pilot.mu:.3g} along it"
    yield claim(name, says, least, norms_sq / gaps, note=note)


def domination_bound(subject: Subject, theta: np.ndarray) -> float:
    """mu(theta) = (4 tau/(1 - gamma)) min_s d(s)^2 min_a pi(a|s)^2/d*(s), with which (12) holds at theta.

    d and d* are the occupancies of pi_theta and of the optimum.
    """
    known = subject.tabular
    average, best = known.average(), known.theta_of(known.optimum(subject.tau).policy)
    d, d_best = (tabular_exact.occupancy(average, x)[0] for x in (theta, best))
    least = np.asarray(finite.softmax_policy(jnp.asarray(theta), known.S, known.A)).min(axis=1)
    met = d_best > 0
    return float(4 * subject.tau / (1 - known.gamma) * np.min((d * least)[met] ** 2 / d_best[met]))
