"""Tables to draw from in constant time, exact in integers: Walker's alias method (1977) on masses that add up to 2^31.

Probabilities are rounded once, to multiples of 2^-31; from there on nothing is rounded, so what is drawn has exactly
the probabilities that `masses` says, each within 2^-31 of the one asked for.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fastfedpg.errors import InputError

UNIT = 2**31
LARGEST = 2**28
"""Bins of a table: indices, four a bin, stay in int32."""


class Draw(NamedTuple):
    """Distributions, one a row. A row has W bins, a power of two, of mass UNIT / W each; each has two outcomes.

    A bin is four numbers, which one load fetches: the mass of its first outcome, that outcome, the one that has the
    rest of the bin, and nothing.
    """

    bins: Array | np.ndarray  # (…, W, 4) int32


def tabulate(p: np.ndarray, names: np.ndarray | None = None) -> Draw:
    """Distributions in the last axis, over 0, 1, … or the outcomes that are named."""
    if names is None:
        width = int((p > 0).sum(axis=-1).max())
        names = np.argsort(p <= 0, axis=-1, kind="stable")[..., :width]  # outcomes that can happen come first
        p = np.take_along_axis(p, names, axis=-1)
    W = 1 << (p.shape[-1] - 1).bit_length()
    if (bins := p.size // p.shape[-1] * W) > LARGEST:
        raise InputError(
            f"a table to draw from would have {bins:,} bins, of which {LARGEST:,} fit: too many states, or too many "
            "states that can be reached from one"
        )
    mass = np.pad(masses(p).reshape(-1, p.shape[-1]), ((0, 0), (0, W - p.shape[-1])))
    own = np.pad(names.reshape(mass.shape[0], -1), ((0, 0), (0, W - p.shape[-1]))).astype(np.int32)
    cut, other = _bins(mass)
    parts = (np.minimum(cut, UNIT - 1), own, np.take_along_axis(own, other, axis=1), np.zeros_like(own))
    return Draw(np.stack(parts, axis=-1).astype(np.int32).reshape(*p.shape[:-1], W, 4))


def masses(p: np.ndarray) -> np.ndarray:
    """Integers near p * UNIT that add up to UNIT: rounded down, and one more where most was lost."""
    exact = p * UNIT
    mass = np.floor(exact)
    lost = np.where(p > 0, exact - mass, -1.0)
    rank = np.argsort(np.argsort(-lost, axis=-1, kind="stable"), axis=-1, kind="stable")
    return (mass + (rank < UNIT - mass.sum(axis=-1, keepdims=True))).astype(np.int64)


def _bins(mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every row, what each bin keeps of its own outcome, and the bin whose outcome takes the rest.

    Bins with less than their share are filled in turn from one that has more; once that has less too, it is next.
    """
    R, W = mass.shape
    share, rows = UNIT // W, np.arange(R)
    order = np.argsort(mass, axis=1, kind="stable")
    left, other = mass.copy(), np.tile(np.arange(W), (R, 1))
    rich, following = np.full(R, W - 1), np.ones(R, int)
    poor = order[:, 0]
    for _ in range(W):
        giver = order[rows, rich]
        needs = left[rows, poor] < share
        other[rows, poor] = np.where(needs, giver, other[rows, poor])
        left[rows, giver] -= np.where(needs, share - left[rows, poor], 0)
        emptied = needs & (left[rows, giver] < share)
        poor = np.where(emptied, giver, order[rows, np.minimum(following, W - 1)])
        rich, following = rich - emptied, following + ~emptied
    return np.where(other == np.arange(W), share, left), other


def implied(table: Draw, outcomes: int) -> np.ndarray:
    """The probabilities of 0, 1, …, outcomes - 1 that a table draws with, exactly."""
    W = table.bins.shape[-2]
    bins = np.asarray(table.bins, np.int64).reshape(-1, W, 4)
    cut, outcome = bins[..., 0], bins[..., 1:3]
    part = np.stack([cut, UNIT // W - cut], axis=-1)
    rows = np.broadcast_to(np.arange(len(cut))[:, None, None], outcome.shape)
    mass = np.zeros((len(cut), outcomes), np.int64)
    np.add.at(mass, (rows, outcome), part)
    return mass.reshape(*table.bins.shape[:-2], outcomes) / UNIT


def thresholds(pi: Float[Array, "S A"]) -> Int[Array, "S A-1"]:
    """Action a is drawn for 31 bits v with below[a-1] <= v < below[a]; integers, so that nothing is lost in sums.

    A probability is off by at most (A - 1) 2^-32 + 2^-31, and by what pi's own dtype loses: the last action has what
    the others leave, and 2^-31 at least. A row of float32 is off 1 by some 2^-24; that is spread over it.
    """
    wide = pi.astype(jnp.promote_types(pi.dtype, jnp.float32))  # float16 ends at 65,504
    mass = jnp.round(wide * float(UNIT)).astype(jnp.uint32)
    if wide.dtype == jnp.float32:
        lacks = (jnp.uint32(UNIT) - mass.sum(axis=-1, keepdims=True, dtype=jnp.uint32)).astype(jnp.int32)
        mass = mass + jnp.round(lacks * wide).astype(jnp.int32).astype(jnp.uint32)
    below = jnp.cumsum(mass[..., :-1], axis=-1, dtype=jnp.uint32)
    return jnp.minimum(below, UNIT - 1).astype(jnp.int32)
