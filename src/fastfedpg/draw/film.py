"""A learned policy as a moving picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.errors import InputError, missing_extra
from fastfedpg.experiment import run_folder
from fastfedpg.experiment.learned import load
from fastfedpg.files import write_atomically
from fastfedpg.precision import float64

FPS = 30.0
"""Pictures in a second, where an environment does not say."""


@float64
def film(
    run: Path,
    out: Path,
    agent: int = 0,
    seed: int = 0,
    steps: int | None = None,
    every: int = 1,
    deterministic: bool = False,
) -> int:
    """One episode of a run's last policy in an agent's environment, as a GIF; returns the number of pictures."""
    learned = load(run, None, agent)
    known = learned.planned.here.as_environments()
    if known is None or learned.planned.policy is None:
        raise InputError(
            f"{run}: {learned.planned.name} is no environment, and can't be filmed; fastfedpg show draws it"
        )
    if known.frames is None:
        raise InputError(f"{known.name} can't be drawn")
    first, seeds = learned.planned.schedule.first_seed, learned.planned.schedule.seeds
    if not 0 <= seed < seeds:
        raise InputError(f"seed = {seed}; the run has seeds 0 to {seeds - 1}, counted from its first")
    theta = load(run, first + seed, agent).theta if seed else learned.theta
    policy = learned.policy.at_its_mode if deterministic else learned.policy
    pictures = known.frames(known.tasks, policy, theta, agent, seed, steps or learned.planned.episode, every)
    write(pictures, out, every, known.fps or FPS)
    return len(pictures)


def write(pictures: Sequence[np.ndarray], out: Path, every: int = 1, fps: float = FPS) -> None:
    """The pictures as a GIF that repeats, in the environment's own time."""
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("a film", "Pillow", "plot") from None
    out.parent.mkdir(parents=True, exist_ok=True)
    first, *rest = (_few_colours(Image.fromarray(np.ascontiguousarray(p))) for p in pictures)
    duration = max(LEAST, round(1000 * every / fps))
    with write_atomically(out) as part:
        first.save(part, format="GIF", save_all=True, append_images=rest, duration=duration, loop=0, optimize=True)


LEAST = 20
"""Milliseconds: shorter ones most programs show as long ones."""


def methods(comparison: Path) -> list[Path]:
    """The runs of a comparison, in its folder; nothing where it is none."""
    if not (comparison / run_folder.COMPARISON).is_file():
        return []
    return sorted(file.parent for file in comparison.glob("*/config.toml"))


def _few_colours(picture: Any) -> Any:
    return picture.quantize(64)
