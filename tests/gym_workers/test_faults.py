"""What an environment returns that can't be played: said with its step, its trajectory and what would be right.

All is played in this process, where warnings are errors: NumPy has nothing to say before we do.
"""

from datetime import datetime
from fractions import Fraction

import numpy as np
import pytest
from gymnasium import spaces as theirs
from gymnasium.vector import AutoresetMode

import own_envs
from fastfedpg.gym_workers.faults import Refused, Wrong, largest
from fastfedpg.gym_workers.flatten import reader, rows
from fastfedpg.gym_workers.lanes import Singles, Vector
from fastfedpg.gym_workers.rollout import play
from own_envs import Crowd, Line

LIMITS = (-np.finfo(float).max, np.finfo(float).max)
DAY = np.datetime64("2020-01-01")


def played(envs, dtype=float, K=4, B=3, limits=LIMITS, restart=False):
    """Arrays, or in words where and why not; nobody moves by more than the environment itself."""
    envs.get_ready(B, first=0)
    walk, beat = own_envs.linear(1, 2), [0, 0]
    shapes = (B, K + 1, 1), (B, K, 1), (B, K), (B, K), (B, K)
    out = [np.zeros(shape, kind) for shape, kind in zip(shapes, (dtype, dtype, dtype, bool, bool), strict=True)]
    policy, noise = (walk.choose, walk.action, 0), np.zeros((B, K, 1), dtype)
    try:
        play(envs, policy, np.zeros(2, dtype), noise, [*range(B)], out, limits, beat, restart)
    except Wrong as why:
        return f"{beat[0]} {beat[1]}: {why}"
    return out


