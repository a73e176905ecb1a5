"""Uploads that are coded: fewer bits for a number, or only the largest entries, and what was left out comes later."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Codec,
    Down,
    Exchange,
    Info,
    Memory,
    Oracle,
    Own,
    RngKey,
    Theta,
    Up,
    codec_key,
    rounded,
)
from fastfedpg.core import top_k as top_k

float32 = rounded(jnp.float32)
half = rounded(jnp.float16)


class Coded(NamedTuple):
    """What the algorithm keeps at an agent, and what of each exchange's uploads was not heard yet."""

    memory: Memory
    errors: tuple[Up, ...]


def compressed(algorithm: Algorithm, codec: Codec, feedback: bool = True) -> Algorithm:
    """The algorithm with coded uploads; with feedback, what is lost is added to the next upload of the same exchange.

        c_i = C(e_i + u_i),      e_i <- e_i + u_i - c_i,      e_i = 0 at first

    so that what is heard adds up to what was meant, but for the last e_i (Seide et al. 2014; Stich et al. 2018). That
    is for uploads that are added to something, such as gradients and changes; parameters themselves are better sent
    without feedback. Exchanges of the first round alone, and those that send nothing, stay as they are.
    """
    if any(e.codec is not None for e in algorithm.exchanges):
        raise ValueError("compressed: an exchange of this algorithm has a codec already")
    coded = [k >= algorithm.opening and e.combine.sent for k, e in enumerate(algorithm.exchanges)]
    if not feedback:
        plain = (e._replace(codec=codec if c else None) for e, c in zip(algorithm.exchanges, coded, strict=True))
        return algorithm._replace(exchanges=tuple(plain))

    def fed_back(k: int, e: Exchange) -> Exchange:
        def agent(kept: Coded, own: Own, down: Down, oracle: Oracle, key: RngKey) -> tuple[Coded, Own, Up, Info]:
            memory, own, up, info = e.agent(kept.memory, own, down, oracle, key)
            if not coded[k]:
                return Coded(memory, kept.errors), own, up, info
            up = jax.tree.map(jnp.add, kept.errors[k], up)
            heard = codec.decode(codec.encode(up, codec_key(key)))
            error = jax.tree.map(jnp.subtract, up, heard)
            return Coded(memory, (*kept.errors[:k], error, *kept.errors[k + 1 :])), own, up, info

        return e._replace(agent=agent, codec=codec if coded[k] else None)

    def uploads(memory: Memory, theta: Theta, own: Own, oracle: Oracle, key: RngKey) -> tuple[Up, ...]:
        """Every exchange's upload in a round of this agent's alone."""
        state, down, _ = algorithm.init(theta, 1)
        if algorithm.per_agent:
            state, down = jax.tree.map(lambda x: x[0], (state, down))
        ups = []
        for e in algorithm.exchanges:
            memory, own, up, _ = e.agent(memory, own, down, oracle, key)
            state, down = e.server(state, up, 1.0, key)
            ups.append(up)
        return tuple(ups)

    def open(memory: Memory, theta: Theta, oracle: Oracle, own: Own, key: RngKey) -> Coded:
        memory = memory if algorithm.open is None else algorithm.open(memory, theta, oracle, own, key)
        one = lambda memory, theta, own: uploads(memory, theta, own, oracle, key)
        forms = [form if c else () for form, c in zip(jax.eval_shape(one, memory, theta, own), coded, strict=True)]
        return Coded(memory, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tuple(forms)))

    own_words = algorithm.personalise
    personalise = None if own_words is None else lambda theta, kept: own_words(theta, kept.memory)
    exchanges = tuple(fed_back(k, e) for k, e in enumerate(algorithm.exchanges))
    return algorithm._replace(exchanges=exchanges, open=open, personalise=personalise)
