"""Families of tasks on MuJoCo's robots, as meta-reinforcement learning has them: speeds, and directions."""

from __future__ import annotations  # a class that is sent to another process can't look up the names of its own

import math
from collections.abc import Callable
from typing import Any

from fastfedpg.envs.environments import Environments
from fastfedpg.errors import InputError, missing_extra
from fastfedpg.gym_workers.adapter import environments


def half_cheetah_vel(
    agents: int = 4, gamma: float = 0.99, horizon: int = 1000, reward_scale: float = 1.0, patience: float = 60.0
) -> Environments:
    """HalfCheetah-v5, each agent at a speed of its own: r_i = -|v - v_i| - 0.05 |a|^2.

    v is the step's mean forward velocity, and v_i = 3 (i + 1/2) / N: the midpoints of N equal parts of [0, 3].

    Args:
        agents: N.
        gamma: discount factor in [0, 1).
        horizon, reward_scale, patience: see `fastfedpg.gym_workers.adapter.environments`.
    """
    _check(agents)
    rewards = [_speed(3 * (i + 0.5) / agents) for i in range(agents)]
    given: dict[str, Any] = {"gamma": gamma, "horizon": horizon, "reward_scale": reward_scale, "patience": patience}
    return environments("HalfCheetah-v5", rewards, name="half-cheetah-vel", **given)


def ant_dir(
    agents: int = 4, gamma: float = 0.99, horizon: int = 1000, reward_scale: float = 1.0, patience: float = 60.0
) -> Environments:
    """Ant-v5, each agent in a direction of its own: r_i = v.(cos g_i, sin g_i) - 0.5 |a|^2 + h - c.

    v is the step's mean velocity in the plane and g_i = 2 pi i / N. The rest is Ant's own: h is 1 while the ant is
    healthy (and an episode ends with the step on which it is not), and c = 5e-4 |f|^2 with f the contact forces on its
    bodies, each clipped to [-1, 1].

    Args:
        agents: N.
        gamma: discount factor in [0, 1).
        horizon, reward_scale, patience: see `fastfedpg.gym_workers.adapter.environments`.
    """
    _check(agents)
    rewards = [_heading(2 * math.pi * i / agents) for i in range(agents)]
    given: dict[str, Any] = {"gamma": gamma, "horizon": horizon, "reward_scale": reward_scale, "patience": patience}
    return environments("Ant-v5", rewards, name="ant-dir", **given)


def half_cheetah_dir(
    agents: int = 2, gamma: float = 0.99, horizon: int = 1000, reward_scale: float = 1.0, patience: float = 60.0
) -> Environments:
    """HalfCheetah-v5, forwards for agents with even numbers, backwards for the others: r_i = d_i v - 0.1 |a|^2.

    v is the step's mean forward velocity, and d_i = (-1)^i. With as many of either kind the best common
    policy plays a = 0, since their mean reward is -0.1 |a|^2.

    Args:
        agents: N.
        gamma: discount factor in [0, 1).
        horizon, reward_scale, patience: see `fastfedpg.gym_workers.adapter.environments`.
    """
    _check(agents)
    sides = [("forwards", 1.0), ("backwards", -1.0)]
    rewards = [_paid(sides[i % 2][0], x=sides[i % 2][1], reward_ctrl=1.0) for i in range(agents)]
    given: dict[str, Any] = {"gamma": gamma, "horizon": horizon, "reward_scale": reward_scale, "patience": patience}
    return environments("HalfCheetah-v5", rewards, name="half-cheetah-dir", **given)


def walker2d_vel(
    agents: int = 4, gamma: float = 0.99, horizon: int = 1000, reward_scale: float = 1.0, patience: float = 60.0
) -> Environments:
    """Walker2d-v5, each agent at a speed of its own: r_i = 2 h - |v - v_i| - 0.001 |a|^2.

    v is the step's mean forward velocity, v_i = 2 (i + 1/2) / N, and h is 1 while the walker is upright (an episode
    ends with the step on which it is not). Upright pays 2, so that to stand is worth more than to fall at every speed.

    Args:
        agents: N.
        gamma: discount factor in [0, 1).
        horizon, reward_scale, patience: see `fastfedpg.gym_workers.adapter.environments`.
    """
    _check(agents)
    speeds = [2 * (i + 0.5) / agents for i in range(agents)]
    rewards = [_paid(f"{v:.3g} m/s", near=v, reward_survive=2.0, reward_ctrl=1.0) for v in speeds]
    given: dict[str, Any] = {"gamma": gamma, "horizon": horizon, "reward_scale": reward_scale, "patience": patience}
    return environments("Walker2d-v5", rewards, name="walker2d-vel", **given)


def _check(agents: int) -> None:
    if agents < 1:
        raise InputError(f"agents = {agents}; it takes at least 1 agent")
    try:
        import mujoco  # type: ignore[import-untyped] # noqa: F401
    except ImportError:
        raise missing_extra("this problem", "MuJoCo", "mujoco") from None


def _speed(target: float) -> Callable[[Any], Any]:
    """A wrapper with the reward of a speed; its class is made where it is used, and needs no JAX there."""

    def wrapped(env: Any) -> Any:
        import gymnasium
        import numpy as np

        class Speed(gymnasium.Wrapper):  # type: ignore[type-arg]
            """-|v - target| - 0.05 |a|^2."""

            def step(self, action: Any) -> Any:
                seen, _, terminated, truncated, info = self.env.step(action)
                reward = -abs(float(info["x_velocity"]) - target) - 0.05 * float(np.dot(action, action))
                return seen, reward, terminated, truncated, info

        return Speed(env)

    return wrapped


def _heading(angle: float) -> Callable[[Any], Any]:
    """A wrapper with the reward of a direction."""
    x, y = math.cos(angle), math.sin(angle)

    def wrapped(env: Any) -> Any:
        import gymnasium

        class Heading(gymnasium.Wrapper):  # type: ignore[type-arg]
            """Ant's own reward, with the velocity in another direction."""

            def step(self, action: Any) -> Any:
                seen, _, terminated, truncated, info = self.env.step(action)
                kept = float(info["reward_survive"] + info["reward_ctrl"] + info["reward_contact"])
                reward = kept + x * float(info["x_velocity"]) + y * float(info["y_velocity"])
                return seen, reward, terminated, truncated, info

        return Heading(env)

    return wrapped


def _paid(name: str, x: float = 0.0, near: float | None = None, **kept: float) -> Callable[[Any], Any]:
    """A wrapper with the reward x v - |v - near| and parts of the robot's own, each with its factor."""

    def wrapped(env: Any) -> Any:
        import gymnasium

        class Paid(gymnasium.Wrapper):  # type: ignore[type-arg]
            """Parts of a robot's own reward, and its velocity in another way."""

            wants = name

            def step(self, action: Any) -> Any:
                seen, _, terminated, truncated, info = self.env.step(action)
                v = float(info["x_velocity"])
                own = sum(factor * float(info[part]) for part, factor in kept.items())
                return seen, x * v - (0.0 if near is None else abs(v - near)) + own, terminated, truncated, info

        return Paid(env)

    return wrapped
