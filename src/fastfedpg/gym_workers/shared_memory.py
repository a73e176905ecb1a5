"""The memory a process shares with its parent: what it is at, and the arrays of a call."""

import math
import mmap
from typing import Any

import numpy as np

STARTING, BUILDING, RESETTING = -3, -2, -1
"""What stands in the place of the step while none is taken."""

POLICY = -1
"""What stands in the place of the trajectory while the policy chooses."""

RESULTS = ("observations", "choices", "rewards", "alive", "terminated")
"""What is played, in the order of Episodes."""


ANY, MOST = -1, 512
"""In the place of a vector environment's size: it is made for as many as are asked for, and at most for these."""


def part(B: int, vector: int = 0) -> int:
    """How many trajectories of B are played side by side by one process: half of them, from 4 to 16.

    Those of a vector environment are as many as it has, or where it has ANY all B, in equal parts of at most MOST.

    A call of the policy is for as many, used or not, since what it rounds to depends on it: on B alone, and not on
    how many processes there are, or what else is played.
    """
    if vector:
        return vector if vector != ANY else math.ceil(B / math.ceil(B / MOST))
    return min(16, max(4, 2 ** math.ceil(math.log2(max(B, 1) / 2))))


def layout(lanes: int, B: int, K: int, d: int, w: int, o: int, a: int, dtype: str, first: int) -> dict[str, Any]:
    """Where the arrays of a call lie in the shared memory: (offset, shape, dtype) of each, and where they end."""
    shapes = {
        "theta": ((lanes, d), dtype),
        "noise": ((lanes, B, K, w), dtype),
        "observations": ((lanes, B, K + 1, o), dtype),
        "choices": ((lanes, B, K, a), dtype),
        "rewards": ((lanes, B, K), dtype),
        "seeds": ((lanes, B), "uint32"),
        "alive": ((lanes, B, K), "bool"),
        "terminated": ((lanes, B, K), "bool"),
    }
    found: dict[str, Any] = {}
    for name, (shape, kind) in shapes.items():
        found[name] = (first, shape, kind)
        first += -(-math.prod(shape) * np.dtype(kind).itemsize // 64) * 64
    return {**found, "end": first}


def views(memory: mmap.mmap, where: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a call."""
    return {name: np.ndarray(x[1], x[2], memory, x[0]) for name, x in where.items() if name != "end"}
