"""Observations by name: what is in a Dict or a Tuple, nested too, beside Gymnasium's own flattening."""

from collections import OrderedDict
from copy import deepcopy
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as theirs
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import own_envs
from fastfedpg import spaces
from fastfedpg.errors import EnvironmentFailed, InputError
from fastfedpg.experiment.spoken import Spoken
from fastfedpg.gym_workers.adapter import environments
from fastfedpg.gym_workers.flatten import observed, reader

INNER = theirs.Dict({"b": theirs.Box(0, 1, ()), "a": theirs.Discrete(2)})
ROOM = {
    "kind": theirs.MultiDiscrete([2, 3], start=[5, 0]),
    "mode": theirs.Discrete(3, start=-1),
    "doors": theirs.MultiBinary((2, 2)),
    "inner": theirs.Tuple([theirs.Box(-1, 2, (2, 1)), INNER]),
}
SPACE = theirs.Dict(ROOM)
NAMES = ("doors", "inner.0", "inner.1.a", "inner.1.b", "kind", "mode")


class Room(gymnasium.Env):
    """Draws its observations from a space; what it saw last is kept. The reward is the number of its steps."""

    action_space = theirs.Discrete(2)

    def __init__(self, space=SPACE, change=None, render_mode=None):
        self.observation_space, self.change, self.render_mode = deepcopy(space), change, render_mode

    def _seen(self):
        seen = self.observation_space.sample()
        return self.change(seen) if self.change else seen

    def reset(self, seed=None, options=None):
        self.observation_space.seed(seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action):
        self.steps += 1
        return self._seen(), float(self.steps), self.steps >= 3, False, {}


def played(envs, K=4, B=5, **how):
    policy = own_envs.linear(envs.observations.width, 2)
    return envs.play(policy, jnp.int32(0), jnp.zeros(policy.size), jax.random.key(3), B, K, **how)


@pytest.fixture
def make():
    """Environments whose processes are ended with the test."""
    made = []
    yield lambda *given, **more: made.append(environments(*given, **{"workers": 1, **more})) or made[-1]
    for envs in made:
        envs.release()


def test_what_is_inside_stands_side_by_side_one_hot():
    """By hand: doors (4 bits), inner.0 (2 numbers), inner.1.a (2 of one), inner.1.b, kind (2 and 3), mode (3)."""
    bits, unit = [0.0] * 4, [0.0] * 8
    assert observed(SPACE) == spaces.Box((*bits, -1, -1, 0, 0, 0, *unit), (1, 1, 1, 1, 2, 2, 1, 1, 1, *[1.0] * 8))
    seen = {
        "kind": np.array([6, 2]),
        "mode": np.int64(0),
        "doors": np.array([[1, 0], [0, 1]], np.int8),
        "inner": (np.array([[0.5], [1.5]]), {"a": 1, "b": np.array(0.25)}),
    }
    right = [1, 0, 0, 1, 0.5, 1.5, 0, 1, 0.25, 0, 1, 0, 0, 1, 0, 1, 0]
    np.testing.assert_array_equal(reader(SPACE)(seen), right)
    spoken = Spoken(observed(SPACE), spaces.Discrete(2)).like(Room())
    rows, one = spoken.heard(seen)
    assert one
    np.testing.assert_array_equal(rows, [right])
    np.testing.assert_array_equal(spoken.heard(np.array([right, right]))[0], [right, right])
    with pytest.raises(InputError, match=r"has no 'inner\.0'"):
        spoken.heard({**seen, "inner": ()})


def test_it_is_gymnasiums_own_flattening_whatever_was_declared_first():
    """For names in order, as a plain dict has them, the same numbers; an OrderedDict's are put in order."""
    SPACE.seed(1)
    for _ in range(20):
        seen = SPACE.sample()
        np.testing.assert_array_equal(reader(SPACE)(seen), theirs.flatten(SPACE, seen))
    other = theirs.Dict(OrderedDict(reversed(ROOM.items())))
    np.testing.assert_array_equal(reader(other)(seen), reader(SPACE)(seen))
    assert observed(other) == observed(SPACE)
    assert observed(theirs.MultiBinary(3)) == spaces.box(3, 0.0, 1.0)


def test_episodes_are_those_of_the_space(make):
    """Each row that was played is a one-hot vector where it must be, and what the seed's samples are."""
    envs = make([Room])
    assert envs.observations == observed(SPACE)
    seen = np.asarray(played(envs).observations)
    assert seen.shape == (5, 5, 17)
    np.testing.assert_array_equal(seen[..., 6:8].sum(-1), 1)
    start, _ = jax.random.split(jax.random.fold_in(jax.random.key(3), 0))
    hand = Room()
    began = hand.reset(seed=int(jax.random.bits(start, dtype=jnp.uint32) >> 1))[0]
    np.testing.assert_allclose(seen[0, 0], theirs.flatten(SPACE, began), rtol=1e-6)
    np.testing.assert_allclose(seen[0, 1], theirs.flatten(SPACE, hand.step(0)[0]), rtol=1e-6)


@pytest.mark.parametrize("space", [SPACE, theirs.Tuple([theirs.Discrete(4), theirs.Box(0, 1, (2,))])])
def test_vectors_of_them_are_the_same_trajectories(make, space):
    """Also the last observation, which a vector that begins anew in the same step keeps elsewhere."""
    single = make([partial(Room, space)])
    several = make([lambda: SyncVectorEnv([partial(Room, space)] * 5, autoreset_mode=AutoresetMode.SAME_STEP)])
    one, other = played(single), played(several)
    for x, y in zip(one, other, strict=True):
        np.testing.assert_array_equal(x, y)


def test_vectors_of_them_go_on_with_another_episode(make):
    """A room ends after 3 steps; the one that begins in the place of step 3 is looked at, too, and one-hot."""
    several = lambda: SyncVectorEnv([Room] * 5, autoreset_mode=AutoresetMode.NEXT_STEP)
    lanes = played(make([several]), K=6, restart=True)
    np.testing.assert_array_equal(np.asarray(lanes.alive), [[1, 1, 1, 0, 1, 1]] * 5)
    np.testing.assert_array_equal(np.asarray(lanes.observations)[..., 6:8].sum(-1), 1)


def emptied(seen):
    return {k: v for k, v in seen.items() if k != "mode"}


def outside(seen):
    return {**seen, "kind": np.array([5, 3])}


@pytest.mark.parametrize(
    ("change", "words"),
    [(emptied, "has no 'mode', and its space has"), (outside, "'kind' of the observation: .* is not in MultiDiscrete")],
)
def test_what_an_observation_lacks_is_named(make, change, words):
    with pytest.raises(EnvironmentFailed, match=words):
        played(make([partial(Room, SPACE, change)]))


def test_names_must_be_those_of_all_agents(make):
    heat, light = (theirs.Dict({name: theirs.Box(0, 1, (1,))}) for name in ("heat", "light"))
    with pytest.raises(InputError, match="agents 0 and 1 differ: heat, and light; one policy needs the same names"):
        make([partial(Room, heat), partial(Room, light)])
