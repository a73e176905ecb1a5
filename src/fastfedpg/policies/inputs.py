"""How observations enter a network: numbers as they are or normalised, discrete ones as one-hot vectors."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from fastfedpg.errors import InputError
from fastfedpg.policies.arrays import Rows, Theta, module, still, times
from fastfedpg.spaces import Box, Discrete, Space, said

LIMIT = 10.0
"""Normalised observations are as they are up to here, and grow by the logarithm beyond: see `eased`."""

FAR = 1e30
"""What lies further beyond is seen there: so nothing overflows, and no number is larger than 80."""

STILL = 1e-6
"""A component whose std is at most STILL max(1, |mean|) did not move: it is shifted, and its scale stays 1."""


class Numbers(NamedTuple):
    """A Box: the network sees x = observation, or with normalisation (observation - shift) exp(-log_scale), eased.

    Shift and log-scale are the `frozen` = 2 o numbers with which theta then begins. They get no gradient.
    """

    width: int  # o
    frozen: int  # 2 o, or 0

    @property
    def active(self) -> int:
        """How many numbers of x are not 0."""
        return self.width

    def seen(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """x (…, o), what features are computed from."""
        x = observation.astype(theta.dtype, copy=False)
        if not self.frozen:
            return x
        frozen, o = still(xp, theta[: self.frozen]), self.width
        return eased(xp, (x - frozen[:o]) * xp.exp(-frozen[o:]))

    def times(self, xp: Any, theta: Theta, observation: Rows, M: Float[Any, "o q"]) -> Rows:
        """x M (…, q)."""
        return times(xp, self.seen(xp, theta, observation), M)


def eased(xp: Any, x: Rows) -> Rows:
    """x where |x| <= LIMIT, and sign(x) (LIMIT + log(1 + |x| - LIMIT)) beyond.

    Shift and scale are measured once, while a policy that knows nothing plays: what a better one reaches later may be
    many of those standard deviations away. CartPole's positions have one of about 0.1 m, and end at 2.4 m. Clipped, the
    places beyond LIMIT would be one place to the policy. This is increasing everywhere, with the slope 1 at LIMIT, so
    all places are told apart, and yet a sensor's wildest number stays small. The space's own bounds are no measure:
    they are infinite, or far beyond anything that happens, in most environments.
    """
    if xp is np and np.abs(x).max(initial=0) <= LIMIT:  # the same to the bit, and most of the time
        return x
    near = xp.minimum(xp.maximum(x, -LIMIT), LIMIT)
    beyond = x - near
    return near + xp.sign(beyond) * xp.log1p(xp.minimum(abs(beyond), FAR))


class OneHot(NamedTuple):
    """Discrete observations: the network sees their one-hot vectors side by side, and x M is a sum of rows of M."""

    width: int
    first: np.ndarray  # where in x each of them begins
    frozen: int = 0

    @property
    def active(self) -> int:
        """How many numbers of x are not 0."""
        return len(self.first)

    def seen(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """The observation's numbers themselves, which given features are computed from."""
        return observation

    def times(self, xp: Any, theta: Theta, observation: Rows, M: Float[Any, "width q"]) -> Rows:
        """x M (…, q)."""
        if len(self.first) == 1:
            return M[observation[..., 0].astype(np.int32)]
        return M[observation.astype(np.int32) + self.first].sum(-2)


Input: TypeAlias = Numbers | OneHot


def one_hot(n: tuple[int, ...]) -> OneHot:
    """The input for observations among n_1, …, n_k."""
    return OneHot(sum(n), np.array([sum(n[:i]) for i in range(len(n))], np.int32))


def entered(space: Space, normalise: bool) -> Input:
    """The input that fits a space."""
    if isinstance(space, Box):
        return Numbers(space.width, 2 * space.width * normalise)
    if normalise:
        raise InputError(f"observations are {said(space)}; only those of a Box are normalised: take normalise=False")
    return one_hot((space.n,) if isinstance(space, Discrete) else space.n)


def with_moments(theta: Theta, mean: Float[Any, " o"], std: Float[Any, " o"]) -> Theta:
    """theta with shift = mean and log_scale = log std at its front, or 0 where std says that nothing moved."""
    xp = module(theta, mean, std)
    moves = std > STILL * xp.maximum(1, abs(mean))
    front = xp.concatenate([mean, xp.log(xp.where(moves, std, 1))]).astype(theta.dtype)
    return xp.concatenate([front, theta[len(front) :]])
