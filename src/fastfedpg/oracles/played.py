"""Oracles for policies of any kind in environments that are played: Eq. (5), its causal form, and with a critic.

All are sums of weighted scores, sum_{b,k} w_{b,k} grad log pi(a_k|o_k), and differ in the weights alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from fastfedpg.core import Oracle, Own, RngKey, Scalar, Sums, Theta, Transitions, count_dtype
from fastfedpg.envs.episodes import Episodes
from fastfedpg.errors import InputError
from fastfedpg.oracles.sampled import Weights
from fastfedpg.policies import Policy

Costs = Float[Array, "B K"]


class Game(NamedTuple):
    """One agent's environment as its oracle sees it: `play(theta, key, B)`, and how rewards become costs."""

    policy: Policy
    play: Callable[[Theta, RngKey, int], Episodes]
    gamma: float
    reward_scale: float = 1.0
    reward_offset: float = 0.0
    reward_range: tuple[float, float] | None = None
    tau: float = 0.0
    segments: Callable[[Theta, RngKey, int], Episodes] | None = None  # lanes in which episodes follow each other

    def costs(self, theta: Theta, episodes: Episodes) -> Costs:
        """c_k = scale (offset - r_k) + tau log pi(a_k|o_k), a plain number; 0 after the end, NaN where r_k can't be.

        A policy may have another `surprise` than its log-probability.
        """
        return lax.stop_gradient(self.costs_at(theta, episodes))

    def costs_at(self, theta: Theta, episodes: Episodes) -> Costs:
        """The same as a function of theta, which can be differentiated."""
        c = self.plain_costs(episodes)
        if self.tau:
            surprise = self.policy.surprise or self.policy.log_prob
            c = c + self.tau * surprise(theta, self.seen(episodes), episodes.choices)
        return jnp.where(episodes.alive, c, 0)

    def plain_costs(self, episodes: Episodes) -> Costs:
        """scale (offset - r_k), also after the end."""
        r = episodes.rewards
        if self.reward_range is not None:
            low, high = self.reward_range
            r = jnp.where((r < low) | (r > high), jnp.nan, r)
        return self.reward_scale * (self.reward_offset - r)

    def log_prob(self, theta: Theta, episodes: Episodes) -> Costs:
        """log pi(a_k|o_k)."""
        return self.policy.log_prob(theta, self.seen(episodes), episodes.choices)

    def seen(self, episodes: Episodes) -> Float[Array, "B K _"]:
        """What the policy is asked about; one with memory is told where episodes begin, too."""
        observations, alive = episodes.observations[:, :-1], episodes.alive
        if not self.policy.memory:
            return observations
        fresh = jnp.concatenate([jnp.ones_like(alive[:, :1]), ~alive[:, :-1]], axis=1)
        return jnp.concatenate([observations, fresh[..., None].astype(observations.dtype)], axis=-1)

    def discount(self, c: Costs, k: Int[Array, "B K"] | None = None) -> Costs:
        """gamma^k c_k; k is counted from a lane's first step, unless given."""
        return c * jnp.asarray(self.gamma, c.dtype) ** (jnp.arange(c.shape[1]) if k is None else k)


class Weighed(NamedTuple):
    """Episodes and the weight of each step's score."""

    episodes: Episodes
    weights: Float[Array, "B K"]


def log_prob(game: Game, theta: Theta, batch: Weighed) -> Costs:
    """log pi(a_k|o_k). Where an episode has ended nothing was drawn, and it may be anything there: 0."""
    return jnp.where(batch.episodes.alive, game.log_prob(theta, batch.episodes), 0)


def weighted_scores(game: Game, theta: Theta, batch: Weighed) -> Theta:
    """(1/B) sum_{b,k} w_{b,k} grad log pi(a_k|o_k), over the steps that were taken."""
    w = jnp.where(batch.episodes.alive, batch.weights, 0) / len(batch.weights)
    return jax.grad(lambda theta: jnp.sum(w * log_prob(game, theta, batch)))(jnp.asarray(theta))


