"""Whether the cheap rows of a report catch every mutant: each is planted in one small problem, until a row fails."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from fastfedpg import problems
from fastfedpg.columns import Column, lay_out
from fastfedpg.precision import float64
from fastfedpg.verify.claims import estimators, identity
from fastfedpg.verify.mutants import Mutant
from fastfedpg.verify.options import Show
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import FAIL, FAMILY, PASS, Row, decided

NONE = "none: as it is"
SHARED = ("exact", "truncated", "gradients", "_compiled")
"""What no mutant is planted in: computed once."""


class Hunted(NamedTuple):
    """A mutant, and the first row that failed with it in the place of the real one, as there is one."""

    name: str
    caught: Row | None
    usual: Row | None  # the same row of the real one
    level: float

    @property
    def numbers(self) -> tuple[str, str, str]:
        """The row's left side with and without the mutant, and what it may be; for an equality of means, in errors."""
        if self.caught is None or self.usual is None:
            return "", "", ""
        if self.caught.equal:
            assert self.caught.margin is not None
            limit = stdtrit(self.caught.margin.degrees, 1 - self.level / 2)
            return errors(self.caught), errors(self.usual), f"{limit:.1f} errors"
        return f"{self.caught.left:.2g}", f"{self.usual.left:.2g}", f"{self.caught.right:.2g}"


def errors(row: Row) -> str:
    """How many standard errors the farthest of its means is from zero."""
    assert row.margin is not None
    return f"{np.abs(row.margin.distance).max():.1f} errors"


def small(first_seed: int = 0) -> Subject:
    """Four agents, two states, two actions, and short games: all rows about one round in seconds."""
    known = problems.random(agents=4, S=2, A=2, gamma=0.5)
    return Subject(known, tau=0.1, H=3, K=4, B=2, name="random, 2 states", first_seed=first_seed)


def planted(subject: Subject, mutant: Mutant) -> Subject:
    """The subject with a mutant in it."""
    other = replace(subject, make=mutant.make, ask=mutant.ask)
    vars(other).update({name: getattr(subject, name) for name in SHARED})
    return other


def cheap(subject: Subject, estimator: bool = False) -> Iterator[Row]:
    """The rows that a mutant is hunted with, those about estimators first or last."""
    kinds = (lambda: identity.rows(subject), lambda: estimators.rows(subject))
    for rows in kinds[::-1] if estimator else kinds:
        yield from rows()


def first_failure(subject: Subject, estimator: bool, among: int) -> Row | None:
    """The first of the cheap rows that fails as one `among` so many comparisons; those after it are not computed."""
    verdicts = (decided([row], among)[0] for row in cheap(subject, estimator))
    return next((row for row in verdicts if row.verdict == FAIL), None)


@float64
def hunt(
    subject: Subject, mutants: Sequence[Mutant], show: Show = lambda k, title: None
) -> tuple[list[Row], list[Hunted]]:
    """The rows of the real one, all decided together, and what became of each mutant at the same level."""
    show(0, NONE)
    usual = decided(cheap(subject))
    among = max(1, sum(row.comparisons for row in usual))
    found = []
    for k, mutant in enumerate(mutants):
        show(k + 1, mutant.name)
        caught = first_failure(planted(subject, mutant), mutant.estimator, among)
        same = next((row for row in usual if caught is not None and row.claim == caught.claim), None)
        found.append(Hunted(mutant.name, caught, same, FAMILY / among))
    return usual, found


def table(found: Sequence[Hunted], width: int) -> list[str]:
    """For people: each mutant, the row that catches it, and that row's number with it, without it, and at most."""
    cells = [(x.name, x.caught.claim if x.caught is not None else "nothing: missed", *x.numbers) for x in found]
    heads = ("mutant", "caught by", "with it", "without", "at most")
    columns = zip(heads, zip(*cells, strict=True), strict=True)
    return lay_out([Column(head, list(each), right=head not in heads[:2]) for head, each in columns], width)


def good(usual: Sequence[Row], found: Sequence[Hunted]) -> bool:
    """Whether every mutant was caught, and nothing fails without one."""
    return all(row.verdict != FAIL for row in usual) and all(x.caught is not None for x in found)


def summary(usual: Sequence[Row], found: Sequence[Hunted]) -> str:
    """How many were caught, and whether the rows let the real one pass."""
    caught = sum(x.caught is not None for x in found)
    kept = sum(row.verdict == PASS for row in usual)
    return f"{caught} of {len(found)} mutants caught; without any, {kept} of {len(usual)} rows pass"
