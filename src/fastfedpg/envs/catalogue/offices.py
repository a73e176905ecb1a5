"""Offices with heat pumps, whose people weigh comfort against the electricity bill differently; so may buildings.

It is `thermostats` with another physics: a heat pump that works harder in the cold, weather as it is measured, and
buildings that can differ. It has a name of its own, since another physics is another problem: `thermostats`, which
stored studies name, keeps every number.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import ndtri

from fastfedpg.core import RngKey, Task
from fastfedpg.envs import jax_env
from fastfedpg.envs.catalogue import heat_pump, office
from fastfedpg.envs.catalogue.fabric import APERTURE, Fabric, different, thermal
from fastfedpg.envs.catalogue.office import AIR, CLOSE, OPEN, PEOPLE, YEAR, Hour, price, scheduled, setpoints
from fastfedpg.envs.catalogue.thermostats import WEEK, WORST, buildings, reward
from fastfedpg.envs.catalogue.weather import Outdoors, Weather, begin, change, outdoors
from fastfedpg.envs.context import with_context
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.jax_env import Env, Step
from fastfedpg.errors import InputError
from fastfedpg.spaces import box

AHEAD = 24
"""So many hours before they are expected people are seen coming."""

_open = np.array([day < 5 and OPEN <= hour < CLOSE for day in (*range(7), 0) for hour in range(24)])
_COMING = np.array([min(1 + _open[h + 1 :].argmax(), AHEAD) for h in range(WEEK)])  # hours, from each of a week

MIDDLE = 21.5
"""The middle of all preferred temperatures."""

SEEN = (*office.SEEN, "coming", "sun")
"""What a thermostat sees: what that of `office.py` does, then 1 - h / 12, with the h >= 1 hours until people are next
expected (`AHEAD` if they are more), and the sun, 2 kW/m^2 - 1."""


class Office(NamedTuple):
    """An office, or N: then each has a leading axis."""

    preferred: Float[Array | np.ndarray, "*N"]  # middle of the comfort band
    weight: Float[Array | np.ndarray, "*N"]  # euros that an hour outside the band is worth, for a square degree
    fabric: Fabric


class Moment(NamedTuple):
    """An office at the beginning of an hour."""

    hour: Int[Array, ""]  # of the year
    air: Float[Array, ""]
    mass: Float[Array, ""]
    weather: Weather
    now: Outdoors  # what it is like in this weather, which is computed once and asked for twice
    odd: Bool[Array, ""]  # people do the opposite of the schedule


def start(hour: Int[Array, ""], key: RngKey) -> Moment:
    """An office at this hour, at 18 to 24 degrees throughout, in some weather."""
    warm, weather = jax.random.split(key)
    air = jax.random.uniform(warm, (), float, 18, 24)
    found = begin(weather)
    return Moment(hour, air, air, found, outdoors(hour, found), jnp.bool_(False))


def observe(task: Office, state: Moment) -> Float[Array, " o"]:
    """The numbers of SEEN."""
    known = office.seen(state.hour, state.air, state.now.temperature, scheduled(state.hour) ^ state.odd)
    hours = jnp.asarray(_COMING, jnp.result_type(float))[state.hour % WEEK]
    return jnp.concatenate([known, jnp.stack([1 - hours / 12, 2 * state.now.irradiance - 1])])


def advance(fabric: Fabric, state: Moment, action: Float[Array, "2"], key: RngKey) -> tuple[Moment, Hour]:
    """One hour: the heat pump brings the air to a set point by its end, or as near as its power allows."""
    now, e = state.now, jax.random.normal(key, (4,), float)
    occupied = scheduled(state.hour) ^ state.odd
    sun = APERTURE * fabric.glass * now.irradiance
    given = sun / 2 + PEOPLE * occupied
    free, _, _ = thermal(fabric, state.air, state.mass, now.temperature, given, sun / 2)
    heat_to, cool_to = setpoints(action)
    missing = jnp.maximum(heat_to - free, 0) - jnp.maximum(free - jnp.maximum(cool_to, heat_to), 0)
    cop = jnp.where(missing > 0, heat_pump.heating(now.temperature), heat_pump.cooling(now.temperature))
    power = jnp.clip(missing * AIR / fabric.gain[..., 0, 0] / cop, -heat_pump.PUMP, heat_pump.PUMP)
    air, mass, mean = thermal(fabric, state.air, state.mass, now.temperature, given + power * cop, sun / 2)
    seen = Hour(state.hour, mean, now.temperature, occupied, power, price(state.hour))
    weather, hour = change(state.weather, e[:3]), state.hour + 1
    odd = e[3] < jnp.where(state.odd, ndtri(0.6), ndtri(0.01))  # 2.5 hours, on average
    return Moment(hour, air, mass, weather, outdoors(hour, weather), odd), seen


class Degrees(NamedTuple):
    """In whose degrees a thermostat sees and sets: those of a thermometer, or its office's own."""

    shown: Callable[[Office, Float[Array, " o"]], Float[Array, " o"]]  # of an observation in a thermometer's
    meant: Callable[[Office, Float[Array, "2"]], Float[Array, "2"]]  # an action in a thermometer's


