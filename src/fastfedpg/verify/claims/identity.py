"""Algorithm 1 to the letter, and what T4 in the proof of Lemma 1 needs of its noise: two rounds that were recorded."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fastfedpg.verify.claims.structure import EQUAL, SMALL, policies
from fastfedpg.verify.recording import Recorded, Replicas, gradients_at, recorded, recording
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Row, claim, mean_of, zero

ETA, ALPHA_G = 0.3, 0.5
"""Any will do: identities hold for all. They are not 1, so that leaving one of them out shows."""
ROUNDS = 2
"""A memory that is not renewed is right in the first round."""
REPLICAS = 256
"""With which cross terms of a quarter of the noise are seen."""
FEW = 8
"""Replicas of a round whose identities alone are looked at."""


def rows(subject: Subject, replicas: int = REPLICAS) -> Iterator[Row]:
    """(6), (7), the number of estimates, and noise whose cross terms vanish; then (6) and (7) with `reuse` and `B0`."""
    B0 = subject.B + 1
    seen = _recorded(subject, subject.replicas(replicas), ALPHA_G)
    yield from _algebra(subject, seen, "")
    yield _estimates(subject, seen, "", subject.B * (subject.H + 1))
    yield cross_terms(subject, *seen.rounds)
    again = _recorded(subject, FEW, ALPHA_G, True, B0)
    yield from _algebra(subject, again, ", reuse")
    yield _estimates(subject, again, ", reuse and B0", B0 + subject.B * (subject.H - 1))


def _recorded(subject: Subject, replicas: int, *settings: object) -> Recorded:
    watched = recording(subject.sampled, ROUNDS * subject.asked)
    make = lambda eta: subject.make(eta, subject.H, *settings)
    theta = policies(subject)[1]
    return recorded(watched, make, ETA, theta, subject.H, replicas, subject.first_seed, ROUNDS)


def _algebra(subject: Subject, seen: Recorded, name: str) -> Iterator[Row]:
    """What was answered gives every iterate by (6) and the next theta_bar by (7), in the second round as in the first.

    The second holds because the corrections of (6) cancel over the agents: the identity with which the proof of Lemma 1
    begins.
    """
    for t, round in enumerate(seen.rounds):
        when, note = f"{name}, round {t + 1}", f"{len(round.end)} replicas with noise, random theta, eta = {ETA:g}"
        goes = f"theta_(i,l+1) - theta_(i,l) = -eta (g_(i,l) - g_i + g), relative, in round {t + 1}"
        yield claim(f"Eq. (6){when}", goes, _steps(round), EQUAL, note=note, bound=False)
        total = round.answers.sum(axis=2).mean(axis=1)
        move, left = -ALPHA_G * ETA * total, round.end - round.theta_bar
        says = f"theta_bar+ - theta_bar = -(alpha_g eta/N) sum_(i,l) g_(i,l), relative, alpha_g = {ALPHA_G:g}"
        yield claim(f"Eq. (7){when}", says, _relative(left - move, left), EQUAL, note=note, bound=False)


def _steps(round: Replicas) -> float:
    """The largest difference of an iterate from what (6) makes of the one before, and of the first from theta_bar."""
    g = round.first.mean(axis=1, keepdims=True)
    direction = round.answers - (round.first - g)[:, :, None]
    found = np.diff(round.iterates, axis=2)
    begins = round.iterates[:, :, :1] - round.theta_bar[:, None, None]
    wrong = np.concatenate([begins, found + ETA * direction[:, :, :-1]], axis=2)
    return _relative(wrong, ETA * direction)


def _relative(wrong: np.ndarray, size: np.ndarray) -> float:
    return float(np.abs(wrong).max() / (np.abs(size).max() or 1.0))


def _estimates(subject: Subject, seen: Recorded, name: str, trajectories: int) -> Row:
    """Lines 6 and 13: so many trajectories of K steps of each agent in a round, no more and no fewer."""
    wanted = subject.N * subject.K * trajectories
    wrong = max(float(np.abs(steps - wanted).max()) for steps in seen.steps)
    says = f"|environment steps - N K {trajectories}| <= 0 in every round"
    return claim(f"Algorithm 1, estimates{name}", says, wrong, 0.0, note=f"{wanted} steps", bound=False)


def cross_terms(subject: Subject, round: Replicas, later: Replicas) -> Row:
    """T4: E||sum_(i,l) h_(i,l)||^2 is the sum of E||h_(i,l)||^2, since E<h_(j,m), h_(k,n)> = 0 wherever they differ.

    The gradient that was sent is one more such noise of its agent: Algorithm 1 samples anew in line 6, and in each
    round, as all that is said about more rounds than one needs.
    """
    (sent, h), (sent_later, h_later) = _noise(subject, round), _noise(subject, later)
    square = lambda x: np.sum(x**2, axis=-1)
    each = square(h).sum(axis=(1, 2))
    same_agent = square(h.sum(axis=2)).sum(axis=1) - each
    same_step = square(h.sum(axis=1)).sum(axis=1) - each
    found = {
        "steps of one agent": same_agent,
        "agents at one step": same_step,
        "agents at different steps": square(h.sum(axis=(1, 2))) - each - same_agent - same_step,
        "what was sent and the steps after it": np.sum(sent * h.sum(axis=2), axis=(1, 2)),
        "a round and the next": np.sum(sent * sent_later, axis=(1, 2)) + np.sum(h * h_later, axis=(1, 2, 3)),
    }
    values = np.stack(list(found.values()), axis=1) / each.mean()
    says = f"E<h_(j,m), h_(k,n)> = 0, sums relative to sum E||h_(i,l)||^2; {SMALL:g} would matter"
    kept = values[:, (values != 0).any(axis=0)]  # with one agent, or one step, some sums are empty
    row = zero("Lemma 1, T4", says, mean_of(kept), SMALL)
    words = ", ".join(f"{name} {x:.1f}" for name, x in zip(found, mean_of(values).distance, strict=True))
    return replace(row, note=f"in standard errors: {words}")


def _noise(subject: Subject, round: Replicas) -> tuple[np.ndarray, np.ndarray]:
    """What was sent, and what was answered in local steps, less their means where they were asked for."""
    at = np.concatenate([np.repeat(round.theta_bar[:, None, None], subject.N, axis=1), round.iterates], axis=2)
    means = gradients_at(subject.truncated, at)
    return round.first - means[:, :, 0], round.answers - means[:, :, 1:]
