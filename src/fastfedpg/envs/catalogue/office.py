"""A small office with a heat pump: its physics, its people, its weather and its electricity tariff.

200 m^2: air and building mass exchange heat with each other and with the outdoors,
people and sun bring some. Hourly steps; hour 0 of the year is Monday, 1 January, 0:00. Temperatures in degrees Celsius,
power in kW, energy in kWh, money in euros.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.linalg import expm

from fastfedpg.core import RngKey

YEAR = 8760
AIR, MASS = 0.8, 9.0  # heat that one degree takes, kWh/K
WITHIN, WINDOWS, WALLS = 2.0, 0.15, 0.10  # heat flow between air and mass, air and outdoors, mass and outdoors, kW/K
PUMP, COP = 4.0, 3.0  # most electric power, kW; heat moved for each kWh of it
SUN, PEOPLE = 3.0, 2.0  # most gains, kW; half of the sun's and all of the people's go to the air
OPEN, CLOSE = 8, 18  # hours of weekdays
BAND = 1.0  # comfort: preferred temperature plus or minus this, K

Degrees = Float[Array | np.ndarray, ""] | float

SETTING = np.array([18.5, 25.5])

_RATES = np.array([[-(WITHIN + WINDOWS) / AIR, WITHIN / AIR], [WITHIN / MASS, -(WITHIN + WALLS) / MASS]])
_STAY = expm(_RATES)
_GAIN = np.linalg.solve(_RATES, _STAY - np.eye(2))  # what a constant rate of change adds in an hour
_MEAN = np.linalg.inv(_RATES)[0]  # x_1 - x_0 = R mean(x) + u, where dx = R x + u


class OfficeState(NamedTuple):
    """An office at the beginning of an hour."""

    hour: Int[Array, ""]  # of the year
    air: Float[Array, ""]
    mass: Float[Array, ""]
    weather: Float[Array, ""]  # degrees warmer than usual
    odd: Bool[Array, ""]  # people do the opposite of the schedule


class Hour(NamedTuple):
    """What happened in an hour, or in many: then each has a leading axis."""

    hour: Int[Array, "*h"]  # of the year
    indoor: Float[Array, "*h"]  # mean air temperature
    outdoor: Float[Array, "*h"]
    occupied: Bool[Array, "*h"]
    power: Float[Array, "*h"]  # electric, kW; negative where it cools
    price: Float[Array, "*h"]  # euros per kWh

    @property
    def energy(self) -> Float[Array, "*h"]:
        """Electricity, kWh."""
        return jnp.abs(self.power)

    def outside(self, preferred: Float[Array | np.ndarray, "..."] | float) -> Float[Array, "*h"]:
        """Degrees outside the comfort band while somebody is there: summed over hours, degree-hours."""
        return jnp.maximum(jnp.abs(self.indoor - preferred) - BAND, 0) * self.occupied


def thermal(
    air: Float[Array, "..."], mass: Float[Array, "..."], outdoor: Float[Array, "..."], to_air: Array, to_mass: Array
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """Both temperatures an hour later and the air's mean, exactly, if outdoor temperature and heat (kW) are constant.

    C_a dT_a = U_am (T_m - T_a) + U_ao (T_o - T_a) + q_a,   C_m dT_m = U_am (T_a - T_m) + U_mo (T_o - T_m) + q_m
    """
    a, m = (WINDOWS * outdoor + to_air) / AIR, (WALLS * outdoor + to_mass) / MASS
    new_air = _STAY[0, 0] * air + _STAY[0, 1] * mass + _GAIN[0, 0] * a + _GAIN[0, 1] * m
    new_mass = _STAY[1, 0] * air + _STAY[1, 1] * mass + _GAIN[1, 0] * a + _GAIN[1, 1] * m
    return new_air, new_mass, _MEAN[0] * (new_air - air - a) + _MEAN[1] * (new_mass - mass - m)


def scheduled(hour: Int[Array, "..."]) -> Bool[Array, "..."]:
    """Whether people are expected: on weekdays from 8 to 18."""
    return ((hour // 24) % 7 < 5) & (hour % 24 >= OPEN) & (hour % 24 < CLOSE)


def price(hour: Int[Array, "..."]) -> Float[Array, "..."]:
    """Euros per kWh: 0.20 from 22 to 6, 0.45 from 17 to 21, else 0.30."""
    h = hour % 24
    return jnp.where((h >= 22) | (h < 6), 0.20, jnp.where((h >= 17) & (h < 21), 0.45, 0.30))


def _swing(hour: Array, period: int, peak: float) -> Array:
    return jnp.cos(2 * jnp.pi * (hour % period - peak) / period)


def outdoors(hour: Int[Array, ""], weather: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Temperature, warmest in late July and at 15:00, and the sun's heat through the windows, kW."""
    temperature = 10 + 9 * _swing(hour, YEAR, 24 * 205) + 4 * _swing(hour, 24, 15) + weather
    return temperature, SUN * jnp.maximum(_swing(hour, 24, 12.5) + 0.35 * _swing(hour, YEAR, 24 * 172), 0) / 1.35


