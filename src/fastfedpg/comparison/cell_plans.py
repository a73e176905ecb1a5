"""The plans of a comparison's cells: each built once, with the rounds that the budget pays for, and tuned."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.comparison import table, tuning
from fastfedpg.comparison.spec import Comparison
from fastfedpg.draw.sensitivity import Tried
from fastfedpg.errors import InputError, unknown
from fastfedpg.experiment import budgets
from fastfedpg.experiment import finished_run as outcomes
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.finished_run import Outcome
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.experiment.progress import Show

SHARED = (
    "agents",
    "reward_range",
    "tau",
    "normalise",
    "context",
    "evaluation_episodes",
    "evaluate_by",
    "dtype",
    "seeds",
    "first_seed",
    "theta0",
    "parameters",
)
"""Settings of the run that a built problem depends on."""

FIXED = ("problem", "algorithm", "eta", "rounds", *SHARED)
"""What is not tried when tuning: who would be compared, on what and on which seeds, and what is tuned anyway."""


def plan_cells(comparison: Comparison) -> dict[str, Plan]:
    """Every method's plan; what they have in common, problem, oracle and start, is built once."""
    plans: dict[str, Plan] = {}
    for label in comparison.labels:
        config = comparison.config(label)
        like = next((p for p in plans.values() if _same_problem(p.config, config)), None)
        try:
            plans[label] = plan(config, like)
        except InputError as error:
            others = (comparison.config(other) for other in comparison.labels if other != label)
            if like is None and all(_refusal(config) == str(error) for config in others):
                raise  # it is about what all have in common
            raise InputError(f"{label}: {error}") from None
    built = {id(p.problem): label for label, p in plans.items()}  # those that were built for themselves
    outcomes.check_same_problem([Path(label) for label in built.values()], [plans[label] for label in built.values()])
    return plans


def _refusal(config: Config) -> str:
    """Why a method can't be planned, in words; none if it can be."""
    try:
        planned = plan(config)
    except InputError as error:
        return str(error)
    if planned.problem.release is not None:
        planned.problem.release()
    return ""


def _same_problem(one: Config, other: Config) -> bool:
    """Whether two methods can share a problem with its oracle, policy and start."""
    pick = lambda c: {
        k: v for k, v in c.flat().items() if k in SHARED or k.split(".")[0] in ("problem", "oracle", "policy")
    }
    return one.schedule is None and other.schedule is None and pick(one) == pick(other)


def give_rounds(comparison: Comparison, plans: dict[str, Plan], note: Note) -> dict[str, Plan]:
    """The plans with the rounds that the budget pays for."""
    names, budget, asked = list(plans), comparison.budget, comparison.settings.rounds
    if budget in ("samples", budgets.CLOCK) and len(units := {budgets.unit(p): name for name, p in plans.items()}) > 1:
        said = " and ".join(f"{name} in {unit}" for unit, name in units.items())
        raise InputError(f"samples are counted for {said}: they have no budget in common; take --budget rounds")
    clock = comparison.time
    costs = [budgets.cost(p, budget, clock) for p in plans.values()]
    given = budgets.rounds(names, costs, asked, budget)
    spent = [n * c for n, c in zip(given, costs, strict=True)]
    unit = budgets.unit(plans[names[0]]) if budget == "samples" else budget
    told = lambda x, named=True: budgets.amount(x, unit, named)
    nothing = "time" if budget == budgets.CLOCK else unit
    for name in comparison.without_eta:
        note(f"{name} was given no eta, and has {comparison.common_eta:g}")
    if given[0] != asked:
        note(f"{names[0]} has {given[0]} rounds instead of {asked}, so that all stop at {told(spent[0])}")
    for name, n, s in zip(names, given, spent, strict=True):
        if s == 0 and budget != "rounds":
            note(f"{name} spends no {nothing}: it has as many rounds as {names[0]}, {n}")
        elif told(s) != told(spent[0]) and not comparison.tune_over:  # what is tuned over decides what a round costs
            note(f"{name} stops at {told(s, False)} of {told(spent[0])}, its last whole round within the budget")
    no_effect = [{words.split(":")[0] for words in p.notes if "has no effect" in words} for p in plans.values()]
    for words in sorted(set.intersection(*no_effect)):
        note(f"{words}: no method here uses it")
    for words in dict.fromkeys(words for p in plans.values() for words in p.notes if "has no effect" not in words):
        note(words)
    return {name: plans[name].for_rounds(n) for name, n in zip(names, given, strict=True)}


