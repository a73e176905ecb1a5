"""The paper's statements about others, one by one, and the parts of the work that measure each."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fastfedpg import problems
from fastfedpg.verify.agenda import Part
from fastfedpg.verify.claims.floors import Effort
from fastfedpg.verify.effects import LONG, QUICK
from fastfedpg.verify.others import averaging, crowds, jin, momentum
from fastfedpg.verify.others.methods import METHODS, Methods
from fastfedpg.verify.others.stops import Exact
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Row


class Statement(NamedTuple):
    """A sentence of the paper, shortened, and where it stands; some are about proofs, which no run can contradict."""

    title: str
    says: str
    where: str
    about: str = "methods"


AVERAGING = Statement(
    "1 Model averaging is biased",
    "local steps with plain averaging drift to the agents' own optima; the correction of Eq. (6) keeps them at theta*",
    "section 3, Local policy gradient steps",
)
NEGATED = Statement(
    "2 A bias negates what collaboration gains",
    "an additive bias term negates potential statistical gains from collaboration",
    "section 1, first paragraph",
)
JIN = Statement(
    "3 Jin et al.: PAvg and QAvg are biased",
    "rates with a non-vanishing bias term by heterogeneity",
    "section 1, first paragraph; section 4, after Theorem 2",
)
ZENG = Statement(
    "4 Zeng et al.: no linear speed-up (proofs)",
    "results that exhibit no linear speed-up, no provable benefit of collaboration",
    "section 1, Our model; section 4, after Theorem 2",
    "proofs",
)
BAI = Statement(
    "5 Bai and Doan: no linear speed-up (proofs)",
    "no linear speed-up is established",
    "section 1, Concurrent work",
    "proofs",
)
SPEED = Statement(
    "6 Momentum is not needed for the speed-up",
    "momentum is not needed to achieve a linear speed-up; Wang et al. establish one with it",
    "section 1, Concurrent work",
)
DEBIAS = Statement(
    "7 Momentum is not needed against the bias",
    "momentum is not needed to eliminate the effect of a bias by heterogeneity",
    "section 1, Concurrent work",
)
WANG = Statement(
    "8 Wang et al.: no bias (proofs, eta -> 0)",
    "FedSVRPG-M has no bias term by heterogeneity",
    "section 1, Concurrent work",
    "proofs",
)
SIMILAR = Statement(
    "9 Corrections like Eq. (6): fast in RL? (proofs)",
    "of similar strategies (FedLin, SCAFFOLD) it is unclear a priori whether they yield fast rates in RL",
    "section 3, De-biasing",
    "proofs",
)
STATEMENTS = (AVERAGING, NEGATED, JIN, ZENG, BAI, SPEED, DEBIAS, WANG, SIMILAR)


class Sizes(NamedTuple):
    """How much is run, and from which seed on."""

    crowds: Effort
    instances: int
    first_seed: int


FULL = Sizes(LONG.sweeps._replace(seeds=32, relaxations=24, times=(1, 4, 16)), instances=64, first_seed=44_000)
SMALL = Sizes(QUICK.sweeps._replace(seeds=16, relaxations=8, times=(1, 16)), instances=8, first_seed=0)
"""Of --quick: other seeds, so that those of the report stay unseen."""


def sizes(quick: bool) -> Sizes:
    """How much is run, in full or quickly."""
    return SMALL if quick else FULL


def parts(quick: bool = False, methods: Methods = METHODS) -> list[Part]:
    """All of the work; what is exact is done on two problems, or with `quick` on one."""
    effort, instances, seed = sizes(quick)
    more = effort._replace(seeds=2 * effort.seeds)  # where a game is one step long
    mild = Subject(problems.random(agents=4, S=5, A=3, gamma=0.5), 0.2, 5, 17, 4, "random", seed)
    torn = Subject(problems.compromise(agents=4, mid=0.5, gamma=0.0), 0.1, 8, 1, 64, "compromise", seed)
    found: list[Part] = []
    for subject in [replace(mild, H=8), torn][: 1 if quick else 2]:
        found += without_noise(Exact(subject, methods))
    for kernels, where in ((True, "own kernels"), (False, "own rewards")):
        work = lambda kernels=kernels: jin.rows(kernels, instances, seed, methods)
        found.append(_part(JIN, where, work))
    return [
        *found,
        _part(NEGATED, torn.name, lambda: crowds.negated(torn, more, methods)),
        _part(SPEED, mild.name, lambda: crowds.momentum(mild, effort, methods)),
        _part(ZENG, mild.name, lambda: crowds.neighbours(mild, effort, methods)),
        _part(BAI, mild.name, lambda: crowds.one_by_one(mild, effort, methods)),
    ]


def without_noise(exact: Exact) -> list[Part]:
    """What is exact, on one problem."""
    each: list[tuple[Statement, Callable[[Exact], list[Row]]]] = [
        (AVERAGING, averaging.model_averaging),
        (DEBIAS, momentum.needless),
        (WANG, momentum.vanishing),
        (SIMILAR, averaging.similar),
    ]
    return [_part(statement, exact.subject.name, partial(rows, exact)) for statement, rows in each]


def _part(statement: Statement, where: str, rows: Callable[[], list[Row]]) -> Part:
    def work() -> tuple[list[Row], dict[str, Any]]:
        return [replace(row, problem=statement.title) for row in rows()], {}

    return Part(f"{statement.title}: {where}", work)
