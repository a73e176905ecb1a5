"""No heterogeneity bias: the floor against how much the agents' rewards differ, with the average MDP held fixed."""

from dataclasses import replace

import numpy as np

from fastfedpg.algorithms.fedavg_pg import fedavg_pg
from fastfedpg.core import Algorithm
from fastfedpg.problems import TabularProblem
from fastfedpg.verify.claims.floors import Effort, Sweep, afford, floor, noise, repeated, rounds_for, sampled
from fastfedpg.verify.listening import counted, simulate
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Row, mean_of, near, not_applicable

KAPPAS = (0.0, 0.5, 1.0)
LEAST = 60
"""Rounds; the step is large, and the noise settles soon."""
TWICE = float(np.log(2))


def mixed(known: TabularProblem, kappa: float) -> TabularProblem:
    """The agents' differences shrunk: R_i = Rbar + kappa (R_i - Rbar), kappa in [0, 1], so the average MDP stays."""
    mean = known.reward.mean(axis=0)
    return replace(known, reward=(mean + kappa * (known.reward - mean)).clip(*known.reward_range))


def alone(subject: Subject, algorithm: Algorithm, rounds: int) -> float:
    """The gap after a run from the optimum without noise: what is left is bias."""
    result = simulate(subject.exact, algorithm, rounds, metrics_every=rounds, theta0=subject.stationary)
    return float(result.final("gap")[0] / subject.known.scale)


def rows(subject: Subject, effort: Effort) -> tuple[list[Row], dict[str, Sweep]]:
    """Flat for Fast-FedPG, rising for FedAvg-PG; per sigma^2, since other rewards have another noise."""
    known, H, alpha = subject.tabular, subject.H, 0.5 / subject.L
    problem = sampled(subject, 4)
    rounds = rounds_for(subject, alpha, effort, LEAST)
    afford(subject, effort, [(problem.N, H, rounds)] * (2 * len(KAPPAS)))
    tasks = [problem._replace(tasks=repeated(mixed(known, kappa), 4).cost) for kappa in KAPPAS]
    sigmas = [noise(subject, subject.stationary, mixed(known, kappa).cost).mean_sigma_sq for kappa in counted(KAPPAS)]
    sweeps, change, notes = {}, {}, {}
    both = {"Fast-FedPG": subject.make(alpha / H, H), "FedAvg-PG": fedavg_pg(alpha / H, H)}
    for name, algorithm in counted(both.items()):
        floors = [floor(subject, task, algorithm, alpha, effort, LEAST) for task in counted(tasks)]
        label = f"alpha = {alpha:.3g}, H = {H}, N = {problem.N}"
        sweep = sweeps[name] = Sweep(np.array(KAPPAS), np.stack(floors, axis=1), label)
        change[name] = mean_of(np.log(floors[-1] / floors[0]) - np.log(sigmas[-1] / sigmas[0]))
        notes[name] = f"{sweep.words}; sigma^2 {' '.join(f'{x:.2g}' for x in sigmas)}"
    says = "log of (floor/sigma^2 at kappa = 1 over that at 0)"
    flat = near(
        "No heterogeneity bias", f"|{says}| <= log 2", change["Fast-FedPG"], 0.0, TWICE, note=notes["Fast-FedPG"]
    )
    average = change["FedAvg-PG"]
    drift, least = alone(subject, fedavg_pg(alpha / H, H), rounds), sweeps["FedAvg-PG"].floors[:, 0].mean()
    if drift <= 2 * least:  # nothing doubles, and nothing must be violated
        why = f"FedAvg-PG's bias without noise is {drift:.2g}, less than twice its noise floor, {least:.2g}"
        return [flat, not_applicable("No heterogeneity bias, FedAvg-PG", says, why)], sweeps
    return [
        flat,
        Row(
            "No heterogeneity bias, FedAvg-PG",
            f"{says} <= log 2 must be violated",
            float(average.mean[0]),
            TWICE,
            average._replace(mean=TWICE - average.mean),
            control=True,
            bound=False,
            note=notes["FedAvg-PG"],
        ),
    ], sweeps
