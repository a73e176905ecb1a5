"""Weather as it is measured in the middle of Europe, by the hour: temperature, clouds and sun.

Three chains of unit variance, z' = rho z + sqrt(1 - rho^2) e with rho = exp(-1 / hours), carry what lasts: fronts (3
days), spells (30 days) and the sky (14 hours). Daily means then have a correlation of about 0.8 from one day to the
next, years differ by 0.8 degrees, as they do, and the state of the weather is three numbers. What is made of them is
the climate of Potsdam in round numbers: 10 degrees and 1,000 kWh/m^2 in a year, 1 degree in January and 19 in July,
two thirds of the sky covered. There is no rain and no wind.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float, Int

from fastfedpg.core import RngKey

YEAR = 8760
LATITUDE = np.deg2rad(52.0)
HOURS = np.array([72.0, 720.0, 14.0])
"""How long fronts, spells and the sky last: their correlation falls to 1/e."""


class Weather(NamedTuple):
    """What of the weather lasts into the next hour, each in its own standard deviations."""

    front: Float[Array, "*h"]
    spell: Float[Array, "*h"]
    sky: Float[Array, "*h"]  # overcast where it is positive


class Outdoors(NamedTuple):
    """What an hour is like outdoors."""

    temperature: Float[Array, "*h"]  # degrees Celsius
    clouds: Float[Array, "*h"]  # the share of the sky that they cover
    irradiance: Float[Array, "*h"]  # kW on a horizontal square metre


def begin(key: RngKey) -> Weather:
    """Some weather."""
    return Weather(*jax.random.normal(key, (3,), float))


def change(weather: Weather, e: Float[Array, "3"]) -> Weather:
    """The weather an hour later; e is standard normal."""
    rho = np.exp(-1 / HOURS)
    return Weather(*(rho[k] * z + np.sqrt(1 - rho[k] ** 2) * e[k] for k, z in enumerate(weather)))


def _swing(time: Array, period: float, peak: float) -> Array:
    return jnp.cos(2 * jnp.pi * (time - peak) / period)


def clear_sky(hour: Int[Array, "*h"]) -> Float[Array, "*h"]:
    """The sun on a clear day, in the middle of the hour, kW/m^2: 0.91 sin(height) - 0.03 (Kasten and Czeplak 1980)."""
    tilt = np.deg2rad(-23.44) * _swing(hour % YEAR, YEAR, -240)  # lowest ten days before the new year
    height = np.sin(LATITUDE) * jnp.sin(tilt) + np.cos(LATITUDE) * jnp.cos(tilt) * _swing(hour % 24, 24, 11.5)
    return jnp.maximum(0.91 * height - 0.03, 0)


def outdoors(hour: Int[Array, "*h"], weather: Weather) -> Outdoors:
    """What this hour of the year is like in this weather; s is 1 in late July and -1 in late January, n the clouds.

    n = Phi(0.7 - 0.2 s + 1.5 sky)                                   mostly clear or mostly covered, as it is
    T = 10 + 9.3 s + (4.2 - 0.8 s)(0.94 front + 0.35 spell)          colder by more in winter than in summer
      + 3 s (0.65 - n) + (4.5 + 1.5 s)(1 - 0.7 n) cos(hour - 15)     clear: warm summers, cold winters, large swings
    G = clear sky (1 - 0.75 n^3.4)                                   Kasten and Czeplak 1980, from Hamburg's records
    """
    s = _swing(hour % YEAR, YEAR, 24 * 203)
    n = ndtr(0.7 - 0.2 * s + 1.5 * weather.sky)
    seasonal = 10 + 9.3 * s + (4.2 - 0.8 * s) * (0.94 * weather.front + 0.35 * weather.spell)
    daily = 3 * s * (0.65 - n) + (4.5 + 1.5 * s) * (1 - 0.7 * n) * _swing(hour % 24, 24, 15)
    return Outdoors(seasonal + daily, n, clear_sky(hour) * (1 - 0.75 * n**3.4))
