"""What an agent may ask of its own environment: an oracle, and the forms of its answers.

Signs are the paper's: agents minimise a cost, and an oracle answers with the gradient of that cost.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from fastfedpg.mdp import finite
from fastfedpg.mdp.transitions import as_kernel, expected

Theta: TypeAlias = Float[Array, " d"]
"""A policy's parameters: a vector in R^d, as in the paper."""

RngKey: TypeAlias = Key[Array, ""]
Scalar: TypeAlias = Float[Array, ""] | Int[Array, ""] | float | int

# Pytrees of arrays whose shape is the oracle's own business.
Own: TypeAlias = Any  # what the oracle keeps at one agent (critic, running chain): never leaves it
Batch: TypeAlias = Any  # what an oracle saw while playing a policy


class Sums(NamedTuple):
    """How many observations an agent has seen, and the sums of them and of their squares, each (o,)."""

    n: Scalar
    x: Any
    xx: Any


class Tabular(NamedTuple):
    """All that there is to know of a finite MDP, entropy's tau included."""

    P: Any  # (S, A, S), or lists of successors
    cost: Any  # (S, A)
    rho: Any
    gamma: float
    tau: float = 0.0

    def like(self, theta: Theta) -> "Tabular":
        """The same with numbers of theta's dtype."""
        cost, rho = (jnp.asarray(x, theta.dtype) for x in (self.cost, self.rho))
        return self._replace(P=as_kernel(self.P, theta.dtype), cost=cost, rho=rho)

    def log_policy(self, theta: Theta) -> Float[Array, "S A"]:
        """Eq. (2)."""
        return finite.log_softmax_policy(theta, *self.cost.shape)

    def q_values(self, log_pi: Float[Array, "S A"]) -> Float[Array, "S A"]:
        """Q_pi(s,a) = c(s,a) + tau log pi(a|s) + gamma E[V_pi(s')], so that V_pi(s) = sum_a pi(a|s) Q_pi(s,a)."""
        return finite.q_values(self.P, self.cost, self.gamma, log_pi, self.tau) + self.tau * log_pi

    def occupancy(self, log_pi: Float[Array, "S A"]) -> Float[Array, " S"]:
        """d_pi(s) = (1 - gamma) sum_t gamma^t P(s_t = s)."""
        return finite.occupancy(self.P, self.rho, self.gamma, log_pi)

    def backup(self, V: Float[Array, " S"]) -> Float[Array, "S A"]:
        """c(s,a) + gamma E[V(s')]."""
        return self.cost + self.gamma * expected(self.P, V)


class Transitions(NamedTuple):
    """Steps (s, a, cost, s') that were played; the cost is without entropy."""

    s: Any  # (B, n) numbers of states, or (B, n, o) observations
    a: Any  # likewise
    cost: Float[Array, "B n"]
    then: Any  # like s
    alive: Any  # (B, n), whether the step was taken
    ends: Any  # (B, n), whether nothing comes after it


class Replay(NamedTuple):
    """How a batch serves several steps: the gradient is asked on parts of it, also where theta has moved on.

    `order(batch, key)` has a row for each step, `part(batch, row)` is that step's part, which `gradient` takes like a
    batch. `far(theta, part)` says whether theta is too far from the policy that played it: then no more steps are taken
    on this batch. `note(theta, batch)` are scalars to log once it has served. `free(theta, part)` is the share of a
    correction that counts there, 1 where the batch was played. Where the oracle bounds steps itself, `bounded(theta,
    own, part, g, v)` is taken in the place of v, the direction that was made of the gradient g there.
    """

    order: Callable[[Batch, RngKey], Any]
    part: Callable[[Batch, Any], Batch]
    far: Callable[[Theta, Batch], Any] = lambda theta, part: False
    note: Callable[[Theta, Batch], dict[str, Any]] = lambda theta, batch: {}
    free: Callable[[Theta, Batch], Any] | None = None
    bounded: Callable[[Theta, Own, Batch, Theta, Theta], Theta] | None = None


class Oracle(NamedTuple):
    """What agent i can ask of its own environment.

    `gradient(theta, own, batch)` is an estimate of the gradient of J_i on a batch that `sample` played with the same
    theta: Eq. (5), or Eq. (4) exactly; with `replay` also with another, and on parts of it. `steps(batch)` counts the
    environment steps that the batch cost.

    The others are None where they can't be answered. `observe(own, key, o)` sums up observations of o numbers at
    theta = 0, with the steps that it took. `log_prob(theta, batch)` is log pi_theta(a_k|s_k) of each step and `credit(
    theta, own, batch)` the weight of its score, both (B, K) and 0 where an episode has ended: `gradient` is that of
    sum(stop_gradient(credit) * log_prob) / B. `kl(theta, other, batch)` is KL(pi_theta || pi_other) where each step
    was taken, and `entropy(theta, batch)` that of pi_theta there, likewise (B, K). `tabular()` tells a `Tabular`,
    `transitions(batch)` a `Transitions`. `B` is how many trajectories an estimate has unless another number is asked
    for, 0 where nothing is played. Where `anywhere` is true a batch does not depend on theta, or there is none:
    `gradient` may then be asked at any theta. Where gradients are divided by a scale, `scale(own)` is what this agent
    measured last, and `rescaled(own, scale)` goes on with that of all agents, if it is positive.
    """

    init: Callable[[RngKey], Own]
    sample: Callable[[Theta, Own, RngKey, int | None], tuple[Batch, Own]]
    gradient: Callable[[Theta, Own, Batch], Theta]
    steps: Callable[[Batch], int]
    observe: Callable[[Own, RngKey, int], tuple[Sums, Scalar]] | None = None
    log_prob: Callable[[Theta, Batch], Float[Array, "B K"]] | None = None
    credit: Callable[[Theta, Own, Batch], Float[Array, "B K"]] | None = None
    tabular: Callable[[], Tabular] | None = None
    transitions: Callable[[Batch], Transitions] | None = None
    kl: Callable[[Theta, Theta, Batch], Float[Array, "B K"]] | None = None
    entropy: Callable[[Theta, Batch], Float[Array, "B K"]] | None = None
    B: int | None = None
    anywhere: bool = False
    replay: Replay | None = None
    scale: Callable[[Own], Scalar] | None = None
    rescaled: Callable[[Own, Scalar], Own] | None = None


def watch(oracle: Oracle, **answers: Callable[..., Any]) -> Oracle:
    """The oracle, some of whose answers are given by others, which are handed its own answer and what was asked."""
    told: dict[str, Any] = {name: partial(answer, getattr(oracle, name)) for name, answer in answers.items()}
    return oracle._replace(**told)


def once(oracle: Oracle) -> Oracle:
    """The oracle, each of whose batches serves one step."""
    return oracle._replace(replay=None)


class Carried(NamedTuple):
    """What the oracle keeps at an agent, and beside it what the agent's optimiser keeps from one round to the next."""

    own: Own
    optimiser: Any
