"""Adaptive anchor: heavy anchor whose q, the estimates where a round begins, follows from what the agents measure."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from fastfedpg.core import (
    Algorithm,
    Exchange,
    Info,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    count_dtype,
    estimate,
    local_steps,
    sgd,
    squared_norm,
)


class Measured(NamedTuple):
    """The server's: theta, q, the last rounds' sigma^2/B and ||grad J||^2, and how many agents there are."""

    theta: Theta
    q: Any
    noise: Any
    signal: Any
    N: Any


class Model(NamedTuple):
    """What is broadcast when a round begins."""

    theta: Theta
    q: Any


class Anchor(NamedTuple):
    """What an agent sends first: its gradient, and an unbiased estimate of sigma^2/B."""

    h_i: Theta
    noise: Any


class Memory(NamedTuple):
    """What agent i remembers within a round."""

    theta: Theta
    h_i: Theta
    q: Any


def adaptive_anchor(eta: Scalar, H: int, forget: float = 0.2) -> Algorithm:
    """Heavy anchor with the q in 1, …, H that puts a round's gradients nearest to where they should be asked for.

        h_i = mean of q estimates at theta,      x_0 = theta - q eta mean_i h_i,                     L = H - q
        x_{l+1} = x_l - eta (g_i(x_l) - h_i + mean_i h_i),      l < L,      theta+ = theta + mean_i (x_L - theta)

    Were all H steps taken in common, step k would ask at a point whose distance from theta has the mean square eta^2
    (k^2 ||grad J||^2 + k sigma^2/(B N)), to first order: so far off are the first q, which ask at theta. Local step l
    asks at a distance of E||e_l||^2 = (1 - 1/N) eta^2 (l + l^2/q) sigma^2/B from the agents' mean: only noise is left
    in corrected steps, so that zeta^2 has no part in q. A gradient that is asked for at a distance of r is off by L r
    at most, and the mean of N that are off independently by 1/N of that, squared. The sum of squares is eta^2 L^2 times

        ||grad J||^2 sum_{k<q} k^2  +  sigma^2/(B N) [sum_{k<q} k + (1 - 1/N) sum_{l<L} (l + l^2/q)]

    and q is where it is least. Without noise that is q = 1, Fast-FedPG with `reuse`. With noise alone and many agents
    it is H/4^{1/3}: with x = q/H the derivative of x^2/2 + (1-x)^2/2 + (1-x)^3/(3x) has the sign of 4x^3 - 1. Each
    estimate at theta is made of two halves of B trajectories, whose difference measures sigma^2/B; ||mean_i h_i||^2
    less its noise, sigma^2/(B q N), measures ||grad J||^2. Both are averaged over rounds and give the next its q.
    The first one has H/2, or where nothing is played 1.

    With the leave-one-out baseline b trajectories have the variance v/b + w/(b (b-1)), where w is that of a score times
    another's return: an anchor of halves is noisier than an estimate, with w = v by (B-1)/(B-2), 1.5 times at B = 4 and
    1.03 at 32. What is measured is the anchor's. That is right for l^2/q and for ||grad J||^2, and too much for k and
    l: a factor of 1.75 there changes q by 1 at most for H <= 20. An estimate's own can't be told from halves alone.

    d numbers and one scalar up in the first exchange, d in the second; d + 1 and d down. H estimates a round.

    Use it in the place of heavy_anchor where nobody knows the noise, or it changes on the way. Do not with B = 1: noise
    is measured by halves of an estimate.

    Args:
        eta: local step size.
        H: estimates in a round.
        forget: the share of what was measured that a round renews, in (0, 1].
    """
    if H < 1:
        raise ValueError(f"H = {H}; there must be at least 1 estimate")
    if not 0 < forget <= 1:
        raise ValueError(f"forget = {forget:g}; it must lie in (0, 1]")

    def send_gradient(
        memory: Memory, own: Own, model: Model, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Anchor, Info]:
        theta, q = model.theta, model.q if oracle.B else jnp.ones_like(model.q)  # one exact gradient is all there is
        h_i, noise, own, steps = anchored(oracle, theta, own, key, q)
        return Memory(theta, h_i, q), own, Anchor(h_i, noise), Info(steps=steps, extra={"q": q})

    def send_change(memory: Memory, own: Own, h: Theta, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        theta, h_i, q = memory
        first, n = h_i + (q - 1) * h, (H + 1 - q).astype(jnp.int32)  # corrected, it is q h: the step from theta to x_0
        x, own, info = local_steps(oracle, lambda x, g: g - h_i + h, sgd(eta), theta, own, key, n, first)
        return memory, own, x - theta, info

    def choose(state: Measured, sent: Anchor, share: float, key: RngKey) -> tuple[Measured, Theta]:
        m, h = share * state.N, sent.h_i
        noise = (1 - forget) * state.noise + forget * sent.noise
        signal = (1 - forget) * state.signal + forget * (squared_norm(h) - sent.noise / (state.q * m))
        q = best(H, noise, jnp.maximum(signal, 0), m)
        return Measured(state.theta, q, noise, signal, state.N), h

    def move(state: Measured, change: Theta, share: float, key: RngKey) -> tuple[Measured, Model]:
        state = state._replace(theta=state.theta + change)
        return state, Model(state.theta, state.q)

    def init(theta: Theta, N: int) -> tuple[Measured, Model, Memory]:
        q, nothing = jnp.full((), max(1, H // 2), theta.dtype), jnp.zeros((N, theta.size), theta.dtype)
        state = Measured(theta, q, jnp.zeros_like(q), jnp.zeros_like(q), jnp.full_like(q, N))
        return state, Model(theta, q), Memory(nothing, nothing, nothing[:, 0])

    exchanges = Exchange("gradient", send_gradient, choose), Exchange("local", send_change, move)
    return Algorithm(init, exchanges, policy=lambda state: state.theta, needs=("B",))


def best(H: int, noise: Scalar, signal: Scalar, N: Scalar) -> Any:
    """The q at which the docstring's sum is least, the first of them where several are."""
    q, k = jnp.arange(1, H + 1, dtype=jnp.result_type(noise))[:, None], jnp.arange(H)
    early = jnp.where(k < q, signal * k**2 + noise / N * k, 0)
    spread = jnp.where(k < H - q, noise / N * (1 - 1 / N) * (k + k**2 / q), 0)
    return q[jnp.argmin((early + spread).sum(axis=1)), 0]