class Changed(Line):
    """A line of which step 2 returns something else."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def step(self, action):
        then = super().step(action)
        return self.change(*then) if self.steps == 3 else then


def singles(change):
    """Three lines, of which the last is another."""
    made = iter([Line, Line, lambda: Changed(change)])
    return Singles(lambda: next(made)())


paying = lambda x: lambda seen, reward, *rest: (seen, x, *rest)
showing = lambda x: lambda seen, *rest: (x, *rest)

REWARDS = [
    (10**400, "the reward is an int beyond the largest float; it must be a number from -1.79769e+308 to 1.79769e+308"),
    (Fraction(10**400), "the reward is a Fraction beyond the largest float"),
    (None, "the reward is None, a NoneType; it must be a number"),
    ("1.0", "the reward is '1.0', a str; it must be a number"),
    (1 + 2j, "the reward is (1+2j), a complex; it must be a number"),
    (np.complex64(1), "the reward is (1+0j), a complex64; it must be a number"),
    (datetime(2020, 1, 1), "the reward is datetime.datetime(2020, 1, 1, 0, 0), a datetime; it must be a number"),
    (DAY, "the reward is datetime.date(2020, 1, 1), a datetime64; it must be a number"),
    (np.array([1.0]), "the reward is array([1.]), a ndarray of float64; it must be a number"),
    (np.array("1", object), "the reward is array('1', dtype=object), a ndarray of object; it must be a number"),
    (np.ma.masked, "the reward is masked, a MaskedConstant of float64; it must be a number"),
]


@pytest.mark.parametrize(("reward", "words"), REWARDS)
def test_rewards_that_are_none(reward, words):
    """Trajectory 2's alone: the others' are numbers."""
    assert played(singles(paying(reward))).startswith(f"2 2: {words}")


OBSERVATIONS = [
    (None, "None, a NoneType"),
    ("ab", "'ab', a str"),
    (["1"], "['1'], a list"),
    ([[1], [1, 2]], "[[1], [1, 2]], a list"),
    ({"a": 1}, "{'a': 1}, a dict"),
    (np.array([None], object), "array([None], dtype=object), a ndarray of object"),
    (np.array([10**400], object), "array([1000000000"),
    (np.array(["1"]), "array(['1'], dtype='<U1'), a ndarray of <U1"),
    (np.array([1 + 2j]), "array([1.+2.j]), a ndarray of complex128"),
    (np.array([DAY]), "array(['2020-01-01'], dtype='datetime64[D]'), a ndarray of datetime64[D]"),
    (np.array([DAY - DAY]), "array([0], dtype='timedelta64[D]'), a ndarray of timedelta64[D]"),
    (np.ma.array([1.0], mask=[True]), "masked_array(data=[--], mask=[ True]"),
]


@pytest.mark.parametrize(("shown", "words"), OBSERVATIONS)
def test_observations_that_are_no_numbers(shown, words):
    said = played(singles(showing(shown)))
    assert said.startswith(f"2 2: the observation is {words}")
    assert said.endswith("; it must be real numbers of shape (1,)")


@pytest.mark.parametrize("shown", ["1", None, 1j, np.complex128(1), DAY])
def test_numbers_of_states_that_are_none(shown):
    with pytest.raises(Wrong, match=r"the observation is .*; it must be real numbers of shape \(\)"):
        reader(theirs.Discrete(3))(shown)
    with pytest.raises(Wrong, match=r"the observation nan is not in Discrete\(3\)"):
        reader(theirs.Discrete(3))(np.nan)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "a NoneType"),
        ((0.0, 1.0, False, {}), "a tuple of 4"),
        ([0.0, 1.0, False, False, {}], "a list"),
    ],
)
def test_steps_of_another_length(returned, words):
    right = "it must return (observation, reward, terminated, truncated, info)"
    assert played(singles(lambda *then: returned)) == f"2 2: step returned {words}; {right}"
    assert played(Vector(Wild(lambda *then: returned))) == f"2 0: step returned {words}; {right}"


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinities_are_told_without_warnings(value, dtype):
    said, narrow = played(singles(showing(np.array([value]))), dtype), " in float32" * (dtype is np.float32)
    assert said == f"2 2: number 0 of the observation is {value}{narrow * int(np.isinf(value))}"
    assert played(singles(paying(value)), dtype) == f"2 2: the reward is {value}"


@pytest.mark.parametrize("sign", [1, -1])
def test_what_float32_can_not_hold(sign):
    """In float64 it is played. FLT_MAX in its usual eight digits is a little too large, and rounded to it."""
    most, large = float("3.4028235e38"), sign * 1e308
    said = f"2 2: the reward {large:g} does not fit float32"
    assert played(singles(paying(large)), np.float32) == said
    assert played(singles(paying(large)))[2][2, 2] == large
    assert played(singles(paying(large)), np.float32, limits=(-1, 9)).endswith("outside reward_range = (-1, 9)")
    assert played(singles(paying(sign * most)), np.float32)[2][2, 2] == sign * np.finfo(np.float32).max
    said = f"2 2: number 0 of the observation is {np.sign(large) * np.inf} in float32"
    assert played(singles(showing(np.array([large]))), np.float32) == said
    assert played(singles(showing(np.array([large]))))[0][2, 3, 0] == large


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_largest_that_is_rounded_to_a_number(dtype):
    most = largest(dtype)
    with np.errstate(over="ignore"):
        assert np.array(most).astype(dtype) == np.finfo(dtype).max
        assert np.isinf(np.array(np.nextafter(most, np.inf)).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "reward", [2, True, np.float16(2), np.int8(2), np.array(2.0), np.longdouble(2), Fraction(5, 2)]
)
def test_what_is_a_number_is_played(reward, dtype):
    assert played(singles(paying(reward)), dtype)[2][2, 2] == float(reward)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shown", [[2.5], (2,), np.array([2]), np.array([True]), np.array([Fraction(5, 2)], object)])
def test_what_are_numbers_is_seen(shown, dtype):
    assert played(singles(showing(shown)), dtype)[0][2, 3, 0] == float(shown[0])


def test_lanes_begin_anew_with_two_things():
    class Once(Line):
        def reset(self, **how):
            began, self.begun = super().reset(**how), getattr(self, "begun", 0) + 1
            return began if self.begun == 1 else None

        def step(self, action):
            return *super().step(action)[:2], True, False, {}

    said = played(Singles(Once), restart=True)
    assert said == "1 0: reset returned a NoneType; it must return (observation, info)"


class Wild(Crowd):
    """Lines side by side of which step 2 or the reset returns something else."""

    def __init__(self, change=None, began=None, mode=AutoresetMode.NEXT_STEP):
        super().__init__(mode)
        self.change, self.began, self.taken = change, began, 0

    def reset(self, **how):
        began = super().reset(**how)
        return self.began(*began) if self.began else began

    def step(self, actions):
        then = super().step(actions)
        self.taken += 1
        return self.change(*then) if self.change and self.taken == 3 else then


ended = lambda x: lambda seen, reward, over, cut, about: (seen, reward, x, cut, about)
cut_short = lambda x: lambda seen, reward, over, cut, about: (seen, reward, over, x, about)
EACH = "; there are 3 environments, so it must be an array (3,)"
VECTORS = [
    (paying(np.ones(2)), 0, "rewards have shape (2,)" + EACH),
    (paying(np.ones(4)), 0, "rewards have shape (4,)" + EACH),
    (paying(np.ones((3, 1))), 0, "rewards have shape (3, 1)" + EACH),
    (paying(1.0), 0, "rewards have shape (): 1.0, a float" + EACH),
    (paying(None), 0, "rewards have shape (): None, a NoneType" + EACH),
    (paying([1, [2, 3], 4]), 0, "rewards have no shape: [1, [2, 3], 4], a list; there are 3 environments"),
    (paying(np.ma.ones(3)), 0, "rewards have shape (3,): masked_array("),
    (paying(np.ones(3) + 1j), 0, "the reward is (1+1j), a complex128; it must be a number"),
    (paying([1.0, None, 3.0]), 1, "the reward is None, a NoneType; it must be a number"),
    (paying([1.0, 2.0, 10**400]), 2, "the reward is an int beyond the largest float"),
    (ended(False), 0, "terminated has shape (): False, a bool" + EACH),
    (ended(np.zeros(1, bool)), 0, "terminated has shape (1,)" + EACH),
    (cut_short(np.zeros(4, bool)), 0, "truncated has shape (4,)" + EACH),
    (cut_short(None), 0, "truncated has shape (): None, a NoneType" + EACH),
    (ended(["no"] * 3), 0, "terminated is 'no', a str_; it must be True or False"),
    (showing(np.zeros((2, 1))), 0, "observations have shape (2, 1); those of 3 environments have (3, 1)"),
    (showing(np.zeros((5, 1))), 0, "observations have shape (5, 1); those of 3 environments have (3, 1)"),
    (showing(np.zeros(4)), 0, "observations have shape (4,); those of 3 environments have (3, 1)"),
    (showing(np.zeros((3, 2))), 0, "an observation has shape (2,); that of its space is (1,)"),
    (showing(None), 0, "the observation is None, a NoneType; it must be real numbers of shape (3, 1)"),
    (showing(np.ones((3, 1)) + 1j), 0, "the observation is array("),
    (showing(np.ma.ones((3, 1))), 0, "the observation is masked_array("),
    (showing(np.array([[DAY]] * 3)), 0, "the observation is array("),
    (showing(np.array([[0.0], [np.inf], [0.0]])), 1, "number 0 of the observation is inf in float32"),
    (
        showing(np.array([[0.0], [1e300], [0.0]])),
        1,
        "number 0 of the observation is inf in float32",
    ),
    (paying(np.array([0, 1e308, 0])), 1, "the reward 1e+308 does not fit float32"),
]


@pytest.mark.parametrize(("change", "trajectory", "words"), VECTORS)
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_what_vectors_return(change, trajectory, words, mode):
    said = played(Vector(Wild(change, mode=mode)), np.float32)
    assert said.startswith(f"2 {trajectory}: {words}")


class Fewer(Wild):
    """Two of the lines end on step 0; on step 2 a row is shown for the third alone."""

    def step(self, actions):
        seen, reward, over, cut, about = super().step(actions)
        over = np.array([self.taken == 1, self.taken == 1, False])
        return seen[2:] if self.taken == 3 else seen, reward, over, cut, about


def test_too_few_observations_for_those_that_still_play():
    said = played(Vector(Fewer()))
    assert said == "2 0: observations have shape (1, 1); those of 3 environments have (3, 1)"


@pytest.mark.parametrize("made", [lambda x: [*x], lambda x: np.array(x, np.float16), lambda x: np.array(x, object)])
def test_vectors_may_pay_in_other_types(made):
    assert played(Vector(Wild(paying(made([1.0, 2.5, 3.0])))))[2][1, 2] == 2.5


RESETS = [
    (lambda seen, about: None, "reset returned a NoneType; it must return (observation, info)"),
    (lambda seen, about: seen, "reset returned a ndarray; it must return (observation, info)"),
    (lambda seen, about: (seen,), "reset returned a tuple of 1; it must return (observation, info)"),
    (lambda seen, about: (seen[:1], about), "observations have shape (1, 1); those of 3 environments have (3, 1)"),
]


@pytest.mark.parametrize(("began", "words"), RESETS)
def test_what_vectors_begin_with(began, words):
    assert played(Vector(Wild(began=began))) == f"-1 0: {words}"


def test_a_last_observation_that_is_not_there():
    ends = lambda seen, reward, over, cut, about: (seen, reward, np.array([False, True, False]), cut, {})
    said = played(Vector(Wild(ends, mode=AutoresetMode.SAME_STEP)))
    assert said == "2 1: info has no final_obs of environment 1; with SameStep it must"


@pytest.mark.parametrize(("mode", "words"), [("nonsense", "'nonsense', a str"), (3, "3, a int")])
def test_modes_that_there_are_not(mode, words):
    env = Crowd(AutoresetMode.NEXT_STEP)
    env.metadata = {"autoreset_mode": mode}
    with pytest.raises(Refused, match=f"autoreset_mode is {words}; it must be one of NextStep, SameStep, Disabled"):
        Vector(env)
    env.metadata = {}
    assert Vector(env).mode == "NextStep"
    env.metadata = {"autoreset_mode": "Disabled"}
    assert Vector(env).mode == "Disabled"


ROOM = theirs.Dict(heat=theirs.Box(0, 1, (1,)), rest=theirs.Tuple([theirs.Discrete(2), theirs.Box(0, 1, (2,))]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heat": np.zeros((4, 1))}, "there are 4 observations, or parts of them, for 3 environments"),
        ({"heat": np.zeros((2, 1))}, "there are 2 observations, or parts of them, for 3 environments"),
        ({"rest": (np.zeros(3), np.zeros((4, 2)))}, "there are 4 observations, or parts of them, for 3 environments"),
        ({"heat": None}, "the observation is None, a NoneType; it must be one for each of 3 environments"),
        ({"rest": (np.zeros(3), np.full((3, 2), "a"))}, "'rest.1' of the observation: the observation is array("),
    ],
)
def test_parts_of_observations_are_for_all(changes, words):
    right, every = {"heat": np.zeros((3, 1)), "rest": (np.zeros(3), np.zeros((3, 2)))}, np.arange(3)
    assert np.shape(rows(ROOM, 3)(right, every)) == (3, 5)
    with pytest.raises(Wrong) as why:
        rows(ROOM, 3)({**right, **changes}, every)
    assert str(why.value).startswith(words)
    with pytest.raises(Wrong, match="the observation has no 'rest', and its space has"):
        rows(ROOM, 3)({"heat": np.zeros((3, 1))}, every)
