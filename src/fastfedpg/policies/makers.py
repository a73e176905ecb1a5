"""Policies by network and space; the head follows from the actions."""

import math
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.kinds import SIZES
from fastfedpg.memory import check_fits
from fastfedpg.parameters import Parameter, read_parameter
from fastfedpg.policies import networks
from fastfedpg.policies.arrays import Rows, Theta, module
from fastfedpg.policies.heads import Head, gaussian, softmax
from fastfedpg.policies.inputs import Numbers, entered, with_moments
from fastfedpg.policies.networks import Features
from fastfedpg.policies.policy import Policy
from fastfedpg.spaces import Box, Discrete, Space, box, said


def table(
    observations: Space,
    actions: Space,
    normalise: bool = False,
    log_std: float = 0.0,
    learn_std: bool = True,
    squash: bool = False,
) -> Policy:
    """A row of numbers for each observation: for discrete actions Eq. (2), with theta_{s,a} state after state."""
    head = head_of(actions, log_std, learn_std, squash)
    return joined(entered(observations, normalise), networks.table(observations, head.q), head)


def linear(
    observations: Space,
    actions: Space,
    normalise: bool = False,
    log_std: float = 0.0,
    learn_std: bool = True,
    squash: bool = False,
) -> Policy:
    """Linear in the observation and a constant 1, or in one-hot vectors of discrete observations."""
    return log_linear(None, observations, actions, normalise, log_std, learn_std, squash)


def log_linear(
    features: Features | None,
    observations: Space,
    actions: Space,
    normalise: bool = False,
    log_std: float = 0.0,
    learn_std: bool = True,
    squash: bool = False,
) -> Policy:
    """Linear in given features: log pi(a|o) = phi(o) . theta_a + constant, or a Gaussian with mean phi(o) . theta.

    Args:
        features: phi, from observations (…, o) to (…, p), for NumPy arrays and JAX arrays alike; without any, as
            `linear`. theta is (p, q), row after row.
        observations, actions: the spaces.
        normalise: whether phi is given normalised observations.
        log_std, learn_std, squash: as `fastfedpg.policies.heads.Gaussian` has them; for actions of a Box.

    Examples:
        >>> from fastfedpg.spaces import Discrete, box
        >>> log_linear(lambda x: x**2, box(3), Discrete(4)).size
        12
    """
    head, seen = head_of(actions, log_std, learn_std, squash), entered(observations, normalise)
    if features is None:
        return joined(seen, networks.linear(seen, head.q, bias=isinstance(observations, Box)), head)
    shape = np.shape(features(np.zeros((2, 3, observations.width))))
    if len(shape) != 3 or shape[:2] != (2, 3) or not shape[2]:
        raise InputError(
            f"features make {shape} of observations {(2, 3, observations.width)}; they must make (2, 3, p), with p >= 1"
        )
    return joined(seen, networks.Featured(seen, features, shape[2], head.q), head)


def fourier(
    observations: Space,
    actions: Space,
    normalise: bool = False,
    features: int = 128,
    bandwidth: float = 1.0,
    seed: int = 0,
    log_std: float = 0.0,
    learn_std: bool = True,
    squash: bool = False,
) -> Policy:
    """Linear in random Fourier features, which the seed alone decides: give all agents the same."""
    if features < 1 or seed < 0:
        raise InputError(f"features = {features} and seed = {seed}; they must be at least 1 and 0")
    if not 0 < bandwidth < np.inf:
        raise InputError(f"bandwidth = {bandwidth:g}; it must be a positive number")
    head, seen = head_of(actions, log_std, learn_std, squash), entered(observations, normalise)
    check_fits(f"features = {features}", 8 * features * (seen.width + head.q), "take fewer")
    return joined(seen, networks.fourier(seen, features, bandwidth, seed, head.q), head)


def mlp(
    observations: Space,
    actions: Space,
    normalise: bool = False,
    hidden: tuple[int, ...] | str = (64, 64),
    log_std: float = 0.0,
    learn_std: bool = True,
    squash: bool = False,
) -> Policy:
    """A network with hidden layers of tanh; where learning starts it plays uniformly, or with mean 0."""
    units = read_parameter("hidden", Parameter("hidden", SIZES, (64, 64), ""), hidden)
    if any(n < 1 for n in units):
        raise InputError(f"hidden = {hidden}; each layer has at least 1 unit, as in 64x64")
    head, seen = head_of(actions, log_std, learn_std, squash), entered(observations, normalise)
    network = networks.mlp(seen, units, head.q)
    check_fits(f"hidden = {'x'.join(map(str, units))}", 8 * network.size, "take smaller layers")
    return joined(seen, network, head)


