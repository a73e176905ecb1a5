"""Thermostats of N equal small offices whose people weigh comfort against the electricity bill differently."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from fastfedpg.core import RngKey, Task
from fastfedpg.envs import jax_env
from fastfedpg.envs.catalogue.office import PUMP, SEEN, YEAR, Hour, OfficeState, advance, observe, start
from fastfedpg.envs.catalogue.office_rules import Control
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.jax_env import Env, Step
from fastfedpg.errors import InputError
from fastfedpg.spaces import box

WEEK = 168
WORST = 10.0
"""Further outside the comfort band than this, in degrees, is not worse."""


class Building(NamedTuple):
    """What a building's people want."""

    preferred: Float[Array | np.ndarray, "*N"]  # middle of the comfort band
    weight: Float[Array | np.ndarray, "*N"]  # euros that an hour outside the band is worth, for a square degree


def reward(building: Building, seen: Hour) -> Float[Array, "*h"]:
    """Minus the electricity bill, minus the discomfort: both in euros."""
    discomfort = jnp.minimum(seen.outside(building.preferred), WORST) ** 2
    return -seen.price * seen.energy - building.weight * discomfort


def environment() -> Env:
    """An office, for a task that is a Building; an episode starts at any hour of the year."""

    def reset(task: Task, key: RngKey) -> tuple[OfficeState, Array]:
        when, rest = jax.random.split(key)
        state = start(jax.random.randint(when, (), 0, YEAR, jnp.int32), rest)
        return state, observe(state)

    def step(task: Task, state: OfficeState, action: Array, key: RngKey) -> Step:
        new, seen = advance(state, action, key)
        return Step(new, observe(new), reward(task, seen), jnp.bool_(False))

    return Env(reset, step, box(len(SEEN)), box(2, -1, 1))


def buildings(agents: int, least: float, most: float) -> Building:
    """Weights from least to most in equal ratios; preferred temperatures from 20.5 to 22.5, in another order."""
    i = np.arange(agents)
    return Building(20.5 + 2 * (i * (np.sqrt(5) - 1) / 2 % 1), least * (most / least) ** (i / max(agents - 1, 1)))


def thermostats(agents: int = 32, gamma: float = 0.97, least: float = 0.02, most: float = 0.5) -> Environments:
    """One thermostat for N offices, by the hour, for a week: to what to heat, to what to cool.

        reward_i = -price |power| - w_i d_i^2,   d_i: degrees outside i's comfort band, while people are there

    in euros an hour. Weights w_i go from `least` to `most`, preferred temperatures from 20.5 to 22.5 degrees; what is
    seen (SEEN) does not tell whose office it is. The action sets temperatures, not power: an hour is long beside the
    air's own time (21 minutes), so that power held for an hour would overshoot, and set points are what thermostats
    have. Rewards lie in [-1.8 - 100 most, 0], and no episode terminates.
    """
    if not 0 < least <= most:
        raise InputError(f"thermostats: least = {least:g}, most = {most:g}; it must be 0 < least <= most")
    env = environment()
    tasks = buildings(agents, least, most)
    play = partial(jax_env.play, env)

    return Environments(
        name="thermostats",
        observations=env.observations,
        actions=env.actions,
        tasks=tasks,
        play=play,
        horizon=WEEK,
        gamma=gamma,
        reward_range=(-0.45 * PUMP - most * WORST**2, 0.0),
        agents=tuple(f"{c:.1f}°, {w:.2f} €/K²h" for c, w in zip(tasks.preferred, tasks.weight, strict=True)),
        source=f"thermostats(agents={agents}, gamma={gamma}, least={least}, most={most})",
    )


def trace(control: Control, days: int, seed: Int[Array, ""] | int, first: Int[Array, ""] | int = 0) -> Hour:
    """Days in an office, hour by hour, from midnight of day `first` of the year; the weather depends on the seed alone.

    Examples:
        >>> year = trace(setback(21.0), 365, 0)
        >>> kWh, degree_hours = year.energy.sum(), year.outside(21.0).sum()
    """
    key, opening = jax.random.split(jax.random.key(seed))

    def step(state: OfficeState, k: Int[Array, ""]) -> tuple[OfficeState, Hour]:
        acting, moving = jax.random.split(jax.random.fold_in(key, k))
        return advance(state, control(observe(state), acting), moving)

    beginning = start(jnp.asarray(24 * first, jnp.int32), opening)
    return lax.scan(step, beginning, jnp.arange(24 * days))[1]
