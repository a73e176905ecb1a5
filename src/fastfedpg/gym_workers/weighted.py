"""Rewards that are vectors: an agent is a vector of weights over them, r_i = w_i . r."""

import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from fastfedpg.gym_workers.faults import Refused

Weights = tuple[float, ...]


def share(i: int, N: int, m: int) -> Weights:
    """Point i of N that are spread over the simplex of m weights: the same ones always, all positive, with sum 1.

    They come from points u of the unit cube that are spread evenly, u_1 = (i + 1/2) / N and, for j > 1,
    u_j = 1/2 + i a^-(j-1) mod 1 with a^(m-1) = a + 1 (Roberts' generalised golden ratio), by breaking a stick of
    length 1: w_j = (1 - w_1 - … - w_(j-1)) (1 - u_j^(1/(m-j))), and w_m is what is left. A uniform u makes a uniform w,
    so each part of the simplex has its share of the agents. With m = 2 they are midpoints, w_2 = (i + 1/2) / N.

    Examples:
        >>> [share(i, 2, 2) for i in range(2)]
        [(0.75, 0.25), (0.25, 0.75)]
    """
    a = 2.0
    for _ in range(60):  # the root, to the last bit: each turn brings it at least twice as near
        a = (a + 1) ** (1 / (m - 1)) if m > 2 else a
    left, found = 1.0, []
    for j in range(1, m):
        u = (i + 0.5) / N if j == 1 else math.fmod(0.5 + i * a ** -(j - 1), 1)
        kept = left * u ** (1 / (m - j))
        found.append(left - kept)
        left = kept
    return (*found, left)


def said(weights: Sequence[float]) -> str:
    """Weights in a few digits, as an agent's name."""
    return " ".join(f"{w:.3g}" for w in weights)


class Weighted(gymnasium.Wrapper):  # type: ignore[type-arg]
    """An environment whose reward is a vector r, with the reward w . r; `wants` has the weights in words."""

    def __init__(self, env: Any, weights: Weights) -> None:
        super().__init__(env)
        self.weights, self.wants = np.asarray(weights, float), said(weights)

    def step(self, action: Any) -> Any:
        """One step, for w . r."""
        seen, r, terminated, truncated, info = self.env.step(action)
        return seen, float(self.weights @ r), terminated, truncated, info


def length(env: Any) -> int:
    """How many numbers an environment's reward has."""
    space = getattr(env.unwrapped, "reward_space", None)
    shape = getattr(space, "shape", None)
    if shape is None or len(shape) != 1:
        raise Refused(f"the reward of {_id(env)} is no vector; mo:ID is for mo-gymnasium's own, and gym:ID for others")
    return int(shape[0])


def _id(env: Any) -> str:
    return str(getattr(env.spec, "id", env))


def shared_out(env: Any, i: int, N: int) -> Any:
    """The environment of agent i of N, whose weights are its share."""
    return Weighted(env, share(i, N, length(env)))


def given(env: Any, weights: Weights) -> Any:
    """The environment with weights that somebody gave."""
    if len(weights) != length(env):
        raise Refused(f"its weights are {said(weights)}; the reward of {_id(env)} has {length(env)} numbers")
    return Weighted(env, weights)
