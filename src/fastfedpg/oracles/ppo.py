"""Proximal policy optimisation as what an agent asks of its environment: a batch that serves many clipped steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fastfedpg.core import Oracle, Own, Replay, RngKey, Scalar, Theta
from fastfedpg.envs.episodes import Episodes
from fastfedpg.errors import InputError
from fastfedpg.kinds import SIZES
from fastfedpg.oracles.critic import adam_of, advantages, age, forward, made, moments, playing
from fastfedpg.oracles.played import Game, checked, oracle_of
from fastfedpg.parameters import Parameter, read_parameter

LEAST = 1e-8
"""A spread below this is none: what differs so little is not scaled up."""

SLOWEST = 0.1
"""How fast the critic's units follow the last batch, at least; the first batches count alike."""

FIT = 2**31 - 2
"""Folded into a batch's key for the critic's parts: no trajectory's number."""


class Kept(NamedTuple):
    """What an agent keeps: its critic, in which units that speaks, and the scales of advantages."""

    network: Any
    optimiser: Any
    batches: Any  # how many the critic has seen
    centre: Any
    scale: Any
    spread: Any  # of this agent's last advantages
    common: Any  # what gradients are divided by; 0 before there is any


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


def ppo(
    game: Game,
    B: int,
    lam: float = 0.95,
    clip: float = 0.2,
    epochs: int = 10,
    minibatches: int = 4,
    entropy: float = 0.0,
    kl_stop: float | None = None,
    critic_eta: float = 1e-3,
    critic_hidden: tuple[int, ...] | str = (64, 64),
    gamma_weights: bool = False,
    segments: bool = True,
    scaled: bool = True,
) -> Oracle:
    """A batch that serves epochs x minibatches steps on the clipped surrogate of Schulman et al. (2017).

        L(theta) = (1/n) sum max(r A, clip(r, 1 - clip, 1 + clip) A) / s - entropy (1/n) sum H(pi_theta(.|o)),
        r = pi_theta(a|o) / pi_old(a|o),   n steps of a part of the batch,   A as in `actor_critic`, less their mean

    A are cost advantages, so the larger of the two is the pessimistic one. At theta = old the ratio is 1, nothing is
    clipped, and the gradient is that of `actor_critic` divided by K s, but for gamma^k and the mean: what an algorithm
    sends from there, and corrects by, is an ordinary policy gradient. Where the agents' mean of it is 0 a corrected
    step on the same batch does not move theta, if it is on the whole of it; on parts, that holds for their mean.
    Away from old the clip takes part in the local steps alone, and a correction stands outside of it: with large steps
    it can lead further than the clip would, and `kl_stop` is what bounds that. Nothing else of the theory is left.

    s is the standard deviation of A, averaged over the agents by the server, so that nobody is re-weighted: with a
    scale of its own, an agent whose rewards are small would count like one whose rewards are large. In the first round,
    when nobody has said one, each agent takes its own. The critic takes as many steps as the policy, on the same parts,
    towards A + V in units of their running mean and spread; where these change its last layer is changed with them, so
    that it says what it said (van Hasselt et al. 2016).

    Args:
        lam: lambda of the generalised advantages, in [0, 1].
        clip: how far the ratio of probabilities may move from 1 with a gain, in (0, 1).
        epochs: passes over each batch.
        minibatches: parts of the batch in a pass, a step each; they must divide B K, or with a policy that remembers,
            whose parts are whole lanes, B.
        entropy: weight of the policy's mean entropy, beside advantages of spread 1.
        kl_stop: no more steps on a batch once the mean KL(old || new), estimated on a part, is above this.
        critic_hidden: sizes of the critic's hidden layers.
        gamma_weights: whether step k of an episode weighs gamma^k, as in Eq. (5); without, all steps weigh the same.
        segments: play B lanes of K steps in which episodes follow each other, instead of B episodes.
        scaled: whether advantages are divided by s.
    """
    check(game, clip, epochs, minibatches, entropy, kl_stop)
    adam = adam_of(critic_eta, "ppo")
    hidden = read_parameter("critic_hidden", Parameter("critic_hidden", SIZES, (64, 64), ""), critic_hidden)
    play, policy = playing(game, segments), game.policy
    unit = "B" if policy.memory else "B K"

    def init(key: RngKey) -> Kept:
        network, zero = made(key, policy.width, hidden), jnp.zeros((), jnp.result_type(float))
        return Kept(network, adam.init(network), jnp.int32(0), zero, zero + 1, zero, zero)

    def sample(theta: Theta, own: Own, key: RngKey, size: int | None) -> tuple[Played, Own]:
        n = checked(B if size is None else size, False)
        episodes = play(theta, key, n)
        alive, seen = episodes.alive, episodes.observations
        value = lambda network, seen: forward(network, lambda M: policy.enter(theta, seen, M))
        V = (own.centre + own.scale * value(own.network, seen)).astype(theta.dtype)
        A = advantages(game.costs(theta, episodes), V, episodes, game.gamma, lam)
        centre, spread, _ = moments(A, alive)
        weights = jnp.where(alive, A - centre, 0)
        if gamma_weights:
            weights = game.discount(weights, age(alive))
        flat = lambda x: x.reshape(-1, *x.shape[2:])
        order = shuffled(jax.random.fold_in(key, FIT), alive.size, epochs, minibatches)
        own = fitted(adam, own, value, flat(seen[:, :-1]), flat(A + V[:, :-1]), flat(alive), order)
        found = jnp.where(spread > LEAST, spread, 1).astype(own.spread.dtype)
        own = own._replace(spread=found, common=jnp.where(own.common > 0, own.common, found))
        old = jnp.where(alive, game.log_prob(theta, episodes), 0)
        return Played(episodes, weights, lax.stop_gradient(old)), own

    def gradient(theta: Theta, own: Own, batch: Played | Rows) -> Theta:
        rows = batch if isinstance(batch, Rows) else rows_of(game, batch)
        A = rows.weights / own.common.astype(theta.dtype) if scaled else rows.weights

        def surrogate(theta: Theta) -> Any:
            r = jnp.exp(log_ratio(theta, rows))
            gain = jnp.maximum(r * A, jnp.clip(r, 1 - clip, 1 + clip) * A)
            if entropy:
                assert policy.entropy is not None  # see `check`
                gain = gain - entropy * policy.entropy(theta, rows.seen)
            return jnp.sum(jnp.where(rows.alive, gain, 0)) / A.size

        return jax.grad(surrogate)(jnp.asarray(theta))

    def log_ratio(theta: Theta, rows: Rows) -> Any:
        return jnp.where(rows.alive, policy.log_prob(theta, rows.seen, rows.choices) - rows.old, 0)

    def far(theta: Theta, rows: Rows) -> Any:
        return distance(log_ratio(theta, rows), rows.alive) > kl_stop

    def note(theta: Theta, batch: Played) -> dict[str, Any]:
        rows = rows_of(game, batch)
        by = log_ratio(theta, rows)
        outside = rows.alive & (jnp.abs(jnp.exp(by) - 1) > clip)
        return {"kl": distance(by, rows.alive), "clipped": outside.sum() / jnp.maximum(rows.alive.sum(), 1)}

    def credit(theta: Theta, own: Own, batch: Played) -> Float[Array, "B K"]:
        """What `gradient` weighs scores with where the batch was played, but for the entropy."""
        K = batch.weights.shape[1]
        return batch.weights / (K * own.common.astype(theta.dtype) if scaled else K)

    replay = Replay(
        order=lambda batch, key: shuffled(key, len(rows_of(game, batch).weights), epochs, minibatches, unit),
        part=lambda batch, row: jax.tree.map(lambda x: x[row], rows_of(game, batch)),
        note=note,
    )
    return oracle_of(game, B, init, sample)._replace(
        gradient=gradient,
        credit=credit,
        replay=replay if kl_stop is None else replay._replace(far=far),
        scale=(lambda own: own.spread) if scaled else None,
        rescaled=rescaled if scaled else None,
    )


