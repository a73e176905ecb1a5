"""One problem protocol: every kind answers it, refuses in words what it can't answer, and nobody asks its type."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

from fastfedpg import InputError
from fastfedpg.problems import PROBLEMS, AnyProblem, make
from fastfedpg.problems.base import KINDS

SOURCE = Path(__file__).parents[2] / "src" / "fastfedpg"
TABLE, REGULATOR, PLAYED = make("compromise"), make("lqr"), make("point-mass")
# Whose simulator starts in processes of its own.
SLOW = ("half-cheetah-vel", "half-cheetah-dir", "walker2d-vel", "ant-dir")


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in SLOW])
def test_every_problem_of_the_catalogue_answers_the_protocol(name):
    problem = make(name)
    assert isinstance(problem, AnyProblem)
    assert isinstance(problem, KINDS)
    assert len(problem.agents) == problem.N
    alone = problem.only(problem.N - 1)
    assert isinstance(alone, AnyProblem)
    assert (alone.N, alone.agents) == (1, problem.agents[-1:])
    assert problem.played == (not problem.theta_shape) == (problem.horizon is not None)
    assert bool(problem.no_picture) == (problem.as_table() is None)


def test_only_a_type_that_is_asked_for_is_asked_for():
    """A user's function is asked what it has returned, and claims about regulators are about regulators."""
    names = "TabularProblem|LQRProblem|Environments|KnownProblem|AnyProblem|KINDS"
    asks = re.compile(rf"isinstance\([^()]*\b(?:{names})\b")
    found = {f.relative_to(SOURCE).as_posix() for f in SOURCE.rglob("*.py") if asks.search(f.read_text())}
    assert found == {"problems/by_name.py", "verify/agenda.py"}


@pytest.mark.parametrize(
    "what", ["optimum", "own_optima", "lower_bound", "evaluator", "gradients", "gap", "undominated"]
)
def test_what_is_only_played_has_no_numbers(what):
    with pytest.raises(InputError, match=r"^problem 'point-mass' can only be played: its numbers are not known$"):
        getattr(PLAYED, what)(0.0)


def test_what_is_only_played_refuses_oracles_and_files(tmp_path):
    with pytest.raises(InputError, match=r"^point-mass can only be played; with_policy"):
        PLAYED.with_oracle("exact", 0.0, {})
    with pytest.raises(InputError, match=r"^problem 'point-mass' can only be played: there are no arrays to save$"):
        PLAYED.save(tmp_path / "x.npz")
    with pytest.raises(InputError, match="its numbers are not known"):
        PLAYED.theta_of(np.zeros(2))
    assert list(tmp_path.iterdir()) == []


def test_a_kind_that_has_no_answer_says_none():
    assert [p.smoothness() is None for p in (TABLE, REGULATOR, PLAYED)] == [False, True, True]
    assert [p.as_table() for p in (TABLE, REGULATOR, PLAYED)] == [TABLE, None, None]
    assert REGULATOR.as_environments() is None
    assert PLAYED.as_environments() is PLAYED
    assert PLAYED.facts() == {}


def test_a_table_that_is_played_saves_its_arrays(tmp_path):
    """It is made of them, and a run from a file must be able to copy them."""
    played = TABLE.as_environments()
    assert played.played
    played.save(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as file:
        np.testing.assert_array_equal(file["reward"], TABLE.reward)


@pytest.mark.parametrize("problem", [TABLE, REGULATOR, make("windy-cliff", {"n": 3})], ids=lambda p: p.name)
def test_the_gap_is_zero_at_the_bound_and_the_gradients_are_those_of_the_evaluator(problem):
    """J - J* at a best policy is 0 to rounding; ||mean g_i||^2, in the user's units, is the evaluator's."""
    theta = np.zeros(int(np.prod(problem.theta_shape))) if problem is not REGULATOR else problem.F0.reshape(-1)
    found = problem.evaluator()(theta[None])
    g = np.asarray(jax.jit(problem.gradients())(theta)).mean(axis=0)
    gap = jax.jit(problem.gap())
    assert problem.scale**2 * float(g @ g) == pytest.approx(float(found.grad_norm_sq[0]), rel=1e-9)
    J = problem.lower_bound() + float(gap(theta))
    assert problem.scale * J == pytest.approx(float(found.J[0]), rel=1e-9)
    if problem.shared:
        best = problem.theta_of(problem.optimum().policy)
        assert float(gap(best)) == pytest.approx(0, abs=1e-9)
        assert float(gap(theta)) > 1e-3
