"""The oracle with a critic: less noise, some bias, and a value network that never leaves its agent."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fastfedpg.core import Oracle, Own, RngKey, Theta
from fastfedpg.envs.episodes import Episodes
from fastfedpg.errors import InputError, missing_extra
from fastfedpg.kinds import SIZES
from fastfedpg.oracles.played import Game, Weighed, checked, oracle_of
from fastfedpg.parameters import Parameter, read_parameter


class Critic(NamedTuple):
    """What an agent keeps: the network, its optimiser's state, and the units of the first costs-to-go that differed."""

    network: Any
    optimiser: Any
    centre: Float[Array, ""]
    scale: Float[Array, ""]
    used: Bool[Array, ""]


def actor_critic(
    game: Game,
    B: int,
    lam: float = 0.95,
    critic_eta: float = 3e-3,
    critic_steps: int = 8,
    critic_hidden: tuple[int, ...] | str = (64, 64),
    gamma_weights: bool = True,
    segments: bool = False,
) -> Oracle:
    """sum_k gamma^k A_k grad log pi(a_k|o_k), with the generalised advantage A_k = sum_l (gamma lam)^l delta_{k+l}.

        delta_k = c_k + gamma V(o_{k+1}) - V(o_k),   V = 0 after an episode that terminated

    An episode that was cut, by K or by its environment's time limit, goes on in V. The advantages are those of the
    critic before it sees the batch, so that with lam = 1 and episodes that all terminate within K steps the mean is
    that of Eq. (5). Otherwise it is another one, by the critic's error and by what V adds behind a cut, and outside the
    theorems. Then the critic takes `critic_steps` steps
    of Adam towards A_k + V(o_k). After Schulman et al. (2016), but with gamma^k kept, unless it is not wanted.

    Args:
        lam: lambda of the generalised advantages, in [0, 1].
        critic_hidden: sizes of the critic's hidden layers.
        gamma_weights: whether step k of an episode weighs gamma^k, as in Eq. (5); without, all steps weigh the same.
        segments: play B lanes of K steps in which episodes follow each other, instead of B episodes.
    """
    adam, hidden = adam_of(critic_eta, "actor_critic"), sizes(critic_hidden)

    def init(key: RngKey) -> Critic:
        network = made(key, game.policy.width, hidden)
        zero = jnp.zeros((), jnp.result_type(float))
        return Critic(network, adam.init(network), zero, zero + 1, jnp.bool_(False))

    def sample(theta: Theta, critic: Own, key: RngKey, size: int | None) -> tuple[Weighed, Own]:
        episodes = playing(game, segments)(theta, key, checked(B if size is None else size, False))
        value = lambda network, seen: forward(network, lambda M: game.policy.enter(theta, seen, M))
        V = critic.centre + critic.scale * value(critic.network, episodes.observations)
        A = advantages(game.costs(theta, episodes), V.astype(theta.dtype), episodes, game.gamma, lam)
        value_here = lambda network: value(network, episodes.observations[:, :-1])
        weights = game.discount(A, age(episodes.alive)) if gamma_weights else A
        return Weighed(episodes, weights), fitted(critic, value_here, A + V[:, :-1], episodes.alive)

    def fitted(critic: Critic, value: Callable[[Any], Any], target: Any, alive: Any) -> Critic:
        centre, scale, n = moments(target, alive)
        differ = scale > 1e-6 * jnp.maximum(1, jnp.abs(centre))  # where all are equal, they say nothing of the units
        now = differ & ~critic.used
        critic = critic._replace(
            centre=jnp.where(now, centre, critic.centre).astype(critic.centre.dtype),
            scale=jnp.where(now, scale, critic.scale).astype(critic.scale.dtype),
            used=critic.used | differ,
        )
        goal = (target - critic.centre) / critic.scale

        def error(network: Any) -> Any:
            return jnp.sum(jnp.where(alive, (value(network) - goal) ** 2, 0)) / n

        def improve(carry: Any, _: None) -> tuple[Any, None]:
            network, state = carry
            change, state = adam.update(jax.grad(error)(network), state, network)
            return (jax.tree.map(lambda x, d: x + d, network, change), state), None

        (network, state), _ = lax.scan(improve, (critic.network, critic.optimiser), None, length=critic_steps)
        return critic._replace(network=network, optimiser=state)

    return oracle_of(game, B, init, sample)