def check(game: Game, clip: float, epochs: int, minibatches: int, entropy: float, kl_stop: float | None) -> None:
    """Refuse what can't be."""
    if not 0 < clip < 1:
        raise InputError(f"clip = {clip:g}; it must lie between 0 and 1")
    for name, value in (("epochs", epochs), ("minibatches", minibatches)):
        if value < 1:
            raise InputError(f"{name} = {value}; it must be at least 1")
    if not 0 <= entropy < float("inf"):
        raise InputError(f"entropy = {entropy:g}; its weight must be finite and at least 0")
    if kl_stop is not None and not kl_stop > 0:
        raise InputError(f"kl_stop = {kl_stop:g}; it must be positive: about 0.01 to 0.05")
    if entropy and game.policy.entropy is None:
        raise InputError(
            f"entropy = {entropy:g}: this policy's entropy has no closed form (actions are squashed); take "
            "squash=false, or tau, which needs none"
        )


def distance(by: Float[Array, "*n"], alive: Bool[Array, "*n"]) -> Any:
    """An estimate of the mean KL(old || new) from by = log(new/old): mean of e^by - 1 - by, which is never negative."""
    return jnp.sum(jnp.where(alive, jnp.expm1(by) - by, 0)) / jnp.maximum(alive.sum(), 1)


