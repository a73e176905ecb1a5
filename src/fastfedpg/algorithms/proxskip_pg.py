"""ProxSkip, or Scaffnew, with policy gradients, after Mishchenko et al., "ProxSkip: Yes! Local Gradient …" (2022)."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fastfedpg.core import Algorithm, Exchange, Info, Oracle, Own, RngKey, Scalar, Theta, local_steps, sgd

LONGEST = 1_000_000
"""Local steps of a round, at most: it is one call of a compiled program, in which no Ctrl-C is heard."""


class Memory(NamedTuple):
    """An agent's shift h_i, its last iterate of the round before, and whether there was one."""

    h_i: Theta
    x: Theta
    begun: Any


class Model(NamedTuple):
    """What is broadcast: parameters, and how many local steps this round has."""

    theta: Theta
    H: Any


def proxskip_pg(eta: Scalar, p: float = 0.1, most: int | None = None) -> Algorithm:
    """Local steps that go on with probability 1 - p after each, all agents alike, each shifted by what it learned.

        x_{l+1} = x_l - eta (g_i(x_l) - h_i),      l < H,      P(H = n) = p (1-p)^{n-1},      x_0 = theta
        theta+  = mean_i x_H,                      h_i+ = h_i + (p/eta) (theta+ - x_H)

    1/p estimates a round on average. The h_i start at zero and keep adding up to zero, so that theta+ = theta - eta
    sum_l mean_i g_i(x_l). A fixed point for every H has x_H = theta, and so g_i(theta) = h_i: summed up, grad J = 0.
    With H fixed and p = 1/H this is SCAFFOLD II: h_i is c_i - c.

    The server draws H after each round and sends it with theta: d numbers up, d + 1 down, one synchronisation. Nothing
    is drawn before the first, which has 1/p steps, rounded. All agents must take part.

    Use it to see what a random number of local steps does: messages and noise are those of SCAFFOLD-PG. Do not where
    agents may be absent.

    Args:
        eta: local step size.
        p: the chance that a local step is its round's last, in (0, 1].
        most: local steps that no round has more of; 10/p, too few in one of 20,000 rounds at most, unless given.
    """
    if not 0 < p <= 1:
        raise ValueError(f"p = {p:g}; it must lie in (0, 1]")
    if most is not None and most < 1:
        raise ValueError(f"most = {most}; a round must have at least 1 local step")
    longest = 10 / p if most is None else most
    if longest > LONGEST:
        said = f"p = {p:g}" if most is None else f"most = {most}"
        raise ValueError(
            f"{said}: a round could have {longest:.3g} local steps, and nothing stops it before its end; take p of at "
            f"least {10 / LONGEST:g}, or most = {LONGEST} or less"
        )
    limit = math.ceil(longest)

    def send_parameters(
        memory: Memory, own: Own, model: Model, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Theta, Info]:
        theta, H = model.theta, model.H.astype(jnp.int32)
        h_i = memory.h_i + memory.begun * p / eta * (theta - memory.x)
        x, own, info = local_steps(oracle, lambda x, g: g - h_i, sgd(eta), theta, own, key, H)
        return Memory(h_i, x, jnp.ones_like(memory.begun)), own, x, info

    def average(state: Theta, x: Theta, share: float, key: RngKey) -> tuple[Theta, Model]:
        return x, Model(x, jnp.minimum(jax.random.geometric(key, p), limit).astype(x.dtype))

    def init(theta: Theta, N: int) -> tuple[Theta, Model, Memory]:
        nothing = jnp.zeros((N, theta.size), theta.dtype)
        first = jnp.asarray(min(round(1 / p), limit), theta.dtype)
        return theta, Model(theta, first), Memory(nothing, nothing, nothing[:, 0])

    words = "shifts add up to zero only if all agents are in every round; leave participants out"
    exchanges = (Exchange("local", send_parameters, average),)
    return Algorithm(init, exchanges, policy=lambda theta: theta, everybody=words, draws=True)
