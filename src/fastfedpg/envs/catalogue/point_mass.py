"""A mass on the plane: everybody has a favourite place, and one shelter is good enough for all."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fastfedpg.core import RngKey, Task
from fastfedpg.envs import frames, jax_env
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.jax_env import Env, Step
from fastfedpg.errors import InputError
from fastfedpg.spaces import box

DT, PUSH, FRICTION = 0.1, 4.0, 2.0
SHELTER = (1.0, 0.0)
GAP = np.pi / 2
"""No goal lies within half of this angle of the shelter."""


def move(state: Float[Array, "4"], force: Float[Array, "2"]) -> Float[Array, "4"]:
    """Position and velocity a tenth of a second later: v' = v + dt (4 force - 2 v), x' = x + dt v'."""
    velocity = state[2:] + DT * (PUSH * jnp.clip(force, -1, 1) - FRICTION * state[2:])
    return jnp.concatenate([state[:2] + DT * velocity, velocity])


def goals(agents: int) -> Float[np.ndarray, "N 2"]:
    """Evenly on the unit circle around the start, save for the quarter with the shelter in its middle."""
    angles = GAP / 2 + (2 * np.pi - GAP) * (np.arange(agents) + 0.5) / max(agents, 1)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def environment(mid: float, width: float, effort: float) -> Env:
    """The mass, for a task that is a goal (2,)."""

    def near(position: Float[Array, "2"], place: Array) -> Float[Array, ""]:
        return jnp.exp(-jnp.sum((position - place) ** 2) / width)

    def reset(task: Task, key: RngKey) -> tuple[Array, Array]:
        state = 0.1 * jax.random.normal(key, (4,))
        return state, state

    def step(task: Task, state: Array, action: Array, key: RngKey) -> Step:
        new = move(state, action)
        own, common = near(new[:2], task), mid * near(new[:2], jnp.asarray(SHELTER))
        pains = effort * jnp.sum(jnp.clip(action, -1, 1) ** 2)
        return Step(new, new, own + common - own * common - pains, jnp.bool_(False))

    return Env(reset, step, box(4), box(2, -1, 1))


def point_mass(
    agents: int = 16, gamma: float = 0.95, mid: float = 0.6, width: float = 0.4, effort: float = 0.01
) -> Environments:
    """A mass with friction, pushed by two forces in [-1, 1]; the policy sees its position and velocity, and no goal.

        reward_i = a_i + b - a_i b - effort |u|^2,   a_i = exp(-|x - g_i|^2 / width),   b = mid exp(-|x - s|^2 / width)

    It starts at the origin, within about 0.1. The goals g_i lie on the unit circle, away from the shelter s = (1, 0),
    which is worth `mid` to everybody: with many agents and the default numbers that is where the mean reward is
    largest. The mean of the goals is (-0.3, 0), where little is to be had.

    Rewards lie in [-2 effort, 1], and no episode terminates.
    """
    for what, value, right in (
        ("mid", mid, 0 <= mid <= 1),
        ("width", width, width > 0),
        ("effort", effort, effort >= 0),
    ):
        if not right:
            raise InputError(f"point_mass: {what} = {value:g}; mid lies in [0, 1], width > 0 and effort >= 0")
    env = environment(mid, width, effort)
    tasks = goals(agents)
    play = partial(jax_env.play, env)

    return Environments(
        name="point-mass",
        observations=env.observations,
        actions=env.actions,
        tasks=tasks,
        play=play,
        horizon=100,
        gamma=gamma,
        reward_range=(-2 * effort, 1.0),
        agents=tuple(f"goal at {angle:.0f}°" for angle in np.degrees(np.arctan2(tasks[:, 1], tasks[:, 0])) % 360),
        source=f"point_mass(agents={agents}, gamma={gamma}, mid={mid}, width={width}, effort={effort})",
        frames=frames.filmed(play, frames.mass),
    )