def rows_of(game: Game, batch: Played) -> Rows:
    """All steps of a batch, one after the other, or all its lanes: what a policy remembers is not to be torn apart."""
    _, choices, _, alive, _ = batch.episodes
    rows = Rows(game.seen(batch.episodes), choices, batch.weights, batch.old, alive)
    return rows if game.policy.memory else jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)


def shuffled(key: RngKey, n: int, epochs: int, parts: int, what: str = "B K") -> Int[Array, "steps part"]:
    """The numbers 0, …, n - 1 in a random order for each epoch, in parts."""
    if n % parts:
        raise InputError(f"minibatches = {parts} does not divide {what} = {n}: take a number that does")
    every = jax.vmap(lambda e: jax.random.permutation(jax.random.fold_in(key, e), n))(jnp.arange(epochs))
    return every.reshape(epochs * parts, n // parts)


def rescaled(own: Kept, scale: Scalar) -> Kept:
    """What an agent keeps, with the scale of all agents, if there is one."""
    return own._replace(common=jnp.where(scale > 0, scale, own.common).astype(own.common.dtype))


def fitted(
    adam: Any,
    own: Kept,
    value: Callable[[Any, Any], Any],
    seen: Float[Array, "n o"],
    target: Float[Array, " n"],
    alive: Bool[Array, " n"],
    order: Int[Array, "steps part"],
) -> Kept:
    """The critic after its steps towards the target, in units that follow the targets."""
    mean, spread, _ = moments(target[None], alive[None])
    rate = jnp.maximum(1 / (own.batches + 1), SLOWEST)
    first = own.batches == 0
    centre = own.centre + rate * (mean - own.centre)
    square = (1 - rate) * own.scale**2 + rate * (spread**2 + (mean - own.centre) * (mean - centre))
    scale = jnp.where(first, spread, jnp.sqrt(square))
    scale = jnp.where(scale > LEAST, scale, own.scale)
    *layers, (W, b) = own.network
    kept = W * own.scale / scale, (own.scale * b + own.centre - centre) / scale
    network = jax.tree.map(lambda x, y: x.astype(y.dtype), [*layers, kept], own.network)
    goal = (target - centre) / scale

    def improve(carry: Any, part: Any) -> tuple[Any, None]:
        network, state = carry

        def error(network: Any) -> Any:
            off = value(network, seen[part]) - goal[part]
            return jnp.sum(jnp.where(alive[part], off**2, 0)) / len(part)

        change, state = adam.update(jax.grad(error)(network), state, network)
        return (jax.tree.map(lambda x, d: x + d, network, change), state), None

    (network, state), _ = lax.scan(improve, (network, own.optimiser), order)
    real = own.centre.dtype
    return own._replace(
        network=network,
        optimiser=state,
        batches=own.batches + 1,
        centre=centre.astype(real),
        scale=scale.astype(real),
    )
