"""What becomes of uploads on their way: how one is coded, and how all are combined; `core` has all of these names."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


class Combine(NamedTuple):
    """How uploads with a leading agent axis become what the server half sees.

    `merge(ups, who, key)` is given the uploads in the order of `who`, the positions (m,) of the agents that answered,
    and a random key of the exchange. With `per_agent` the result keeps one value per agent: each agent is then its own
    server, and State and Down have the leading axis N. Without `sent` nothing leaves the agent, and no message is
    counted; otherwise a node sends to, and hears from, `degree` others on average: 1 is a server. A rule that knows how
    many agents there are has the number in `agents`; one that must know it first is `made_for(N)`, and `of(N)` is the
    rule for N agents either way. `present(who)`, on a graph, says how many neighbours each of the agents at the
    positions who (…, m) has among them, on average.

    `block`, where there is one, sums a power-of-two block of neighbouring agents to a leading axis of length 1, such
    that merge(uploads) = finish(the blocks' sums, uploads, N) to the bit: then a device sends its sum alone.
    """

    merge: Callable[..., Any]
    per_agent: bool = False
    sent: bool = True
    block: Callable[[Any], Any] | None = None
    finish: Callable[[Any, Any, int], Any] | None = None
    degree: float = 1
    agents: int | None = None
    made_for: Callable[[int], Any] | None = None
    present: Callable[[Any], Any] | None = None

    def of(self, N: int) -> "Combine":
        """The rule for N agents; it raises where there can't be so many."""
        made: Combine = self if self.made_for is None else self.made_for(N)
        return made


def pairwise_sum(uploads: PyTree[Array]) -> PyTree[Array]:
    """Add over the leading axis, always in the same order: neighbours first, then neighbouring pairs, …

    Each power-of-two block of agents is summed before it meets another block, so that neither batching nor devices
    change the result. Uploads stand in the order of `who`, in whichever order answers come in over a network; with
    order="arrival" that is the order of a race, drawn from the seed, and another order is rounded in another way. Sums
    are taken in float64 where JAX's 64-bit mode is on.
    """

    def add(x: Array) -> Array:
        total = x.astype(jnp.promote_types(x.dtype, jax.dtypes.canonicalize_dtype(jnp.float64)))
        while total.shape[0] > 1:
            if total.shape[0] % 2:
                total = jnp.concatenate([total, jnp.zeros_like(total[:1])])
            total = total[0::2] + total[1::2]
        return total

    return jax.tree.map(add, uploads)


def mean_of_sums(sums: PyTree[Array], uploads: PyTree[Array], N: int) -> PyTree[Array]:
    """The average of N uploads, in their own dtypes, from sums of theirs."""
    return jax.tree.map(lambda total, x: (total[0] / N).astype(x.dtype), pairwise_sum(sums), uploads)


def pairwise_mean(uploads: PyTree[Array], who: Any = None, key: Any = None) -> PyTree[Array]:
    """Average over the leading axis, added in the order of `pairwise_sum`."""
    return mean_of_sums(uploads, uploads, jax.tree.leaves(uploads)[0].shape[0])


mean = Combine(pairwise_mean, block=pairwise_sum, finish=mean_of_sums)
alone = Combine(lambda uploads, who=None, key=None: uploads, per_agent=True, sent=False)
"""No communication: every agent is given back what it said."""


class Codec(NamedTuple):
    """How an upload travels: `encode(up, key)` is what is sent, a pytree of arrays, `decode(coded)` what is heard.

    Bytes are those of what is sent; whoever combines or checks uploads sees what is heard.
    """

    encode: Callable[[Any, Any], Any]
    decode: Callable[[Any], Any]


def codec_key(key: Any) -> Any:
    """The key that an upload is encoded with, from the agent's own of the exchange."""
    return jax.random.fold_in(key, zlib.crc32(b"codec"))


class Rounded(NamedTuple):
    """An array in fewer bits; `like` is empty, and says by its dtype what it was."""

    x: Any
    like: Any


class Largest(NamedTuple):
    """The k entries of the largest size; `like` is empty, and says by its shape and dtype what they are of."""

    values: Any
    at: Any
    like: Any


def rounded(dtype: Any) -> Codec:
    """Every number rounded to the nearest of this dtype."""
    encode = lambda x: Rounded(x.astype(dtype), jnp.zeros((0,), x.dtype))
    decode = lambda coded: coded.x.astype(coded.like.dtype)
    return _by_leaf(Rounded, encode, decode)


def top_k(k: int) -> Codec:
    """Of every array the k entries of the largest absolute value, with their places; the others count as 0."""
    if k < 1:
        raise ValueError(f"top_k: k = {k}; at least 1 entry must be sent")

    def encode(x: Any) -> Largest:
        flat = x.reshape(-1)
        _, at = jax.lax.top_k(jnp.abs(flat), min(k, flat.size))
        return Largest(flat[at], at.astype(jnp.int32), jnp.zeros((0, *x.shape), x.dtype))

    def decode(coded: Largest) -> Any:
        shape = coded.like.shape[1:]
        nothing = jnp.zeros(shape, coded.like.dtype).reshape(-1)
        return nothing.at[coded.at].set(coded.values, mode="drop").reshape(shape)

    return _by_leaf(Largest, encode, decode)


def _by_leaf(kind: type, encode: Any, decode: Any) -> Codec:
    is_leaf = lambda x: isinstance(x, kind)
    return Codec(lambda up, key: jax.tree.map(encode, up), lambda coded: jax.tree.map(decode, coded, is_leaf=is_leaf))
