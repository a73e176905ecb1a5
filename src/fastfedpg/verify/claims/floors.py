"""Theorem 2 with noise: where the gap stops falling, against N, H and NHT, with the average MDP held fixed."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from fastfedpg import theory
from fastfedpg.core import Algorithm, Problem
from fastfedpg.problems import TabularProblem
from fastfedpg.verify.listening import counted, simulate
from fastfedpg.verify.recording import estimates, gradients_at
from fastfedpg.verify.test_case import HEADROOM, Subject
from fastfedpg.verify.verdict import Estimate, Row, claim, mean_of, near, slope

RECORDS = 40
SAMPLES = 4096
"""Estimates from which sigma^2 is known."""
RISES = "Not claimed: floor in H rises, fixed eta"
ABOUT = 0.2
"""A slope is about -1, or about 0, where its whole interval lies within this of it."""


class Effort(NamedTuple):
    """How much is run."""

    seeds: int
    relaxations: float  # times 1/(alpha mu): the rounds of a run that starts at the optimum
    times: tuple[int, ...]  # how often the agents are repeated; 0 is the average MDP alone
    steps: tuple[int, ...]  # H at fixed alpha
    long_steps: tuple[int, ...]  # H at fixed eta
    totals: tuple[tuple[int, tuple[int, ...]], ...]  # against NHT: how often agents are repeated, and multiples of T
    longer: tuple[int, ...]  # multiples of T for Theorem 3; none leaves it out
    crowds: tuple[int, ...]  # how often the agents are repeated for Theorem 3; none leaves it out
    steps_at_most: float  # environment steps of one sweep, beyond which it is left open
    bias: bool = True  # whether floors are looked at against how much agents differ


class Sweep(NamedTuple):
    """Floors (seeds, points) against something, as they are drawn."""

    x: np.ndarray
    floors: np.ndarray
    label: str

    @property
    def words(self) -> str:
        """The numbers."""
        means = " ".join(f"{x:.2g}" for x in self.floors.mean(axis=0))
        return f"floors {means} at {' '.join(f'{x:g}' for x in self.x)}; {self.label}, {len(self.floors)} seeds"


def repeated(known: TabularProblem, times: int) -> TabularProblem:
    """The same agents, each `times` over, so that the average MDP stays; 0 is the average MDP alone."""
    if times == 0:
        return known.average()
    again = lambda x: np.concatenate([x] * times)
    P = jax.tree.map(again, known.P) if known.own_kernels else known.P
    rho = again(known.rho) if known.own_starts else known.rho
    return replace(known, P=P, reward=again(known.reward), rho=rho, agents=(), grid=None)


def sampled(subject: Subject, times: int) -> Problem:
    """Eq. (5) for repeated agents."""
    return subject.drawn(repeated(subject.tabular, times))


LEAST, MOST = 200, 20_000
"""Rounds of a run for a floor; more seeds or more rounds make its interval shorter."""


class TooLong(Exception):
    """A sweep that would take more environment steps than it may."""


def rounds_for(subject: Subject, alpha: float, effort: Effort, least: int) -> int:
    """Rounds in which the noise settles."""
    wanted = effort.relaxations / (alpha * subject.pilot.mu)
    if wanted > MOST:
        raise TooLong(
            f"the noise takes {wanted:,.0f} rounds to settle (mu = {subject.pilot.mu:.2g}); a larger tau helps"
        )
    return int(max(wanted, least))


def floor(
    subject: Subject, problem: Problem, algorithm: Algorithm, alpha: float, effort: Effort, least: int = LEAST
) -> np.ndarray:
    """The mean gap over the last half of a run from the optimum, for each seed."""
    rounds = rounds_for(subject, alpha, effort, least)
    start, seed = subject.stationary, subject.first_seed
    result = simulate(problem, algorithm, rounds, effort.seeds, rounds // RECORDS, theta0=start, first_seed=seed)
    gaps = result.metrics["gap"] / subject.known.scale
    return np.asarray(gaps[:, gaps.shape[1] // 2 :].mean(axis=1))


class Noise(NamedTuple):
    """What Assumptions 3 and 4 are about, at one theta."""

    sigma_sq: float  # the largest of any agent
    mean_sigma_sq: float  # over agents
    truncation_sq: float  # the largest of any agent


def noise(subject: Subject, theta: np.ndarray, cost: np.ndarray | None = None) -> Noise:
    """As it is met, from SAMPLES estimates; perhaps with other costs."""
    at = np.broadcast_to(theta, (1, subject.N, 1, theta.size))
    given = (subject.truncated, subject.exact, subject.watched_sampled)
    truncated, exact, watched = given if cost is None else (problem._replace(tasks=cost) for problem in given)
    means, full = (gradients_at(problem, at)[0, :, 0] for problem in (truncated, exact))
    drawn = estimates(watched, theta, 2 * subject.replicas(SAMPLES // 2), subject.first_seed)
    squares = np.sum((drawn - means) ** 2, axis=-1)
    each = squares.mean(axis=0)
    return Noise(float(each.max()), float(each.mean()), float(np.sum((means - full) ** 2, axis=-1).max()))


def afford(subject: Subject, effort: Effort, runs: Iterable[tuple[int, int, int]]) -> None:
    """Refuse runs of (agents, local steps, rounds) that together take too many environment steps, or never settle."""
    steps = sum(N * (H + 1) * rounds for N, H, rounds in runs) * subject.B * subject.K * effort.seeds
    if steps > effort.steps_at_most:
        raise TooLong(
            f"it would take {steps:.2g} environment steps, more than {effort.steps_at_most:.0e} (L/mu = "
            f"{subject.L / subject.pilot.mu:.3g}); a larger tau, a smaller K or B, or fewer agents help"
        )


def against_N(subject: Subject, alpha: float, effort: Effort) -> Sweep:
    """The average MDP alone, then the agents again and again."""
    fast, rounds = subject.make(alpha / subject.H, subject.H), rounds_for(subject, alpha, effort, LEAST)
    afford(subject, effort, ((max(1, subject.N * k), subject.H, rounds) for k in effort.times))
    times = [k for k in effort.times if k > 0 or subject.N > 1]  # one agent is its own average
    floors = [floor(subject, sampled(subject, k), fast, alpha, effort) for k in counted(times)]
    agents = np.array([max(1, subject.N * k) for k in times])
    return Sweep(agents, np.stack(floors, axis=1), f"alpha = {alpha:.3g}, H = {subject.H}")


def in_N(subject: Subject, effort: Effort) -> tuple[list[Row], Sweep]:
    """The N-fold speed-up inside the theorem, and (13)'s own floor.

    At such a step (13)'s second noise term is the larger one, and it has no N in it: the slope is better than (13).
    """
    alpha, L = subject.alpha, subject.noisy_L
    sweep = against_N(subject, alpha, effort)
    sigma_sq, _, cut = noise(subject, subject.stationary)
    found, mu = mean_of(sweep.floors), subject.pilot.mu
    bound = [theory.theorem2_floor(alpha, mu, L, int(n), subject.H, sigma_sq, cut) for n in sweep.x]
    margin = Estimate(np.array(bound) - found.mean, found.error, found.degrees)
    says = "mean gap of the last half <= (13)'s noise and truncation, every N"
    where = f"{sweep.words}; L and mu of the pilot (L times {HEADROOM:g}), sigma and D at the optimum"
    return [
        claim("Theorem 2, floor", says, found.mean, bound, margin, note=where),
        about("Theorem 2, floor in N", "slope in N", slope(sweep.x, sweep.floors), -1, sweep.words),
    ], sweep


def in_N_large(subject: Subject, effort: Effort) -> tuple[list[Row], Sweep]:
    """With a large step the second noise term of (13), which no agent helps with, shows."""
    sweep = against_N(subject, 1 / subject.L, effort)
    last = slope(sweep.x[-2:], sweep.floors[:, -2:])
    says = "-0.95 <= last slope in N: it flattens, as (13) allows"
    margin = last._replace(mean=last.mean + 0.95)
    name = "Not claimed: floor in N flattens, large eta H"
    return [Row(name, says, -0.95, float(last.mean[0]), margin, bound=False, describes=True, note=sweep.words)], sweep


def against_H(subject: Subject, effort: Effort, steps: tuple[int, ...], eta: float | None = None) -> Sweep:
    """More and more local steps of four times the agents, at fixed eta, or at the theorem's alpha."""
    limit = subject.alpha
    problem = sampled(subject, 4)
    alphas = [limit if eta is None else eta * H for H in steps]
    each = list(zip(steps, alphas, strict=True))
    afford(subject, effort, ((problem.N, H, rounds_for(subject, alpha, effort, LEAST)) for H, alpha in each))
    floors = [floor(subject, problem, subject.make(alpha / H, H), alpha, effort) for H, alpha in counted(each)]
    fixed = f"alpha = {limit:.3g}" if eta is None else f"eta = {eta:.3g}"
    return Sweep(np.array(steps), np.stack(floors, axis=1), f"{fixed}, N = {problem.N}")


