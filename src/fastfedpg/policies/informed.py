"""A policy that is told more than an environment shows: an agent's own description stands beside each observation."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.policies.arrays import Rows, Theta, module
from fastfedpg.policies.policy import Policy
from fastfedpg.spaces import Box, Discrete, Space


def widened(space: Space, columns: int) -> Box:
    """What a policy observes: the numbers of a space, discrete ones one-hot, and so many of a description.

    Those have no bounds: what one agent's are says nothing of another's, and each must have the same space.
    """
    low, high = (
        (space.low, space.high) if isinstance(space, Box) else ((0.0,) * sum(_n(space)), (1.0,) * sum(_n(space)))
    )
    return Box((*low, *(-math.inf,) * columns), (*high, *(math.inf,) * columns))


def beside(xp: Any, space: Space, observation: Rows, own: Any) -> Rows:
    """Observations (…, o) and a description (c,) as rows of what `widened` says."""
    parts = [observation]
    if not isinstance(space, Box):
        n = _n(space)
        parts = [(observation[..., i : i + 1] == np.arange(n[i])).astype(own.dtype) for i in range(len(n))]
    return xp.concatenate([*parts, xp.broadcast_to(own, (*observation.shape[:-1], own.shape[-1]))], -1)


def _n(space: Any) -> tuple[int, ...]:
    return (space.n,) if isinstance(space, Discrete) else tuple(space.n)


def _choose(
    choose: Callable[..., Any], space: Space, columns: int, theta: Theta, observation: Rows, noise: Rows
) -> Rows:
    """A policy's choice, where the last numbers of theta are the description of whoever acts."""
    xp = module(theta, observation, noise)
    seen = beside(xp, space, observation.astype(theta.dtype, copy=False), theta[-columns:])
    return choose(theta[:-columns], seen, noise)


def informed(policy: Policy, space: Space, columns: int) -> Policy:
    """The same policy for environments that show a space, with a theta that ends with so many numbers of a description.

    theta reaches every place where actions are chosen, also processes that never load JAX, one for each agent. This
    longer one is made where an agent plays, and is seen by nobody else.
    """
    if policy.memory:
        raise InputError("a context is for policies without memory; take another policy than gru, or no context")
    return policy._replace(choose=partial(_choose, policy.choose, space, columns))
