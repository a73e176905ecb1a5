"""Gymnasium's environments: what is played is what they do, and what goes wrong is said."""

import importlib
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as theirs
from gymnasium.vector import AutoresetMode

import own_envs
from fastfedpg import policies, spaces
from fastfedpg.envs import frames as drawing
from fastfedpg.envs.episodes import Episodes
from fastfedpg.envs.fingerprint import told
from fastfedpg.envs.gymnax import gymnax_environments
from fastfedpg.errors import EnvironmentFailed, InputError
from fastfedpg.gym_workers import adapter as gym
from fastfedpg.gym_workers import lanes, mujoco, rollout
from fastfedpg.gym_workers.adapter import environments
from fastfedpg.gym_workers.flatten import described, writer
from fastfedpg.gym_workers.shared_memory import part
from own_envs import Doubled, Line, limited

KEY = jax.random.key(3)
WALK = own_envs.linear(1, 2)
THETA = jnp.array([0.0, 0.1])


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


def same(one, other):
    return all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


def played(envs, policy, task, theta, key, B, K, **how):
    """Episodes, without a program to be compiled."""
    return envs.play(policy, jnp.int32(task), theta, key, B, K, **how)


def by_hand(env, policy, theta, key, B, K):
    """Episodes by a plain loop over one environment, one trajectory after the other."""

    def drawn(j):
        start, acting = jax.random.split(jax.random.fold_in(key, j))
        return jax.random.bits(start, dtype=jnp.uint32) >> 1, policy.noise(acting, (K,), theta.dtype)

    rows = []
    for seed, noise in zip(*map(np.asarray, jax.vmap(drawn)(jnp.arange(B))), strict=True):
        seen = env.reset(seed=int(seed))[0]
        observations, rewards, terminated = [seen], [], False
        for k in range(K):
            choice = policy.choose(np.asarray(theta), np.asarray(seen, float)[None], noise[None, k])[0]
            seen, reward, terminated, truncated, _ = env.step(int(choice[0]))
            observations.append(seen)
            rewards.append(reward)
            if terminated or truncated:
                break
        rows.append((observations, rewards, terminated))
    return rows


def test_episodes_are_those_of_a_plain_loop(make):
    """CartPole: observations, rewards, ends and padding equal a loop's own; a second call repeats them."""
    envs = make("CartPole-v1", agents=1, vectors=False)
    assert (envs.observations.width, envs.actions, envs.horizon) == (4, spaces.Discrete(2), 500)
    policy, theta, K = own_envs.linear(4, 2), jnp.linspace(-1, 1, 8), 30
    got = played(envs, policy, envs.tasks[0], theta, KEY, 10, K)
    want = by_hand(gymnasium.make("CartPole-v1"), policy, theta, KEY, 10, K)
    assert sum(len(rewards) < K for _, rewards, _ in want) > 5
    for j, (observations, rewards, terminated) in enumerate(want):
        n = len(rewards)
        np.testing.assert_array_equal(got.observations[j, : n + 1], observations)
        np.testing.assert_array_equal(got.observations[j, n:], np.broadcast_to(observations[-1], (K + 1 - n, 4)))
        np.testing.assert_array_equal(got.rewards[j], rewards + [0] * (K - n))
        np.testing.assert_array_equal(got.alive[j], np.arange(K) < n)
        np.testing.assert_array_equal(got.terminated[j], terminated & (np.arange(K) == n - 1))
        assert np.isfinite(got.choices[j]).all()
    assert same(got, played(envs, policy, 0, theta, KEY, 10, K))
    assert same([x[:7] for x in got], played(envs, policy, 0, theta, KEY, 7, K))
    assert got.observations.dtype == theta.dtype
    assert played(envs, policy, 0, theta.astype(jnp.float32), KEY, 1, 2).rewards.dtype == jnp.float32


