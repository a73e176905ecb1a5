"""Actions chosen bit by bit, after Labbi et al., arXiv 2505.23459v1 (2025): b-RS-FedPG."""

from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.policies import networks
from fastfedpg.policies.arrays import Rows, Theta, still
from fastfedpg.policies.heads import Softmax, softmax
from fastfedpg.policies.inputs import entered
from fastfedpg.policies.makers import joined
from fastfedpg.policies.policy import Policy
from fastfedpg.spaces import Discrete, Space, said


class Bits(NamedTuple):
    """A softmax of two for every prefix of bits: pi(a) = prod_p softmax(z[prefix_p])[bit_p], bits from the highest on.

    z has two numbers for each of the 2^k - 1 prefixes, the shorter ones first and among equals by their value.
    """

    flat: Softmax  # of all 2^k actions, with log pi(a) as its numbers
    where: np.ndarray  # (2^k, k): which number of z belongs to each bit of each action
    weights: np.ndarray  # (k,): of each bit in `surprise`
    last: tuple[float, ...] = ()

    @property
    def q(self) -> int:
        """Two for each prefix."""
        return 2 * (len(self.where) - 1)

    def noise(self, key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """One uniform number."""
        return self.flat.noise(key, shape, dtype)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """The same from NumPy's numbers."""
        return self.flat.draw(rng, shape)

    def likeliest(self, xp: Any, theta: Theta, z: Rows) -> Rows:
        """The action of the largest probability."""
        return self.flat.likeliest(xp, theta, self.logits(xp, z))

    def choose(self, xp: Any, theta: Theta, z: Rows, noise: Rows) -> Rows:
        """Among all actions at once, which takes one number instead of k."""
        return self.flat.choose(xp, theta, self.logits(xp, z), noise)

    def action(self, choice: Rows) -> Rows:
        """The choice."""
        return choice

    def log_prob(self, xp: Any, theta: Theta, z: Rows, choice: Rows) -> Any:
        """The sum over the bits."""
        return self.chosen(xp, self.logits(xp, z), choice)

    def surprise(self, xp: Any, theta: Theta, z: Rows, choice: Rows) -> Any:
        """sum_p weight_p log pi(bit_p|prefix_p)."""
        return self.chosen(xp, (self.by_bit(xp, z) * self.weights.astype(z.dtype)).sum(-1), choice)

    def chosen(self, xp: Any, of_each: Rows, choice: Rows) -> Any:
        """The number of the action that was chosen."""
        return xp.where(np.arange(len(self.where)) == choice, of_each, 0).sum(-1)

    def kl(self, xp: Any, theta: Theta, z: Rows, other: Theta, there: Rows) -> Any:
        """Over all actions."""
        return self.flat.kl(xp, theta, self.logits(xp, z), other, self.logits(xp, there))

    def entropy(self, xp: Any, theta: Theta, z: Rows) -> Any:
        """Over all actions; every bit counts alike, other than in `surprise`."""
        return self.flat.entropy(xp, theta, self.logits(xp, z))

    def logits(self, xp: Any, z: Rows) -> Rows:
        """log pi(a) of every action."""
        return self.by_bit(xp, z).sum(-1)

    def by_bit(self, xp: Any, z: Rows) -> Any:
        """log pi(bit_p|prefix_p) of every action and bit: (…, 2^k, k)."""
        z = z.reshape(*z.shape[:-1], -1, 2)
        z = z - still(xp, z.max(-1, keepdims=True))
        z = z - xp.log(xp.exp(z).sum(-1, keepdims=True))
        return z.reshape(*z.shape[:-2], -1)[..., self.where]


def head(actions: Space, bit_gamma: float) -> Bits:
    """With the places of its bits."""
    n = actions.n if isinstance(actions, Discrete) else 0
    k = n.bit_length() - 1
    if n < 2 or n != 2**k:
        raise InputError(f"actions are {said(actions)}; policy bits needs 2, 4, 8, … of them")
    if not 0 < bit_gamma <= 1:
        raise InputError(f"bit_gamma = {bit_gamma:g}; it must lie in (0, 1]")
    p, a = np.arange(k), np.arange(n)[:, None]
    prefix = 2**p - 1 + (a >> (k - p))
    return Bits(softmax((n,)), 2 * prefix + (a >> (k - 1 - p) & 1), bit_gamma ** (p / max(k - 1, 1)))


def bits(observations: Space, actions: Space, normalise: bool = False, bit_gamma: float = 0.99) -> Policy:
    """A table with a softmax of two for every prefix of an action's bits, for 2^k actions.

    theta is (S, 2^k - 1, 2) and pi(a|s) = prod_p softmax(theta[s, prefix_p])[bit_p]. With tau the cost is c + tau h_b,
    h_b(s,a) = sum_p bit_gamma^(p/(k-1)) log pi(bit_p|s, prefix_p), p = 0, …, k-1: later bits weigh less. With fedavg_pg
    this is b-RS-FedPG of Labbi et al. (2026), whose code divides by 0 at k = 1; there the one bit's weight is 1, and
    the policy is the table of two actions.

    Args:
        bit_gamma: the last bit's weight in the entropy, in (0, 1]; theirs is the problem's gamma.
    """
    made = head(actions, bit_gamma)
    return joined(entered(observations, normalise), networks.table(observations, made.q), made)
