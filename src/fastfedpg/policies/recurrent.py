"""A policy that remembers: a gated recurrent unit, whose state begins anew with every episode."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.memory import check_fits
from fastfedpg.policies.arrays import Rows, Theta, module, times
from fastfedpg.policies.inputs import Input, entered
from fastfedpg.policies.makers import PolicyParts, head_of, joined
from fastfedpg.policies.policy import Policy
from fastfedpg.spaces import Space


class GRU(NamedTuple):
    """h' = (1 - z) n + z h, and h' V + v, after Cho et al. (2014) in the form of Chung et al. (2014).

        z = s(x W_z + h U_z + b_z),   r = s(x W_r + h U_r + b_r),   n = tanh(x W_n + b_n + r (h U_n + c)),

    with s the logistic function. In theta follow W (p, 3m), b (3m), U (m, 3m), c (m), V (m, q), v (q), each of the
    first three for z, r and n side by side.
    """

    x: Input
    m: int
    q: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of W, b, U, c, V and v."""
        p, m, q = self.x.width, self.m, self.q
        return 3 * p * m, 3 * m, 3 * m * m, m, m * q, q

    @property
    def size(self) -> int:
        """Of all."""
        return sum(self.sizes)

    @property
    def last(self) -> int:
        """How many numbers its last layer has."""
        return sum(self.sizes[4:])

    def parts(self, theta: Theta) -> list[Any]:
        """W, b, U, c, V and v."""
        ends = self.x.frozen + np.cumsum((0, *self.sizes))
        found = [theta[a:b] for a, b in pairwise(ends)]
        shapes = {0: (-1, 3 * self.m), 2: (self.m, 3 * self.m), 4: (self.m, self.q)}
        return [x.reshape(shapes[k]) if k in shapes else x for k, x in enumerate(found)]

    def init(self, key: Any) -> Any:
        """W ~ N(0, 1/(numbers of x that are not 0)), U ~ N(0, 1/m), b_z = 1, so that it remembers; the rest is 0."""
        import jax
        import jax.numpy as jnp

        p, m, _ = self.x.width, self.m, self.q
        std = np.repeat([self.x.active**-0.5, 0, m**-0.5, 0], [3 * p * m, 3 * m, 3 * m * m, self.size])[: self.size]
        keeps = np.zeros(self.size)
        keeps[3 * p * m : 3 * p * m + m] = 1
        return jnp.where(std > 0, std * jax.random.normal(key, std.shape), keeps)

    def next(self, xp: Any, theta: Theta, entering: Rows, h: Rows) -> Rows:
        """h', given x W + b."""
        _, _, U, c, _, _ = self.parts(theta)
        m, inner = self.m, times(xp, h, U)
        gates = (1 + xp.tanh((entering[..., : 2 * m] + inner[..., : 2 * m]) / 2)) / 2
        z, r = gates[..., :m], gates[..., m:]
        n = xp.tanh(entering[..., 2 * m :] + r * (inner[..., 2 * m :] + c))
        return (1 - z) * n + z * h

    def enter(self, xp: Any, theta: Theta, observation: Rows) -> Rows:
        """x W + b."""
        W, b, *_ = self.parts(theta)
        return self.x.times(xp, theta, observation, W) + b

    def read(self, xp: Any, theta: Theta, h: Rows) -> Rows:
        """h V + v."""
        *_, V, v = self.parts(theta)
        return times(xp, h, V) + v

    def output(self, xp: Any, theta: Theta, told: Rows) -> Rows:
        """(…, K, q) for observations (…, K, o + 1) of K steps, each with a number after it: 1 where h begins with 0."""
        entering, fresh = self.enter(xp, theta, told[..., :-1]), told[..., -1:] > 0
        first = xp.zeros((*told.shape[:-2], self.m), theta.dtype)
        if xp is np:
            states = np.zeros((*told.shape[:-1], self.m), theta.dtype)
            for k in range(told.shape[-2]):
                before = np.where(fresh[..., k, :], 0, states[..., k - 1, :] if k else first)
                states[..., k, :] = self.next(xp, theta, entering[..., k, :], before)
            return self.read(xp, theta, states)
        from jax import lax

        def step(h: Any, given: Any) -> tuple[Any, Any]:
            entering, fresh = given
            h = self.next(xp, theta, entering, xp.where(fresh, 0, h))
            return h, h

        _, found = lax.scan(step, first, (xp.moveaxis(entering, -2, 0), xp.moveaxis(fresh, -2, 0)))
        return self.read(xp, theta, xp.moveaxis(found, 0, -2))


class RecurrentParts(PolicyParts):
    """A policy's parts, whose network keeps something between two choices."""

    def choose(self, theta: Theta, observation: Rows, noise: Rows) -> Rows:
        """The head's choice and after it the new state, given an observation and after it the state."""
        xp, z, h = self.stepped(theta, observation, noise)
        return xp.concatenate([self.head.choose(xp, theta, z, noise), h], -1)

    def mode(self, theta: Theta, observation: Rows, noise: Rows) -> Rows:
        """Likewise the likeliest."""
        xp, z, h = self.stepped(theta, observation, noise)
        return xp.concatenate([self.head.likeliest(xp, theta, z), h], -1)

    def stepped(self, theta: Theta, observation: Rows, noise: Rows) -> tuple[Any, Rows, Rows]:
        """Numbers for the head, and the new state."""
        xp, m = module(theta, observation, noise), self.network.m
        entering = self.network.enter(xp, theta, observation[..., :-m])
        h = self.network.next(xp, theta, entering, observation[..., -m:].astype(theta.dtype))
        return xp, self.network.read(xp, theta, h), h


def gru(
    observations: Space,
    actions: Space,
    normalise: bool = False,
    units: int = 32,
    log_std: float = 0.0,
    learn_std: bool = True,
    squash: bool = False,
) -> Policy:
    """A gated recurrent unit: it remembers, within an episode, what it has seen; it starts by playing uniformly.

    Gradients go back through the whole episode, or with lanes that go on to its start in the lane. A critic's network
    sees the present observation alone: with lam = 1 it is a baseline, and below that its error is part of the gradient.

    Args:
        units: how many numbers it remembers.
    """
    if units < 1:
        raise InputError(f"units = {units}; it remembers at least 1 number")
    head, seen = head_of(actions, log_std, learn_std, squash), entered(observations, normalise)
    network = GRU(seen, units, head.q)
    check_fits(f"units = {units}", 8 * network.size, "take fewer")
    parts = RecurrentParts(seen, network, head)
    return joined(seen, network, head)._replace(choose=parts.choose, memory=units)
