"""How a problem's numbers are said."""

from collections.abc import Sequence

import numpy as np

FEW = 8
"""What each action is called, and what each agent has, is said of so many; else their number, or their range."""


def by_agent(agents: Sequence[str], values: np.ndarray) -> str:
    """A number for every agent."""
    each = "; ".join(f"{name} {x:.4g}" for name, x in zip(agents, values, strict=True))
    return each if len(agents) <= FEW else f"{values.min():.4g} to {values.max():.4g}"
