"""Who may control the offices: rules that managers would name, the best of many rules, policies that runs learned."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import fastfedpg as ff
from fastfedpg.envs.catalogue.office_rules import Control, fixed, optimal_start, played, programmed, setback
from fastfedpg.envs.catalogue.office_years import Costs, Make, grid, search, years
from fastfedpg.envs.catalogue.offices import MIDDLE, OWN, THERMOMETER, Office
from fastfedpg.experiment import results
from fastfedpg.policies.informed import informed

GRID = grid(
    night=(14.0, 16.0),
    hours=(0.0, 2.0, 4.0, 6.0, 8.0, 10.0),
    per_degree=(0.0, 0.5, 1.0),
    low=(-0.25, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0),
    high=(-0.25, 0.0, 0.5, 1.0, 2.0, 3.0),
)
FIRST_TRIED = 1000
"""Weather years in which rules are looked for start here; they are judged in those from 0 on."""


class Contender(NamedTuple):
    """Somebody who controls all offices."""

    name: str
    kind: str  # "rule", "searched" or "learned"
    make: Make
    own: tuple[Any, ...]  # one for each seed: a pytree of arrays with leading axis N, or None
    offices: Office


class Judged(NamedTuple):
    """What a contender's years came to, in the mean over the offices: arrays (seeds, years)."""

    contender: Contender
    costs: Costs


class Told:
    """Progress on stderr, a line every few seconds."""

    def __init__(self, what: str, of: int) -> None:
        self.what, self.of, self.done, self.last = what, of, 0, time.monotonic()

    def __call__(self) -> None:
        """One more is done."""
        self.done += 1
        if time.monotonic() - self.last > 3:
            self.last = time.monotonic()
            print(f"{self.what}: {self.done} of {self.of}", file=sys.stderr, flush=True)


def weather_years(judged: int, searched: int) -> tuple[range, range]:
    """The years in which contenders are judged, and others in which rules are looked for."""
    for what, count in (("years", judged), ("search_years", searched)):
        if not 1 <= count <= FIRST_TRIED:
            raise ff.InputError(f"{what} = {count}; it must lie in [1, {FIRST_TRIED}]")
    return range(judged), range(FIRST_TRIED, FIRST_TRIED + searched)


def rules(offices: Office) -> list[Contender]:
    """Those that nobody has to search for."""
    makes: dict[str, Make] = {
        "fixed setting": lambda office, _: fixed(office.preferred),
        "night setback": lambda office, _: setback(office.preferred),
        "optimal start": lambda office, _: optimal_start(office.preferred),
    }
    return [Contender(name, "rule", make, (None,), offices) for name, make in makes.items()]


def searched(offices: Office, seeds: Sequence[int]) -> list[Contender]:
    """The best of all rules in GRID, in these weather years: one for all offices, and one for each."""
    N, G, at_once = len(offices.preferred), len(GRID.night), 126
    told = Told(f"searching {G} rules", 2 * -(-G // at_once) * len(seeds))
    known, blind = (search(offices, GRID, seeds, where, at_once, told) for where in (None, MIDDLE))
    chosen = lambda i: jax.tree.map(lambda x: np.broadcast_to(x[i], (N,)), GRID)
    knows: Make = lambda office, programme: programmed(office.preferred, programme)
    guesses: Make = lambda office, programme: programmed(MIDDLE, programme)
    found = [
        Contender("best rule without wishes", "searched", guesses, (chosen(blind.mean(axis=1).argmin()),), offices),
        Contender("best common rule", "searched", knows, (chosen(known.mean(axis=1).argmin()),), offices),
        Contender("best personal rule", "searched", knows, (chosen(known.argmin(axis=0)),), offices),
    ]
    for contender in found[:2]:
        words = ", ".join(f"{name} {value[0]:g}" for name, value in contender.own[0]._asdict().items())
        print(f"{contender.name}: {words}", file=sys.stderr)
    return found


def asked_for(words: str, noisy: bool = False) -> Contender:
    """What a run has learned, by FOLDER or NAME=FOLDER."""
    name, _, folder = words.rpartition("=")
    return learned(name or Path(folder).name, Path(folder), noisy)


def learned(name: str, folder: Path, noisy: bool = False) -> Contender:
    """What a run on `offices` has learned: a policy for each of its seeds, or for each of them and each office."""
    loaded = ff.load(folder, agent=0)
    envs = loaded.planned.here.as_environments()
    offices = None if envs is None else envs.tasks if envs.context is None else envs.tasks[0]
    if envs is None or not isinstance(offices, Office):
        raise ff.InputError(f"{folder}: a run on {loaded.planned.name}; here runs on offices are judged")
    policy = loaded.policy if envs.shown is None else informed(loaded.policy, envs.shown, envs.context.shape[1])
    rows = np.zeros((envs.N, 0)) if envs.context is None else envs.context
    thetas = results.read(folder / results.FILE).result.theta
    own = tuple(np.hstack([np.broadcast_to(theta, (envs.N, theta.shape[-1])), rows]) for theta in thetas)
    degrees = OWN if loaded.planned.config.choice("problem").args["own_degrees"] else THERMOMETER

    def make(office: Office, theta: Any) -> Control:
        rule = played(policy, theta, not noisy)
        return lambda o, key: degrees.meant(office, rule(degrees.shown(office, o), key))

    return Contender(name, "learned", make, own, offices)


def with_best(contenders: Sequence[Contender], seeds: Sequence[int]) -> list[Contender]:
    """All of them and, of each that has several training seeds, the best in these weather years."""
    return [*contenders, *(chosen(contender, seeds) for contender in contenders if len(contender.own) > 1)]


def chosen(contender: Contender, seeds: Sequence[int]) -> Contender:
    """Of a run's policies, one a training seed, that which costs least in these weather years: as rules are chosen."""
    told = Told("choosing a seed, years", len(contender.own) * len(seeds))
    totals = [years(contender.make, contender.offices, own, seeds, told).total.mean() for own in contender.own]
    best = int(np.argmin(totals))
    print(f"{contender.name}: chosen is seed {best + 1} of {len(totals)}", file=sys.stderr)
    return contender._replace(name=f"best of {len(totals)}: {contender.name}", own=(contender.own[best],))


def same_offices(contenders: Sequence[Contender]) -> Office:
    """The offices that all runs are about."""
    first = contenders[0]
    for other in contenders[1:]:
        ours, theirs = (jax.tree.leaves(x.offices) for x in (first, other))
        if any(np.shape(a) != np.shape(b) or not np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True)):
            raise ff.InputError(
                f"{first.name} and {other.name} have other offices: agents, least, most and spread must be the same"
            )
    return first.offices


def judged(contenders: Sequence[Contender], seeds: Sequence[int]) -> list[Judged]:
    """Everybody in the same weather years."""
    told = Told("judging, years", sum(len(c.own) for c in contenders) * len(seeds))
    one: Callable[[Contender, Any], Costs] = lambda c, own: years(c.make, c.offices, own, seeds, told)
    mean = lambda *costs: np.stack([np.asarray(x).mean(axis=-1) for x in costs])
    return [Judged(c, jax.tree.map(mean, *[one(c, own) for own in c.own])) for c in contenders]
