"""Regressed control variates: SCAFFOLD's correction, as much of it as the last rounds say that it is worth."""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Exchange, Info, Oracle, Own, RngKey, Scalar, Theta, local_steps, sgd

RIDGE = 1e-3
"""How much the regression keeps the gains' coefficients equal, relative to the corrections' size."""


class Memory(NamedTuple):
    """What agent i keeps: its corrections d_ij (m, d), its last mean gradient, where that round began, if one has."""

    d: Any
    m_i: Theta
    theta: Theta
    begun: Any


class Fit(NamedTuple):
    """The server's: theta, and the averages G (m, m) and b (m,) that beta is fitted to."""

    theta: Theta
    G: Any
    b: Any


class Model(NamedTuple):
    """What is broadcast."""

    theta: Theta
    beta: Any


class Sent(NamedTuple):
    """What an agent sends: its last iterate, <d_ij, d_il> for j <= l, and <d_ij, m_i>."""

    x: Theta
    dd: Any
    dm: Any


def rc_pg(
    eta: Scalar,
    H: int,
    gains: tuple[float, ...] = (1.0, 0.25),
    forget: float = 0.2,
    beta: tuple[float, ...] | None = None,
) -> Algorithm:
    """Corrections by the means of earlier rounds, shrunk by how well they foretold the next: one synchronisation.

        d_ij <- (1 - k_j) d_ij + k_j (m_i - mean_i m_i),          mean_i m_i = (theta_before - theta)/(eta H)
        x_{l+1} = x_l - eta (g_i(x_l) - sum_j beta_j d_ij),       m_i = mean_l g_i(x_l),      theta+ = mean_i x_H
        G <- (1 - f) G + f mean_i <d_ij, d_il>,   b <- (1 - f) b + f mean_i <d_ij, m_i>,      beta = G^{-1} b

    One beta for all agents keeps sum_i d_ij = 0: a correction's noise moves no mean, and theta's own change tells every
    agent mean_i m_i. beta makes mean_i ||m_i - mean_i m_i - sum_j beta_j d_ij||^2 least, the push that is left in local
    steps. d_ij is older than m_i, so that their noises are independent and no variance need be known: with one gain
    beta is about zeta^2/(zeta^2 + s^2), s^2 the noise of d_i and zeta^2 what of heterogeneity lasts. Without noise d_ij
    -> m_i - mean_i m_i, hence sum_j beta_j -> 1, and fixed points are stationary points of J; with noise alone beta is
    about 0, which is FedAvg-PG. gains = (1,) with beta = (1,) is SCAFFOLD II.

    Where the d_ij coincide G is singular: RIDGE is added in the directions in which the beta_j differ, which shares
    their sum equally. Each is clipped to [-1, 1.5], one alone to [0, 1]. d numbers and m (m + 3)/2 scalars up, d + m
    down for m gains; H estimates a round. All agents must take part: what an absent one keeps would break the sum.

    Use it where nobody knows whether agents or noise differ more, and a round is to have one synchronisation. Do not
    where agents may be absent, or where there are too few rounds to fit beta in: about 1/f of them pass first.

    Args:
        eta: local step size.
        H: local steps in a round.
        gains: the share of each correction that a round renews, k_1, …, k_m in (0, 1].
        forget: the share f of G and b that a round renews, in (0, 1].
        beta: a coefficient for each gain, if they are not to be fitted.
    """
    m, k, upper = len(gains), np.array(gains, float), np.triu_indices(len(gains))
    pairs = np.zeros((m, m), int)  # where in what is sent each entry of G is
    pairs[upper] = pairs.T[upper] = np.arange(len(upper[0]))
    if not m or not ((k > 0) & (k <= 1)).all():
        raise ValueError(f"gains = {gains}; there must be at least one, and each must lie in (0, 1]")
    if not 0 < forget <= 1:
        raise ValueError(f"forget = {forget:g}; it must lie in (0, 1]")
    if beta is not None and (len(beta) != m or not np.isfinite(beta).all()):
        raise ValueError(f"beta = {beta}; there must be a finite number for each of {m} gains")

    def send(memory: Memory, own: Own, model: Model, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Sent, Info]:
        theta, each = model.theta, jnp.asarray(k, model.theta.dtype)[:, None]
        m_bar = memory.begun * (memory.theta - theta) / (eta * H)
        d = (1 - each) * memory.d + each * (memory.m_i - m_bar)
        c_i = model.beta @ d
        x, own, info = local_steps(oracle, lambda x, g: g - c_i, sgd(eta), theta, own, key, H)
        m_i = (theta - x) / (eta * H) + c_i
        info = Info(info.drift, info.steps, {"beta": model.beta.sum()})
        return Memory(d, m_i, theta, jnp.ones_like(memory.begun)), own, Sent(x, (d @ d.T)[upper], d @ m_i), info

    def fit(state: Fit, sent: Sent, share: float, key: RngKey) -> tuple[Fit, Model]:
        G = (1 - forget) * state.G + forget * sent.dd[pairs]
        b = (1 - forget) * state.b + forget * sent.dm
        return Fit(sent.x, G, b), Model(sent.x, fitted(G, b) if beta is None else jnp.asarray(beta, b.dtype))

    def fitted(G: Any, b: Any) -> Any:
        size, apart = G.trace() / m, RIDGE * (np.eye(m) - 1 / m)
        found = jnp.linalg.solve(jnp.where(size > 0, G / size, 1) + apart.astype(G.dtype), b / size)
        return jnp.where(jnp.isfinite(found), jnp.clip(found, *((0, 1) if m == 1 else (-1, 1.5))), 0)

    def init(theta: Theta, N: int) -> tuple[Fit, Model, Memory]:
        none = partial(jnp.zeros, dtype=theta.dtype)
        first = none(m) if beta is None else jnp.asarray(beta, theta.dtype)
        memory = Memory(none((N, m, theta.size)), none((N, theta.size)), none((N, theta.size)), none(N))
        return Fit(theta, none((m, m)), none(m)), Model(theta, first), memory

    words = "corrections add up to zero only if all agents are in every round; leave participants out"
    return Algorithm(init, (Exchange("local", send, fit),), policy=lambda fit: fit.theta, everybody=words)