def anchored(oracle: Oracle, theta: Theta, own: Own, key: RngKey, q: Any) -> tuple[Theta, Any, Own, Any]:
    """The mean of q estimates, each in two halves, sigma^2/B from the halves' differences, and the steps."""
    none, B = jnp.zeros((), theta.dtype), oracle.B or 0
    if not B:
        h_i, own, steps = estimate(oracle, theta, own, key)
        return h_i, none, own, steps
    if B < 2:
        raise ValueError("noise is measured by two halves of an estimate: B must be at least 2")
    a, b = B // 2, B - B // 2

    def add(l: Any, carry: tuple[Theta, Any, Own, Any]) -> tuple[Theta, Any, Own, Any]:
        total, noise, own, steps = carry
        one, own, n = estimate(oracle, theta, own, jax.random.fold_in(key, 2 * l), a)
        two, own, n2 = estimate(oracle, theta, own, jax.random.fold_in(key, 2 * l + 1), b)
        # E||one - two||^2 = sigma^2 (1/a + 1/b), of which a b/B^2 is sigma^2/B
        return total + (a * one + b * two) / B, noise + squared_norm(one - two) * a * b / B**2, own, steps + n + n2

    begin = (jnp.zeros_like(theta), none, own, jnp.zeros((), count_dtype()))
    total, noise, own, steps = lax.fori_loop(0, q.astype(jnp.int32), add, begin)
    return total / q, noise / q, own, steps