def oracle_of(game: Game, B: int, init: Callable[[RngKey], Own], sample: Callable[..., tuple[Any, Own]]) -> Oracle:
    """An oracle whose batches are weighed episodes, perhaps with more beside them."""

    def credit(theta: Theta, own: Own, batch: Weighed) -> Float[Array, "B K"]:
        return jnp.where(batch.episodes.alive, batch.weights, 0)

    def transitions(batch: Weighed) -> Transitions:
        seen, choices, _, alive, terminated = batch.episodes
        c = jnp.where(alive, game.plain_costs(batch.episodes), 0)
        return Transitions(seen[:, :-1], choices, c, seen[:, 1:], alive, terminated)

    def kl(theta: Theta, other: Theta, batch: Weighed) -> Costs:
        assert game.policy.kl is not None
        return jnp.where(batch.episodes.alive, game.policy.kl(theta, other, game.seen(batch.episodes)), 0)

    def entropy(theta: Theta, batch: Weighed) -> Costs:
        assert game.policy.entropy is not None
        return jnp.where(batch.episodes.alive, game.policy.entropy(theta, game.seen(batch.episodes)), 0)

    return Oracle(
        init,
        sample,
        gradient=lambda theta, own, batch: weighted_scores(game, theta, batch),
        steps=lambda batch: batch.episodes.alive.sum(dtype=count_dtype()),
        observe=observe(game, B),
        log_prob=partial(log_prob, game),
        credit=credit,
        transitions=transitions,
        B=B,
        kl=None if game.policy.kl is None else kl,
        entropy=None if game.policy.entropy is None else entropy,
    )


def observe(game: Game, B: int) -> Callable[[Own, RngKey, int], tuple[Sums, Scalar]]:
    """Sums of what B episodes at theta = 0 show: one observation for every step that was taken.

    Of each its first o numbers: what comes after them is the agent's own context, and is told to nobody.
    """

    def sums(own: Own, key: RngKey, o: int) -> tuple[Sums, Scalar]:
        theta = jnp.zeros(game.policy.size, jnp.result_type(float))
        episodes = game.play(theta, key, B)
        seen = jnp.where(episodes.alive[..., None], episodes.observations[:, :-1, :o], 0)
        n = episodes.alive.sum()
        add = lambda x: x.sum(axis=(0, 1))
        return Sums(n.astype(theta.dtype), add(seen), add(seen**2)), n.astype(count_dtype())

    return sums


def whole(r: Float[Array, "B K"]) -> Float[Array, "B K"]:
    """Every score times the whole discounted cost: Eq. (5)."""
    return jnp.broadcast_to(r.sum(axis=1, keepdims=True), r.shape)


def to_go(r: Float[Array, "B K"]) -> Float[Array, "B K"]:
    """Every score times what comes from it on."""
    return jnp.cumsum(r[:, ::-1], axis=1)[:, ::-1]


def leave_one_out(r: Float[Array, "B K"]) -> Float[Array, "B K"]:
    """And minus the mean of the same over all other trajectories."""
    mine = to_go(r)
    return mine - (mine.sum(axis=0) - mine) / (len(r) - 1)


def _monte_carlo(game: Game, B: int, weights: Weights) -> Oracle:
    def sample(theta: Theta, own: Own, key: RngKey, size: int | None) -> tuple[Weighed, Own]:
        n = checked(B if size is None else size, weights is leave_one_out)
        episodes = game.play(theta, key, n)
        return Weighed(episodes, weights(game.discount(game.costs(theta, episodes)))), own

    def credit(theta: Theta, own: Own, batch: Weighed) -> Float[Array, "B K"]:
        """Entropy's cost is that of theta, who need not be the one who played."""
        found = weights(game.discount(game.costs_at(theta, batch.episodes))) if game.tau else batch.weights
        return jnp.where(batch.episodes.alive, found, 0)

    return oracle_of(game, B, lambda key: (), sample)._replace(credit=credit)


def checked(n: int, others: bool) -> int:
    """The number of episodes, if an estimate can be made from so many."""
    if n < 1:
        raise InputError(f"{n} trajectories were asked for; an estimate needs at least 1")
    if n < 2 and others:
        raise InputError("the leave-one-out baseline needs at least 2 trajectories; B (or B0) = 1 has no others")
    return n


def reinforce(game: Game, B: int) -> Oracle:
    """Eq. (5) to the letter, averaged over B episodes."""
    return _monte_carlo(game, B, whole)


def gpomdp(game: Game, B: int, baseline: Literal["none", "leave-one-out"] = "none") -> Oracle:
    """The causal form, with the mean of Eq. (5); see `oracles.sampled.gpomdp`."""
    return _monte_carlo(game, B, to_go if baseline == "none" else leave_one_out)
