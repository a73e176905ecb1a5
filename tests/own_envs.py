"""Small environments, some of which misbehave, and small policies; nothing here needs JAX where they are played."""

import ctypes
import os
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial

import gymnasium
import numpy as np
from gymnasium import spaces

from fastfedpg.policies import Policy


def softmax(states, actions):
    """One row of theta for each state; a choice is drawn by where a uniform number falls."""

    def noise(key, shape, dtype):
        import jax

        return jax.random.uniform(key, (*shape, 1), dtype)

    return Policy(states * actions, None, noise, partial(_row_choice, actions), _same, None, 0, None)


def _row_choice(actions, theta, observation, noise):
    rows = theta.reshape(-1, actions)[observation[..., 0].astype(int)]
    return _drawn(rows, noise)


def linear(width, actions):
    """A softmax of linear scores."""
    return Policy(width * actions, None, softmax(1, 1).noise, partial(_linear_choice, actions), _same, None, 0, None)


def _linear_choice(actions, theta, observation, noise):
    return _drawn(observation @ theta.reshape(-1, actions), noise)


def _drawn(scores, noise):
    p = np.exp(scores - scores.max(-1, keepdims=True)).cumsum(-1)
    return (noise * p[..., -1:] > p[..., :-1]).sum(-1, keepdims=True).astype(noise.dtype)


def steered(actions):
    """A linear function of the observation and one random number, cut to [-1, 1]."""
    return Policy(0, None, softmax(1, 1).noise, partial(_steered_choice, actions), _cut, None, 0, None)


def _steered_choice(actions, theta, observation, noise):
    return observation @ theta.reshape(-1, actions) + noise - 0.5


def _cut(choice):
    return np.clip(choice, -1, 1)


def _same(choice):
    return choice


class Line(gymnasium.Env):
    """A walk that begins at a place drawn from the seed: the action is added to it, and the reward is the new place.

    It ends at 10, and does on its step `when` what `fault` says.
    """

    def __init__(self, fault=None, when=2, observations=None, actions=None, width=1, render_mode=None):
        self.fault, self.when, self.render_mode = fault, when, render_mode
        self.observation_space = observations or spaces.Box(-100, 100, (width,), np.float64)
        self.action_space = actions or spaces.Discrete(2)

    def _seen(self):
        return np.full(self.observation_space.shape, self.place)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.integers(5)), 0
        if self.fault == "reset":
            raise RuntimeError("no beginning")
        return self._seen() if self.fault == "no info" else (self._seen(), {})

    def step(self, action):
        assert self.place < 10, "a step after the end"
        self.place += float(np.sum(action))
        seen, reward = self._seen(), self.place
        if self.steps == self.when:
            match self.fault:
                case "raises":
                    raise ValueError("out of order")
                case "nan":
                    seen = seen * np.nan
                case "reward":
                    reward = float("nan")
                case "shape":
                    seen = np.zeros(7)
                case "slow":
                    time.sleep(0.06)
                case "hangs":
                    time.sleep(1000)
                case "hangs hard":  # with the interpreter's lock in its hands
                    ctypes.PyDLL(None).sleep(1000)
                case "short":
                    return seen, reward, False, {}
                case "killed":
                    os.kill(os.getpid(), signal.SIGSEGV)
                case "exits":
                    os._exit(7)
        self.steps += 1
        return seen, reward, self.place >= 10, False, {}

    def render(self):
        return np.full((4, 5, 3), int(self.place), np.uint8)


class Jaxed(Line):
    """A line with a reward of 1 where JAX is loaded."""

    def step(self, action):
        seen, _, *rest = super().step(action)
        return seen, float("jax" in sys.modules), *rest


@dataclass(slots=True)
class Slotted:
    """An object without a dictionary."""

    x: int


class Saying(Line):
    """One that says what it wants."""

    def __init__(self, wants):
        super().__init__()
        self.wants = wants


class Doubled(gymnasium.RewardWrapper):
    """Twice the reward."""

    def reward(self, reward):
        return 2 * reward


def limited():
    """A line with a time limit of 6 steps."""
    return gymnasium.wrappers.TimeLimit(Line(), 6)


def vector(mode, count=3):
    """Lines side by side, in a mode of starting anew."""
    return gymnasium.vector.SyncVectorEnv([limited] * count, autoreset_mode=mode)


def counted(file, most=99):
    """A line that leaves a mark in a file, and after so many marks misses a module."""
    with file.open("a") as marks:
        if marks.tell() >= most:
            raise ModuleNotFoundError("no wheels")
        marks.write("x")
    return Line()


def broken_factory():
    """A factory that fails."""
    raise OSError("no such robot")


class Crowd(gymnasium.vector.VectorEnv):
    """Lines side by side in the way of built-in vectors: one seed and one generator for all, time limit 6.

    As those of Gymnasium in JAX do, it remembers beyond a reset who was over.
    """

    def __init__(self, mode, count=3, paid=None, over=None):
        self.num_envs, self.mode, self.paid, self.dtype = count, mode.value, paid, over or bool
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = Line().observation_space, Line().action_space
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, count)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, count)
        self.place, self.steps, self.prev_done = np.zeros(count), np.zeros(count, int), np.zeros(count, bool)

    def _begin(self, which):
        self.place[which], self.steps[which] = self.np_random.random(which.sum()), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._begin((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        return self.place[:, None].copy(), {}

    def step(self, actions):
        assert self.action_space.contains(actions)
        before, about = self.prev_done & (self.mode == "NextStep"), {}
        self.place += 1 + actions
        self.steps += 1
        self._begin(before)
        over = (self.place >= 10) & ~before
        cut = (self.steps >= 6) & ~before
        self.prev_done = over | cut
        reward = np.where(before, 0.0, self.place) if self.paid is None else np.full(self.num_envs, self.paid)
        if self.mode == "SameStep":
            about["final_obs"] = np.array([*self.place[:, None].copy(), None], object)[:-1]
            self._begin(self.prev_done)
        return self.place[:, None].copy(), reward, over.astype(self.dtype), cut, about


class Astray(Crowd):
    """Lines one of which is paid too much on step 2; on step 4 something else goes wrong."""

    def __init__(self, then):
        super().__init__(gymnasium.vector.AutoresetMode.NEXT_STEP)
        self.then, self.taken = then, 0

    def step(self, actions):
        seen, _, *rest = super().step(actions)
        reward = np.array([0.0, 99.0 if self.taken == 2 else 0.0, 0.0])
        self.taken += 1
        if self.taken > 4 and self.then == "raised":
            raise ValueError("out of order")
        return seen * np.nan if self.taken > 4 and self.then == "seen" else seen, reward, *rest


def lost(theta, observation, noise):
    """Choices until somebody is at 4."""
    return np.where(observation.max() >= 4, np.nan, 0 * noise)


def unwilling(num_envs):
    """A built-in vector that takes no max_episode_steps."""
    return Crowd(gymnasium.vector.AutoresetMode.NEXT_STEP, num_envs)
