"""Constants of the paper's assumptions as they are met along a run: estimates, and they say so in their names."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int
from scipy.special import stdtrit

from fastfedpg.core import PerAgent, Theta
from fastfedpg.errors import InputError
from fastfedpg.precision import float64

Gradients = Callable[[Theta], PerAgent]
"""Every agent's exact gradient at one theta, a pure JAX function."""

DENSE, WIDE = 2**22, 300
"""Numbers in all agents' Hessians, and in a row, up to which they are written out; others are only multiplied with."""

PROBES, CHOSEN, POWER_STEPS = 8, 8, 40
"""Random vectors that choose agents, how many agents, and the products with the Hessian of each."""

ROUNDING = 1e-12
"""Gaps below this part of the largest are rounding, and left out of mu."""


class Estimate(NamedTuple):
    """An estimate and the ends of its confidence interval."""

    mean: float
    low: float
    high: float


def hessian_norm(gradients: Gradients, theta: Theta) -> Float[Array, ""]:
    """The largest Hessian norm of any J_i at theta, a pure JAX function.

    Exact where all Hessians together have at most DENSE numbers, and d <= WIDE. Beyond that a lower estimate: PROBES
    fixed random vectors find the CHOSEN agents with the largest sum ||H_i v||^2, and each of these has its own power
    iteration of POWER_STEPS products from a fixed start.
    """
    g, times = jax.linearize(gradients, theta)  # times(v) is H_i v for all agents
    N, d = g.shape
    if N * d * d <= DENSE and d <= WIDE:
        H = lax.map(times, jnp.eye(d, dtype=theta.dtype), batch_size=32)  # (d, N, d): row k is H_i e_k
        return jnp.max(jnp.abs(jnp.linalg.eigvalsh(jnp.swapaxes(H, 0, 1))))
    v = jax.random.normal(jax.random.key(0, impl="threefry2x32"), (PROBES, d), theta.dtype)
    size = jnp.sum(lax.map(times, v) ** 2, axis=(0, 2))

    def power(i: Int[Array, ""]) -> Float[Array, ""]:
        def step(v: Theta, _: None) -> tuple[Theta, Array]:
            Hv = times(v)[i]
            norm = jnp.linalg.norm(Hv)
            return jnp.where(norm > 0, Hv / jnp.where(norm > 0, norm, 1), v), norm

        _, norms = lax.scan(step, v[0] / jnp.linalg.norm(v[0]), None, length=POWER_STEPS)
        return jnp.max(norms)

    return jnp.max(lax.map(power, jnp.argsort(-size)[:CHOSEN]))


@float64
def smoothness_estimate(
    gradients: Gradients, segments: Any, points: int = 3, heard: Callable[[int, int], None] = lambda k, n: None
) -> float:
    """L of Assumption 1 where it is needed: the largest Hessian norm of any J_i on segments (n, 2, d).

    It is looked for at `points` evenly spaced points of each segment, its ends among them, by `hessian_norm`; what
    lies between them may be larger. In 64-bit mode, one point at a time; `heard` is told which, of how many.
    """
    if points < 2:
        raise InputError(f"points = {points}; a segment has two ends")
    segments = np.asarray(segments, np.float64)
    if segments.ndim != 3 or segments.shape[1] != 2 or not segments.size:
        raise InputError(f"segments have shape {segments.shape}; it must be (n, 2, d): two ends for each")
    part = np.linspace(0, 1, points)[:, None, None]
    at = np.unique(((1 - part) * segments[:, 0] + part * segments[:, 1]).reshape(-1, segments.shape[2]), axis=0)
    norm, largest = jax.jit(lambda theta: hessian_norm(gradients, theta)), 0.0
    for k, theta in enumerate(at):
        heard(k + 1, len(at))
        largest = max(largest, float(norm(theta)))
    return largest


def variance_estimate(estimates: Any, mean: Any, level: float = 0.95) -> Estimate:
    """sigma^2 = E||estimate - mean||^2 from R samples (R, d) with a known mean (d,), and its Student-t interval.

    With agents, (R, N, d) and (N, d): the largest of them. Each agent's interval is then at level 1 - (1 - level)/N
    (Bonferroni), so that the largest sigma^2 lies between the largest low and the largest high end. The squares are
    skewed: the level is reached for large R only.
    """
    squares = np.sum((np.asarray(estimates, np.float64) - np.asarray(mean, np.float64)) ** 2, axis=-1)
    squares = squares.reshape(len(squares), -1)
    R, N = squares.shape
    if R < 2:
        raise InputError(f"{R} samples; an interval needs at least 2")
    at = squares.mean(axis=0)
    half = stdtrit(R - 1, 1 - (1 - level) / (2 * N)) * squares.std(axis=0, ddof=1) / np.sqrt(R)
    return Estimate(float(at.max()), float((at - half).max()), float((at + half).max()))


def domination_estimate(norms_sq: Any, gaps: Any) -> float:
    """mu of Eq. (12) along a run: the least E||grad J||^2 / E[J - J*] of any round.

    Arrays (…, T); the leading axes are replicas, whose means are taken first, as the proof of Theorem 2 does. Rounds
    whose gap is below ROUNDING times the largest are left out; infinity where none is left, since (12) then says
    nothing.
    """
    average = lambda x: np.asarray(x, np.float64).reshape(-1, np.shape(x)[-1]).mean(axis=0)
    norm_sq, gap = average(norms_sq), average(gaps)
    counts = gap > ROUNDING * max(gap.max(initial=0.0), np.finfo(float).tiny)
    return float(np.min(norm_sq[counts] / gap[counts], initial=np.inf))


def heterogeneity(gradients: Any) -> float:
    """zeta = max_i ||grad J_i - grad J|| at one theta, from gradients (N, d)."""
    g = np.asarray(gradients, np.float64).reshape(len(gradients), -1)
    return float(np.linalg.norm(g - g.mean(axis=0), axis=1).max())
