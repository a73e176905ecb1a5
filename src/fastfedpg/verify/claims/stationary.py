"""Theorem 3: the mean squared gradient norm over a run, also where the agents' dynamics differ."""

import numpy as np

from fastfedpg import theory
from fastfedpg.verify.claims.floors import Effort, Sweep, about, afford, noise, sampled
from fastfedpg.verify.listening import counted, simulate
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Row, claim, mean_of, slope

RECORDS = 100
CROWDED = 400
"""Rounds of the runs in which only the number of agents changes."""


def rows(subject: Subject, effort: Effort) -> tuple[list[Row], Sweep]:
    """Runs with the schedule of Theorem 3, for multiples of the least T that meets its conditions."""
    N, H, L = subject.N, subject.H, subject.noisy_L
    first = max(theory.theorem3(N, H, 10, L, subject.known.gamma).T_least, RECORDS)
    afford(subject, effort, ((N, H, first * k) for k in effort.longer))
    sigma_sq, _, cut = noise(subject, subject.pilot.thetas[0])
    total, left, right = [], [], []
    for rounds in counted(first * k for k in effort.longer):
        eta = theory.theorem3(N, H, rounds, L, subject.known.gamma).eta
        every, seed = rounds // RECORDS, subject.first_seed
        result = simulate(subject.sampled, subject.fast, rounds, effort.seeds, every, first_seed=seed, sweep=[eta])
        scale = subject.known.scale
        norms = result.metrics["grad_norm_sq"][0][:, :-1].mean(axis=1) / scale**2
        fall = (result.metrics["J"][0][:, 0] - result.metrics["J"][0][:, -1]) / scale
        bound = theory.theorem3_right(rounds, fall, eta * H, L, N, H, sigma_sq, cut)
        total.append(N * H * rounds)
        left.append(norms)
        right.append(np.asarray(bound))
    lefts, rights = np.stack(left, axis=1), np.stack(right, axis=1)
    sweep = Sweep(np.array(total), lefts, "eta = (4/H) sqrt(NH/T)")
    found = slope(sweep.x, lefts)
    kind = "different kernels and starts" if not subject.known.shared else "one kernel"
    K = theory.horizon(N, H, rounds, subject.known.gamma)
    note = (
        f"K = {subject.K}, the schedule's {K}; {kind}; T = {first} to {rounds}, {effort.seeds} seeds, every "
        f"{rounds // RECORDS}th round of the longest"
    )
    says = "mean of E||grad J||^2 over the rounds <= its right side, every T"
    return [
        claim("Theorem 3", says, lefts.mean(axis=0), rights.mean(axis=0), mean_of(rights - lefts), note=note),
        about("Theorem 3, rate", "slope of that mean in NHT", found, -0.5, f"{note}; {sweep.words}"),
    ], sweep


def in_N(subject: Subject, effort: Effort) -> tuple[list[Row], Sweep]:
    """T and alpha fixed, from where J is stationary, so that nothing but noise is left: alpha L sigma^2/(NH).

    Without noise there is nothing to be seen, and with noise that agents share the slope is 0.
    """
    alpha, H = subject.alpha, subject.H
    agents = [subject.N * k for k in effort.crowds]
    afford(subject, effort, ((N, H, CROWDED) for N in agents))
    algorithm, start, seed = subject.make(alpha / H, H), subject.stationary, subject.first_seed
    means = []
    for times in counted(effort.crowds):
        problem = sampled(subject, times)
        result = simulate(problem, algorithm, CROWDED, effort.seeds, CROWDED // RECORDS, theta0=start, first_seed=seed)
        means.append(result.metrics["grad_norm_sq"][:, 1:].mean(axis=1) / subject.known.scale**2)
    sweep = Sweep(np.array(agents), np.stack(means, axis=1), f"alpha = {alpha:.3g}, H = {H}, T = {CROWDED}")
    words = sweep.words.replace("floors", "means")
    return [
        about("Theorem 3, speed-up in N", "slope of that mean in N", slope(sweep.x, sweep.floors), -1, words)
    ], sweep
