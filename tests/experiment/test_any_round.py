"""A run can be put away after any round, with any algorithm, and goes on from the file to the same bits."""

from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg import ALGORITHMS, Oracle
from fastfedpg.core import Evaluation, Problem
from fastfedpg.experiment import checkpoints
from fastfedpg.runtime import collect, message_sizes, shapes
from stopped_runs import (
    BOTH,
    PROBLEM,
    RUNTIMES,
    SCHEDULE,
    WHO,
    algorithm,
    every_standing,
    problem_for,
    recorded_in,
    schedule_of,
    table_of,
)

pytestmark = pytest.mark.usefixtures("fresh_folder")


@cache
def tracking(impl: str) -> Problem:
    """Each agent is drawn to a point of its own; the oracle keeps a random key, a running mean and a count."""

    def oracle(target) -> Oracle:
        def begin(key):
            bits = jax.random.bits(key, jax.random.key_data(jax.random.key(0, impl=impl)).shape, jnp.uint32)
            return {"key": jax.random.wrap_key_data(bits, impl=impl), "mean": jnp.zeros(3), "n": jnp.int32(0)}

        def sample(theta, own, key, B=None):
            new, used = jax.random.split(own["key"])
            noise = jax.random.normal(used, (3,))
            n = own["n"] + 1
            return noise, {"key": new, "mean": own["mean"] + (theta - own["mean"]) / n, "n": n}

        return Oracle(begin, sample, lambda theta, own, noise: theta - target + noise + own["mean"], lambda batch: 1)

    def evaluate(thetas, seeds=None) -> Evaluation:
        x = np.asarray(thetas).sum(axis=-1)
        return Evaluation(x, x, x**2, np.stack([x, -x, 2 * x], axis=-1))

    return Problem(np.eye(3), np.arange(3, dtype=np.int32), oracle, evaluate, np.zeros(3))


def taken_up(records, problem, method, noted, standing, schedule=SCHEDULE):
    """All records of a run that was put away at a standing and went on from the file."""
    sizes = message_sizes(problem, method, schedule.starts(problem)[0])
    before = [r for r in noted if r.round <= standing.recorded]
    folder = checkpoints.write(Path(), WHO, standing, table_of(collect(before, sizes)), 1.5)
    found = checkpoints.read(folder, WHO, shapes(problem, method, schedule))
    assert found.seconds == 1.5
    assert bits(recorded_in(found.table)) == bits(collect(before, sizes))
    return before + list(records(problem, method, schedule, start=found.standing))


def bits(tree) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(asdict(tree) if hasattr(tree, "metrics") else tree)]


@BOTH
@pytest.mark.parametrize("name", ALGORITHMS)
def test_put_away_after_any_round_it_goes_on_as_if_nothing_had_been(name, runtime):
    records, method = RUNTIMES[runtime], algorithm(name)
    problem, schedule = problem_for(method), schedule_of(method)
    noted, stood = every_standing(records, problem, method, schedule)
    assert [r.round for r in noted] == [0, 3, 6, 7]
    for standing in stood:
        assert bits(taken_up(records, problem, method, noted, standing, schedule)) == bits(noted), standing.round


@BOTH
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_what_an_oracle_keeps_for_itself_is_put_away_with_it(impl, runtime):
    records, problem, method = RUNTIMES[runtime], tracking(impl), algorithm("fedavg_pg")
    noted, stood = every_standing(records, problem, method)
    for standing in stood:
        assert bits(taken_up(records, problem, method, noted, standing)) == bits(noted), standing.round


@BOTH
def test_another_own_would_give_other_numbers(runtime):
    """So the test above says something: from the second round's oracles, the third goes elsewhere."""
    records, problem, method = RUNTIMES[runtime], tracking("rbg"), algorithm("fedavg_pg")
    noted, stood = every_standing(records, problem, method)
    for name in ("key", "mean", "n"):
        wrong = stood[2]._replace(own={**stood[2].own, name: stood[1].own[name]})
        assert bits(list(records(problem, method, SCHEDULE, start=wrong))) != bits(noted[1:]), name


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(("first", "then"), [("simulate", "loop"), ("loop", "simulate")])
def test_one_runtime_goes_on_where_another_stood(name, first, then):
    """Sums are added in another order there, so to rounding only: 1e-9 of numbers of order 1."""
    method = algorithm(name)
    problem, schedule = problem_for(method), schedule_of(method)
    noted, stood = every_standing(RUNTIMES[first], problem, method, schedule)
    for standing in (stood[1], stood[4]):
        went_on = taken_up(RUNTIMES[then], problem, method, noted, standing, schedule)
        for a, b in zip(jax.tree.leaves(went_on), jax.tree.leaves(noted), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


@BOTH
def test_single_precision_is_put_away_as_such(runtime):
    records, method = RUNTIMES[runtime], algorithm("scaffold_pg")
    schedule = replace(schedule_of(method), theta0=np.zeros(6, np.float32))
    noted, stood = every_standing(records, PROBLEM, method, schedule)
    assert noted[-1].theta.dtype == np.float32
    assert bits(taken_up(records, PROBLEM, method, noted, stood[4], schedule)) == bits(noted)
