"""A small convolutional network for images: in JAX and in NumPy, where a row's answer does not depend on the others."""

import math
from typing import Any, NamedTuple

from jaxtyping import Float

from fastfedpg.errors import InputError
from fastfedpg.kinds import SIZES
from fastfedpg.memory import check_fits
from fastfedpg.parameters import Parameter, read_parameter
from fastfedpg.policies import networks
from fastfedpg.policies.arrays import Constant, Rows, Theta, times
from fastfedpg.policies.makers import head_of, joined
from fastfedpg.policies.policy import Policy
from fastfedpg.spaces import Box, Space, said

CHANNELS = 4
"""An image whose first axis has at most so many, and whose last has more, has its channels first."""


class Pixels(NamedTuple):
    """An image of a bounded box: the network sees x = (observation - low) / (high - low), in [0, 1]."""

    shape: tuple[int, int, int]  # height, width, channels
    low: Constant
    span: Constant
    frozen: int = 0

    @property
    def width(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def active(self) -> int:
        """How many numbers of x are not 0."""
        return self.width

    def seen(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """x (…, h w c)."""
        return (observation.astype(theta.dtype, copy=False) - self.low(theta.dtype)) / self.span(theta.dtype)

    def times(self, xp: Any, theta: Theta, observation: Rows, M: Float[Any, "o q"]) -> Rows:
        """x M (…, q)."""
        return times(xp, self.seen(xp, theta, observation), M)


class Features(NamedTuple):
    """What layers made of convolutions: numbers as they are. The first `frozen` entries of theta are the layers'."""

    width: int
    frozen: int

    @property
    def active(self) -> int:
        """How many numbers are not 0."""
        return self.width

    def seen(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """They themselves."""
        return observation

    def times(self, xp: Any, theta: Theta, observation: Rows, M: Float[Any, "o q"]) -> Rows:
        """x M (…, q)."""
        return times(xp, observation, M)


class Convolution(NamedTuple):
    """tanh(sum_{i,j} x[s r + i, s t + j] W[i, j] + b) at r, t = 0, 1, …, as long as the k x k window is in the image.

    In theta W (k, k, in, out) comes first, then b (out).
    """

    taken: tuple[int, int, int]  # height, width, channels of x
    given: tuple[int, int, int]  # and of what is made of it
    kernel: int
    stride: int
    first: int  # in theta

    @property
    def fan(self) -> int:
        """How many numbers of x each one is made of."""
        return self.kernel**2 * self.taken[2]

    @property
    def size(self) -> int:
        """Those of W and b."""
        return (self.fan + 1) * self.given[2]

    def output(self, xp: Any, theta: Theta, x: Rows) -> Rows:
        """(…, h, w, in) to (…, h', w', out): the windows, laid flat, are the rows of a matrix for each image.

        It has as many rows whatever other images there are, so NumPy may multiply it at once.
        """
        s, rows, columns = self.stride, *self.given[:2]
        window = lambda i, j: x[..., i : i + s * (rows - 1) + 1 : s, j : j + s * (columns - 1) + 1 : s, :]
        inside = range(self.kernel)
        laid = xp.concatenate([window(i, j) for i in inside for j in inside], -1)
        own = theta[self.first : self.first + self.size].reshape(self.fan + 1, -1)
        rows_of_one = laid.reshape(*x.shape[:-3], rows * columns, self.fan)
        return xp.tanh(xp.matmul(rows_of_one, own[:-1]) + own[-1]).reshape(*x.shape[:-3], *self.given)


class CNN(NamedTuple):
    """Convolutions, one after the other, then tanh layers of the hidden sizes, and x W + b last."""

    x: Pixels
    convolutions: tuple[Convolution, ...]
    dense: networks.MLP

    @property
    def size(self) -> int:
        """Of all layers."""
        return self.dense.x.frozen + self.dense.size

    @property
    def last(self) -> int:
        """How many numbers its last layer has."""
        return self.dense.last

    def init(self, key: Any) -> Any:
        """W ~ N(0, 1/in) with `in` numbers in a window, b = 0, and the dense layers as they start."""
        import jax
        import jax.numpy as jnp

        keys = jax.random.split(key, len(self.convolutions) + 1)
        parts = []
        for each, own in zip(self.convolutions, keys[:-1], strict=True):
            W = jax.random.normal(own, (each.fan * each.given[2],)) / math.sqrt(each.fan)
            parts += [W, jnp.zeros(each.given[2], W.dtype)]
        return jnp.concatenate([*parts, self.dense.init(keys[-1])])

    def output(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """The last layer's x W + b."""
        axes = observation.shape[:-1]
        x = self.x.seen(xp, theta, observation).reshape(*axes, *self.x.shape)
        for each in self.convolutions:
            x = each.output(xp, theta, x)
        return self.dense.output(xp, theta, x.reshape(*axes, self.dense.x.width))


def cnn(
    observations: Space,
    actions: Space,
    normalise: bool = False,
    channels: tuple[int, ...] | str = (16, 32),
    kernel: int = 3,
    stride: int = 2,
    hidden: tuple[int, ...] | str = (64,),
    log_std: float = 0.0,
    learn_std: bool = True,
    squash: bool = False,
) -> Policy:
    """Convolutions and hidden layers of tanh for images (height, width) or (height, width, channels) between bounds.

    tanh and not a rectifier: log pi is then smooth in theta, as Assumption 1 has it. There is no padding.

    Args:
        channels: how many each convolution makes, as in 16x32.
        kernel: the side of its window.
        stride: how far apart neighbouring windows are.
        hidden: the sizes of the layers after them.
    """
    sizes = {"channels": channels, "hidden": hidden}
    made, units = (read_parameter(name, Parameter(name, SIZES, (), ""), value) for name, value in sizes.items())
    if any(n < 1 for n in (*made, *units, kernel, stride)):
        shown = f"channels = {channels}, hidden = {hidden}, kernel = {kernel}, stride = {stride}"
        raise InputError(f"{shown}; each is at least 1")
    if normalise:
        raise InputError("policy cnn scales images by their own bounds; only numbers that are no image are normalised")
    x, head = _image(observations), head_of(actions, log_std, learn_std, squash)
    layers: list[Convolution] = []
    shape, at = x.shape, 0
    for n in made:
        if min(shape[:2]) < kernel:
            left = f"{shape[0]}x{shape[1]} pixels after {len(layers)} convolutions"
            raise InputError(
                f"observations are {said(observations)}, and {left}: "
                f"too few for a kernel of {kernel}; take fewer, such as channels={made[0]}, or a smaller one"
            )
        after = (shape[0] - kernel) // stride + 1, (shape[1] - kernel) // stride + 1, n
        layers.append(Convolution(shape, after, kernel, stride, at))
        shape, at = after, at + layers[-1].size
    network = CNN(x, tuple(layers), networks.mlp(Features(math.prod(shape), at), units, head.q))
    check_fits(f"cnn of {said(observations)}", 8 * network.size, "take smaller layers")
    return joined(x, network, head)


def _image(space: Space) -> Pixels:
    """The input for a box that is an image, with or without an axis for its channels."""
    what, shape = f"observations are {said(space)}", space.shape if isinstance(space, Box) else ()
    if not isinstance(space, Box) or len(shape) not in (2, 3):
        raise InputError(
            f"{what}; policy cnn is for images, a Box of shape (height, width) or (height, width, channels): take mlp"
        )
    height, width, channels = (*shape, 1)[:3]
    if height <= CHANNELS < channels:
        raise InputError(f"{what}; its channels seem to come first: put them last, as (height, width, channels)")
    if not space.bounded:
        raise InputError(f"{what}; policy cnn scales an image by its bounds, and these are not all finite")
    low, high = Constant(space.low), Constant(space.high)
    if not (low.values < high.values).all():
        raise InputError(f"{what}; each lower bound must be below the upper one")
    return Pixels((height, width, channels), low, Constant(high.values - low.values))