def playing(game: Game, segments: bool) -> Callable[[Theta, RngKey, int], Episodes]:
    """How batches are played: episodes side by side, or lanes in which they follow each other."""
    if not segments:
        return game.play
    if game.segments is None:
        raise ValueError("segments: this environment's episodes can't follow each other; take segments=false")
    return game.segments


def adam_of(eta: float, who: str) -> Any:
    """optax's, for a value network."""
    try:
        import optax
    except ImportError:
        raise missing_extra(f"oracle '{who}'", "optax", "neural") from None
    return optax.adam(eta)


def sizes(critic_hidden: tuple[int, ...] | str) -> tuple[int, ...]:
    """Of a critic's hidden layers, which may be words."""
    found: tuple[int, ...] = read_parameter("critic_hidden", Parameter("critic_hidden", SIZES, None, ""), critic_hidden)
    if any(n < 1 for n in found):
        raise InputError(f"critic_hidden = {critic_hidden}; each layer has at least 1 unit, as in 64x64")
    return found


def advantages(
    c: Float[Array, "B K"], V: Float[Array, "B K+1"], episodes: Episodes, gamma: float, lam: float
) -> Float[Array, "B K"]:
    """A_k = delta_k + gamma lam A_{k+1}; 0 after the end of an episode, and nothing of the one that follows it."""
    alive = episodes.alive
    delta = c + gamma * jnp.where(episodes.terminated, 0, V[:, 1:]) - V[:, :-1]

    def back(A: Any, given: Any) -> tuple[Any, Any]:
        delta, alive = given
        A = jnp.where(alive, delta + gamma * lam * A, 0)
        return A, A

    _, A = lax.scan(back, jnp.zeros_like(c[:, 0]), (delta.T, alive.T), reverse=True)
    return A.T


def age(alive: Bool[Array, "B K"]) -> Int[Array, "B K"]:
    """How many steps of its episode were taken before each."""
    k = jnp.arange(alive.shape[1])
    return jnp.maximum(k - lax.cummax(jnp.where(alive, 0, k + 1), axis=1), 0)


def moments(x: Float[Array, "B K"], alive: Bool[Array, "B K"]) -> tuple[Any, Any, Any]:
    """Mean and standard deviation over the steps that were taken, and how many they are."""
    n = jnp.maximum(alive.sum(), 1)
    centre = jnp.sum(jnp.where(alive, x, 0)) / n
    return centre, jnp.sqrt(jnp.sum(jnp.where(alive, (x - centre) ** 2, 0)) / n), n


def made(key: RngKey, width: int, hidden: tuple[int, ...]) -> list[tuple[Any, Any]]:
    """Weights for tanh layers of the hidden sizes, and a last layer that says 0."""
    sizes = (width, *hidden, 1)
    dtype = jnp.result_type(float)
    layers = []
    for k, (m, n) in enumerate(pairwise(sizes)):
        W = jax.random.normal(jax.random.fold_in(key, k), (m, n), dtype) / m**0.5
        layers.append((W if n > 1 else 0 * W, jnp.zeros(n, dtype)))
    return layers


def forward(network: list[tuple[Any, Any]], enter: Callable[[Any], Any]) -> Float[Array, "*n"]:
    """The network's values, given how its first layer's x W is computed."""
    (first, bias), *hidden, (W, b) = network
    x = jnp.tanh(enter(first) + bias)
    for w, c in hidden:
        x = jnp.tanh(x @ w + c)
    return (x @ W + b)[..., 0]
