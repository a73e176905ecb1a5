"""What a building's manager would do without learning: rules for the thermostat of an office.

They read what `office.SEEN` and `offices.SEEN` have in common, or say that they need the latter.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from fastfedpg.core import RngKey, Theta
from fastfedpg.envs.catalogue.office import BAND, Degrees, action
from fastfedpg.policies import Policy

Control = Callable[[Float[Array, " o"], RngKey], Float[Array, "2"]]
"""What is done about an observation: a rule, or a policy with its theta."""


class Programme(NamedTuple):
    """The settings of a programmed thermostat; for `offices`.

    While people are there, or expected within `hours + per_degree (set point - indoors)` hours, it keeps the comfort
    band, widened by `low` degrees below and `high` degrees above; else it heats to `night` and cools to 30.
    """

    night: Degrees = 16.0
    hours: Degrees = 4.0
    per_degree: Degrees = 0.0
    low: Degrees = 0.0
    high: Degrees = 0.0


def programmed(preferred: Degrees, programme: Programme) -> Control:
    """The rule with these settings, for an office that prefers this temperature."""
    low, high = preferred - BAND - programme.low, preferred + BAND + programme.high

    def rule(observation: Float[Array, " o"], key: RngKey) -> Float[Array, "2"]:
        cold = jnp.maximum(low - (21 + 5 * observation[0]), 0)
        hours = 12 * (1 - observation[10])
        starts = hours <= jnp.minimum(programme.hours + programme.per_degree * cold, 23.5) + 1e-6
        awake = (observation[2] > 0.5) | starts
        return action(jnp.where(awake, low, programme.night), jnp.where(awake, high, 30.0))

    return rule


def fixed(preferred: Degrees) -> Control:
    """The rule of a plain thermostat: the edges of the comfort band, day and night."""
    return lambda observation, key: action(preferred - BAND, preferred + BAND)


def setback(preferred: Degrees, night: Degrees = 16.0) -> Control:
    """The rule of a programmed thermostat: the comfort band while people are there or expected within four hours.

    At other times it heats to `night` only, and does not cool below 30 degrees.
    """

    def rule(observation: Float[Array, " o"], key: RngKey) -> Float[Array, "2"]:
        awake = (observation[2] > 0.5) | (observation[3] > 0)
        return jnp.where(awake, action(preferred - BAND, preferred + BAND), action(night, 30.0))

    return rule


def optimal_start(preferred: Degrees, per_degree: Degrees = 1.0, night: Degrees = 16.0) -> Control:
    """Setback that starts as late as it can: an hour before people come, and `per_degree` more for each degree missing.

    For `offices`. What is missing is the set point minus the air's temperature, as such controllers measure it.
    """
    return programmed(preferred, Programme(night, 1.0, per_degree))


def played(policy: Policy, theta: Theta, steady: bool = False) -> Control:
    """What a policy does; `steady`: without its noise, which for a Gaussian is its mean."""

    def rule(observation: Float[Array, " o"], key: RngKey) -> Float[Array, "2"]:
        noise = policy.noise(key, (), theta.dtype)
        return policy.action(policy.choose(theta, observation.astype(theta.dtype), noise * (1 - steady)))

    return rule
