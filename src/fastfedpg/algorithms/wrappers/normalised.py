"""Observations are measured once, before the first step, and what was found is part of theta from then on."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Combine,
    Down,
    Exchange,
    Info,
    Memory,
    Oracle,
    Own,
    RngKey,
    State,
    Sums,
    Theta,
    alone,
    mean,
    pairwise_mean,
)

Normalise = Callable[[Theta, Any, Any], Theta]
"""From theta and the observations' mean and standard deviation, each (o,), to theta."""

to_all = Combine(
    lambda ups, who=None, key=None: jax.tree.map(lambda x, m: jnp.broadcast_to(m, x.shape), ups, pairwise_mean(ups)),
    per_agent=True,
)
"""The mean, which agents on a graph have after enough messages to their neighbours."""


def normalised(algorithm: Algorithm, o: int, normalise: Normalise) -> Algorithm:
    """The algorithm after an opening exchange, in which every agent sends how many observations it saw, and their sums.

    The policy theta = 0 is played for it. Normalising by moving averages instead would change every agent's objective
    between the gradient that is sent and those that it corrects.
    """

    def measure(memory: Memory, own: Own, down: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Sums, Info]:
        if oracle.observe is None:
            raise ValueError("observations can't be normalised: this oracle sees none")
        sums, steps = oracle.observe(own, key, o)
        return memory, own, sums, Info(steps=steps)

    def begin(state: State, sums: Sums, share: float, key: RngKey) -> tuple[State, Down]:
        centre = sums.x / sums.n
        spread = jnp.sqrt(jnp.maximum(sums.xx / sums.n - centre**2, 0))
        every = jax.tree.map(lambda x: x[None], state) if algorithm.per_agent else state
        theta = algorithm.policy(every).reshape(-1)
        state, down, _ = algorithm.init(normalise(theta, centre, spread), 1)
        return jax.tree.map(lambda x: x[0], (state, down)) if algorithm.per_agent else (state, down)

    own = alone if not any(e.combine.sent for e in algorithm.exchanges) else to_all
    opening = Exchange("observations", measure, begin, own if algorithm.per_agent else mean)
    return algorithm._replace(exchanges=(opening, *algorithm.exchanges), opening=algorithm.opening + 1)
