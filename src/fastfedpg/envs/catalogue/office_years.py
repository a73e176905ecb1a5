"""Whole years in `offices`: what they cost, and which settings of a programmed thermostat cost least."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from fastfedpg.core import RngKey
from fastfedpg.envs.catalogue.office import YEAR, Hour, setpoints
from fastfedpg.envs.catalogue.office_rules import Control, Programme, programmed
from fastfedpg.envs.catalogue.offices import Moment, Office, advance, observe, start
from fastfedpg.envs.catalogue.thermostats import reward

TENTH = 0.1
"""Degrees: nearer to the comfort band than this nobody feels that it was left."""

Make = Callable[[Office, Any], Control]
"""make(office, its own settings): who controls it."""


class Costs(NamedTuple):
    """What a year, or many, came to."""

    energy: Float[Array | np.ndarray, "*y"]  # euros
    discomfort: Float[Array | np.ndarray, "*y"]  # euros
    outside: Float[Array | np.ndarray, "*y"]  # hours with people, more than TENTH outside the comfort band
    far: Float[Array | np.ndarray, "*y"]  # more than a degree

    @property
    def total(self) -> Float[Array | np.ndarray, "*y"]:
        """Euros, discomfort included."""
        return self.energy + self.discomfort


class Log(NamedTuple):
    """What happened, hour by hour, and what the thermostat was set to."""

    hours: Hour
    heat_to: Float[Array, "*h"]
    cool_to: Float[Array, "*h"]


def costs(office: Office, hours: Hour) -> Costs:
    """Of each hour."""
    energy = hours.price * hours.energy
    away = hours.outside(office.preferred)
    return Costs(energy, -reward(office, hours) - energy, (away > TENTH) * 1.0, (away > 1) * 1.0)  # type: ignore[arg-type]


def _hourly(office: Office, control: Control, key: RngKey) -> Callable[[Moment, Array], tuple[Moment, Log]]:
    def step(state: Moment, k: Int[Array, ""]) -> tuple[Moment, Log]:
        acting, moving = jax.random.split(jax.random.fold_in(key, k))
        action = control(observe(office, state), acting)
        state, hours = advance(office.fabric, state, action, moving)
        return state, Log(hours, *setpoints(action))

    return step


def _begun(seed: Int[Array, ""] | int, first: int) -> tuple[RngKey, Moment]:
    key, opening = jax.random.split(jax.random.key(seed))
    return key, start(jnp.asarray(24 * first, jnp.int32), opening)


def log(office: Office, control: Control, days: int, seed: Int[Array, ""] | int, first: int = 0) -> Log:
    """Days in an office from midnight of day `first` of the year; the weather depends on the seed alone."""
    key, state = _begun(seed, first)
    return lax.scan(_hourly(office, control, key), state, jnp.arange(24 * days))[1]


def year(office: Office, control: Control, seed: Int[Array, ""] | int) -> Costs:
    """What a year costs, from 1 January, in the weather of this seed: the sums of `log`, without keeping it."""
    key, state = _begun(seed, 0)
    hourly = _hourly(office, control, key)

    def step(carry: tuple[Moment, Costs], k: Array) -> tuple[tuple[Moment, Costs], None]:
        state, so_far = carry
        state, new = hourly(state, k)
        return (state, jax.tree.map(jnp.add, so_far, costs(office, new.hours))), None

    nothing = Costs(*jnp.zeros(4))
    return lax.scan(step, (state, nothing), jnp.arange(YEAR))[0][1]


@partial(jax.jit, static_argnums=0)
def _every(make: Make, offices: Office, own: Any, seed: Array) -> Costs:
    return jax.vmap(lambda office, its: year(office, make(office, its), seed))(offices, own)


def years(
    make: Make, offices: Office, own: Any, seeds: Sequence[int], report: Callable[[], None] = lambda: None
) -> Costs:
    """Every office, (N,), in every weather year: arrays (years, N). `report` is called after each year.

    Args:
        make: the control of an office with its own settings.
        offices: N of them.
        own: a pytree of arrays with leading axis N, or None.
        seeds: the weather years; all offices, whoever controls them, have the same weather.
        report: hears when a year is done.
    """
    found = []
    for seed in seeds:
        found.append(jax.tree.map(np.asarray, _every(make, offices, own, jnp.asarray(seed))))
        report()
    return jax.tree.map(lambda *all_years: np.stack(all_years), *found)


def grid(**values: Sequence[float]) -> Programme:
    """All combinations of these settings, (G,) each; the others have their defaults."""
    rows = [Programme(**dict(zip(values, row, strict=True))) for row in product(*values.values())]
    return Programme(*(np.array(column, float) for column in zip(*rows, strict=True)))


@partial(jax.jit, static_argnums=3)
def _tried(offices: Office, programmes: Programme, seed: Array, preferred: float | None) -> Array:
    def cost(office: Office, programme: Programme) -> Array:
        known = office.preferred if preferred is None else preferred
        return jnp.asarray(year(office, programmed(known, programme), seed).total)

    return jax.vmap(lambda p: jax.vmap(lambda office: cost(office, p))(offices))(programmes)


def search(
    offices: Office,
    programmes: Programme,
    seeds: Sequence[int],
    preferred: float | None = None,
    at_once: int = 64,
    report: Callable[[], None] = lambda: None,
) -> Float[np.ndarray, "G N"]:
    """What each programme costs each office a year, in the mean over these weather years.

    The best common programme is `search(…).mean(axis=1).argmin()`, the best personal ones `search(…).argmin(axis=0)`.

    Args:
        offices: N of them.
        programmes: G of them, as from `grid`.
        seeds: weather years, others than those in which the winner is judged.
        preferred: what every thermostat takes for its office's wish, where it is not told.
        at_once: programmes that are tried side by side.
        report: hears when so many are done, in one year.
    """
    found = []
    for first in range(0, np.size(programmes.night), at_once):
        some = Programme(*(np.asarray(x)[first : first + at_once] for x in programmes))
        totals = []
        for seed in seeds:
            totals.append(np.asarray(_tried(offices, some, jnp.asarray(seed), preferred)))
            report()
        found.append(np.mean(totals, axis=0))
    return np.concatenate(found)
