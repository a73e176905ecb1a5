"""What an agent can ask of its environment, by name; no oracle is ever passed off as another."""

import sys
from collections.abc import Callable
from typing import Any

from fastfedpg.oracles import exact as _exact
from fastfedpg.oracles.exact import exact, truncated
from fastfedpg.oracles.sampled import gpomdp, reinforce
from fastfedpg.tables import ORACLES, PLAYED


def preparation(make: Callable[..., Any]) -> Callable[..., Any]:
    """What an oracle's file makes of the dynamics, once for all agents: prepare(P, rho)."""
    found: Callable[..., Any] = getattr(sys.modules[make.__module__], "prepare", _exact.prepare)
    return found


_PLAYED = ("reinforce", "gpomdp", "actor_critic", "ppo", "trpo")
ANSWERED_BY: dict[str, tuple[str, ...]] = {
    "log_prob": _PLAYED,
    "credit": _PLAYED,
    "kl": _PLAYED,
    "entropy": _PLAYED,
    "transitions": _PLAYED,
    "tabular": ("exact", "truncated"),
    "anywhere": ("exact", "truncated"),
    "observe": tuple(f"{name} in environments" for name in _PLAYED),
    "B": ("exact", "truncated", *_PLAYED),
}
"""The oracles that give those answers which not all give."""

__all__ = ["ANSWERED_BY", "ORACLES", "PLAYED", "exact", "gpomdp", "preparation", "reinforce", "truncated"]