def _warmer(task: Office) -> Any:
    return jnp.asarray(task.preferred) - MIDDLE


THERMOMETER = Degrees(lambda task, o: o, lambda task, a: a)
OWN = Degrees(lambda task, o: o.at[0].add(-_warmer(task) / 5), lambda task, a: a + _warmer(task) / 4.5)
"""At the preferred temperature every office sees the same number, and the same action asks for as much above it, as far
as set points reach: 14 to 23 degrees to heat to, and 21 to 30 to cool to, in all offices."""


def environment(degrees: Degrees = THERMOMETER) -> Env:
    """An office, for a task that is an Office; an episode starts at any hour of the year."""

    def reset(task: Task, key: RngKey) -> tuple[Moment, Array]:
        when, rest = jax.random.split(key)
        state = start(jax.random.randint(when, (), 0, YEAR, jnp.int32), rest)
        return state, degrees.shown(task, observe(task, state))

    def step(task: Task, state: Moment, action: Array, key: RngKey) -> Step:
        new, seen = advance(task.fabric, state, degrees.meant(task, action), key)
        return Step(new, degrees.shown(task, observe(task, new)), reward(task, seen), jnp.bool_(False))

    return Env(reset, step, box(len(SEEN)), box(2, -1, 1))


def offices_with(agents: int, least: float, most: float, spread: float) -> Office:
    """N offices; weights and preferred temperatures are those of `thermostats`."""
    people = buildings(agents, least, most)
    return Office(people.preferred, people.weight, different(agents, spread))


def told(all_of_them: Office, least: float, most: float, spread: float) -> Float[np.ndarray, "N c"]:
    """What a policy may be told of each: preferred temperature, weight and, where buildings differ, three of those."""
    own = [np.asarray(all_of_them.preferred) - MIDDLE, _between(all_of_them.weight, least, most)]
    if spread > 0:
        own += [_between(factor, 1 / (1 + spread), 1 + spread) for factor in all_of_them.fabric[:3]]
    return np.stack(own, axis=1)


def _between(x: Any, low: float, high: float) -> np.ndarray:
    """From -1 at `low` to 1 at `high`, in logarithms; 0 where they are the same."""
    return np.zeros_like(x) if low == high else 2 * np.log(np.asarray(x) / low) / np.log(high / low) - 1


def offices(
    agents: int = 32,
    gamma: float = 0.97,
    least: float = 0.02,
    most: float = 0.5,
    spread: float = 0.0,
    context: bool = False,
    own_degrees: bool = False,
) -> Environments:
    """One thermostat for N offices with heat pumps, by the hour, for a week: to what to heat, to what to cool.

        reward_i = -price |power| - w_i d_i^2,   d_i: degrees outside i's comfort band, while people are there

    in euros an hour, as in `thermostats`. A kWh brings in 2.3 kWh of heat at -10 degrees and 3.8 at 10, the weather has
    fronts, spells and clouds, and the pump has 4 kW: in the cold it must be started hours before people come.

    With spread = 0 all buildings are equal: the paper's setting, same dynamics and different rewards. With spread > 0
    each has its own: there is no average MDP any more, hence neither Proposition 1 nor Theorem 2, and what is left is
    Theorem 3, for kernels that differ: Fast-FedPG still goes to where the mean of the agents' gradients is zero. With
    `context` an office's numbers are a part of the state that never changes: then all have one kernel and one reward
    again, and differ in where they start.

    Args:
        least, most: weights w_i go from the one to the other, in euros for a square degree and an hour.
        spread: losses, mass and solar gain of buildings lie between 1 / (1 + spread) and 1 + spread.
        context: whether a policy's context (`with_context`, or `--context` with numbers of one's own) is its own
            office: preferred temperature, weight and, where buildings differ, those three numbers; each from -1 to 1.
        own_degrees: whether a thermostat sees and sets degrees above what its own people prefer, so that one policy
            means the same in all offices. With `context` all have one kernel still; without it they then differ.
    """
    if not 0 < least <= most:
        raise InputError(f"offices: least = {least:g}, most = {most:g}; it must be 0 < least <= most")
    if not 0 <= spread <= 1:
        raise InputError(f"offices: spread = {spread:g}; it must lie in [0, 1]: 0.2 is for buildings within 20%")
    tasks, env = offices_with(agents, least, most, spread), environment(OWN if own_degrees else THERMOMETER)
    about = f"agents={agents}, gamma={gamma}, least={least}, most={most}, spread={spread}, own_degrees={own_degrees}"
    made = Environments(
        name="offices",
        observations=env.observations,
        actions=env.actions,
        tasks=tasks,
        play=partial(jax_env.play, env),
        horizon=WEEK,
        gamma=gamma,
        reward_range=(-0.45 * heat_pump.PUMP - most * WORST**2, 0.0),
        agents=tuple(f"{c:.1f}°, {w:.2f} €/K²h" for c, w in zip(tasks.preferred, tasks.weight, strict=True)),
        source=f"offices({about})",
    )
    return with_context(made, told(tasks, least, most, spread)) if context else made
