"""What can go wrong where environments are played, in words."""

import math
import os
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.errors import text_of

TRUTHS = frozenset({bool, np.bool_})


class Wrong(Exception):
    """What an environment did that it should not."""


class Refused(Exception):
    """What can't be done, through no fault of the environment's code."""


def blamed(why: BaseException) -> str:
    """An exception in words, with the place in the user's own code, or else where it was raised."""
    frames = traceback.extract_tb(why.__traceback__)
    here, library = str(Path(__file__).parent), str(Path(os.__file__).parent)
    ours = (here, library, "site-packages", "dist-packages", "<frozen")
    theirs = [x for x in frames if not any(part in x.filename for part in ours)]
    place = (theirs or list(frames))[-1]
    return f"{type(why).__name__}: {text_of(why)} ({place.filename}:{place.lineno})"


def missing(observations: np.ndarray, beat: Any) -> None:
    """Say which trajectory's observation is no number."""
    rows, columns = np.nonzero(~np.isfinite(observations))
    beat[1] = rows[0]
    raise Wrong(f"number {columns[0]} of the observation is {observations[rows[0], columns[0]]}")


def checked(playing: np.ndarray, said: Any, limits: Any, beat: Any) -> Any:
    """Rewards, terminated and truncated as arrays of numbers and truths, each looked at."""
    (lo, hi), (paid, ended, cut) = limits, said
    numbers = np.zeros(len(playing))
    for i, j in enumerate(playing.tolist()):
        beat[1] = j
        if isinstance(paid[i], str | bytes):  # which float would read
            raise Wrong(f"the reward is {paid[i][:50]!r}, a {type(paid[i]).__name__}; it must be a number")
        numbers[i] = reward = float(paid[i])
        if not lo <= reward <= hi:
            check_reward(reward, lo, hi)
        if type(ended[i]) not in TRUTHS or type(cut[i]) not in TRUTHS:
            check_flags(terminated=ended[i], truncated=cut[i])
    return numbers, np.array([*map(bool, ended)], bool), np.array([*map(bool, cut)], bool)


def outside(paid: np.ndarray, up: np.ndarray, limits: Any, beat: Any) -> None:
    """Say which of the rewards (k, j) of those that are up comes first that is none, or outside its limits."""
    lo, hi = limits
    if not paid.size or (lo <= paid.min() and paid.max() <= hi):
        return
    steps, lanes = np.nonzero(up & ~((lo <= paid) & (paid <= hi)))
    if len(steps):
        beat[0], beat[1] = int(steps[0]), int(lanes[0])
        check_reward(float(paid[steps[0], lanes[0]]), lo, hi)


def check_flags(**flags: Any) -> None:
    """Say which flag is no truth: None would count as False."""
    for name, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)) and (np.ndim(flag) or getattr(flag, "dtype", None) != np.bool_):
            raise Wrong(f"{name} is {repr(flag)[:50]}, a {type(flag).__name__}; it must be True or False")


def check_reward(reward: float, lo: float, hi: float) -> None:
    """Say what is wrong with a reward."""
    if math.isfinite(reward):
        raise Wrong(f"the reward {reward:g} lies outside reward_range = ({lo:g}, {hi:g})")
    raise Wrong(f"the reward is {reward}")
