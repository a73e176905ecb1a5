"""What an agent can ask of a finite MDP, by name. Each oracle has its own name and is never passed off as another."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from fastfedpg.core import Oracle
from fastfedpg.oracles import exact as _exact
from fastfedpg.oracles import sampled as _sampled
from fastfedpg.oracles.exact import exact, truncated
from fastfedpg.oracles.sampled import gpomdp, reinforce


class Kind(NamedTuple):
    """How an oracle is made: `prepare(P, rho)` once, then `make(model, cost, gamma, **settings)` for each agent."""

    prepare: Callable[..., Any]
    make: Callable[..., Oracle]

    @property
    def settings(self) -> dict[str, bool]:
        """The names of its own settings, and whether each must be given."""
        given = ("model", "cost", "gamma", "tau")
        parameters = inspect.signature(self.make).parameters
        return {name: p.default is p.empty for name, p in parameters.items() if name not in given}


ORACLES: dict[str, Kind] = {
    "exact": Kind(_exact.prepare, exact),
    "truncated": Kind(_exact.prepare, truncated),
    "reinforce": Kind(_sampled.prepare, reinforce),
    "gpomdp": Kind(_sampled.prepare, gpomdp),
}

_PLAYED = ("reinforce", "gpomdp", "actor_critic")
ANSWERED_BY: dict[str, tuple[str, ...]] = {
    "log_prob": _PLAYED,
    "credit": _PLAYED,
    "transitions": _PLAYED,
    "tabular": ("exact", "truncated"),
    "observe": tuple(f"{name} in environments" for name in _PLAYED),
}
"""The oracles that give those answers which not all give."""

__all__ = ["ANSWERED_BY", "ORACLES", "Kind", "exact", "gpomdp", "reinforce", "truncated"]
