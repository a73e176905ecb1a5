"""What PPO and TRPO have in common: batches of advantages on one scale, and a critic in running units."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fastfedpg.core import Oracle, Own, RngKey, Theta
from fastfedpg.envs.episodes import Episodes
from fastfedpg.errors import InputError
from fastfedpg.oracles.critic import adam_of, advantages, age, forward, made, moments, playing, sizes
from fastfedpg.oracles.played import Game, checked, oracle_of
from fastfedpg.oracles.running_critic import LEAST, Kept, fitted, rescaled, shuffled

FIT = 2**31 - 2
"""Folded into a batch's key for the critic's parts: no trajectory's number."""


class Played(NamedTuple):
    """Episodes, the weight of each step, and its log-probability under the policy that played them."""

    episodes: Episodes
    weights: Float[Array, "B K"]
    old: Float[Array, "B K"]


class Rows(NamedTuple):
    """Some steps of a batch, in any order; or for a policy with memory some lanes (n, K), each in its own."""

    seen: Float[Array, "*n o"]
    choices: Float[Array, "*n a"]
    weights: Float[Array, "*n"]
    old: Float[Array, "*n"]
    alive: Bool[Array, "*n"]


class CriticSettings(NamedTuple):
    """How the critic is made and fitted, and what advantages are made of it: settings of `surrogate`."""

    lam: float
    eta: float
    hidden: tuple[int, ...] | str
    epochs: int
    minibatches: int
    gamma_weights: bool
    segments: bool
    scaled: bool


class Parts(NamedTuple):
    """An oracle, `loss(theta, own, rows)` whose gradient it gives, and log(pi_theta/pi_old) of rows."""

    oracle: Oracle
    loss: Callable[[Theta, Own, Rows], Any]
    log_ratio: Callable[[Theta, Rows], Any]


def surrogate(
    game: Game, B: int, who: str, gain: Callable[[Any, Any], Any], entropy: float, how: CriticSettings
) -> Parts:
    """(1/n) sum gain(r, A / s) - entropy (1/n) sum H(pi_theta(.|o)) over the n steps of a part; see `ppo`.

    Args:
        gain: what a step weighs, of its ratio of probabilities and its cost advantage: r A, or what is clipped.
        who: the oracle's name, for what it refuses.
    """
    check_entropy(game, entropy)
    adam, policy = adam_of(how.eta, who), game.policy
    hidden = sizes(how.hidden)
    play = playing(game, how.segments)

    def init(key: RngKey) -> Kept:
        network, zero = made(key, policy.width, hidden), jnp.zeros((), jnp.result_type(float))
        return Kept(network, adam.init(network), jnp.int32(0), zero, zero + 1, zero, zero)

    def sample(theta: Theta, own: Own, key: RngKey, size: int | None) -> tuple[Played, Own]:
        n = checked(B if size is None else size, False)
        episodes = play(theta, key, n)
        alive, seen = episodes.alive, episodes.observations
        value = lambda network, seen: forward(network, lambda M: policy.enter(theta, seen, M))
        V = (own.centre + own.scale * value(own.network, seen)).astype(theta.dtype)
        A = advantages(game.costs(theta, episodes), V, episodes, game.gamma, how.lam)
        centre, spread, _ = moments(A, alive)
        weights = jnp.where(alive, A - centre, 0)
        if how.gamma_weights:
            weights = game.discount(weights, age(alive))
        flat = lambda x: x.reshape(-1, *x.shape[2:])
        order = shuffled(jax.random.fold_in(key, FIT), alive.size, how.epochs, how.minibatches)
        own = fitted(adam, own, value, flat(seen[:, :-1]), flat(A + V[:, :-1]), flat(alive), order)
        found = jnp.where(spread > LEAST, spread, 1).astype(own.spread.dtype)
        own = own._replace(spread=found, common=jnp.where(own.common > 0, own.common, found))
        old = jnp.where(alive, game.log_prob(theta, episodes), 0)
        return Played(episodes, weights, lax.stop_gradient(old)), own

    def loss(theta: Theta, own: Own, rows: Rows) -> Any:
        A = rows.weights / own.common.astype(theta.dtype) if how.scaled else rows.weights
        total = gain(jnp.exp(log_ratio(theta, rows)), A)
        if entropy:
            assert policy.entropy is not None  # see `check_entropy`
            total = total - entropy * policy.entropy(theta, rows.seen)
        return jnp.sum(jnp.where(rows.alive, total, 0)) / A.size

    def gradient(theta: Theta, own: Own, batch: Played | Rows) -> Theta:
        rows = batch if isinstance(batch, Rows) else rows_of(game, batch)
        return jax.grad(loss)(jnp.asarray(theta), own, rows)

    def log_ratio(theta: Theta, rows: Rows) -> Any:
        return jnp.where(rows.alive, policy.log_prob(theta, rows.seen, rows.choices) - rows.old, 0)

    def credit(theta: Theta, own: Own, batch: Played) -> Float[Array, "B K"]:
        """What `gradient` weighs scores with where the batch was played, but for the entropy."""
        K = batch.weights.shape[1]
        return batch.weights / (K * own.common.astype(theta.dtype) if how.scaled else K)

    oracle = oracle_of(game, B, init, sample)._replace(
        gradient=gradient,
        credit=credit,
        scale=(lambda own: own.spread) if how.scaled else None,
        rescaled=rescaled if how.scaled else None,
    )
    return Parts(oracle, loss, log_ratio)


def check_entropy(game: Game, entropy: float) -> None:
    """Refuse a weight that can't be, or one of an entropy that is not known."""
    if not 0 <= entropy < float("inf"):
        raise InputError(f"entropy = {entropy:g}; its weight must be finite and at least 0")
    if entropy and game.policy.entropy is None:
        raise InputError(
            f"entropy = {entropy:g}: this policy's entropy has no closed form (actions are squashed); take "
            "squash=false, or tau, which needs none"
        )


def at_least_one(**settings: int) -> None:
    """Refuse numbers of passes and parts that are none."""
    for name, value in settings.items():
        if value < 1:
            raise InputError(f"{name} = {value}; it must be at least 1")


def above_zero(name: str, value: float | None, usual: str) -> None:
    """Refuse a limit of KL that is none."""
    if value is not None and not 0 < value < float("inf"):
        raise InputError(f"{name} = {value:g}; it must be positive: {usual}")


def distance(by: Float[Array, "*n"], alive: Bool[Array, "*n"]) -> Any:
    """An estimate of the mean KL(old || new) from by = log(new/old): mean of e^by - 1 - by, which is never negative."""
    return jnp.sum(jnp.where(alive, jnp.expm1(by) - by, 0)) / jnp.maximum(alive.sum(), 1)


def rows_of(game: Game, batch: Played) -> Rows:
    """All steps of a batch, one after the other, or all its lanes: what a policy remembers is not to be torn apart."""
    _, choices, _, alive, _ = batch.episodes
    rows = Rows(game.seen(batch.episodes), choices, batch.weights, batch.old, alive)
    return rows if game.policy.memory else jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)
