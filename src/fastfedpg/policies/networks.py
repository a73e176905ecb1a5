"""Networks: from observations to the numbers that an action distribution is made of."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.policies.arrays import Constant, Rows, Theta, times
from fastfedpg.policies.inputs import Input, Numbers, one_hot
from fastfedpg.spaces import Box, Discrete, Space, said

Features = Callable[[Any], Any]
"""From observations (…, o) to features (…, p), for NumPy arrays and JAX arrays alike."""

MOST_ROWS = 1_000_000
"""More rows than these are not a table that anyone can fill."""


class Linear(NamedTuple):
    """x M, and with a bias (x, 1) M; M's rows follow each other in theta."""

    x: Input
    q: int
    bias: bool
    size: int

    def init(self, key: Any) -> Any:
        """0."""
        return _zeros(self.size)

    def output(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """(x, 1) M."""
        x = self.x
        M = theta[x.frozen : x.frozen + self.size].reshape(-1, self.q)
        return x.times(xp, theta, observation, M[:-1]) + M[-1] if self.bias else x.times(xp, theta, observation, M)


def linear(x: Input, q: int, bias: bool) -> Linear:
    """With its size."""
    return Linear(x, q, bias, (x.width + bias) * q)


class Jointly(NamedTuple):
    """A table for several discrete observations, numbered jointly, the last of them fastest."""

    rows: Linear
    step: np.ndarray  # how far apart in the table neighbouring values of each are

    @property
    def size(self) -> int:
        """That of the table."""
        return self.rows.size

    def init(self, key: Any) -> Any:
        """0."""
        return _zeros(self.size)

    def output(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """The observation's row."""
        number = (observation.astype(np.int32) * self.step).sum(-1)
        return self.rows.output(xp, theta, number[..., None])


def table(observations: Space, q: int) -> Linear | Jointly:
    """A row of q numbers for each observation: theta is (S, q), state after state."""
    if isinstance(observations, Box):
        raise InputError(f"observations are {said(observations)}; a table has a row for each: take linear or mlp")
    if isinstance(observations, Discrete):
        return linear(one_hot((observations.n,)), q, bias=False)
    n, S = observations.n, math.prod(observations.n)
    if S > MOST_ROWS:
        raise InputError(
            f"observations are {said(observations)}: a table of them has {S:,} rows, more than {MOST_ROWS:,}; take "
            "linear, with a row for each component's values, or mlp"
        )
    step = np.array([math.prod(n[i + 1 :]) for i in range(len(n))], np.int32)
    return Jointly(linear(one_hot((S,)), q, bias=False), step)


class Gain(NamedTuple):
    """-F x, a regulator's: theta is F (q, o), row after row, and starts at 0."""

    x: Numbers
    q: int

    @property
    def size(self) -> int:
        """F's."""
        return self.q * self.x.width

    def init(self, key: Any) -> Any:
        """0."""
        return _zeros(self.size)

    def output(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """-F x."""
        return -self.x.times(xp, theta, observation, theta[: self.size].reshape(self.q, -1).T)


class Featured(NamedTuple):
    """phi(x) M with given features phi."""

    x: Input
    features: Features
    p: int
    q: int

    @property
    def size(self) -> int:
        """M's."""
        return self.p * self.q

    def init(self, key: Any) -> Any:
        """0."""
        return _zeros(self.size)

    def output(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """phi(x) M."""
        phi = self.features(self.x.seen(xp, theta, observation)).astype(theta.dtype, copy=False)
        first = self.x.frozen
        return times(xp, phi, theta[first : first + self.p * self.q].reshape(self.p, self.q))


class Fourier(NamedTuple):
    """phi(x) M with phi(x) = sqrt(2/p) cos(x W + b); W and b are not part of theta."""

    x: Input
    W: Constant
    b: Constant
    p: int
    q: int

    @property
    def size(self) -> int:
        """M's."""
        return self.p * self.q

    def init(self, key: Any) -> Any:
        """0."""
        return _zeros(self.size)

    def output(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """phi(x) M."""
        x, p, q = self.x, self.p, self.q
        # An index that is traced can't be taken of NumPy's W.
        phase = x.times(xp, theta, observation, xp.asarray(self.W(theta.dtype))) + self.b(theta.dtype)
        return times(xp, math.sqrt(2 / p) * xp.cos(phase), theta[x.frozen : x.frozen + p * q].reshape(p, q))


def fourier(x: Input, p: int, bandwidth: float, seed: int, q: int) -> Fourier:
    """W ~ N(0, 1/bandwidth^2) and b ~ U[0, 2 pi), drawn once from the seed.

    E[phi(x) . phi(y)] = exp(-||x - y||^2 / (2 bandwidth^2)) (Rahimi and Recht, 2007).
    """
    rng = np.random.default_rng([*b"fourier", seed])
    W, b = rng.normal(size=(x.width, p)) / bandwidth, rng.uniform(0, 2 * math.pi, p)
    return Fourier(x, Constant(W), Constant(b), p, q)


class Layer(NamedTuple):
    """Where in theta a layer's W (in, out) and b are."""

    W: slice
    shape: tuple[int, int]
    b: slice


class MLP(NamedTuple):
    """Layers tanh(x W + b) of the hidden sizes, and x W + b last; each layer's W (in, out), then its b, in theta."""

    x: Any  # an `Input`, or one with the same methods
    first: Layer
    others: tuple[Layer, ...]
    size: int

    @property
    def last(self) -> int:
        """How many numbers its last layer has."""
        m, n = (self.first, *self.others)[-1].shape
        return m * n + n

    def init(self, key: Any) -> Any:
        """W ~ N(0, 1/in), for a first layer 1/(numbers of x that are not 0), and b = 0; the last layer is 0."""
        import jax
        import jax.numpy as jnp

        std = np.zeros(self.x.frozen + self.size)
        for layer in (self.first, *self.others)[:-1]:
            std[layer.W] = 1 / math.sqrt(self.x.active if layer is self.first else layer.shape[0])
        std = std[self.x.frozen :]
        return jnp.where(std > 0, std * jax.random.normal(key, std.shape), 0)

    def output(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """The last layer's x W + b."""
        W, shape, b = self.first
        x = self.x.times(xp, theta, observation, theta[W].reshape(shape)) + theta[b]
        for W, shape, b in self.others:
            x = times(xp, xp.tanh(x), theta[W].reshape(shape)) + theta[b]
        return x


def mlp(x: Any, hidden: tuple[int, ...], q: int) -> MLP:
    """Its layers, one after the other."""
    layers, at = [], x.frozen
    for m, n in pairwise([x.width, *hidden, q]):
        layers.append(Layer(slice(at, at + m * n), (m, n), slice(at + m * n, at + m * n + n)))
        at += m * n + n
    return MLP(x, layers[0], tuple(layers[1:]), at - x.frozen)


Network: TypeAlias = Linear | Jointly | Gain | Featured | Fourier | MLP
"""`output(xp, theta, observation)` is (…, q); its `size` parameters follow the input's in theta."""


def _zeros(size: int) -> Any:
    import jax.numpy as jnp

    return jnp.zeros(size)
