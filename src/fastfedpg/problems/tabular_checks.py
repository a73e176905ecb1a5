"""What can be wrong with a finite MDP or with an oracle's settings, said so that it can be put right."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fastfedpg.errors import InputError, unknown
from fastfedpg.mdp.transitions import Sparse

SUM_TOLERANCE = 1e-6
"""Rows off by no more than this (float32 rounding over many states) are put right; anything larger is a mistake."""


WIDEST_RANGE = 1e100


def array(name: str, value: Any) -> np.ndarray:
    """The value as a fresh float64 array of finite numbers."""
    try:
        result = np.array(value)
    except ValueError as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from None
    if result.dtype.kind not in "fiub":
        raise InputError(f"{name} is not an array of real numbers (its type is {result.dtype})")
    result = result.astype(np.float64, copy=False)
    if not np.isfinite(result).all():
        where = first(np.asarray(~np.isfinite(result)))
        raise InputError(f"{name}{list(where) or ''} is {result[where]}; every entry must be a finite number")
    return result


def successors(states: np.ndarray, S: int) -> np.ndarray:
    """The numbers of next states, as int32."""
    bad = (states < 0) | (states >= S) | (states != np.floor(states))
    if bad.any():
        where = first(bad)
        index = ("agent", "state", "action", "entry")[-len(where) :]
        at = ", ".join(f"{what} {i}" for what, i in zip(index, where, strict=True))
        raise InputError(f"next of {at} is {states[where]:.9g}; it must be a state, a whole number from 0 to {S - 1}")
    return states.astype(np.int32)


def first(bad: np.ndarray) -> tuple[int, ...]:
    """The first index at which `bad` holds."""
    return tuple(int(i) for i in np.argwhere(bad)[0])


def gamma(value: Any) -> float:
    """The discount factor."""
    result = array("gamma", value)
    if result.size != 1 or not 0 <= result.item() < 1:
        raise InputError(f"gamma is {result.tolist()}; it must be one number in [0, 1)")
    return float(result.item())


def reward_range(value: Any) -> tuple[float, float]:
    """The (lo, hi) that rewards are stated to lie in."""
    result = array("reward_range", value)
    if result.shape != (2,) or not 0 < result[1] - result[0] < WIDEST_RANGE:
        raise InputError(f"reward_range is {result.tolist()}; it must be two numbers LO < HI, less than 1e100 apart")
    return float(result[0]), float(result[1])


def shapes(P: Any, reward: np.ndarray, rho: np.ndarray) -> None:
    """Every axis against what the other arrays say it should be."""
    if reward.ndim != 3:
        raise InputError(f"reward has shape {reward.shape}; it must be (N, S, A): agents, states, actions")
    if 0 in reward.shape:
        raise InputError(f"reward has shape {reward.shape}; there must be at least one agent, state and action")
    N, S, A = reward.shape
    if isinstance(P, Sparse):
        _axes("p", P.p, _kernel("entries"), N, S, A)
        if P.next.shape != P.p.shape:
            raise InputError(f"next has shape {P.next.shape} and p {P.p.shape}; they must have the same")
        if P.p.size == 0:
            raise InputError(f"next and p have shape {P.p.shape}; there must be at least one entry for each row")
    else:
        _axes("P", P, _kernel("next states"), N, S, A)
    _axes("rho", rho, {1: ("states",), 2: ("agents", "states")}, N, S, A)


def _kernel(last: str) -> dict[int, tuple[str, ...]]:
    return {3: ("states", "actions", last), 4: ("agents", "states", "actions", last)}


def _axes(name: str, x: Any, forms: dict[int, tuple[str, ...]], N: int, S: int, A: int) -> None:
    sizes: dict[str, Any] = {"agents": N, "states": S, "next states": S, "actions": A, "entries": "W"}
    if x.ndim not in forms:
        wanted = " or ".join(str(tuple(sizes[axis] for axis in form)).replace("'", "") for form in forms.values())
        raise InputError(f"{name} has shape {x.shape}; beside reward of shape {(N, S, A)} it must be {wanted}")
    for axis, meaning in enumerate(forms[x.ndim]):
        if x.shape[axis] != sizes[meaning] and meaning != "entries":
            raise InputError(
                f"{name} has shape {x.shape}: axis {axis} ({meaning}) has length {x.shape[axis]}, "
                f"but reward of shape {(N, S, A)} says {sizes[meaning]}"
            )


def distributions(name: str, p: np.ndarray, index: tuple[str, ...]) -> None:
    """Non-negative entries that sum to 1 over the last axis; rounding errors in the sum are divided out in place."""
    if (p < 0).any():
        where = first(p < 0)
        raise InputError(f"{name}{list(where)} is {p[where]:.6g}; a probability can't be negative")
    total = p.sum(axis=-1, keepdims=True)
    off = np.abs(total[..., 0] - 1) > SUM_TOLERANCE
    if off.any():
        where = first(np.atleast_1d(off))[: len(index)]
        at = ", ".join(f"{what} {i}" for what, i in zip(index, where, strict=True))
        raise InputError(f"{name}{f' of {at}' if at else ''} sums to {total[(*where, 0)]:.9g}; it must sum to 1")
    # Rows that are right to the last bits stay as they are, so that a saved problem is read back unchanged.
    np.divide(p, total, out=p, where=np.abs(total - 1) > 1e-15 * p.shape[-1])


def names(what: str, given: Iterable[str], usual: tuple[str, ...], distinct: bool = True) -> tuple[str, ...]:
    """What states, actions or agents are called; the usual names where nothing is given."""
    found = tuple(given) or usual
    if len(found) != len(usual):
        raise InputError(f"{what} has {len(found)} names; there are {len(usual)} {what}")
    for name in found:
        if not isinstance(name, str):
            raise InputError(f"{what} has {name!r}; names must be words")
    if distinct and len({*found}) < len(found):
        raise InputError(f"{what} has the name {next(x for x in found if found.count(x) > 1)!r} more than once")
    return found


def rewards(reward: np.ndarray, stated: tuple[float, float]) -> None:
    """Every agent's rewards within the stated range."""
    lo, hi = stated
    outside = (reward < lo) | (reward > hi)
    if outside.any():
        i = first(outside)[0]
        low, high = float(reward.min()), float(reward.max())
        high = high if high > low else low + 1.0
        raise InputError(
            f"rewards of agent {i} lie in [{reward[i].min():g}, {reward[i].max():g}], outside [{lo:g}, {hi:g}]; "
            f"state the range of all rewards, --reward-range {low!r} {high!r} (in Python reward_range=…)"
        )


def oracle_settings(oracle: str, takes: Mapping[str, bool], settings: dict[str, Any]) -> dict[str, Any]:
    """An oracle's own settings, if they are those it takes, and those it needs are there."""
    for name in settings:
        if name not in takes:
            raise InputError(f"oracle '{oracle}' has no setting {name}; it takes {', '.join(takes) or 'none'}")
    for name, needed in takes.items():
        if needed and settings.get(name) is None:
            raise InputError(f"oracle '{oracle}' needs {name}")
    for name in ("B", "K"):
        if name in settings and settings[name] < 1:
            raise InputError(f"{name} = {settings[name]}; it must be at least 1")
    baseline = settings.get("baseline", "none")
    if baseline not in ("none", "leave-one-out"):
        raise unknown("baseline", baseline, ("none", "leave-one-out"))
    return settings
