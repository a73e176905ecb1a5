"""Gradients that are divided by a scale: the server averages what agents measure, so that all divide by the same."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Combine,
    Down,
    Exchange,
    Info,
    Memory,
    Oracle,
    Own,
    RngKey,
    State,
    Theta,
    Up,
    mean,
    pairwise_mean,
)


class Scaled(NamedTuple):
    """What the algorithm keeps or sends, and a scale beside it; 0 before there is one."""

    inner: Any
    scale: Any


def scaled(algorithm: Algorithm) -> Algorithm:
    """The algorithm, whose last upload in a round has one number more: the scale that the agent measured last.

        s = mean_i s_i,      g_i / s instead of g_i / s_i

    So agents count as in J. Divided by its own scale each, they would minimise mean_i J_i / s_i. The scale of a round
    is measured in the round before, and in the first one each agent has its own (see `oracles.ppo`).
    """
    last = len(algorithm.exchanges) - 1

    def with_scale(k: int, e: Exchange) -> Exchange:
        def agent(memory: Memory, own: Own, down: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Up, Info]:
            if oracle.scale is None or oracle.rescaled is None:
                raise ValueError("scaled: this oracle measures no scale")
            memory, own, up, info = e.agent(memory, oracle.rescaled(own, down.scale), down.inner, oracle, key)
            return memory, own, Scaled(up, oracle.scale(own)) if k == last else up, info

        def server(state: State, up: Up, share: float, key: RngKey) -> tuple[State, Down]:
            scale = up.scale if k == last else state.scale
            inner, down = e.server(state.inner, up.inner if k == last else up, share, key)
            return Scaled(inner, scale), Scaled(down, scale)

        return e._replace(agent=agent, server=server, combine=beside(e.combine) if k == last else e.combine)

    def init(theta: Theta, N: int) -> tuple[State, Down, Memory]:
        state, down, memory = algorithm.init(theta, N)
        none = jnp.zeros(N if algorithm.per_agent else (), jnp.result_type(float))
        return Scaled(state, none), Scaled(down, none), memory

    exchanges = tuple(with_scale(k, e) for k, e in enumerate(algorithm.exchanges))
    return algorithm._replace(init=init, exchanges=exchanges, policy=lambda state: algorithm.policy(state.inner))


def beside(combine: Combine) -> Combine:
    """The rule for what the algorithm sends, and the mean of scales, whatever that rule is; on a graph the same mix."""
    if combine is mean or combine.per_agent:
        return combine

    def merge(ups: Any, who: Any = None, key: Any = None) -> Scaled:
        return Scaled(combine.merge(ups.inner, who, key), pairwise_mean(ups.scale))

    return combine._replace(merge=merge, block=None, finish=None)
