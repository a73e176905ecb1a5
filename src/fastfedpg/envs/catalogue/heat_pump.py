"""A heat pump between an office and the air outdoors: the colder it is when heat is wanted, the more it takes.

    COP(lift) = 6.81 - 0.121 lift + 0.000630 lift^2,   15 <= lift <= 60

is Staffell, Brett, Brandon and Hawkes' fit to measured air-source heat pumps (A review of domestic heat pumps, Energy
& Environmental Science 5, 2012): kWh of heat at the warm side for a kWh of electricity, by the degrees between both
sides. Heating lifts from outdoors to water of `SUPPLY` degrees. Cooling lifts from a coil of 10 degrees to a condenser
10 degrees above the outdoors; the heat given off there is what was taken from the room and the electricity itself, so
that COP - 1 is taken from the room.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

PUMP = 4.0  # most electric power, kW
SUPPLY = 40.0  # degrees, of large radiators and floors
COIL, ABOVE = 10.0, 10.0


def performance(lift: Float[Array, "..."]) -> Float[Array, "..."]:
    """The fit; what lies outside of the measured range is taken for its end."""
    x = jnp.clip(lift, 15, 60)
    return 6.81 - 0.121 * x + 0.000630 * x**2


def heating(outdoor: Float[Array, "..."]) -> Float[Array, "..."]:
    """Heat that a kWh brings in: 2.3 kWh at -10 degrees, 3.0 at 0, 3.8 at 10."""
    return performance(SUPPLY - outdoor)


def cooling(outdoor: Float[Array, "..."]) -> Float[Array, "..."]:
    """Heat that a kWh takes out: 3.6 kWh at 20 degrees, 2.7 at 30."""
    return performance(outdoor + ABOVE - COIL) - 1
