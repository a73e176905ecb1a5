"""Action distributions: independent softmaxes for discrete actions, Gaussians for those of a Box."""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.policies.arrays import Constant, Rows, Theta, module, still
from fastfedpg.spaces import Box, said


class Softmax(NamedTuple):
    """Independent choices among n_1, …, n_k: probabilities proportional to exp(z), for each with its part of z.

    A choice is the number of cumulative probabilities that are at most u, uniform on [0, 1).
    """

    n: tuple[int, ...]
    where: np.ndarray  # (k, max n): which numbers of z belong to each
    there: np.ndarray  # (k, max n): whether there are that many
    last: tuple[float, ...] = ()

    @property
    def q(self) -> int:
        """A number for each."""
        return sum(self.n)

    def noise(self, key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """One uniform number for each choice."""
        import jax

        return jax.random.uniform(key, (*shape, len(self.n)), dtype)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """The same from NumPy's numbers."""
        return rng.random((*shape, len(self.n)))

    def likeliest(self, xp: Any, theta: Theta, z: Rows) -> Rows:
        """The choice of the largest probability."""
        return self.joined(self.parts(xp, z).argmax(-1, keepdims=True).astype(theta.dtype))

    def choose(self, xp: Any, theta: Theta, z: Rows, noise: Rows) -> Rows:
        """By the inverse of the cumulative distribution."""
        # The last sum is left out of the comparison: rounding then can't lead past the end, and since the product of a
        # float and a number below 1 is below that float, not to an action of probability 0 at the end either.
        below = xp.exp(self.parts(xp, z)).cumsum(-1)
        count = (below[..., :-1] <= self.split(noise) * below[..., -1:]).sum(-1, keepdims=True)
        return self.joined(count.astype(theta.dtype))

    def action(self, choice: Rows) -> Rows:
        """The choice."""
        return choice

    def log_prob(self, xp: Any, theta: Theta, z: Rows, choice: Rows) -> Any:
        """The sum over the choices."""
        z = self.parts(xp, z)
        chosen = xp.where(np.arange(z.shape[-1]) == self.split(choice), z, 0).sum(-1, keepdims=True)
        return self.joined(chosen - xp.log(xp.exp(z).sum(-1, keepdims=True))).sum(-1)

    def kl(self, xp: Any, theta: Theta, z: Rows, other: Theta, there: Rows) -> Any:
        """sum_a pi(a) (log pi(a) - log other(a)), added over the choices; of what is not there, 0."""
        log = lambda z: z - xp.log(xp.exp(z).sum(-1, keepdims=True))
        mine, its = log(self.parts(xp, z)), log(self.parts(xp, there))
        found = xp.isfinite(mine)
        apart = xp.where(found, mine, 0) - xp.where(found, its, 0)
        return self.joined((xp.exp(mine) * apart).sum(-1, keepdims=True)).sum(-1)

    def entropy(self, xp: Any, theta: Theta, z: Rows) -> Any:
        """-sum_a pi(a) log pi(a), added over the choices; of what is not there, 0."""
        log = self.parts(xp, z)
        log = log - xp.log(xp.exp(log).sum(-1, keepdims=True))
        told = xp.where(xp.isfinite(log), log, 0)
        return -self.joined((xp.exp(log) * told).sum(-1, keepdims=True)).sum(-1)

    # One softmax needs no axis k: (…, 1) is what it takes and gives already.

    def parts(self, xp: Any, z: Rows) -> Any:
        """z as (…, k, max n), or (…, n) for one, less the largest of each; shorter ones end with -inf."""
        if len(self.n) > 1:
            z = xp.where(self.there, z[..., self.where], -math.inf)
        return z - still(xp, z.max(-1, keepdims=True))

    def split(self, x: Rows) -> Any:
        """(…, k, 1), to stand beside the parts."""
        return x[..., None] if len(self.n) > 1 else x

    def joined(self, x: Any) -> Rows:
        """And back."""
        return x[..., 0] if len(self.n) > 1 else x


def softmax(n: tuple[int, ...]) -> Softmax:
    """With the places of its parts."""
    numbers = np.arange(max(n))
    there = numbers < np.array(n)[:, None]
    return Softmax(n, np.where(there, np.cumsum([0, *n[:-1]])[:, None] + numbers, 0), there)


class Gaussian(NamedTuple):
    """Independent normal numbers x with mean z and standard deviation exp(log_std), the same for all observations.

    With c and h the centre and half the width of each side of the box, a choice is

    - c + h x, which as an action is clipped to the box; its log-probability is that of the number before clipping. For
      a side without an end c is the point of the box next to 0, and h = 1;
    - with `squash` x itself, which as an action is a = c + h tanh(x). Its log-probability is that of the action:
      da/dx = h (1 - tanh(x)^2) = 4 h / (e^x + e^-x)^2 = 4 h e^{-2|x|} / (1 + e^{-2|x|})^2, so that log p(a) is
      log N(x; z, std) - log h - (log 4 - 2|x| - 2 log(1 + e^{-2|x|})), in which nothing overflows or cancels.
    """

    q: int
    last: tuple[float, ...]  # log_std, where it is learned
    log_std: Constant
    low: Constant
    high: Constant
    c: Constant
    h: Constant
    constant: float  # sum log h + q log(2 pi) / 2
    clips: bool
    squash: bool

    def noise(self, key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Standard normal numbers."""
        import jax

        return jax.random.normal(key, (*shape, self.q), dtype)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """The same from NumPy's numbers."""
        return rng.standard_normal((*shape, self.q))

    def likeliest(self, xp: Any, theta: Theta, z: Rows) -> Rows:
        """The choice in the middle."""
        return self.choose(xp, theta, z, xp.zeros_like(z))

    def choose(self, xp: Any, theta: Theta, z: Rows, noise: Rows) -> Rows:
        """c + h x, or x."""
        x = z + xp.exp(self.log_stds(theta)) * noise
        return x if self.squash else self.c(x.dtype) + self.h(x.dtype) * x

    def action(self, choice: Rows) -> Rows:
        """In the box, to the last bit."""
        if not self.clips:
            return choice
        xp, low, high = module(choice), self.low(choice.dtype), self.high(choice.dtype)
        if self.squash:
            choice = low + (high - low) * ((xp.tanh(choice) + 1) / 2)
        return xp.minimum(xp.maximum(choice, low), high)

    def log_prob(self, xp: Any, theta: Theta, z: Rows, choice: Rows) -> Any:
        """In units of the action."""
        log_std = self.log_stds(theta)
        x = choice if self.squash else (choice - self.c(theta.dtype)) / self.h(theta.dtype)
        terms = ((x - z) * xp.exp(-log_std)) ** 2 / 2 + log_std
        if self.squash:
            twice = 2 * abs(x)
            terms = terms + (math.log(4) - twice - 2 * xp.log1p(xp.exp(-twice)))
        return -terms.sum(-1) - self.constant

    def kl(self, xp: Any, theta: Theta, z: Rows, other: Theta, there: Rows) -> Any:
        """sum (log s' - log s + (s^2 + (z - z')^2) / (2 s'^2) - 1/2); neither c + h x nor tanh changes it."""
        mine, its = self.log_stds(theta), self.log_stds(other)
        terms = its - mine + (xp.exp(2 * mine) + (z - there) ** 2) * xp.exp(-2 * its) / 2
        return (terms - 0.5).sum(-1)

    def entropy(self, xp: Any, theta: Theta, z: Rows) -> Any:
        """sum (log std + log h + log(2 pi e) / 2), of the choice before it is clipped; with `squash` there is none.

        That of tanh(x) is the normal's and E[log(1 - tanh(x)^2)], an integral without a closed form.
        """
        known = self.log_stds(theta).sum(-1) + (self.constant + self.q / 2)
        return known + xp.zeros(z.shape[:-1], theta.dtype)

    def log_stds(self, theta: Theta) -> Any:
        """Learned, or as given."""
        return theta[-self.q :] if self.last else self.log_std(theta.dtype)


def gaussian(space: Box, log_std: float, learn_std: bool, squash: bool) -> Gaussian:
    """For a box; log_std is where it starts, or stays."""
    if squash and not space.bounded:
        raise InputError(f"actions are {said(space)}; squash needs bounds on every side: take squash=False")
    if not math.isfinite(log_std):
        raise InputError(f"log_std = {log_std:g}; it must be a finite number")
    low, high = np.array(space.low, np.float64), np.array(space.high, np.float64)
    if not (low < high).all():
        raise InputError(f"actions are {said(space)}; each lower bound must be below the upper one")
    ends = np.isfinite(low) & np.isfinite(high)
    least, most = np.where(ends, low, -1.0), np.where(ends, high, 1.0)
    c, h = np.where(ends, least / 2 + most / 2, np.clip(0.0, low, high)), most / 2 - least / 2
    given = (float(log_std),) * space.width
    return Gaussian(
        q=space.width,
        last=given if learn_std else (),
        log_std=Constant(given),
        low=Constant(low),
        high=Constant(high),
        c=Constant(c),
        h=Constant(h),
        constant=float(np.log(h).sum() + space.width * math.log(2 * math.pi) / 2),
        clips=bool(np.isfinite([low, high]).any()),
        squash=squash,
    )


Head: TypeAlias = Softmax | Gaussian
"""A distribution given by q numbers z of the network, and by numbers at the end of theta, which start as `last`.

Its methods are a policy's, with z in the observation's place.
"""
