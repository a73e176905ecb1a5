"""What a run has beside its algorithm is put away with it: what oracles keep, and theta's own precision.

Every algorithm, after any round, is in `tests/algorithms/test_conformance.py`, whose programs are compiled anyway.
"""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg import Oracle
from fastfedpg.core import Evaluation, Problem
from stopped_runs import BOTH, PROBLEM, RUNTIMES, SCHEDULE, algorithm, bits, every_standing, schedule_of, taken_up

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


@BOTH
def test_single_precision_is_put_away_as_such(runtime):
    records, method = RUNTIMES[runtime], algorithm("scaffold_pg")
    schedule = replace(schedule_of(method), theta0=np.zeros(6, np.float32))
    noted, stood = every_standing(records, PROBLEM, method, schedule)
    assert noted[-1].theta.dtype == np.float32
    assert bits(taken_up(records, PROBLEM, method, noted, stood[4], schedule)) == bits(noted)
