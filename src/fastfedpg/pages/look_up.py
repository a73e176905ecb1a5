"""What a page asks of a run's configuration, where that can be built here: names, references, what a round costs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fastfedpg.draw.curves import ALONE, COMMON, START
from fastfedpg.errors import text_of
from fastfedpg.experiment import budgets
from fastfedpg.experiment.choices import KINDS
from fastfedpg.experiment.clock import Clock
from fastfedpg.experiment.config import from_toml
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.pages.recorded import Told
from fastfedpg.precision import float64
from fastfedpg.registry import is_own


class Costs(NamedTuple):
    """What a round costs: samples, in a unit, and simulated seconds; NaN where it is not known."""

    samples: float = float("nan")
    unit: str = "environment steps"
    seconds: float = float("nan")


@float64
def planned(told: Told) -> tuple[Plan | None, str]:
    """The plan of a run whose problem is a table or a regulator; or why there is none, if that is to be said."""
    if told.recorded is None or told.recorded.leading == "return_mean":
        return None, ""  # environments are not started for a page
    if any(is_own(str(told.settings[kind] or "")) for kind in KINDS):
        return None, "code of your own is not run for a page, so what only the problem knows is left out"
    try:
        return plan(from_toml(told.folder / "config.toml")), ""
    except Exception as error:  # whatever it is, what was recorded is shown
        return None, f"what only the problem knows is left out: {text_of(error)}"


def costs_of(found: Plan | None, clock: Clock | None) -> Costs:
    """By its plan."""
    if found is None:
        return Costs()
    seconds = float("nan") if clock is None else budgets.seconds(found, clock)
    return Costs(float(budgets.samples(found)), budgets.unit(found), seconds)


@float64
def references(found: Plan | None, runs: Sequence[Told]) -> dict[str, np.ndarray]:
    """What every agent's return (N,) is to be compared with, as far as it is known."""
    starts = [told.recorded.first_returns for told in runs if told.recorded is not None]
    marks: dict[str, np.ndarray] = {}
    if starts and all(np.allclose(start, starts[0]) for start in starts):
        marks[START] = starts[0]
    if found is None or found.known is None or found.here.played:
        return marks
    problem, tau = found.here, found.config.tau
    evaluate = problem.evaluator()
    if problem.shared:
        marks[COMMON] = evaluate(problem.theta_of(problem.optimum(tau).policy)[None]).returns[0]
    own = np.stack([problem.theta_of(best.policy) for best in problem.own_optima(tau)])
    marks[ALONE] = evaluate(own[None]).returns[0]
    return marks


def names(found: Plan | None, number: int) -> list[str]:
    """What the agents are called."""
    known = None if found is None or found.known is None else found.here.agents
    said = [f"agent {i}" for i in range(number)] if known is None else [str(name) for name in known]
    return [name if name == f"agent {i}" else f"{i}: {name}" for i, name in enumerate(said)]


def axes(told: Told, costs: Costs, titles: Mapping[str, str]) -> dict[str, np.ndarray]:
    """What curves can stand over, by the axis's title; `titles` are those of rounds, bytes and seconds."""
    recorded = told.recorded
    assert recorded is not None
    rounds, metrics = recorded.rounds.astype(float), recorded.metrics
    found = {titles["rounds"]: rounds}
    steps = np.nan_to_num(metrics["env_steps"]).mean(axis=0)
    if steps.any():
        found["environment steps, all agents together"] = steps
    elif np.isfinite(costs.samples):
        found[f"{costs.unit}, all agents together"] = rounds * costs.samples
    sent = sum(np.nan_to_num(metrics[name]).mean(axis=0) for name in ("bytes_up", "bytes_down"))
    if np.any(sent):
        found[titles["bytes"]] = np.asarray(sent)
    if np.isfinite(costs.seconds):
        found[titles["seconds"]] = rounds * costs.seconds
    return found
