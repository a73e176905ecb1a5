"""What can go wrong where environments are played, in words."""

import math
import os
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.errors import printable, text_of

TRUTHS = frozenset({bool, np.bool_})
REALS, NONE = "fiub", "cmMSUT"
"""Kinds of arrays: real numbers, and what NumPy may make real numbers of, but should not."""

RETURNED = {
    "reset": ("observation", "info"),
    "step": ("observation", "reward", "terminated", "truncated", "info"),
}


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


def short(x: Any) -> str:
    """What something is, in a few words."""
    kind = type(x).__name__ + (f" of {x.dtype}" if isinstance(x, np.ndarray) else "")
    try:
        x = x.item() if isinstance(x, np.generic) else x
        words = printable(" ".join(repr(x)[:200].split()))[:50]
    except Exception:  # it is somebody's own, or an int that is too long to be written
        words = "unspeakable"
    return f"{words}, a {kind}"


def number(x: Any) -> float:
    """A real number as a float; ValueError or TypeError where it is none, though NumPy would make one of it."""
    if type(x) not in (float, int):
        kind = getattr(getattr(x, "dtype", None), "kind", "O")
        if isinstance(x, str | bytes | bytearray | np.ma.MaskedArray) or np.ndim(x) or kind in NONE:
            raise TypeError
        if isinstance(x, np.ndarray) and x.dtype == object:
            return number(x.item())
    return float(x)


def numbers(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An observation, or those of several environments, as an array of numbers, of whatever shape."""
    try:
        found = np.asarray(x)
        kind = "M" if isinstance(x, np.ma.MaskedArray) else found.dtype.kind
        if kind == "O":
            return np.array([*map(number, found.reshape(-1).tolist())]).reshape(found.shape)
        if kind not in NONE:
            return found if kind in REALS else found.astype(float)
    except (TypeError, ValueError, OverflowError):
        pass
    raise Wrong(f"the observation is {short(x)}; it must be real numbers of shape {shape}")


def returned(x: Any, what: str) -> Any:
    """What reset or step returned, if it is as many things as it must be."""
    if not isinstance(x, tuple) or len(x) != len(RETURNED[what]):
        words = f"a tuple of {len(x)}" if isinstance(x, tuple) else f"a {type(x).__name__}"
        raise Wrong(f"{what} returned {words}; it must return ({', '.join(RETURNED[what])})")
    return x


def each(rewards: Any, terminated: Any, truncated: Any, n: int) -> list[np.ndarray]:
    """What a vector environment pays and says, as arrays with one for each of its environments."""
    found = []
    for name, x in (("rewards have", rewards), ("terminated has", terminated), ("truncated has", truncated)):
        try:
            array = np.asarray(x)
        except ValueError:
            raise Wrong(f"{name} no shape: {short(x)}; there are {n} environments") from None
        if array.shape != (n,) or isinstance(x, np.ma.MaskedArray):
            what = "" if array.shape and type(x) is np.ndarray else f": {short(x)}"
            raise Wrong(f"{name} shape {array.shape}{what}; there are {n} environments, so it must be an array ({n},)")
        found.append(array)
    return found


def missing(observations: np.ndarray, beat: Any) -> None:
    """Say which trajectory's observation is no number."""
    rows, columns = np.nonzero(~np.isfinite(observations))
    beat[1], x = rows[0], observations[rows[0], columns[0]]
    narrow = f" in {observations.dtype}" if np.isinf(x) and observations.dtype != np.float64 else ""
    raise Wrong(f"number {columns[0]} of the observation is {x}{narrow}")


def checked(playing: np.ndarray, said: Any, limits: Any, beat: Any) -> Any:
    """Rewards, terminated and truncated as arrays of numbers and truths, each looked at."""
    (lo, hi), (paid, ended, cut) = limits, said
    rewards = np.zeros(len(playing))
    for i, j in enumerate(playing.tolist()):
        beat[1] = j
        try:
            rewards[i] = reward = number(paid[i])
        except OverflowError:
            kind = type(paid[i]).__name__
            what = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} beyond the largest float"
            raise Wrong(f"the reward is {what}; it must be a number from {lo:g} to {hi:g}") from None
        except (TypeError, ValueError):
            raise Wrong(f"the reward is {short(paid[i])}; it must be a number") from None
        if not lo <= reward <= hi:
            check_reward(reward, limits)
        if type(ended[i]) not in TRUTHS or type(cut[i]) not in TRUTHS:
            check_flags(terminated=ended[i], truncated=cut[i])
    return rewards, np.array([*map(bool, ended)], bool), np.array([*map(bool, cut)], bool)


def largest(dtype: Any) -> float:
    """The largest float that a type rounds to a number, which is a little above its own largest."""
    info = np.finfo(dtype)
    if dtype == np.float64:
        return float(info.max)
    return math.nextafter(float(info.max) + 2.0 ** (info.maxexp - info.nmant - 2), 0)


def outside(paid: np.ndarray, up: np.ndarray, limits: Any, beat: Any, dtype: Any) -> None:
    """Say which of the rewards (k, j) of those that are up comes first that is none, or is too large."""
    most = largest(dtype)
    lo, hi = max(limits[0], -most), min(limits[1], most)
    if not paid.size or (lo <= paid.min() and paid.max() <= hi):
        return
    steps, lanes = np.nonzero(up & ~((lo <= paid) & (paid <= hi)))
    if len(steps):
        beat[0], beat[1] = int(steps[0]), int(lanes[0])
        check_reward(float(paid[steps[0], lanes[0]]), limits, dtype)


def check_flags(**flags: Any) -> None:
    """Say which flag is no truth: None would count as False."""
    for name, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)) and (np.ndim(flag) or getattr(flag, "dtype", None) != np.bool_):
            raise Wrong(f"{name} is {short(flag)}; it must be True or False")


def check_reward(reward: float, limits: tuple[float, float], dtype: Any = float) -> None:
    """Say what is wrong with a reward."""
    lo, hi = limits
    if not math.isfinite(reward):
        raise Wrong(f"the reward is {reward}")
    if lo <= reward <= hi:
        raise Wrong(f"the reward {reward:g} does not fit {np.dtype(dtype)}")
    raise Wrong(f"the reward {reward:g} lies outside reward_range = ({lo:g}, {hi:g})")
