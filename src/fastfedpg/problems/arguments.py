"""What the makers' parameters must be, and where their random numbers come from."""

import numpy as np

from fastfedpg.errors import InputError


def at_least(name: str, value: int, least: int) -> None:
    """A whole number that is not too small."""
    if value < least:
        raise InputError(f"{name} = {value}; it must be at least {least}")


def unit(name: str, value: float, most: float = 1) -> None:
    """A number in [0, 1], or in [0, most]."""
    if not 0 <= value <= most:
        raise InputError(f"{name} = {value:g}; it must lie in [0, {most:g}]")


def switch(name: str, value: int) -> bool:
    """A choice between two, given as a number as every parameter is."""
    if value not in (0, 1):
        raise InputError(f"{name} = {value}; it must be 1 for yes or 0 for no")
    return bool(value)


def generator(seed: int, what: str, agent: int | None = None) -> np.random.Generator:
    """The random numbers of one named draw."""
    at_least("seed", seed, 0)
    # Draws are counted like the runs' own keys, so that agent 7 stays the same agent whatever N is.
    return np.random.default_rng([*what.encode(), 0 if agent is None else 1 + agent, seed])
