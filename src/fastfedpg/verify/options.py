"""What a report is asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import tyro

from fastfedpg.experiment.words import Pairs

_unset = lambda metavar: tyro.conf.arg(metavar=metavar, help_behavior_hint="")

Show: TypeAlias = Callable[[int, str], None]
"""Called as show(part, title) before each piece of the work."""


@dataclass(frozen=True)
class VerifySettings:
    """What to check the paper's claims on."""

    problem: Annotated[str | None, _unset("STR")] = None
    """A problem's name (see `fastfedpg list`), or the path of an .npz file; several small ones unless given."""
    problem_args: Pairs = field(default_factory=dict)
    """Parameters of the problem's maker, as in n=3 gamma=.5."""
    agents: Annotated[int | None, _unset("INT")] = None
    """The number of agents N; the problem's own unless given."""
    reward_range: Annotated[tuple[float, float] | None, _unset("LO HI")] = None
    """LO HI of the rewards in a file, if not 0 1."""
    tau: float = 0.0
    """Entropy weight, in cost units; without any, Theorem 2 does not apply to softmax tables."""
    H: int = 5
    """Local steps in a round."""
    B: int = 4
    """Trajectories in an estimate."""
    K: Annotated[int | None, _unset("INT")] = None
    """Steps in a trajectory; so many that gamma^K is about 1e-5, and 100 at most, unless given."""
    first_seed: int = 0
    """The first seed of everything that is drawn: other numbers are another report."""
    quick: bool = False
    """Exact claims as ever; sampled ones with wider intervals, and of all sweeps only the noise floor against N."""