def test_workers_and_lanes_do_not_matter(make):
    """Two agents, three keys, 7 episodes: one worker or two, all lanes at once or one by one, the same numbers."""
    policy, theta, K = own_envs.linear(4, 2), jnp.linspace(-1, 1, 8), 30
    keys = jax.random.split(KEY, 3)
    one, two = (make("CartPole-v1", rewards=[lambda e: e, Doubled], workers=w) for w in (1, 2))
    play = lambda envs: lambda task, theta, key: envs.play(policy, task, theta, key, 7, K)
    mapped = lambda envs: jax.vmap(jax.vmap(play(envs), (0, None, None)), (None, None, 0))
    every = jax.jit(mapped(two))
    got = every(two.tasks, theta, keys)
    for i, key in enumerate(keys):
        for agent in range(2):
            assert same([x[i, agent] for x in got], played(one, policy, agent, theta, key, 7, K))
    np.testing.assert_array_equal(2 * got.rewards[:, 0], got.rewards[:, 1])
    assert same(played(two.only(1), policy, two.only(1).tasks[0], theta, keys[0], 7, K), [x[0, 1] for x in got])
    pids = [x.process.pid for x in two.play.args[0].members]
    two.release()
    assert len(pids) == 2
    assert not any(map(running, pids))
    assert same(got, every(two.tasks, theta, keys))


def test_frozen_lake_has_its_own_value(make):
    """The mean discounted return of 1000 episodes is within 4 standard errors of (I - gamma P)^-1 r (1 in 16,000).

    The policy prefers what is better than chance: with Q of the uniform one, softmax(8 Q / max Q).
    """
    envs, policy, gamma = make("FrozenLake-v1", agents=1), own_envs.softmax(16, 4), 0.9
    P, r = np.zeros((16, 4, 16)), np.zeros((16, 4))
    for s, row in gymnasium.make("FrozenLake-v1").unwrapped.P.items():
        for a, outcomes in row.items():
            for p, after, reward, done in outcomes:
                r[s, a] += p * reward
                P[s, a, after] += p * (not done)
    value = lambda pi: np.linalg.solve(
        np.eye(16) - gamma * np.einsum("sa,sat->st", pi, P), np.einsum("sa,sa->s", pi, r)
    )
    Q = r + gamma * P @ value(np.full((16, 4), 0.25))
    theta = jnp.array(8 * Q / Q.max()).reshape(-1)
    exact = value(np.asarray(jax.nn.softmax(theta.reshape(16, 4))))[0]
    got = played(envs, policy, 0, theta, KEY, 1000, 100)
    returns = np.asarray(got.rewards) @ gamma ** np.arange(100)
    error = returns.std() / 1000**0.5
    assert exact > 20 * error / 4
    assert abs(returns.mean() - exact) < 4 * error


def test_an_end_is_not_a_time_limit(make):
    """6 steps of 0 or 1 from 0 to 4 end at 10 only where all count; the rest is cut, by the limit or by K."""
    envs = make([limited])
    got = played(envs, WALK, 0, jnp.array([0.0, 3.0]), KEY, 10, 30)
    assert 0 < got.terminated.sum() < 10
    assert not got.alive[:, 6:].any()
    np.testing.assert_array_equal(got.terminated.any(axis=1), got.observations[:, -1, 0] >= 10)
    assert not got.terminated[:, [0, 1, 2, 3, 4, *range(6, 30)]].any()
    cut = played(envs, WALK, 0, THETA, KEY, 10, 3)
    assert cut.alive.all()
    assert not cut.terminated.any()


def test_vector_environments_are_many_single_ones(make):
    envs = make([limited, *(partial(own_envs.vector, mode) for mode in AutoresetMode)])
    want, *others = (played(envs, WALK, i, jnp.array([0.0, 3.0]), KEY, 10, 30) for i in range(4))
    assert 0 < want.terminated.sum() < 10
    for got in others:
        assert same(want, got)


