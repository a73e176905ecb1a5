"""What a report is made of: which claims are checked on which problem, in which order, and with how much effort."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fastfedpg import problems
from fastfedpg.errors import InputError
from fastfedpg.problems import AnyProblem, LQRProblem
from fastfedpg.problems.catalogue import basics
from fastfedpg.verify import hunt
from fastfedpg.verify.claims import (
    bias,
    domination,
    estimators,
    floors,
    identity,
    lemmas,
    rates,
    stationary,
    structure,
    transient,
)
from fastfedpg.verify.claims.floors import Effort
from fastfedpg.verify.effects import LONG, QUICK, Effects
from fastfedpg.verify.options import VerifySettings
from fastfedpg.verify.recording import estimates, gradients_at
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Row, not_applicable


class Part(NamedTuple):
    """One piece of the work: rows, and what pictures show of it."""

    title: str
    work: Callable[[], tuple[Iterable[Row], dict[str, Any]]]


def parts(settings: VerifySettings, known: AnyProblem | None = None) -> list[Part]:
    """All of it, on a problem that is given or named, or on the usual ones."""
    if known is None and settings.problem is not None:
        made = problems.make(settings.problem, settings.problem_args, settings.agents, settings.reward_range)
        if made.played:
            raise InputError(f"problem '{made.name}' can only be played; the theory is checked where J is known")
        known = made
    return list(_usual(settings) if known is None else _given(settings, known))


def _given(settings: VerifySettings, known: AnyProblem) -> Iterator[Part]:
    subject = _subject(settings, known, known.name, settings.tau)
    effects = QUICK if settings.quick else LONG
    if isinstance(known, LQRProblem):  # which has claims of its own
        yield from _regulator(subject, known, effects)
        return
    if subject.tabular.A == 1 or np.ptp(subject.tabular.reward) == 0:
        why = "there is one action only" if subject.tabular.A == 1 else "all rewards are the same"
        raise InputError(f"problem '{known.name}': {why}, so there is nothing to learn and no claim to check")
    yield from _structure(subject, effects)
    yield _algorithm(subject)
    yield _estimators(subject)
    yield from _rounds(subject, effects)
    yield _dominated(subject, effects)
    yield Part(f"Theorem 2 without noise on {subject.name}", partial(_linear, subject))
    if why := subject.undominated:
        left_out = [not_applicable(name, "with noise", why) for name in ("Theorem 2, floors", "No heterogeneity bias")]
        yield Part(f"noise floors on {subject.name}", lambda: (_of(subject, left_out), {}))
    else:
        yield from _sweeps(subject, effects)
        yield from _bias(subject, effects)
    yield from _stationary(subject, effects)


def _usual(settings: VerifySettings) -> Iterator[Part]:
    """Small problems on which every claim can be decided within minutes."""
    if settings.problem_args or settings.agents is not None or settings.reward_range is not None or settings.tau:
        raise InputError("problem_args, agents, reward_range and tau say more about a problem; give --problem too")
    effects = QUICK if settings.quick else LONG
    entropy = _subject(settings, problems.random(agents=4, S=5, A=3, gamma=0.5), "random, tau = 0.2", 0.2)
    plain = replace(entropy, tau=0.0, name="random, tau = 0")
    torn = problems.compromise(agents=4, mid=0.5, gamma=0.5)
    apart = replace(_subject(settings, torn, "compromise, tau = 0.1", 0.1), H=8, K=12, B=32)
    different = problems.random(agents=4, S=5, A=3, gamma=0.5, kernel=0.5)
    different = replace(different, rho=np.random.default_rng(0).dirichlet(np.ones(5), 4))
    kernels = _subject(settings, different, "random, own kernels and rho, tau = 0.2", 0.2)
    yield from _structure(entropy, effects)
    yield _algorithm(entropy)
    yield _estimators(hunt.small(settings.first_seed))
    yield from _rounds(entropy, effects)
    yield from (_exact_round(kernels, effects), _replicas(kernels, effects))
    yield _dominated(entropy, effects)
    yield Part(f"Theorem 2 without noise on {entropy.name}", partial(_linear, entropy))
    yield Part(f"Theorem 2 without noise on {plain.name}", partial(_plain, plain))
    yield from _sweeps(entropy, effects)
    yield from _bias(apart, effects)
    yield from _stationary(kernels, effects)
    regulator = basics.lqr()
    yield from _regulator(_subject(settings, regulator, "lqr", 0.0), regulator, effects)


def _regulator(subject: Subject, regulator: LQRProblem, effects: Effects) -> Iterator[Part]:
    """Costs are not in [0, 1] there, and nothing is sampled: the exact claims alone."""

    def known() -> tuple[list[Row], dict[str, Any]]:
        return _of(
            subject, [*structure.by_linearity(regulator, subject.first_seed), *structure.domination(subject, regulator)]
        ), {}

    yield Part(f"Proposition 1 and (12) on {subject.name}", known)
    yield from _exact_rounds(subject, effects)
    yield Part(f"Theorem 2 without noise on {subject.name}", partial(_linear, subject))


def _subject(settings: VerifySettings, known: AnyProblem, name: str, tau: float) -> Subject:
    for setting in ("H", "B", "K"):
        value = getattr(settings, setting)
        if value is not None and value < 1:
            raise InputError(f"{setting} = {value}; it must be at least 1")
    if not 0 <= tau <= 1e6:
        raise InputError(f"tau = {tau:g}; the entropy weight must be finite and at least 0, and at most 1e6")
    enough = 1 if known.gamma == 0 else int(np.ceil(np.log(1e-5) / np.log(known.gamma)))
    if not 0 <= settings.first_seed < 2**30:
        raise InputError(f"first_seed = {settings.first_seed}; it must lie in [0, 2^30)")
    subject = Subject(known, tau, settings.H, settings.K or min(enough, 100), settings.B, name, settings.first_seed)
    assert subject.exact  # what is wrong with a problem is said before anything is run
    return subject


def _of(subject: Subject, rows: Iterable[Row]) -> list[Row]:
    return [replace(row, problem=subject.name) for row in rows]


def _rows(title: str, subject: Subject, rows: Callable[[], Iterable[Row]]) -> Part:
    """What has no picture."""
    return Part(f"{title} on {subject.name}", lambda: (_of(subject, rows()), {}))


def _structure(subject: Subject, effects: Effects) -> Iterator[Part]:
    def known() -> tuple[list[Row], dict[str, Any]]:
        rows, errors = structure.truncation(subject)
        return _of(subject, [*structure.proposition(subject), *structure.smoothness(subject), *rows]), {
            "truncation": errors
        }

    def drawn() -> tuple[list[Row], dict[str, Any]]:
        theta = subject.pilot.thetas[0]
        samples = 2 * subject.replicas(effects.samples // 2)
        found = estimates(subject.watched_sampled, theta, samples, subject.first_seed)
        means = gradients_at(subject.truncated, np.broadcast_to(theta, (1, subject.N, 1, theta.size)))[0, :, 0]
        rows = _of(subject, structure.noise(subject, found, means))
        return rows, {}

    yield Part(f"Proposition 1 and the assumptions on {subject.name}", known)
    yield Part(f"noise on {subject.name}", drawn)


def _algorithm(subject: Subject) -> Part:
    return _rows("Algorithm 1, step by step,", subject, lambda: identity.rows(subject))


def _estimators(subject: Subject) -> Part:
    return _rows("estimators", subject, lambda: estimators.rows(subject))


def _dominated(subject: Subject, effects: Effects) -> Part:
    return _rows("(12)", subject, lambda: domination.rows(subject, effects.points))


def _exact_round(subject: Subject, effects: Effects) -> Part:
    return _rows("one round without noise", subject, lambda: lemmas.exact(subject, effects.points))


def _exact_rounds(subject: Subject, effects: Effects) -> Iterator[Part]:
    yield _exact_round(subject, effects)
    yield _rows("controls", subject, lambda: lemmas.controls(subject))


def _rounds(subject: Subject, effects: Effects) -> Iterator[Part]:
    yield from _exact_rounds(subject, effects)
    yield _replicas(subject, effects)
    work = lambda: lemmas.a_priori(subject, subject.replicas(effects.replicas))
    yield _rows("one round, a-priori bounds", subject, work)


def _replicas(subject: Subject, effects: Effects) -> Part:
    work = lambda: lemmas.sampled(subject, subject.replicas(effects.replicas))
    return _rows("one round, replicas", subject, work)


def _linear(subject: Subject) -> tuple[list[Row], dict[str, Any]]:
    rows, course = rates.linear(subject)
    return _of(subject, rows), {"linear": {subject.name: course}} if course else {}


def _plain(subject: Subject) -> tuple[list[Row], dict[str, Any]]:
    row, course = rates.plain(subject)
    return _of(subject, [row]), {"plain": course}


Check: TypeAlias = Callable[[Subject, Effort], tuple[list[Row], Any]]
"""What runs a sweep: rows, and what is drawn of it."""


def _sweep(
    title: str, subject: Subject, effects: Effects, check: Check, drawn: Callable[[Any], dict[str, Any]]
) -> Part:
    def work() -> tuple[list[Row], dict[str, Any]]:
        rows, found = check(subject, effects.sweeps)
        return _of(subject, rows), drawn(found)

    return Part(f"{title} on {subject.name}", work)


def _sweeps(subject: Subject, effects: Effects) -> Iterator[Part]:
    yield _sweep("(13) on the way", subject, effects, transient.rows, lambda found: {})
    checks: dict[str, Check] = {"N": floors.in_N}
    if effects.sweeps.steps:
        checks["H"] = floors.in_H
    if effects.sweeps.long_steps:
        checks |= {"N, large eta H": floors.in_N_large, "H, fixed eta": floors.in_H_fixed_eta}
    if effects.sweeps.totals:
        checks["NHT"] = floors.in_NHT
    for name, check in checks.items():
        drawn = lambda found, name=name: {"floors": {name: found}}
        yield _sweep(f"noise floor against {name}", subject, effects, check, drawn)


def _bias(subject: Subject, effects: Effects) -> Iterator[Part]:
    if effects.sweeps.bias:
        yield _sweep("heterogeneity", subject, effects, bias.rows, lambda found: {"bias": found})


def _stationary(subject: Subject, effects: Effects) -> Iterator[Part]:
    if effects.sweeps.longer:
        yield _sweep("Theorem 3", subject, effects, stationary.rows, lambda found: {"stationary": found})
    if effects.sweeps.crowds:
        drawn = lambda found: {"crowds": found}
        yield _sweep("Theorem 3 against N", subject, effects, stationary.in_N, drawn)
