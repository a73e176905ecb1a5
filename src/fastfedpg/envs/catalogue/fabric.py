"""What buildings are made of: how well they keep heat, how much of it they store, how much sun they let in.

The building of `office.py`, air and mass that exchange heat with each other and with the outdoors, with three factors:

    C_a dT_a = U_am (T_m - T_a) + loss U_ao (T_o - T_a) + q_a
    mass C_m dT_m = U_am (T_a - T_m) + loss U_mo (T_o - T_m) + q_m
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import expm

from fastfedpg.envs.catalogue.office import AIR, MASS, WALLS, WINDOWS, WITHIN

Values = Float[Array | np.ndarray, "..."]

APERTURE = 4.0
"""Square metres that take in as much sun as all windows do, with their glass and blinds."""


class Fabric(NamedTuple):
    """A building, or N: then each has a leading axis. Factors are 1 for the building of `office.py`."""

    loss: Float[Array | np.ndarray, "*N"]  # of heat through windows and walls
    mass: Float[Array | np.ndarray, "*N"]  # heat that a degree takes
    glass: Float[Array | np.ndarray, "*N"]  # sun that comes in
    stay: Float[Array | np.ndarray, "*N 2 2"]  # exp(R), where dx = R x + u: what an hour leaves of both temperatures
    gain: Float[Array | np.ndarray, "*N 2 2"]  # R^-1 (exp(R) - 1): what a constant u adds
    mean: Float[Array | np.ndarray, "*N 2"]  # first row of R^-1: x_1 - x_0 = R mean(x) + u


def fabric(loss: np.ndarray, mass: np.ndarray, glass: np.ndarray) -> Fabric:
    """Buildings with these factors, (N,) each, and what an hour does to them, exactly."""

    def rates(loss: float, mass: float) -> np.ndarray:
        to_air = [-(WITHIN + loss * WINDOWS) / AIR, WITHIN / AIR]
        return np.array([to_air, [WITHIN / (mass * MASS), -(WITHIN + loss * WALLS) / (mass * MASS)]])

    R = np.stack([rates(*both) for both in zip(loss, mass, strict=True)]) if len(loss) else np.zeros((0, 2, 2))
    stay = expm(R)
    inverse = np.linalg.inv(R)
    return Fabric(loss, mass, glass, stay, inverse @ (stay - np.eye(2)), inverse[:, 0])


def different(N: int, spread: float) -> Fabric:
    """N buildings whose factors lie between 1 / (1 + spread) and 1 + spread, evenly in their logarithms.

    Each factor steps through the range by a fraction of its own (the powers of the root of x^4 = x + 1), so that
    factors have nothing to do with each other or with the wishes of `offices`, and office i is the same for every N.
    """
    i, root = np.arange(N), 1.2207440846057596
    loss, mass, glass = ((1 + spread) ** (2 * ((0.5 + i / root**k) % 1) - 1) for k in (1, 2, 3))
    return fabric(loss, mass, glass)


def thermal(
    fabric: Fabric, air: Values, mass: Values, outdoor: Values, to_air: Values, to_mass: Values
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """Both temperatures an hour later and the air's mean, exactly.

    If the outdoor temperature and the heat that is brought to air and mass (kW) are constant.
    """
    a = (fabric.loss * WINDOWS * outdoor + to_air) / AIR
    m = (fabric.loss * WALLS * outdoor + to_mass) / (fabric.mass * MASS)
    stay, gain = jnp.asarray(fabric.stay), jnp.asarray(fabric.gain)
    new_air = stay[..., 0, 0] * air + stay[..., 0, 1] * mass + gain[..., 0, 0] * a + gain[..., 0, 1] * m
    new_mass = stay[..., 1, 0] * air + stay[..., 1, 1] * mass + gain[..., 1, 0] * a + gain[..., 1, 1] * m
    mean = jnp.asarray(fabric.mean)[..., 0] * (new_air - air - a) + fabric.mean[..., 1] * (new_mass - mass - m)
    return new_air, new_mass, mean
