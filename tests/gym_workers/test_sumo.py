"""Traffic lights: rewards are sumo-rl's own, weighed; agents of one process do not disturb each other."""

import importlib
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import own_envs
from fastfedpg import problems
from fastfedpg.errors import InputError
from fastfedpg.gym_workers import traffic

KEY = jax.random.key(5)


@pytest.fixture
def sumo():
    """The simulator, which is too large for every developer to have."""
    absent = [name for name in ("libsumo", "sumo_rl") if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"{' and '.join(absent)} not installed: pip install 'fastfedpg[sumo]'")


def test_rewards_are_those_of_the_simulator(sumo):
    """Each wish alone, two of them weighed, and the first again after the others have used the same process."""
    weights = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0.5, 0, 2, 0]]
    envs = problems.make("sumo:cologne1", {"weights": weights, "workers": 1})
    assert envs.agents == ("waiting", "speed", "queue", "pressure", "0.5 waiting + 2 queue")
    assert envs.horizon == 720
    policy = own_envs.linear(envs.observations.width, envs.actions.n)
    play = lambda i: envs.play(policy, jnp.int32(i), jnp.zeros(policy.size), KEY, 2, 40)
    waiting, speed, queue, pressure, both, again = [play(i) for i in (0, 1, 2, 3, 4, 0)]
    envs.release()
    for other in (speed, queue, pressure, both, again):
        np.testing.assert_array_equal(waiting.observations, other.observations)
    np.testing.assert_array_equal(waiting.rewards, again.rewards)
    np.testing.assert_allclose(both.rewards, 0.5 * waiting.rewards + 2 * queue.rewards, rtol=1e-12)
    assert waiting.alive.all()
    assert (waiting.observations[0] != waiting.observations[1]).any()
    assert (speed.rewards > 0).all()
    assert (speed.rewards <= 1).all()
    env = traffic.made("cologne1", (0.0, 0.0, 1.0, 0.0), {})
    key = jax.random.split(jax.random.fold_in(KEY, 0))[0]
    env.reset(seed=[int(jax.random.bits(key, dtype=jnp.uint32) >> 1)])
    light = next(iter(env.envs[0].unwrapped.traffic_signals.values()))
    for k in range(40):
        env.step(np.asarray(queue.choices[0, k], int))
        standing = sum(light.sumo.lane.getLastStepHaltingNumber(lane) for lane in light.lanes)
        assert queue.rewards[0, k] == -standing
        leaving = sum(light.sumo.lane.getLastStepVehicleNumber(lane) for lane in light.out_lanes)
        coming = sum(light.sumo.lane.getLastStepVehicleNumber(lane) for lane in light.lanes)
        assert pressure.rewards[0, k] == leaving - coming
    env.close()
    assert queue.rewards.min() < 0


def test_agents_have_wishes_in_turn(sumo):
    envs = problems.make("sumo:ingolstadt1", {"workers": 1}, 5)
    assert envs.agents == ("waiting", "speed", "queue", "pressure", "waiting")
    assert problems.make("sumo:ingolstadt1", {"workers": 1}).N == 4


def test_mistakes_are_told(monkeypatch):
    with pytest.raises(
        InputError, match="unknown net of RESCO with one intersection 'cologne3'; did you mean 'cologne1'"
    ):
        problems.make("sumo:cologne3")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"sumo:cologne1 needs libsumo and sumo_rl: pip install 'fastfedpg\[sumo\]'"):
        problems.make("sumo:cologne1")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    with pytest.raises(InputError, match=r"agent 0 are \[1.0, 0.0\]; they must be 4"):
        problems.make("sumo:cologne1", {"weights": "[[1, 0]]"})
    with pytest.raises(InputError, match=r"agents = 1000000000000.*take fewer"):
        problems.make("sumo:cologne1", agents=10**12)