def regulator(n: int, m: int, noise: float = 0.0) -> Policy:
    """A regulator's inputs -F x, with normal numbers of this standard deviation around them; theta is F (m, n)."""
    head = gaussian(box(m), math.log(noise) if noise else -NEVER, learn_std=False, squash=False)
    seen = Numbers(n, 0)
    return joined(seen, networks.Gain(seen, m), head)


NEVER = 1e30
"""exp(-NEVER) is 0."""


def head_of(actions: Space, log_std: float, learn_std: bool, squash: bool) -> Head:
    """The distribution that fits a space of actions."""
    if isinstance(actions, Box):
        return gaussian(actions, log_std, learn_std, squash)
    if squash:
        raise InputError(f"actions are {said(actions)}; only those of a bounded Box are squashed: take squash=False")
    return softmax((actions.n,) if isinstance(actions, Discrete) else actions.n)


class PolicyParts(NamedTuple):
    """theta is the input's numbers, then the network's, then the head's."""

    seen: Any  # an `Input`, or one with the same methods
    network: Any  # likewise, a `Network`
    head: Any  # a `Head`

    @property
    def last_layer(self) -> int:
        """How many numbers at the end of theta are the network's last layer's and the head's."""
        own = getattr(self.network, "last", self.network.size)
        return own + len(self.head.last)

    def init(self, key: Any) -> Any:
        """Where each of them starts."""
        import jax.numpy as jnp

        return jnp.concatenate(
            [jnp.zeros(self.seen.frozen), self.network.init(key), jnp.asarray(self.head.last, float)]
        )

    def choose(self, theta: Theta, observation: Rows, noise: Rows) -> Rows:
        """The head's choice, given the network's output."""
        xp = module(theta, observation, noise)
        return self.head.choose(xp, theta, self.network.output(xp, theta, observation), noise)

    def mode(self, theta: Theta, observation: Rows, noise: Rows) -> Rows:
        """The head's likeliest choice, or the mean; noise has no part in it."""
        xp = module(theta, observation, noise)
        return self.head.likeliest(xp, theta, self.network.output(xp, theta, observation))

    def log_prob(self, theta: Theta, observation: Rows, choice: Rows) -> Any:
        """The head's, given the network's output."""
        xp = module(theta, observation, choice)
        return self.head.log_prob(xp, theta, self.network.output(xp, theta, observation), choice)

    def surprise(self, theta: Theta, observation: Rows, choice: Rows) -> Any:
        """The head's, where it has another than its log-probability."""
        xp = module(theta, observation, choice)
        return self.head.surprise(xp, theta, self.network.output(xp, theta, observation), choice)

    def kl(self, theta: Theta, other: Theta, observation: Rows) -> Any:
        """The head's, given both networks' outputs."""
        xp = module(theta, other, observation)
        z, there = (self.network.output(xp, x, observation) for x in (theta, other))
        return self.head.kl(xp, theta, z, other, there)

    def entropy(self, theta: Theta, observation: Rows) -> Any:
        """The head's, given the network's output."""
        xp = module(theta, observation)
        return self.head.entropy(xp, theta, self.network.output(xp, theta, observation))

    def enter(self, theta: Theta, observation: Rows, M: Any) -> Rows:
        """x M, for the x that the network sees: another network, such as a critic's, can begin with it."""
        return self.seen.times(module(theta, observation, M), theta, observation, M)


def joined(seen: Any, network: Any, head: Any) -> Policy:
    """The policy of an input, a network and a head."""
    # Methods of values, and not closures: a policy is pickled to where it plays.
    parts, size = PolicyParts(seen, network, head), seen.frozen + network.size + len(head.last)
    moments = with_moments if seen.frozen else None
    return Policy(
        size,
        parts.init,
        head.noise,
        parts.choose,
        head.action,
        parts.log_prob,
        seen.width,
        parts.enter,
        moments,
        parts.surprise if hasattr(head, "surprise") else None,
        parts.kl,
        None if getattr(head, "squash", False) else parts.entropy,
    )
