"""Step sizes by the theorems: what a schedule makes of a configuration, and how far a step size is from Theorem 1."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fastfedpg import theory
from fastfedpg.errors import InputError
from fastfedpg.experiment.config import Config
from fastfedpg.parameters import LETTERS
from fastfedpg.problems import AnyProblem
from fastfedpg.theory import Parameters, Pilot

LONG = 2.0
"""Seconds from which on a pilot says how long it took."""


class Scheduled(NamedTuple):
    """What a theorem's schedule says of a run, with L and mu from an exact pilot."""

    parameters: Parameters
    L: float
    mu: float
    notes: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """For summary.json."""
        p = self.parameters
        return {
            "theorem": p.name,
            "eta": p.eta,
            "K": p.K,
            "T_least": p.T_least,
            "L_estimate": self.L,
            "mu_estimate": self.mu,
            "conditions": [
                {"name": c.name, "required": c.required, "given": c.given, "factor": c.factor, "holds": c.holds}
                for c in p.conditions
            ],
            "words": p.words(),
        }


def scheduled(config: Config, H: int, known: AnyProblem | None, theta0: Any) -> tuple[Config, Scheduled]:
    """The configuration with the eta and K of its schedule; those that were given stay, and are noted."""
    if known is None:
        raise InputError(f"schedule {config.schedule} needs a problem that is known here; this one is private")
    if known.played:
        raise InputError(
            f"schedule {config.schedule} needs L and mu of a problem that is known; {known.name} can only be played"
        )
    if config.schedule == "theorem2" and not known.shared:
        raise InputError(
            "schedule theorem2 is about the average MDP, and agents with different kernels or starts have none; "
            "theorem3 is for them"
        )
    began = time.monotonic()
    N, T, target = known.N, config.rounds, 1 / (known.N * H * config.rounds)
    runs = [_pilot(known, config.tau, start, target) for start in np.unique(_rows(theta0), axis=0)]
    L, mu = max(run.L for run in runs), min(run.mu for run in runs)
    if config.schedule == "theorem2":
        p = theory.theorem2(N, H, T, mu, L, known.gamma)
    else:
        p = theory.theorem3(N, H, T, L, known.gamma)
    if not p.eta > 0:
        raise InputError("schedule theorem2 gives eta = 0, since N H T = 1; ask for more rounds")
    used = config
    if config.eta == LETTERS["eta"].usual:
        used = used.but(eta=p.eta)
    if config.get("oracle.K") is None:
        used = used.but(K=p.K)
    notes = (
        *_notes(used, p, runs, L, mu, target, known.undominated(config.tau)),
        *_took(time.monotonic() - began),
    )
    return used, Scheduled(p, L, mu, notes)


class Standpoint(NamedTuple):
    """How a run stands to Theorem 1, which asks for eta <= 1/(4CLH)."""

    covered: bool
    factor: float | None  # eta over the limit; None where the theorem is about other steps
    words: str


def standpoint(config: Config, N: int, H: int, bound: float | None, estimate: float | None = None) -> Standpoint:
    """With the bound on L if there is one, and in words with an estimate of it too."""
    absent = 0 if config.participants is None else N - config.participants
    optimiser = config.get("optimiser") or "sgd"
    alpha_g, reuse = config.get("alpha_g") or 1.0, bool(config.get("reuse"))
    broken = theory.not_covered(config.algorithm, alpha_g, reuse, absent, optimiser)
    if config.algorithm != "fast_fedpg" or optimiser != "sgd":  # whose eta is no step of Eq. (6)
        return Standpoint(False, None, f"Theorem 1 does not cover this run: {' and '.join(broken)}")
    given = [(L, name) for L, name in ((bound, "bound"), (estimate, "estimate")) if L is not None]
    factor = config.eta / theory.theorem1_step_limit(given[0][0], H)
    sides = [f"{_side(config.eta, L, H)} with the {name} L = {L:.4g}" for L, name in given]
    said = f"Theorem 1: eta = {config.eta:.4g} is {'; it is '.join(sides)}"
    if broken:
        said += f"; and it does not cover this run: {' and '.join(broken)}"
    return Standpoint(factor <= 1 and not broken, factor, said)


def _side(eta: float, L: float, H: int) -> str:
    limit = theory.theorem1_step_limit(L, H)
    if eta <= limit:
        return f"inside the theorem, {eta / limit:.3g} of 1/(4CLH) = {limit:.3g}"
    return f"outside the theorem, {eta / limit:.3g} times 1/(4CLH) = {limit:.3g}"


def _rows(theta0: Any) -> np.ndarray:
    theta0 = np.asarray(theta0, np.float64)
    return theta0.reshape(-1, theta0.shape[-1])


def _pilot(known: AnyProblem, tau: float, start: np.ndarray, target: float) -> Pilot:
    """Until the gap has fallen as far as the theorem promises: to 1/(NHT) of the first."""
    return theory.pilot(known.gradients(tau), known.gap(tau), start, target=target)


def _notes(
    config: Config, p: Parameters, runs: list[Pilot], L: float, mu: float, target: float, undominated: str
) -> Iterator[str]:
    second = config.schedule == "theorem2"
    steps, reached = max(len(run.gaps) - 1 for run in runs), all(run.gaps[-1] <= target * run.gaps[0] for run in runs)
    yield (
        f"schedule {config.schedule}: eta = {p.eta:.6g} and K = {p.K}, with L = {L:.4g}"
        f"{f' and mu = {mu:.4g}' if second else ''} along an exact pilot of {steps} steps"
    )
    yield p.words()
    if config.eta != p.eta:
        yield f"eta = {config.eta:g} was given and stays; the schedule's is {p.eta:.6g}"
    K = config.get("oracle.K")
    if K is not None and K != p.K:
        small = " too few for the theorem;" if K < p.K else ""
        yield f"K = {K} was given and stays;{small} the schedule's is {p.K}"
    if config.oracle == "exact":
        yield f"K = {K} has no effect: oracle exact is not truncated"
    if second and undominated:
        yield "with tau = 0 gradient domination (12) fails on R^d: mu is along the pilot only, it shrinks with the gap"
    if second and not reached:
        left = max(run.gaps[-1] / run.gaps[0] for run in runs)
        yield f"the pilot ended at {left:.2g} of the first gap, not at 1/(NHT) = {target:.2g}: mu is along that part"


def _took(seconds: float) -> Iterator[str]:
    if seconds > LONG:
        yield f"the pilot took {seconds:.0f} s"