def check_tuning(comparison: Comparison, plans: dict[str, Plan]) -> None:
    """Refuse what can't be tuned, before anything is run."""
    for label, planned in plans.items():
        if "eta" not in planned.config.choice("algorithm").args:
            raise InputError(f"method '{label}' has no eta that could be tuned; leave it, or --tune, out")
    every = {name for planned in plans.values() for name in planned.config.flat_names()}
    names = sorted(every - {*FIXED} - {name for p in plans.values() for name in p.config.choice("problem").args})
    for name, values in comparison.tune_over.items():
        if name not in names:
            raise unknown("setting in tune_over", name, names)
        if not values:
            raise InputError(f"tune_over: {name} has no values; say which to try, as in H = [5, 10]")
    for label, planned in plans.items():
        for name, variant in _variants(label, planned, comparison.tune_over).items():
            if budgets.unit(variant) != budgets.unit(planned):
                raise InputError(
                    f"tune_over: {name} counts {budgets.unit(variant)}, and {label} does not; leave it out"
                )


class TunedCell(NamedTuple):
    """A method at the settings that were best for it, and all step sizes that were tried with the others of them."""

    plan: Plan
    trials: list[tuning.Trial]


def tune_cells(
    comparison: Comparison, plans: dict[str, Plan], file: Path, show: Show, note: Note, ended: bool = False
) -> dict[str, TunedCell]:
    """Every method at the settings that were best for it, of candidates that are the same for all.

    Where all runs have `ended`, what was tried for them stands.
    """
    first, asked = next(iter(plans.values())), comparison.settings.rounds
    tried = {label: _variants(label, planned, comparison.tune_over) for label, planned in plans.items()}
    every = {name: planned for variants in tried.values() for name, planned in variants.items()}
    if comparison.tune_over:  # a round of a variant may cost more or less than the method's own
        costs = [budgets.cost(p, comparison.budget, comparison.time) for p in (first, *every.values())]
        rounds = budgets.rounds([next(iter(plans)), *every], costs, asked, comparison.budget)[1:]
        every = {name: p.for_rounds(n) for (name, p), n in zip(every.items(), rounds, strict=True)}
    seeds, trials = comparison.tune_seeds, list[tuning.Trial]()
    if seeds < tuning.ENOUGH and any(table.has_noise(planned) for planned in plans.values()):
        few = f"{seeds} seed{'s' * (seeds > 1)}"
        note(f"step sizes are chosen on {few}, so partly by luck; take --tune-seeds {tuning.ENOUGH} or more")
    best = tuning.tune(every, comparison.common_eta, comparison.candidates, seeds, file, show, note, trials, ended)
    found = {}
    for label, variants in tried.items():
        name = min(variants, key=lambda name: math.inf if math.isnan(best[name].J) else best[name].J)
        found[label] = TunedCell(every[name].at_eta(best[name].eta), [t for t in trials if t.algorithm == name])
        if name != label:
            note(f"{label}: {name.removeprefix(label).lstrip(',')} was best, with eta = {best[name].eta:g}")
    return found


def _variants(label: str, planned: Plan, over: dict[str, tuple[Any, ...]]) -> dict[str, Plan]:
    """A method with each combination of what is tried, of the settings that it has."""
    mine = {name: values for name, values in over.items() if name in planned.config.flat_names()}
    found = {}
    for values in product(*mine.values()):
        changes = dict(zip(mine, values, strict=True))
        config = planned.config.but(**changes)
        name = ",".join([label, *(f"{k}={v}" for k, v in changes.items())])
        found[name] = plan(config, planned if _same_problem(planned.config, config) else None) if changes else planned
    return found


def tried_of(tuned: Mapping[str, TunedCell], found: Sequence[Outcome]) -> dict[str, Tried]:
    """What was tried for each method; an older version kept the mean of J alone, from which J* is taken off."""
    J, gap = (np.concatenate([o.result.metrics[name].ravel() for o in found]) for name in ("J", "gap"))
    known = np.isfinite(J - gap)
    best = float((J - gap)[known][0]) if known.any() else 0.0
    tried = {}
    for label, (planned, trials) in tuned.items():
        trials = sorted(trials, key=lambda t: t.eta)
        seeds = max(len(t.values) for t in trials) or 1
        rows = [t.values or (t.J - best,) * seeds for t in trials]
        tried[label] = Tried(np.array([t.eta for t in trials]), np.array(rows), planned.config.eta)
    return tried
