"""Theorem 2 with noise on the way: the gap of every recorded round against (13), not only where it stops falling."""

import numpy as np

from fastfedpg import theory
from fastfedpg.verify.claims.floors import LEAST, Effort, afford, floor, noise, rounds_for
from fastfedpg.verify.listening import simulate
from fastfedpg.verify.test_case import HEADROOM, Subject
from fastfedpg.verify.verdict import Estimate, Row, claim, mean_of, open_question

RECORDS = 20
FALLING = "Theorem 2, on the way to its floor"


def rows(subject: Subject, effort: Effort) -> tuple[list[Row], None]:
    """Runs from the first theta with Eq. (5), at Theorem 1's largest step: (13) whole, and with a floor as it is."""
    N, H, L, alpha = subject.N, subject.H, subject.noisy_L, subject.alpha
    rounds = rounds_for(subject, alpha, effort, LEAST)
    afford(subject, effort, 2 * [(N, H, rounds)])
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
    return [
        claim("Theorem 2, on the way", "mean gap <= (13), every record", found.mean, right, margin, note=whole),
        _falling(subject, effort, alpha, (1 - alpha * mu / 4) ** t * gaps[0, 0], gaps, note),
    ], None


def _falling(subject: Subject, effort: Effort, alpha: float, promised: np.ndarray, gaps: np.ndarray, note: str) -> Row:
    """What of (13) is no constant of the proofs: the first gap's part, above the floor of runs from the optimum.

    Beyond the records at which that part is the smaller of the two a row would be about floors, and no longer about how
    a gap falls: these are left to the rows that are.
    """
    fast = subject.make(alpha / subject.H, subject.H)
    left = floor(subject, subject.sampled, fast, alpha, effort)
    seen = promised >= left.mean()
    seen[0] = False  # where nothing has fallen yet
    if not seen.any():
        return open_question(FALLING, f"the floor, {left.mean():.3g}, hides how gaps fall: {note}")
    margin = mean_of((promised + left[:, None] - gaps)[:, seen])
    says = "mean gap <= (1 - alpha mu/4)^t times the first + that of runs from the optimum, while the first is larger"
    sides = gaps[:, seen].mean(axis=0), promised[seen] + left.mean()
    return claim(FALLING, says, *sides, margin, note=f"{note}; {seen.sum()} records, floor {left.mean():.3g}")
