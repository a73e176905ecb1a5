"""Theorem 2 with noise on the way: the gap of every recorded round against (13), not only where it stops falling."""

import numpy as np

from fastfedpg import theory
from fastfedpg.verify.claims.floors import LEAST, Effort, afford, noise, rounds_for
from fastfedpg.verify.listening import simulate
from fastfedpg.verify.test_case import HEADROOM, Subject
from fastfedpg.verify.verdict import Estimate, Row, claim, mean_of

RECORDS = 20
LAST = 5
"""Records, of the end of a run, of which its own floor is the mean."""


def rows(subject: Subject, effort: Effort) -> tuple[list[Row], None]:
    """Runs from the first theta with Eq. (5), at Theorem 1's largest step: (13) whole, and with the floor as it was."""
    N, H, L, alpha = subject.N, subject.H, subject.noisy_L, subject.alpha
    rounds = rounds_for(subject, alpha, effort, LEAST)
    afford(subject, effort, [(N, H, rounds)])
    every, seed = rounds // RECORDS, subject.first_seed
    result = simulate(subject.sampled, subject.make(alpha / H, H), rounds, effort.seeds, every, first_seed=seed)
    scale, t = subject.known.scale, np.asarray(result.rounds)
    gaps, norms_sq = result.metrics["gap"] / scale, result.metrics["grad_norm_sq"] / scale**2
    mu = min(subject.pilot.mu, theory.domination_estimate(norms_sq, gaps))
    at = [noise(subject, theta) for theta in (subject.pilot.thetas[0], subject.stationary)]
    sigma_sq, cut = (max(getattr(found, name) for found in at) for name in ("sigma_sq", "truncation_sq"))
    found = mean_of(gaps)
    right = np.asarray(theory.theorem2_right(t, gaps[0, 0], alpha, mu, L, N, H, sigma_sq, cut))
    margin = Estimate(right - found.mean, found.error, found.degrees)
    note = f"{rounds} rounds, {len(t)} records, {effort.seeds} seeds, alpha = {alpha:.3g}, mu = {mu:.3g} along the run"
    whole = f"{note}; L of the pilot times {HEADROOM:g}, sigma and D at the first theta and the optimum"
    falls = (1 - alpha * mu / 4) ** t * gaps[0, 0]
    own = gaps[:, -LAST:].mean(axis=1, keepdims=True)
    early = mean_of((falls + own - gaps)[:, 1:-LAST])
    shown = found.mean[1:-LAST], falls[1:-LAST] + own.mean()
    says = "mean gap <= (1 - alpha mu/4)^t times the first + the mean gap of the end"
    return [
        claim("Theorem 2, on the way", "mean gap <= (13), every record", found.mean, right, margin, note=whole),
        claim("Theorem 2, on the way to its own floor", says, *shown, early, note=note, describes=True),
    ], None
