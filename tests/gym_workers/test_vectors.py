"""Vector environments with one generator for all: built-in ones, which ids are played in, and those of factories."""

import signal
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode

import fastfedpg
import own_envs
from fastfedpg import Config, problems
from fastfedpg.errors import EnvironmentFailed, InputError
from fastfedpg.experiment import Interrupted
from fastfedpg.gym_workers import adapter, make_env
from fastfedpg.gym_workers.adapter import environments
from fastfedpg.gym_workers.shared_memory import ANY, part
from stopped_runs import numbers

KEY = jax.random.key(3)
CART, BALANCE = own_envs.linear(4, 2), jnp.array([0, 0, 0, 0.5, 0, 4, 0, 1.0])
WALK, UP = own_envs.linear(1, 2), jnp.array([0.0, 0.1])
POLE = "gymnasium.envs.classic_control.cartpole:CartPole"
gymnasium.register("own/Poles-v0", f"{POLE}Env", vector_entry_point=f"{POLE}VectorEnv", max_episode_steps=30)


@pytest.fixture
def make():
    """Environments whose processes are ended with the test."""
    made = []

    def build(*args, **more):
        made.append(environments(*args, **{"workers": 1, **more}))
        return made[-1]

    yield build
    for envs in made:
        envs.release()


def played(envs, B, K, policy=CART, theta=BALANCE, task=0, **how):
    return envs.play(policy, jnp.int32(task), theta, KEY, B, K, **how)


def same(one, other):
    return all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


def seed(j):
    """That of a trajectory's reset."""
    return int(jax.random.bits(jax.random.split(jax.random.fold_in(KEY, j))[0], dtype=jnp.uint32) >> 1)


def starts(j, size):
    """Where the poles of a part begin whose first trajectory is j: drawn at once, from that one's seed."""
    return np_random(seed(j))[0].uniform(-0.05, 0.05, (4, size)).T.astype(np.float32)


@pytest.mark.parametrize("restart", [False, True])
def test_every_step_is_that_of_the_single_environment(make, restart):
    """From what was seen and done the single pole goes where the vector's went, to float32, and ends where it did.

    Between two episodes is one place without a step, and what comes next is a start: each number within .05. The limit
    of 30 steps cuts and terminates nothing; a quarter of the poles fall before.
    """
    envs, single = make("own/Poles-v0"), gymnasium.make("CartPole-v1").unwrapped
    assert envs.source.endswith("own/Poles-v0, together")
    assert envs.horizon == 30
    got = jax.tree.map(np.asarray, played(envs, 20, 70, restart=restart))
    np.testing.assert_array_equal(got.observations[:, 0], starts(0, 20))
    single.reset()
    fallen = cut = 0
    for lane in range(20):
        seen, steps = got.observations[lane], 0
        for k in range(70):
            if not got.alive[lane, k]:
                again = abs(seen[k + 1]).max() <= 0.05 and restart
                assert again or (not restart and same([seen[k]], [seen[k + 1]]) and not got.rewards[lane, k])
                steps = 0
                continue
            single.state, single.steps_beyond_terminated = seen[k].astype(float), None
            then, reward, over, *_ = single.step(int(got.choices[lane, k, 0]))
            np.testing.assert_allclose(seen[k + 1], then, atol=1e-6)
            assert (got.rewards[lane, k], got.terminated[lane, k]) == (reward, over)
            steps += 1
            fallen += over
            cut += steps == 30
            ends = over or steps == 30
            assert k == 69 or got.alive[lane, k + 1] != ends
    assert fallen >= 5
    assert cut >= 5


def test_numbers_do_not_depend_on_processes(make):
    """Two agents, 513 trajectories in parts of 257 and 256, whose vectors are of one size; and once more, the same."""
    one, two = (make("CartPole-v1", agents=2, workers=w) for w in (1, 2))
    got = [played(one, 513, 30, task=task, restart=True) for task in range(2)]
    play = jax.vmap(lambda task: two.play(CART, task, BALANCE, KEY, 513, 30, restart=True))
    assert same([np.stack(x) for x in zip(*got, strict=True)], play(two.tasks))
    assert same(got[0], played(two.only(0), 513, 30, restart=True))
    assert same(got[0], got[1])
    first = np.asarray(got[0].observations[:, 0])
    np.testing.assert_array_equal(first, np.concatenate([starts(0, 257), starts(257, 257)[:256]]))


def test_parts_of_what_is_made_for_all():
    assert [part(B, ANY) for B in (1, 8, 512, 513, 1025)] == [1, 8, 512, 257, 342]
    assert part(7, 3) == 3


RUN = Config(
    "gym:CartPole-v1", {"workers": 2}, agents=2, algorithm="fedavg_pg", policy="linear", oracle="ppo", B=4, K=32, H=1,
    eta=0.1, rounds=3, evaluation_episodes=3, checkpoint_rounds=1,
)  # fmt: skip


