"""FedPG-BR, after Fan et al., "Fault-Tolerant Federated Reinforcement Learning with Theoretical Guarantee" (2021)."""

import zlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from fastfedpg.core import (
    WEIGHTS,
    Algorithm,
    Combine,
    Down,
    Exchange,
    Info,
    Oracle,
    Own,
    PerAgent,
    RngKey,
    Scalar,
    Theta,
    check_positive,
    count_dtype,
    estimate,
    pairwise_sum,
    weighted_gradient,
)

STEPS = zlib.crc32(b"steps")


class Memory(NamedTuple):
    """Whether the agent stands in for the server, and where the round began."""

    stands_in: Any
    theta: Theta


def nearby(sigma: Scalar, B0: int, delta: Scalar = 0.6, alpha: Scalar = 0.4) -> Combine:
    """The mean of those uploads that are near the one in the midst of them; up to alpha of them may be anything.

        T = 2 sigma sqrt(2 log(2 m / delta) / B0),     S = {i : #{j : ||mu_i - mu_j|| <= T} > m / 2}
        c = the mu_i, i in S, nearest to the mean of S,     G = {i : ||mu_i - c|| <= T},     mean of mu_i over G

    If S is empty or G has fewer than (1 - alpha) m, once more with 2 sigma in the place of T: no two honest ones are
    farther apart. Should S be empty even then, all are in it.
    """

    def merge(mu: PerAgent, who: Any = None, key: Any = None) -> Theta:
        m, far = len(mu), lax.map(lambda one: jnp.sqrt(jnp.sum((mu - one) ** 2, axis=1)), mu)

        def near(T: Any) -> tuple[Any, Any]:
            S = jnp.sum(far <= T, axis=1) > m / 2
            enough, S = jnp.any(S), S | ~jnp.any(S)
            centre = jnp.sum(jnp.where(S[:, None], mu, 0), axis=0) / jnp.sum(S)
            G = far[jnp.argmin(jnp.where(S, jnp.sum((mu - centre) ** 2, axis=1), jnp.inf))] <= T
            return enough & (jnp.sum(G) >= (1 - alpha) * m), G

        enough, G = near(2 * sigma * jnp.sqrt(2 * jnp.log(2 * m / delta) / B0))
        G = jnp.where(enough, G, near(2 * sigma)[1])
        return (pairwise_sum(jnp.where(G[:, None], mu, 0))[0] / jnp.sum(G)).astype(mu.dtype)

    return Combine(merge)


added = Combine(lambda ups, who=None, key=None: pairwise_sum(ups)[0].astype(ups.dtype))


def fedpg_br(eta: Scalar, H: int, sigma: Scalar = 1.0, B0: int = 16, geometric: bool = False) -> Algorithm:
    """A mean of gradients that some agents can't spoil, then variance-reduced steps at the server.

        mu     = the mean of those g_i(theta; B0) that are near each other (`nearby`)
        x     <- x - eta (g(x;tau) - w g(theta;tau) + mu),     tau ~ pi_x,  w = p(tau|theta)/p(tau|x),     H times
        theta+ = x,     and x = theta at first

    The server of the paper plays in an environment of its own. Here it has none: agent 0 stands in for it, and must be
    trusted. The others' second answer is 0, for which they play nothing; a round without agent 0 moves nothing. All are
    meant to have one task. The first step is -eta mu: what agent 0 plays for it changes nothing.

    The paper's H is geometric with SCSG's mean, (B0 + B) / B, and its B0 is drawn too. Public code weighs single steps
    instead of trajectories, takes Adam's steps, and stops where the mean w leaves [.995, 1.005].

    Use it where all agents have one task and some may send anything. Do not where tasks differ: its filter can't tell
    another task from an attack.

    Args:
        H: steps of the server in a round, or their mean.
        sigma: how far a trajectory's gradient is from its mean, at most.
        geometric: whether the number of steps is drawn anew in each round, from 1, 2, … with the mean H.
    """
    if H < 1:
        raise ValueError(f"H = {H}; the server must take at least 1 step")
    check_positive("sigma", sigma)

    def send_gradient(
        memory: Memory, own: Own, theta: Down, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Theta, Info]:
        mu_i, own, steps = estimate(oracle, theta, own, key, B0)
        return Memory(memory.stands_in, theta), own, mu_i, Info(steps=steps)

    def send_change(memory: Memory, own: Own, mu: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        def step(n: Any, carry: tuple[Theta, Own, Any]) -> tuple[Theta, Own, Any]:
            x, own, steps = carry
            batch, own = oracle.sample(x, own, jax.random.fold_in(key, n), None)
            v = oracle.gradient(x, own, batch) - weighted_gradient(oracle, memory.theta, x, own, batch) + mu
            return x - eta * v, own, steps + oracle.steps(batch)

        drawn = jax.random.geometric(jax.random.fold_in(key, STEPS), 1 / H, dtype=jnp.int32)
        n = jnp.where(memory.stands_in, drawn if geometric else H, 0)
        start = memory.theta, own, jnp.zeros((), count_dtype())
        x, own, steps = lax.fori_loop(0, n, step, start)
        return memory, own, x - memory.theta, Info(steps=steps)

    def broadcast(theta: Theta, mu: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        return theta, mu

    def move(theta: Theta, Delta: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        return theta + Delta, theta + Delta

    def init(theta: Theta, N: int) -> tuple[Theta, Down, Memory]:
        return theta, theta, Memory(jnp.arange(N) == 0, jnp.zeros((N, *theta.shape), theta.dtype))

    first = Exchange("gradient", send_gradient, broadcast, nearby(sigma, B0))
    then = Exchange("server", send_change, move, added)
    return Algorithm(init, (first, then), policy=lambda theta: theta, needs=WEIGHTS, draws=geometric)
