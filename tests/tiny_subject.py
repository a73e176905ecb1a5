"""One tiny problem (3 agents, 3 states, 2 actions, gamma = .5) on which claims are tested, and little effort."""

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from commands import command
from fastfedpg import fast_fedpg
from fastfedpg.core import Algorithm
from fastfedpg.verify import agenda
from fastfedpg.verify.claims import bias, floors
from fastfedpg.verify.claims.floors import Effort
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import (
    FAIL,
    NOT_SEEN,
    PASS,
    SEEN,
    decided,
)

TINY = {"tau": 0.2, "H": 3, "K": 10, "B": 2}

EFFORT = Effort(
    seeds=4,
    relaxations=1,
    times=(0, 1),
    steps=(1, 2),
    long_steps=(),
    totals=(),
    longer=(1, 2),
    crowds=(),
    steps_at_most=1e9,
)

EFFECTS = agenda.Effects(points=3, replicas=64, samples=2**14, sweeps=EFFORT)

FLAGS = tuple(word for name, value in TINY.items() for word in (f"--{name}", value))


def verdicts(found):
    """Claims and what was decided."""
    return {row.claim: row.verdict for row in decided(found)}


def like(subject, *kept, **changes) -> Subject:
    """Another subject, in which some of what this one has computed stays."""
    other = replace(subject, **changes)
    vars(other).update({name: getattr(subject, name) for name in ("pilot", *kept)})
    return other


WITHOUT_NOISE = ("Lemma 2", "Lemma 1", "Theorem 1")


class Marked(Algorithm):
    """Fast-FedPG that says which step it was made with."""


def marked(eta, H, *settings) -> Marked:
    made = Marked(*fast_fedpg(eta, H, *settings))
    made.eta = eta
    return made


def follow(patch, subject, law):
    """Floors law(N, H, alpha) in the place of runs, the same for every seed to a thousandth; alpha = 1 is 1/(4CL)."""
    limit = subject.alpha
    patch.setattr(floors, "SAMPLES", EFFECTS.samples)

    def floor(subject, problem, algorithm, alpha, effort, least=0):
        rng = np.random.default_rng(int(1e6 * alpha) + problem.N)
        H = round(alpha / algorithm.eta)
        return law(problem.N, H, alpha / limit) * (1 + 1e-3 * rng.normal(size=effort.seeds))

    patch.setattr(floors, "floor", floor)
    patch.setitem(vars(subject), "make", marked)


def heterogeneous(patch, subject, **grows):
    """Floors exp(grows kappa) in the place of runs of both algorithms; sigma is the same for all kappa."""
    patch.setitem(vars(subject), "make", marked)
    patch.setattr(bias, "fedavg_pg", lambda eta, H: "average")
    patch.setattr(bias, "noise", lambda *given: floors.Noise(1.0, 1.0, 0.0))
    patch.setattr(bias, "alone", lambda *given: np.exp(grows["average"]))
    spread = np.ptp(subject.tabular.cost, axis=0).max()

    def floor(subject, problem, algorithm, alpha, effort, least):
        kappa = np.ptp(problem.tasks, axis=0).max() / spread
        rng = np.random.default_rng(round(10 * kappa))
        return np.exp(grows["fast" if isinstance(algorithm, Marked) else algorithm] * kappa) * (
            1 + 1e-3 * rng.normal(size=effort.seeds)
        )

    patch.setattr(bias, "floor", floor)


LAWS = {
    # (13): alpha sigma^2/(NH) and a term alpha^2 sigma^2 that no agent helps with
    "as (13) says": (
        lambda N, H, alpha: alpha / (N * H) + 1e-3 * alpha**2,
        {"N": PASS, "H": PASS, "N, large": SEEN, "H, fixed": PASS, "rises": SEEN},
    ),
    "no speed-up": (
        lambda N, H, alpha: alpha,
        {"N": FAIL, "H": FAIL, "N, large": SEEN, "H, fixed": FAIL, "rises": SEEN},
    ),
    "nothing flattens": (
        lambda N, H, alpha: alpha / (N * H),
        {"N": PASS, "H": PASS, "N, large": NOT_SEEN, "H, fixed": PASS, "rises": NOT_SEEN},
    ),
}


def saved(path, known, scale=1.0, shift=0.0):
    """A problem's arrays in a file, rewards in other units."""
    np.savez(path, P=known.P, reward=shift + scale * known.reward, rho=known.rho, gamma=known.gamma)
    return path


def told(*words) -> SimpleNamespace:
    """`fastfedpg verify …`: its exit code, and what it said."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = command("verify", *words)
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())