def test_a_resumed_run_ends_in_the_same_bytes(tmp_path):
    def stop(done, record=None):
        if done:
            signal.raise_signal(signal.SIGINT)

    fastfedpg.run(RUN, tmp_path / "whole")
    with pytest.raises(Interrupted):
        fastfedpg.run(RUN, tmp_path / "out", report=stop)
    fastfedpg.experiment.resume(tmp_path / "out")
    assert numbers(tmp_path / "out") == numbers(tmp_path / "whole")
    fastfedpg.run(RUN.but(problem_args={"workers": 1, "vectors": False}), tmp_path / "single")
    assert numbers(tmp_path / "single") != numbers(tmp_path / "whole"), "or vectors are not played"


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("restart", [False, True])
def test_factories_of_vectors_with_one_seed(make, mode, restart):
    """Seven lines in parts of 3, in one process or two, twice: 1 or 2 steps at a time, until 10 or 6 times.

    A new line begins below 1, only where one has ended.
    """
    one, two = (make([partial(own_envs.Crowd, mode)], workers=w) for w in (1, 2))
    play = lambda envs: jax.tree.map(np.asarray, played(envs, 7, 20, WALK, UP, restart=restart))
    if restart and mode is AutoresetMode.SAME_STEP:
        with pytest.raises(InputError, match=r"segments need NextStep or Disabled: .*vectors=false"):
            play(one)
        return
    got = play(one)
    assert same(got, play(two))
    assert same(got, play(one))
    seen, alive = got.observations[..., 0], got.alive
    want = np.concatenate([np_random(seed(j))[0].random(3) for j in (0, 3, 6)])[:7]
    np.testing.assert_array_equal(seen[:, 0], want)
    over = alive[:, :-1] & ~alive[:, 1:]
    moved = np.diff(seen, axis=1)
    np.testing.assert_allclose(moved[alive], 1 + got.choices[alive][:, 0])
    np.testing.assert_array_equal(got.terminated[:, :-1], over & (seen[:, 1:-1] >= 10))
    assert got.terminated.any()
    assert (over & ~got.terminated[:, :-1]).any(), "some are cut"
    if restart:
        assert (alive[:, 1:] | alive[:, :-1]).all(), "one place between two episodes"
        assert (seen[:, 1:][~alive] < 1).all()
    else:
        assert (moved[~alive] == 0).all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"paid": np.nan}, "step 0 of trajectory 0: the reward is nan"),
        ({"paid": "a lot"}, "step 0 of trajectory 0: the reward is 'a lot', a str_; it must be a number"),
        ({"over": int}, "terminated is .*0.*, a int64; it must be True or False"),
    ],
)
def test_what_a_vector_pays_and_says_is_looked_at(make, wrong, words):
    envs = make([partial(own_envs.Crowd, AutoresetMode.NEXT_STEP, **wrong)])
    with pytest.raises(EnvironmentFailed):
        played(envs, 3, 5, WALK, UP)
    with pytest.raises(EnvironmentFailed, match=words):
        raise envs.host_error()


@pytest.mark.parametrize("then", ["seen", "raised", "chosen"])
def test_what_was_paid_is_told_before_what_came_later(make, then):
    """Rewards are looked at for many steps at once: lane 1's on step 2, whatever ends the part on step 4."""
    envs = make([partial(own_envs.Astray, then)], reward_range=(0, 10))
    wild = WALK._replace(choose=own_envs.lost) if then == "chosen" else WALK
    with pytest.raises(EnvironmentFailed):
        played(envs, 3, 8, wild, UP)
    with pytest.raises(EnvironmentFailed, match="step 2 of trajectory 1: the reward 99 lies outside reward_range"):
        raise envs.host_error()


def test_where_an_id_is_not_played_in_its_vector(make):
    """Rewards and wrappers are for single environments, and phys2d's vectors are slow; arguments, or asked not to."""
    known = [
        problems.make("gym:CartPole-v1", arguments)
        for arguments in ({}, {"vectors": "false"}, {"sutton_barto_reward": "true"})
    ]
    assert [x.source.endswith("CartPole-v1, together") for x in known] == [True, False, False]
    assert not make("CartPole-v1", rewards=[lambda env: env]).source.endswith("together")
    wrapped = gymnasium.wrappers.TransformReward.wrapper_spec(func=abs)
    built_in = {"vector_entry_point": f"{POLE}VectorEnv", "additional_wrappers": (wrapped,)}
    gymnasium.register("own/Wrapped-v0", f"{POLE}Env", **built_in)
    fits = lambda name: make_env.is_together(adapter.specified(name, None, True))
    assert fits("CartPole-v1")
    assert not fits("own/Wrapped-v0")
    assert not fits("phys2d/CartPole-v1")


def test_a_vector_that_can_not_be_built(make):
    """It is not told of its time limit, so it may not be played; single environments may."""
    ours = {"vector_entry_point": own_envs.unwilling, "max_episode_steps": 6}
    gymnasium.register("own/Unwilling-v0", own_envs.Line, **ours)
    with pytest.raises(InputError, match=r"can't be built: TypeError: .*max_episode_steps.*; vectors=false"):
        make("own/Unwilling-v0")
    assert make("own/Unwilling-v0", vectors=False).horizon == 6


def test_one_environment_is_drawn():
    spec = gymnasium.spec("CartPole-v1")
    env = make_env.build((partial(make_env.together, spec), None), render=True)
    assert isinstance(env, gymnasium.Env)
    assert env.render_mode == "rgb_array"
    env.close()
