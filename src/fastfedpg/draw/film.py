"""A learned policy as a moving picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg import problems
from fastfedpg.errors import InputError, missing_extra
from fastfedpg.experiment.config import from_toml
from fastfedpg.experiment.problem import build_known
from fastfedpg.files import write_atomically
from fastfedpg.precision import float64
from fastfedpg.problems.npz import read_npz

MILLISECONDS = 33
"""Between two pictures."""


@float64
def film(run: Path, out: Path, agent: int = 0, seed: int = 0, steps: int | None = None, every: int = 1) -> int:
    """One episode of a run's last policy in an agent's environment, as a GIF; returns the number of pictures."""
    if not (run / "config.toml").is_file():
        raise InputError(f"{run}: not a run: there is no config.toml in it")
    config = from_toml(run / "config.toml")
    made = problems.make(config.problem, config.problem_args, config.agents, config.reward_range)
    built = build_known(config, made)
    policy = built.policy
    known = None if built.known is None or policy is None else built.known.as_environments()
    if known is None or policy is None:
        raise InputError(f"{run}: {made.name} is no environment, and can't be filmed; fastfedpg show draws it")
    if not 0 <= agent < known.N:
        raise InputError(f"agent = {agent}; {known.name} has agents 0 to {known.N - 1}")
    if known.frames is None:
        raise InputError(f"{known.name} can't be drawn")
    thetas = read_npz(run / "final.npz", ("theta",))["theta"]
    if not 0 <= seed < len(thetas):
        raise InputError(f"seed = {seed}; the run has seeds 0 to {len(thetas) - 1}, counted from its first")
    theta = thetas[seed][agent] if thetas.ndim == 3 else thetas[seed]
    length = steps or config.get("K") or known.horizon
    pictures = known.frames(policy, np.asarray(theta), agent, seed, length, every)
    write(pictures, out, every)
    return len(pictures)


def write(pictures: Sequence[np.ndarray], out: Path, every: int = 1) -> None:
    """The pictures as a GIF that repeats."""
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("a film", "Pillow", "plot") from None
    out.parent.mkdir(parents=True, exist_ok=True)
    first, *rest = (_few_colours(Image.fromarray(np.ascontiguousarray(p))) for p in pictures)
    with write_atomically(out) as part:
        first.save(
            part, format="GIF", save_all=True, append_images=rest, duration=MILLISECONDS * every, loop=0, optimize=True
        )


def _few_colours(picture: Any) -> Any:
    return picture.quantize(64)
