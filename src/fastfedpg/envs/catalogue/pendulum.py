"""A pendulum with a weak motor, to be swung up to an angle of each agent's liking."""

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
from fastfedpg.spaces import Box, box

GRAVITY, MASS, LENGTH, DT, TORQUE, SPEED = 10.0, 1.0, 1.0, 0.05, 2.0, 8.0
WORST = float(np.pi**2 + 0.1 * SPEED**2 + 0.001 * TORQUE**2)


def wrapped(angle: Float[Array, ""]) -> Float[Array, ""]:
    """The same angle in [-pi, pi)."""
    return (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi


def move(state: Float[Array, "2"], torque: Float[Array, ""]) -> Float[Array, "2"]:
    """Angle from upright and angular velocity after one step; a rod's moment of inertia is m l^2 / 3."""
    turning = 3 * GRAVITY / (2 * LENGTH) * jnp.sin(state[0]) + 3 / (MASS * LENGTH**2) * torque
    spin = jnp.clip(state[1] + DT * turning, -SPEED, SPEED)
    return jnp.stack([state[0] + DT * spin, spin])


def environment() -> Env:
    """The pendulum, for a task that is a target angle ()."""

    def observe(state: Array) -> Array:
        return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])

    def reset(task: Task, key: RngKey) -> tuple[Array, Array]:
        state = jax.random.uniform(key, (2,), minval=-1, maxval=1) * jnp.array([jnp.pi, 1])
        return state, observe(state)

    def step(task: Task, state: Array, action: Array, key: RngKey) -> Step:
        torque = jnp.clip(action[0], -TORQUE, TORQUE)
        reward = -(wrapped(state[0] - task) ** 2) - 0.1 * state[1] ** 2 - 0.001 * torque**2
        new = move(state, torque)
        return Step(new, observe(new), reward, jnp.bool_(False))

    sides = (1.0, 1.0, SPEED)
    return Env(reset, step, Box(tuple(-side for side in sides), sides), box(1, -TORQUE, TORQUE))


def pendulum(agents: int = 8, gamma: float = 0.98, spread: float = 0.4) -> Environments:
    """Pendulum with N target angles, evenly from -spread to spread, in radians from upright; one torque in [-2, 2].

        reward_i = -(angle - angle_i)^2 - 0.1 velocity^2 - 0.001 torque^2,   differences of angles in [-pi, pi)

    The motor can hold it up to 0.41 from upright. The policy sees cosine, sine and angular velocity. Rewards lie in
    [-16.2736, 0], costs in [0, 1], and no episode terminates. With spread = 0 all agents have Pendulum-v1's reward.
    """
    if not 0 <= spread <= np.pi:
        raise InputError(f"pendulum: spread = {spread:g}; it must lie in [0, pi]")
    env = environment()
    tasks = spread * (2 * np.arange(agents) - agents + 1) / max(agents - 1, 1)
    play = partial(jax_env.play, env)

    return Environments(
        name="pendulum",
        observations=env.observations,
        actions=env.actions,
        tasks=tasks,
        play=play,
        horizon=200,
        gamma=gamma,
        reward_range=(-WORST, 0.0),
        reward_scale=1 / WORST,
        agents=tuple(f"target {target:.2f} rad" for target in tasks),
        source=f"pendulum(agents={agents}, gamma={gamma}, spread={spread})",
        frames=frames.filmed(play, frames.rod),
    )