def test_lanes_go_on_in_single_and_vector_environments(make):
    """A line ends at 10 or is cut after 6 steps; then a place without a step, and another start, from another seed.

    Vector environments that are reset by hand have the same numbers; those that begin anew by themselves draw their
    own starts; what begins an episode within another's last step is refused.
    """
    modes = (AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
    envs = make([limited, *(partial(own_envs.vector, mode) for mode in modes)])
    go = lambda i: played(envs, WALK, i, jnp.array([0.0, 3.0]), KEY, 5, 30, restart=True)
    single, by_hand, by_itself = map(go, range(3))
    assert same(single, by_hand)
    for got in (single, by_itself):
        seen, alive, ends = got.observations[..., 0], got.alive, got.terminated
        over = alive[:, :-1] & ~alive[:, 1:]
        assert over.sum() >= 5 * 3
        assert (alive[:, 1:] | alive[:, :-1]).all(), "one place between two episodes"
        np.testing.assert_array_equal(ends[:, :-1], over & (seen[:, 1:-1] >= 10))
        begun = seen[:, 1:][~alive & (np.arange(30) < 29)]
        assert begun.max() < 5
        assert len(set(begun.tolist())) > 2
        steps = np.where(alive, seen[:, 1:] - seen[:, :-1], 0)
        assert {*np.unique(steps)} == {0, 1}
        np.testing.assert_array_equal(got.rewards, np.where(alive, seen[:, 1:], 0))
    with pytest.raises(InputError, match="segments need NextStep or Disabled"):
        go(3)


@pytest.mark.parametrize(
    ("space", "ours", "choice", "action"),
    [
        (theirs.Discrete(3, start=5), spaces.Discrete(3), [1.0], 6),
        (theirs.MultiDiscrete([2, 3]), spaces.MultiDiscrete((2, 3)), [1.0, 2.0], [1, 2]),
        (theirs.Box(-1, 1, (2, 2), np.float32), spaces.box(4, -1, 1), [1.0, 2.0, 3.0, 4.0], [[1, 2], [3, 4]]),
    ],
)
def test_actions_become_what_the_environment_takes(space, ours, choice, action):
    from fastfedpg.gym_workers.flatten import converted, reader, writer

    assert converted(space) == ours
    got = writer(space)(np.array(choice))
    np.testing.assert_array_equal(got, action)
    assert getattr(got, "dtype", space.dtype) == space.dtype
    np.testing.assert_array_equal(np.ravel(reader(space)(got)), choice)


def test_spaces_that_can_not_be_used(make):
    made = lambda **more: partial(Line, **more)
    text = theirs.Dict(a=theirs.Discrete(2), room=theirs.Tuple([theirs.Discrete(3), theirs.Text(4)]))
    with pytest.raises(InputError, match=r"agent 1 are Dict\(.*, in which 'room.1' is Text\(.*FlattenObservation"):
        make([Line, made(observations=text)])
    with pytest.raises(InputError, match=r"actions of agent 0 are MultiBinary\(3\)"):
        make([made(actions=theirs.MultiBinary(3))])
    with pytest.raises(InputError, match=r"agents 0 and 2 differ: Discrete\(2\) and Discrete\(3\)"):
        make([Line, Line, made(actions=theirs.Discrete(3))])


def test_what_can_not_be_built(make):
    with pytest.raises(InputError, match=r"unknown environment 'CartPol-v1'.*CartPole"):
        make("CartPol-v1", agents=1)
    with pytest.raises(InputError, match="2 rewards for agents = 3"):
        make("CartPole-v1", rewards=[Doubled] * 2, agents=3)
    with pytest.raises(InputError, match="agent 0 is Line"):
        make([Line()])
    with pytest.raises(
        EnvironmentFailed, match=r"agent 1, while .* built: raised OSError: no such robot .*own_envs.py:\d+"
    ):
        make([Line, own_envs.broken_factory])


@pytest.mark.parametrize(("module", "extra"), [("gymnasium", "gym"), ("mujoco", "mujoco")])
def test_what_is_not_installed_is_named_with_its_command(monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"pip install 'fastfedpg\[{extra}\]'"):
        mujoco.half_cheetah_vel()


FAULTS = {
    "raises": r"step 2 of trajectory 0: raised ValueError: out of order \(.*own_envs.py:\d+\)",
    "reset": r"reset of trajectory 0: raised RuntimeError: no beginning",
    "nan": r"step 2 of trajectory \d: number 0 of the observation is nan",
    "reward": r"step 2 of trajectory 0: the reward is nan",
    "shape": r"step 2 of trajectory 0: an observation has shape \(7,\); that of its space is \(1,\)",
    "no info": r"reset of trajectory 0: reset returned a ndarray; it must return \(observation, info\)",
    "short": r"step 2 of trajectory 0: step returned a tuple of 4; it must return \(observation, reward, terminated,",
    "hangs": r"step 2 of trajectory 0: no sign of life for 1 s",
    "hangs hard": r"step 2 of trajectory 0: no sign of life for 1 s",
    "killed": r"step 2 of trajectory 0: its process was killed by signal 11 \(Segmentation fault\)",
    "exits": r"step 2 of trajectory 0: its process ended with exit code 7",
}


@pytest.fixture(scope="module")
def faulty():
    """One agent for each fault, and before them one without."""
    envs = environments([Line, *(partial(Line, x) for x in FAULTS)], patience=1, workers=1)
    yield envs, jax.jit(lambda task: envs.play(WALK, task, THETA, KEY, 10, 3).rewards)
    envs.release()


@pytest.mark.parametrize("fault", FAULTS)
def test_failures_are_named(faulty, caplog, fault):
    envs, play = faulty
    agent = [None, *FAULTS].index(fault)
    with pytest.raises(jax.errors.JaxRuntimeError, match="EnvironmentFailed"):
        play(jnp.int32(agent)).block_until_ready()
    with pytest.raises(EnvironmentFailed, match=f"^the environment of agent {agent}, {FAULTS[fault]}"):
        raise envs.host_error()
    assert envs.host_error() is None
    assert not caplog.records
    if fault == "killed":
        assert play(jnp.int32(0)).shape == (10, 3)  # by new processes


def test_factories_and_spaces_that_can_not_be_played(make):
    alike = Line()
    envs = make([lambda: alike])
    with pytest.raises(InputError, match="agent 0: its factory returns the same object each time"):
        played(envs, WALK, 0, THETA, KEY, 10, 3)
    with pytest.raises(InputError, match="the actions of agent 0 are an empty box"):
        make([partial(Line, actions=gymnasium.spaces.Box(0, 1, (0,)))])


def test_whole_numbers_are_rounded_and_not_cut():
    """3.9 is nearer to 4: cut off, the largest would never be played."""
    space = gymnasium.spaces.Box(0, 4, (2,), np.int32)
    np.testing.assert_array_equal(writer(space)(np.array([3.9, 0.4])), [4, 0])


def test_a_change_beside_the_function_is_another_source(tmp_path, monkeypatch):
    """make() names a class of its own module, and that class changes."""
    monkeypatch.syspath_prepend(tmp_path)
    said = []
    for k in (1, 2):
        (tmp_path / f"beside{k}.py").write_text(f"class Mine:\n    paid = {k}\n\n\ndef make():\n    return Mine()\n")
        said.append(told(importlib.import_module(f"beside{k}").make).split("[")[1])
    assert said[0] != said[1]


def test_rewards_outside_their_range(make):
    envs = make([Line], reward_range=(0, 4))
    with pytest.raises(EnvironmentFailed):
        played(envs, WALK, 0, THETA, KEY, 10, 30)
    assert "lies outside reward_range = (0, 4)" in str(envs.host_error())


def test_no_process_survives_its_parent(tmp_path):
    """A script without a guard, with an environment of its own that hangs with the interpreter's lock, is killed."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import os, jax, jax.numpy as jnp, own_envs
        from fastfedpg.gym_workers.adapter import environments

        class Mine(own_envs.Line):
            def step(self, action):
                import sys
                open("ready", "w").write(f"{os.getpid()} {'jax' in sys.modules}")
                return super().step(action)

        envs = environments([lambda: Mine("hangs hard", 0)], workers=1)
        envs.play(own_envs.linear(1, 2), 0, jnp.zeros(2), jax.random.key(0), 1, 5)
    """)
    )
    path = os.pathsep.join(x for x in sys.path if x)
    with subprocess.Popen([sys.executable, script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}) as process:
        ready, until = tmp_path / "ready", time.monotonic() + 30
        while not (ready.exists() and ready.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        pid, loaded = ready.read_text().split()
        assert Path(f"/proc/{pid}").exists()
        process.kill()
    assert loaded == "False", "a worker has no use for JAX"
    while time.monotonic() < until and running(pid):
        time.sleep(0.02)
    assert not running(pid)


def running(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_pictures(make):
    """Those of every second step are every second one; one agent alone is drawn and named as it was."""
    envs, theta = make([Line, partial(Line, "raises"), lambda: Line()]), np.array([0.0, 50.0])
    pictures = envs.frames(envs.tasks, WALK, theta, 0, 7, 20, 1)
    assert pictures[0].shape == (4, 5, 3)
    assert [int(x[0, 0, 0]) for x in pictures[-2:]] == [9, 10]
    some = envs.only(0).frames(None, WALK, theta, 0, 7, 20, 2)
    assert len(pictures) > 3
    assert same(some, pictures[::2])
    with pytest.raises(InputError, match="agent 2: its render_mode is None; give its factory a parameter render_mode"):
        envs.only(2).frames(None, WALK, np.array([0.0, 1.0]), 0, 7, 20, 1)
    with pytest.raises(InputError, match="theta has entries that are no numbers"):
        envs.frames(envs.tasks, WALK, theta * np.nan, 0, 7, 20, 1)


def test_drawings_are_made_of_every_so_many_steps_and_see_all():
    seen, drawn = np.arange(6.0).reshape(1, 6, 1), []
    play = lambda *given: Episodes(seen, 0, 0, np.ones((1, 5), bool), 0)
    frames = drawing.filmed(play, lambda *given: lambda x: drawn.append(float(x[0])))
    assert len(frames(np.zeros(1), None, np.zeros(1), 0, 0, 5, 2)) == 3
    assert drawn == [0, 1, 2, 3, 4, 5]


def test_one_agent_alone_has_nothing_of_the_others(make):
    """Its numbers, its name in an error and its source stay; what was changed since stays changed."""
    envs = replace(make([Line, partial(Line, "raises", 3)], first=4), gamma=0.5)
    alone = envs.only(1)
    assert alone.agents == ("agent 1",)
    assert alone.gamma == 0.5
    assert alone.play.args[0].agents == envs.play.args[0].agents[1:]
    assert not alone.play.args[0].members, "its spaces are known"
    assert alone.source.endswith(envs.source.partition("; ")[2])
    with pytest.raises(EnvironmentFailed, match="agent 5, step 3"):
        played(alone, WALK, 0, THETA, KEY, 10, 30)
    assert same(played(alone, WALK, 0, THETA, KEY, 10, 3), played(envs, WALK, 1, THETA, KEY, 10, 3))
    assert alone.arrays().keys() == envs.arrays().keys()


def test_what_is_alike_is_built_once(make, tmp_path):
    """Three agents made of the same: a process builds 8 environments for all, the one it looked at among them."""
    factory = partial(own_envs.counted, tmp_path / "built")
    envs = make(factory, agents=3)
    for agent in range(3):
        played(envs, WALK, agent, THETA, KEY, 10, 3)
    assert len((tmp_path / "built").read_text()) == 8  # ten trajectories are played in two parts
    assert played(envs, WALK, 0, THETA, KEY, 2, 3).alive.shape == (2, 3)
    assert len((tmp_path / "built").read_text()) == 8


def test_no_more_are_built_than_are_played(make, tmp_path):
    envs = make(partial(own_envs.counted, tmp_path / "built"), agents=1)
    played(envs, WALK, 0, THETA, KEY, 2, 3)
    assert len((tmp_path / "built").read_text()) == 2


def test_parts_of_a_batch():
    """At least four, so that a call is worth its while; at least two parts of five and more; at most sixteen."""
    assert [part(B) for B in (1, 4, 8, 9, 16, 17, 32, 1000)] == [4, 4, 4, 8, 8, 16, 16, 16]


def test_a_refusal_in_the_middle_is_remembered(make, tmp_path):
    envs = make([partial(own_envs.counted, tmp_path / "built", most=1)])
    with pytest.raises(InputError, match="agent 0: no wheels"):
        played(envs, WALK, 0, THETA, KEY, 10, 3)
    assert "no wheels" in str(envs.host_error())


def test_one_that_hangs_is_noticed_while_others_answer(make):
    """An undisturbed run of the other agent would take 20 batches of 10 episodes of 0.06 s, 12 s in all."""
    envs = make([partial(Line, "hangs", 0), partial(Line, "slow")], workers=2, patience=0.5)
    pool = envs.play.args[0]
    tasks, began = jnp.array([0, *[1] * 20]), time.monotonic()
    with pytest.raises(EnvironmentFailed, match="agent 0, step 0 of trajectory 0: no sign of life"):
        jax.vmap(lambda task: envs.play(WALK, task, THETA, KEY, 10, 3))(tasks)
    assert time.monotonic() - began < 8
    assert not pool.members


def test_a_policy_that_has_diverged_is_not_the_environments_fault(make, capfd):
    """A theta of NaN plays NaN in its own lane, and nothing is raised or said."""
    envs = make([Line])
    thetas = jnp.stack([THETA, THETA * jnp.nan])
    got = jax.vmap(lambda theta: envs.play(WALK, 0, theta, KEY, 10, 3))(thetas)
    assert same([x[0] for x in got], played(envs, WALK, 0, THETA, KEY, 10, 3))
    assert np.isnan(got.rewards[1]).all()
    assert np.isnan(got.observations[1]).all()
    assert got.alive[1].all()
    assert not got.terminated[1].any()
    assert not got.choices[1].any()
    assert envs.host_error() is None
    assert not capfd.readouterr().err


def test_choices_that_overflow_are_the_policys_fault():
    """Warnings are errors here, and none is given."""
    envs, beat = lanes.Singles(Line), [0, 0]
    assert envs.get_ready(B=2, first=0) == 4
    out = np.zeros((2, 4, 1)), np.ones((2, 3, 1)), np.zeros((2, 3)), np.zeros((2, 3), bool), np.ones((2, 3), bool)
    wild = lambda theta, o, noise: np.exp(theta * (1 + 0 * noise)), lambda choice: choice, 0
    rollout.play(envs, wild, np.full(1, 1e3), np.zeros((2, 3, 1)), [0, 1], out, (-9, 9), beat)
    observations, choices, rewards, alive, terminated = out
    assert np.isnan(observations).all()
    assert np.isnan(rewards).all()
    assert alive.all()
    assert not choices.any()
    assert not terminated.any()


def test_workers_do_not_load_jax(make):
    """Not for a policy of the library, nor for an id with arguments."""
    gymnasium.register("own/Jaxed-v0", own_envs.Jaxed)
    envs = make([gym.made("own/Jaxed-v0", {"width": "2"})])
    policy = policies.make("mlp", envs.observations, envs.actions)
    got = played(envs, policy, 0, jnp.zeros(policy.size), KEY, 10, 3)
    assert envs.observations.width == 2
    np.testing.assert_array_equal(got.rewards, 0)


def closure(c):
    return lambda o, a, new, r, done: c["scale"] * r


def test_sources_tell_what_is_played_apart(make):
    makers = [lambda v=v: Line(when=v) for v in (1, 2, 1)]
    one, two, again = make(makers).source.partition(": ")[2].split("; ")
    assert one == again != two
    one, two = make(makers[0], rewards=[lambda env: env, Doubled]).source.partition(": ")[2].split("; ")
    assert one != two
    pytest.importorskip("gymnax")
    sources = [gymnax_environments("CartPole-v1", [closure({"scale": x})]).source for x in (1.0, 2.0, 1.0)]
    assert sources[0] == sources[2] != sources[1]


@pytest.mark.parametrize(
    "made",
    [
        lambda x: {"a": [1, (2, x)]},
        lambda x: {x, "b"},
        lambda x: np.array([0.0] * 2000 + [x]),
        lambda x: jnp.array([1.0, x]),
        lambda x: partial(max, 3, key=partial(min, x)),
        lambda x: closure({"scale": x}),
        lambda x: Line(when=x).step,
        lambda x: own_envs.Slotted(x),
        lambda x: eval(f"lambda y: y + {x}"),
        lambda x: jax.jit(closure([x])),
    ],
)
def test_words_change_with_every_number(made):
    assert told(made(1)) == told(made(1)) != told(made(2))


def test_words_for_what_holds_itself():
    loop = [1]
    loop.append(loop)
    assert told(loop) == "list(1, list)"


FAMILIES = {
    mujoco.half_cheetah_vel: "HalfCheetah-v5",
    mujoco.half_cheetah_dir: "HalfCheetah-v5",
    mujoco.walker2d_vel: "Walker2d-v5",
    mujoco.ant_dir: "Ant-v5",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_rewards_of_mujoco_families(family, capfd):
    """The rewards of two steps are those of the formula, with velocities from the distance the robot went."""
    envs = family(agents=3)
    o, a = envs.observations.width, envs.actions.width
    got = played(envs, own_envs.steered(a), 1, jnp.linspace(-0.5, 0.5, o * a), KEY, 10, 3)
    envs.release()
    assert "settotalmass" not in capfd.readouterr().err
    env = gymnasium.make(FAMILIES[family]).unwrapped
    env.reset(seed=int(jax.random.bits(jax.random.split(jax.random.fold_in(KEY, 0))[0], dtype=jnp.uint32) >> 1))
    capfd.readouterr()
    Path("MUJOCO_LOG.TXT").unlink(missing_ok=True)
    place = lambda: (env.data.body(1).xpos if family is mujoco.ant_dir else env.data.qpos)[:2].copy()
    for k in range(2):
        action = np.clip(np.asarray(got.choices[0, k]), -1, 1)
        before = place()
        env.step(action.astype(np.float32))
        v, cost = (place() - before) / env.dt, (action**2).sum()
        if family is mujoco.half_cheetah_vel:
            want = -abs(v[0] - 1.5) - 0.05 * cost
        elif family is mujoco.half_cheetah_dir:
            want = -v[0] - 0.1 * cost
        elif family is mujoco.walker2d_vel:
            want = 2 - abs(v[0] - 1) - 0.001 * cost
        else:
            angle = 2 * np.pi / 3
            forces = np.clip(env.data.cfrc_ext, -1, 1)
            want = v @ [np.cos(angle), np.sin(angle)] + 1 - 0.5 * cost - 5e-4 * (forces**2).sum()
        np.testing.assert_allclose(got.rewards[0, k], want, rtol=1e-6)


def test_agents_are_called_what_their_rewards_say():
    """Also where one is left of them; what says nothing, or no words, has a number."""
    envs = mujoco.half_cheetah_dir(agents=3)
    assert envs.agents == ("forwards", "backwards", "forwards")
    assert envs.only(1).agents == ("backwards",)
    assert described(Line())["wants"] == ""
    assert described(own_envs.Saying(3))["wants"] == ""
    assert described(own_envs.Saying("calm\x1b"))["wants"] == "calm\\x1b"