def in_H(subject: Subject, effort: Effort) -> tuple[list[Row], Sweep]:
    """At fixed alpha = eta H local steps are worth as much as agents."""
    sweep = against_H(subject, effort, effort.steps)
    found = slope(sweep.x, sweep.floors)
    return [about("Theorem 2, floor in H", "slope in H at fixed alpha", found, -1, sweep.words)], sweep


def in_H_fixed_eta(subject: Subject, effort: Effort) -> tuple[list[Row], Sweep]:
    """At fixed eta they do nothing for the floor, and at last they raise it."""
    sweep = against_H(subject, effort, effort.long_steps, subject.alpha / 5)
    first = slope(sweep.x[:2], sweep.floors[:, :2])
    rise = mean_of(np.log(sweep.floors[:, -1] / sweep.floors[:, :2].mean(axis=1)))
    name, twice = "Theorem 2, floor in H, fixed eta", float(np.log(2))
    says = "log 2 <= log(floor at the largest H / at the smallest two)"
    margin = rise._replace(mean=rise.mean - twice)
    return [
        about(name, "slope between the smallest two H", first, 0, sweep.words),
        Row(RISES, says, twice, float(rise.mean[0]), margin, bound=False, describes=True, note=sweep.words),
    ], sweep


def in_NHT(subject: Subject, effort: Effort) -> tuple[list[Row], Sweep]:
    """The last gaps of runs from the first theta by Theorem 2's schedule, with T for which its conditions hold."""
    mu, L, H = subject.pilot.mu, subject.noisy_L, subject.H
    schedule = lambda N, T: theory.theorem2(N, H, T, mu, L, subject.known.gamma)
    agents = [max(1, subject.N * times) for times, _ in effort.totals]
    runs = [
        (N, [schedule(N, 10).T_least * k for k in longer]) for N, (_, longer) in zip(agents, effort.totals, strict=True)
    ]
    afford(subject, effort, ((N, H, T) for N, Ts in runs for T in Ts))
    total, last, rounds = [], [], []
    for (times, _), (N, Ts) in counted(zip(effort.totals, runs, strict=True)):
        problem = sampled(subject, times)
        for T in counted(Ts):
            every, seed, etas = max(1, T // 100), subject.first_seed, [schedule(N, T).eta]
            result = simulate(problem, subject.fast, T, effort.seeds, every, first_seed=seed, sweep=etas)
            rounds.append(T)
            total.append(N * H * T)
            last.append(result.metrics["gap"][0][:, -10:].mean(axis=1) / subject.known.scale)
    sweep = Sweep(np.array(total), np.stack(last, axis=1), "eta = 4 log(NHT)/(mu H T)")
    found = slope(sweep.x, sweep.floors / np.log(sweep.x))
    K = theory.horizon(max(agents), H, max(rounds), subject.known.gamma)
    note = f"last tenth of T = {', '.join(map(str, rounds))} rounds; K = {subject.K}, the schedule's {K}; {sweep.words}"
    says = "slope of (last gap)/log(NHT) in NHT"
    return [about("Theorem 2, gap in NHT", says, found, -1, note)], sweep


def about(name: str, says: str, found: Estimate, what: float, note: str) -> Row:
    """A slope whose whole interval lies within ABOUT of a number; one whose interval is outside fails."""
    says = f"|{says} {-what:+g}| <= {ABOUT:g}" if what else f"|{says}| <= {ABOUT:g}"
    return near(name, says, found, what, ABOUT, note=f"slope {found.mean[0]:.3f}; {note}")
