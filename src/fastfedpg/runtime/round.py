"""An exchange in its halves, as every runtime carries it out: the agent's reply, what is made of all, the server."""

import zlib
from typing import Any

import jax

from fastfedpg.core import Algorithm, Down, Exchange, Info, Memory, Oracle, Own, RngKey, State, Theta, Up, codec_key

COMBINE = zlib.crc32(b"combine")
"""Folded into the server's key for the rule that combines, which so has random numbers of its own."""

OPEN = zlib.crc32(b"open")
"""Folded into the key that an oracle begins with, for what the algorithm keeps beside it."""


def begun(algorithm: Algorithm, oracle: Oracle, theta: Theta, memory: Memory, key: RngKey) -> tuple[Memory, Own]:
    """What an agent has before the first round: the algorithm's memory, from its slice, and the oracle's own."""
    own = oracle.init(key)
    if algorithm.open is not None:
        memory = algorithm.open(memory, theta, oracle, own, jax.random.fold_in(key, OPEN))
    return memory, own


def policies(algorithm: Algorithm, state: State, memory: Memory) -> Any:
    """What is recorded: the policy (d,), or one for each agent (N, d); `memory` has an axis for the agents."""
    theta = algorithm.policy(state)
    if algorithm.personalise is None:
        return theta
    return jax.vmap(algorithm.personalise, in_axes=(0 if theta.ndim == 2 else None, 0))(theta, memory)


def reply(
    e: Exchange, memory: Memory, own: Own, down: Down, oracle: Oracle, key: RngKey
) -> tuple[Memory, Own, Up, Info]:
    """One agent's half of an exchange; its upload as it travels."""
    memory, own, up, info = e.agent(memory, own, down, oracle, key)
    return memory, own, up if e.codec is None else e.codec.encode(up, codec_key(key)), info


def heard(e: Exchange, sent: Any) -> Up:
    """One agent's upload as it arrives. What is checked of it is checked here, before it is combined with others."""
    return sent if e.codec is None else e.codec.decode(sent)


def combined(e: Exchange, N: int, ups: Up, who: Any, key: RngKey) -> Up:
    """What the server's half sees of the uploads of those of N agents at the positions `who`; `key` is the server's."""
    return e.combine.of(N).merge(ups, who, jax.random.fold_in(key, COMBINE))


def served(e: Exchange, share: float, state: State, up: Up, key: RngKey, ids: Any = None) -> tuple[State, Down]:
    """The server's half. With `ids` each of these agents is its own server, and `state` has an axis for them."""
    if ids is None:
        return e.server(state, up, share, key)
    each = lambda state, up, i: e.server(state, up, share, jax.random.fold_in(key, i))
    return jax.vmap(each, in_axes=(0, 0 if e.combine.per_agent else None, 0))(state, up, ids)