def setpoints(action: Float[Array, "2"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Degrees to heat to, 14 to 23, and to cool to, 21 to 30."""
    return 18.5 + 4.5 * jnp.clip(action[0], -1, 1), 25.5 + 4.5 * jnp.clip(action[1], -1, 1)


def action(heat_to: Degrees, cool_to: Degrees) -> Float[Array, "2"]:
    """The action with these set points."""
    return jnp.clip((jnp.stack([jnp.asarray(heat_to, float), jnp.asarray(cool_to, float)]) - SETTING) / 4.5, -1, 1)


SEEN = (
    "indoor",
    "outdoor",
    "occupied",
    "expected",
    "hour_sin",
    "hour_cos",
    "weekday",
    "season_sin",
    "season_cos",
    "price",
)
"""What a thermostat sees: (indoor - 21) / 5, (outdoor - 10) / 15, whether people are there, the share of the next four
hours in which they are expected, time of day, weekday, time of the year, and (price - 0.30) / 0.15."""


def seen(
    hour: Int[Array, ""], air: Float[Array, ""], outdoor: Float[Array, ""], occupied: Bool[Array, ""]
) -> Float[Array, "10"]:
    """The numbers of SEEN."""
    day, year = 2 * jnp.pi * (hour % 24) / 24, 2 * jnp.pi * (hour % YEAR) / YEAR
    return jnp.stack(
        [
            (air - 21) / 5,
            (outdoor - 10) / 15,
            occupied * 1.0,
            jnp.mean(scheduled(hour + jnp.arange(1, 5)) * 1.0),
            jnp.sin(day),
            jnp.cos(day),
            (hour // 24 % 7 < 5) * 1.0,
            jnp.sin(year),
            jnp.cos(year),
            (price(hour) - 0.30) / 0.15,
        ]
    )


def observe(state: OfficeState) -> Float[Array, "10"]:
    """The numbers of SEEN, of this office."""
    outdoor, _ = outdoors(state.hour, state.weather)
    return seen(state.hour, state.air, outdoor, scheduled(state.hour) ^ state.odd)


def start(hour: Int[Array, ""], key: RngKey) -> OfficeState:
    """An office at this hour, at 18 to 24 degrees throughout, in some weather."""
    warm, weather = jax.random.split(key)
    air = jax.random.uniform(warm, (), float, 18, 24)
    return OfficeState(hour, air, air, 3 * jax.random.normal(weather, (), float), jnp.bool_(False))


def advance(state: OfficeState, action: Float[Array, "2"], key: RngKey) -> tuple[OfficeState, Hour]:
    """One hour: the heat pump brings the air to a set point by its end, or as near as its power allows."""
    weather, flip = jax.random.split(key)
    outdoor, sun = outdoors(state.hour, state.weather)
    occupied = scheduled(state.hour) ^ state.odd
    given = sun / 2 + PEOPLE * occupied
    free, _, _ = thermal(state.air, state.mass, outdoor, given, sun / 2)
    heat_to, cool_to = setpoints(action)
    missing = jnp.maximum(heat_to - free, 0) - jnp.maximum(free - jnp.maximum(cool_to, heat_to), 0)
    heat = jnp.clip(missing * AIR / _GAIN[0, 0], -PUMP * COP, PUMP * COP)
    air, mass, mean = thermal(state.air, state.mass, outdoor, given + heat, sun / 2)
    happened = Hour(state.hour, mean, outdoor, occupied, heat / COP, price(state.hour))
    changed = 0.98 * state.weather + 3 * np.sqrt(1 - 0.98**2) * jax.random.normal(weather, (), state.weather.dtype)
    odd = jax.random.uniform(flip) < jnp.where(state.odd, 0.6, 0.01)  # 2.5 hours, on average
    return OfficeState(state.hour + 1, air, mass, changed, odd), happened
