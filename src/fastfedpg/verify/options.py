"""What a report is asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from fastfedpg.experiment.words import Pairs

Show: TypeAlias = Callable[[int, str], None]
"""Called as show(part, title) before each piece of the work."""


@dataclass(frozen=True)
class VerifySettings:
    """What to check the paper's claims on."""

    problem: str | None = None
    """A problem's name (see `fastfedpg list`), or the path of an .npz file; several small ones unless given."""
    problem_args: Pairs = field(default_factory=dict)
    """Parameters of the problem's maker, as in n=3 gamma=.5."""
    agents: int | None = None
    """The number of agents N; the problem's own unless given."""
    reward_range: tuple[float, float] | None = None
    """LO HI of the rewards in a file, if not 0 1."""
    tau: float = 0.0
    """Entropy weight, in cost units; without any, Theorem 2 does not apply to softmax tables."""
    H: int = 5
    """Local steps in a round."""
    B: int = 4
    """Trajectories in an estimate."""
    K: int | None = None
    """Steps in a trajectory; so many that gamma^K is about 1e-5, and 100 at most, unless given."""
    quick: bool = False
    """Exact claims as ever; sampled ones with wider intervals, and of all sweeps only the noise floor against N."""
