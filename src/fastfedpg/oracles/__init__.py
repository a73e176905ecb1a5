"""What an agent can ask of a finite MDP, by name. Each oracle has its own name and is never passed off as another."""

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


ORACLES: dict[str, Kind] = {
    "exact": Kind(_exact.prepare, exact),
    "truncated": Kind(_exact.prepare, truncated),
    "reinforce": Kind(_sampled.prepare, reinforce),
    "gpomdp": Kind(_sampled.prepare, gpomdp),
}

__all__ = ["ORACLES", "Kind", "exact", "gpomdp", "reinforce", "truncated"]
