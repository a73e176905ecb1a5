"""A clock for simulations: what a round would take over a network, so that every synchronisation is paid for."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from fastfedpg.errors import InputError, unknown


class Clock(NamedTuple):
    """What takes time. All agents have such a link and such a machine, and none is faster than another for ever.

    Args:
        latency: seconds of one synchronisation, there and back, before the first byte.
        bandwidth: bytes in a second over an agent's link, each way.
        step_seconds: of one environment step, or of one gradient estimate where nothing is played.
        straggle: by how much an agent is late on average, as a share of its work; 0 is never.
    """

    latency: float
    bandwidth: float
    step_seconds: float
    straggle: float = 0.0


class Round(NamedTuple):
    """One round as a clock sees it: its synchronisations, one agent's bytes, and the busiest agent's steps."""

    syncs: int
    bytes_up: float
    bytes_down: float
    steps: float
    waiting: int  # agents that the slowest is one of; nobody waits where it is 1
    at_once: int = 1  # rounds under way at a time: arrivals, where nobody waits


def seconds(clock: Clock, a: Round) -> float:
    """The expected seconds of a round.

        syncs latency + (up + down) / bandwidth + steps step_seconds (1 + straggle H_m),    H_m = 1 + 1/2 + … + 1/m

    An agent takes 1 + s E times what its steps take, with s = straggle and E exponential with mean 1: a shifted
    exponential, which is never early. A server waits for the last of the m that take part. Why E max = H_m: of k that
    are not done, each ends at rate 1, so that the next does after 1/k on average, and what is left of the others is
    exponential as before; for k = m, …, 1 that adds up to H_m. It is the same in a round of two synchronisations,
    whether an agent is late in both alike or in each anew: the expectations of both parts add up, and each has this
    factor. Where agents have different numbers of steps the busiest's stand for all, which is at most too long.

    Where nobody waits m = 1. Agents that arrive one by one are all at work meanwhile: N of them, each back after C
    seconds on average, arrive C/N apart in the long run.
    """
    late = 1 + clock.straggle * sum(1 / k for k in range(1, a.waiting + 1))
    sent = (a.bytes_up + a.bytes_down) / clock.bandwidth
    return (a.syncs * clock.latency + sent + a.steps * clock.step_seconds * late) / a.at_once


def from_words(said: Mapping[str, object]) -> Clock:
    """A clock from names and values, perhaps as text; every mistake is told with what would be right."""
    example = "latency=0.1 bandwidth=1e6 step_seconds=1e-4 straggle=0.5"
    for name in said:
        if name not in Clock._fields:
            raise unknown("setting of a clock", name, Clock._fields)
    for name in Clock._fields:
        if name not in said and name not in Clock._field_defaults:
            raise InputError(f"clock has no {name}; say what takes how long, as in {example}")
    return Clock(**{name: _number(name, value) for name, value in said.items()})


UNITS = {"bandwidth": "bytes per second", "straggle": "a share of the work, as 0.5"}


def _number(name: str, value: object) -> float:
    unit = UNITS.get(name, "seconds")
    try:
        x = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        x = math.nan
    if math.isnan(x):
        raise InputError(f"clock: {name} = {value}; it must be a number: {unit}")
    if name == "bandwidth" and not x > 0:
        raise InputError(f"clock: bandwidth = {x:g}; it must be above 0: {unit}")
    if not x >= 0 or (math.isinf(x) and name != "bandwidth"):
        raise InputError(f"clock: {name} = {x:g}; it must be finite and at least 0: {unit}")
    return x
