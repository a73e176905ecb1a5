"""Choices of many steps with one theta, by NumPy: what `choose` answers, to the bit, in a fraction of its calls.

With few rows a call of NumPy's costs as much as what it computes. So what theta alone decides is done once, and what
comes of a layer stands in an array that is there already.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from fastfedpg.policies.arrays import HAS_VECMAT, Rows, Theta
from fastfedpg.policies.heads import Gaussian, Softmax
from fastfedpg.policies.inputs import Numbers, eased
from fastfedpg.policies.makers import PolicyParts
from fastfedpg.policies.networks import MLP, Linear

FEW, ROWS = 3, 64
"""Up to so many actions, and one more for so many rows, are added up column by column: short axes cost NumPy more."""

SMALL = 4096
"""An array of so many numbers takes less time than a call."""


def prepared(choose: Callable[..., Rows], theta: Theta, rows: int) -> Callable[[Rows, Rows], Rows]:
    """`choose` for one theta, of observations and noise that are NumPy's, in theta's dtype, with so many rows."""
    parts = getattr(choose, "__self__", None)
    if type(parts) is not PolicyParts or choose != parts.choose:
        return partial(choose, theta)
    z = np.empty((rows, parts.head.q), theta.dtype)
    output, pick = _output(parts.network, theta, z), _choice(parts.head, theta, z)

    def chosen(observation: Rows, noise: Rows) -> Rows:
        output(observation)
        return pick(noise)

    return chosen


def _output(network: Any, theta: Theta, z: np.ndarray) -> Callable[[Rows], None]:
    """What puts a network's numbers into z."""
    if not HAS_VECMAT or not isinstance(network, Linear | MLP) or not isinstance(network.x, Numbers):

        def output(observation: Rows) -> None:
            z[...] = network.output(np, theta, observation)

        return output
    layers, last = _layers(network, theta, z), z
    seen, vecmat = _seen(network.x, theta), np.vecmat

    def through(observation: Rows) -> None:
        x = seen(observation)
        for W, b, y in layers:
            vecmat(x, W, y)
            np.add(y, b, y)
            x = y if y is last else np.tanh(y, y)

    return through


def _layers(network: Linear | MLP, theta: Theta, z: np.ndarray) -> list[tuple[Any, Any, np.ndarray]]:
    """Each layer's W and b, and where its numbers are to stand."""
    if isinstance(network, Linear):
        M = theta[network.x.frozen : network.x.frozen + network.size].reshape(-1, network.q)
        W, b = (M[:-1], M[-1]) if network.bias else (M, np.zeros(network.q, z.dtype))
        return [(W, _beside(b, z), z)]
    each = (network.first, *network.others)
    places = [np.empty((len(z), layer.shape[1]), z.dtype) for layer in each[:-1]]
    return [(theta[x.W].reshape(x.shape), _beside(theta[x.b], y), y) for x, y in zip(each, [*places, z], strict=True)]


def _beside(b: np.ndarray, y: np.ndarray) -> np.ndarray:
    """b for each row of y, where that is little: arrays of one shape are added in half the time."""
    return np.tile(b, (len(y), 1)) if y.size <= SMALL else b


def _seen(x: Numbers, theta: Theta) -> Callable[[Rows], Rows]:
    """What a network is given for an observation."""
    if not x.frozen:
        return lambda observation: observation
    shift, scale = theta[: x.width], np.exp(-theta[x.width : x.frozen])
    return lambda observation: eased(np, (observation - shift) * scale)


def _choice(head: Any, theta: Theta, z: np.ndarray) -> Callable[[Rows], Rows]:
    """What makes a choice of the numbers in z, which are lost."""
    if isinstance(head, Gaussian):
        return _normal(head, theta, z)
    if isinstance(head, Softmax) and len(head.n) == 1 and 2 <= head.q <= FEW + len(z) // ROWS:
        return _counted(head.q, z)
    return lambda noise: head.choose(np, theta, z, noise)


def _normal(head: Gaussian, theta: Theta, z: np.ndarray) -> Callable[[Rows], Rows]:
    """A Gaussian's."""
    std, c, h = np.exp(head.log_stds(theta)), head.c(theta.dtype), head.h(theta.dtype)

    def choice(noise: Rows) -> Rows:
        x = std * noise
        x += z
        if not head.squash:
            x *= h
            x += c
        return x

    return choice


def _counted(q: int, z: np.ndarray) -> Callable[[Rows], Rows]:
    """Of few actions: the largest and the cumulative sums in the order in which NumPy takes them along an axis."""
    columns = [z[:, i] for i in range(q)]
    first, second, *others = columns
    *inner, last = columns[1:]
    pairs = [*pairwise(columns)]
    most = np.empty(len(z), z.dtype)

    def choice(noise: Rows) -> Rows:
        np.maximum(first, second, out=most)
        for column in others:
            np.maximum(most, column, out=most)
        for column in columns:
            np.subtract(column, most, column)
        np.exp(z, z)
        for before, column in pairs:
            np.add(before, column, column)
        np.multiply(noise[:, 0], last, most)
        count = (first <= most).astype(z.dtype)
        for column in inner:
            count += column <= most
        return count[:, None]

    return choice
