"""A pole on a cart, to be kept upright at a place of each agent's liking."""

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
from fastfedpg.spaces import Box, Discrete

GRAVITY, CART, POLE, HALF, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
"""m/s^2, kg, kg, m (half of the pole), N, s: as in Barto, Sutton and Anderson (1983), without friction."""

EDGE, FALLEN = 2.4, np.radians(12)


def move(state: Float[Array, "4"], force: Float[Array, ""]) -> Float[Array, "4"]:
    """Position, velocity, angle and angular velocity after one Euler step."""
    _, v, angle, spin = state
    total, sin, cos = CART + POLE, jnp.sin(angle), jnp.cos(angle)
    push = (force + POLE * HALF * spin**2 * sin) / total
    turning = (GRAVITY * sin - cos * push) / (HALF * (4 / 3 - POLE * cos**2 / total))
    acceleration = push - POLE * HALF * turning * cos / total
    return state + DT * jnp.stack([v, acceleration, spin, turning])


def environment(alive: float, width: float) -> Env:
    """The cart, for a task that is a target position ()."""

    def reset(task: Task, key: RngKey) -> tuple[Array, Array]:
        state = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return state, state

    def step(task: Task, state: Array, action: Array, key: RngKey) -> Step:
        new = move(state, jnp.where(action[0] > 0.5, FORCE, -FORCE))
        reward = alive + (1 - alive) * jnp.exp(-(((new[0] - task) / width) ** 2))
        return Step(new, new, reward, (jnp.abs(new[0]) > EDGE) | (jnp.abs(new[2]) > FALLEN))

    sides = (2 * EDGE, float("inf"), 2 * float(FALLEN), float("inf"))
    return Env(reset, step, Box(tuple(-side for side in sides), sides), Discrete(2))


def cart_pole(
    agents: int = 8, gamma: float = 0.99, spread: float = 1.5, alive: float = 0.5, width: float = 0.75
) -> Environments:
    """Cart-pole with N target positions, evenly from -spread to spread; actions push it left (0) or right (1).

        reward_i = alive + (1 - alive) exp(-((x - x_i) / width)^2)

    An episode terminates where |x| > 2.4 or the pole leans by more than 12 degrees. Rewards lie in [0, 1]. With
    alive = 1 all agents have CartPole-v1's reward.
    """
    if not (0 <= alive <= 1 and width > 0 and 0 <= spread < EDGE):
        raise InputError(
            f"cart_pole: alive = {alive:g}, width = {width:g}, spread = {spread:g}; "
            f"alive lies in [0, 1], width > 0 and spread in [0, {EDGE}), where the track ends"
        )
    env = environment(alive, width)
    tasks = spread * (2 * np.arange(agents) - agents + 1) / max(agents - 1, 1)
    play = partial(jax_env.play, env)

    return Environments(
        name="cart-pole",
        observations=env.observations,
        actions=env.actions,
        tasks=tasks,
        play=play,
        horizon=200,
        gamma=gamma,
        reward_range=(0.0, 1.0),
        agents=tuple(f"target {target:.2f} m" for target in tasks),
        source=f"cart_pole(agents={agents}, gamma={gamma}, spread={spread}, alive={alive}, width={width})",
        frames=frames.filmed(play, frames.cart),
    )
