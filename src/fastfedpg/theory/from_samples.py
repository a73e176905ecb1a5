"""sigma^2, zeta^2, ||grad J||^2 and L from gradient estimates alone, with intervals: for what can only be played, too.

Estimates are (R, N, d): R independent ones of each of N agents at one theta. All means are over agents. A square of a
mean is estimated by products of different replicas (a U-statistic), so that noise adds nothing on average; its interval
is the jackknife's over replicas, with Student's t, and wider by what noise alone makes of a square. docs/theory.md
derives it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.special import stdtrit

from fastfedpg.core import Oracle, Problem, Task, key_for
from fastfedpg.core import estimate as estimate_once
from fastfedpg.errors import InputError
from fastfedpg.precision import float64
from fastfedpg.theory.estimates import Estimate

FEWEST = 4
"""Replicas of which a jackknife can say anything."""

BLOCK, MOST_BLOCKS = 8, 32
"""Replicas that are drawn at once, where there are few: 8, 16 and 32 of them are then one program."""

STEPS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""How far apart, in theta, the two points are whose gradients tell L: the first at which they can be told apart."""


class Drawn(NamedTuple):
    """Gradient estimates (R, N, d), and the environment steps that all of them took."""

    g: np.ndarray
    steps: int


@float64
def draw_estimates(
    problem: Problem,
    theta: Any,
    replicas: int,
    seed: int = 0,
    B: int | None = None,
    name: str = "measure",
    first: int = 0,
) -> Drawn:
    """Independent estimates of every agent at theta (d,), each of B trajectories (or of the oracle's own number).

    Called again with the same seed and name at another theta they have the same random numbers, replica by replica; the
    first one's number is `first`.
    """
    if replicas < 1:
        raise InputError(f"{replicas} replicas; there must be at least 1")
    theta, ids = jnp.asarray(np.asarray(theta, np.float64)), jnp.asarray(problem.ids)
    R = BLOCK if replicas % BLOCK == 0 and replicas <= MOST_BLOCKS * BLOCK else replicas
    blocks = range(first, first + replicas, R)
    each = (_draw(problem.oracle, problem.tasks, ids, theta, seed, r, R, B, name) for r in blocks)
    g, steps = zip(*each, strict=True)
    return Drawn(np.concatenate(g), int(np.sum(np.asarray(steps, np.int64))))


@partial(jax.jit, static_argnums=(0, 6, 7, 8))
def _draw(
    oracle: Callable[[Task], Oracle],
    tasks: Any,
    ids: Any,
    theta: Any,
    seed: Any,
    first: Any,
    R: int,
    B: int | None,
    name: str,
) -> Any:
    """Replicas first, …, first + R - 1."""

    def agent(task: Task, i: Any, r: Any) -> Any:
        own = oracle(task).init(key_for(seed, r, "own", i))
        g, _, steps = estimate_once(oracle(task), theta, own, key_for(seed, r, name, i), B)
        return g, steps

    return lax.map(lambda r: jax.vmap(lambda task, i: agent(task, i, r))(tasks, ids), first + jnp.arange(R))


def squared_mean(x: Any, level: float = 0.95) -> Estimate:
    """||E x||^2 from R independent x (R, d): the mean of <x_r, x_s> over all r != s, which may be negative."""
    x = np.asarray(x, np.float64).reshape(len(x), -1)
    R = _enough(len(x))
    total, own = x.sum(axis=0), np.sum(x * x, axis=1)
    all_but = total @ total - 2 * x @ total + own  # ||sum of the others||^2
    without = (all_but - (own.sum() - own)) / ((R - 1) * (R - 2))
    return _jackknifed((total @ total - own.sum()) / (R * (R - 1)), without, level, _noise_of_a_square(x))


def _noise_of_a_square(x: np.ndarray) -> float:
    """What noise alone makes of a square: tr Sigma^2/tr Sigma/R, in one dimension the mean's variance.

    tr S^2 of the sample covariance S is too large, by about (tr S)^2/(R-1): freed of that as for normal noise.
    """
    R, off = len(x), x - x.mean(axis=0)
    S = off @ off.T / (R - 1)  # (R, R), with the traces of the sample covariance and of its square
    trace, trace_sq = np.trace(S), np.sum(S * S)
    trace_sq = (trace_sq - trace**2 / (R - 1)) * (R - 1) ** 2 / ((R - 2) * (R + 1))
    return float(max(0.0, trace_sq) / trace / R) if trace > 0 else 0.0


def norm_sq_from(g: Any, level: float = 0.95) -> Estimate:
    """||grad J||^2."""
    return squared_mean(np.mean(g, axis=1), level)


def zeta_sq_from(g: Any, level: float = 0.95) -> Estimate:
    """zeta^2 = mean_i ||grad J_i - grad J||^2: how much the agents' gradients differ."""
    g = np.asarray(g, np.float64)
    return squared_mean((g - g.mean(axis=1, keepdims=True)).reshape(len(g), -1) / np.sqrt(g.shape[1]), level)


def sigma_sq_from(g: Any, level: float = 0.95) -> Estimate:
    """sigma^2 = mean_i E||g_i - E g_i||^2: the sample variance; its interval is one of the logarithm."""
    g = np.asarray(g, np.float64)
    R = _enough(len(g))
    off = np.sum((g - g.mean(axis=0)) ** 2, axis=-1).mean(axis=1)  # (R,), a mean over agents
    at = float(off.sum() / (R - 1))
    if at == 0:
        return Estimate(0.0, 0.0, 0.0)
    # Without replica r the sum of squares is smaller by R/(R-1) times r's own.
    without = (off.sum() - R / (R - 1) * off) / (R - 2)
    found = _jackknifed(np.log(at), np.log(without), level)
    return Estimate(at, float(np.exp(found.low)), float(np.exp(found.high)))


def smoothness_from(here: Any, ahead: Any, step: float, level: float = 0.95) -> Estimate:
    """L along a direction: the root of mean_i ||grad J_i(ahead) - grad J_i(here)||^2, over the distance.

    A lower estimate of Assumption 1's L, which is over all directions and the largest of all agents. Replica r of both
    may have the same random numbers, which makes the difference's noise smaller and changes no mean.
    """
    change = (np.asarray(ahead, np.float64) - np.asarray(here, np.float64)) / step
    found = squared_mean(change.reshape(len(change), -1) / np.sqrt(change.shape[1]), level)
    return Estimate(*(float(np.sqrt(max(0.0, x))) for x in found))


class Measured(NamedTuple):
    """What gradient estimates say of a problem at one theta, each with its interval, and what they cost."""

    norm_sq: Estimate  # ||grad J||^2
    zeta_sq: Estimate
    sigma_sq: Estimate  # of one estimate
    L: Estimate  # along the gradient
    replicas: int
    steps: int  # environment steps of all agents


def measure(
    problem: Problem,
    theta: Any,
    replicas: int = 32,
    seed: int = 0,
    steps: Sequence[float] = STEPS,
    level: float = 0.95,
) -> Measured:
    """All of it, from R estimates of every agent at theta; L from R others there, and as many a step along the mean.

    Others, since noise that has chosen the direction is turned along it: the same would make the difference too large.
    Where noise hides the difference the step is doubled, and R more are drawn.
    """
    theta = np.asarray(theta, np.float64)
    here = draw_estimates(problem, theta, replicas, seed)
    if not np.isfinite(here.g).all():
        raise InputError("gradient estimates are not finite where the measurement begins; give another theta0")
    mean = here.g.mean(axis=(0, 1))
    size = float(np.linalg.norm(mean))
    along = mean / size if size > 0 else np.ones_like(mean) / np.sqrt(mean.size)
    apart = draw_estimates(problem, theta, replicas, seed, first=replicas)
    spent = here.steps + apart.steps
    for step in steps:
        ahead = draw_estimates(problem, theta - step * along, replicas, seed, first=replicas)
        spent += ahead.steps
        L = smoothness_from(apart.g, ahead.g, step, level)
        if L.low > 0:
            break
    each = (norm_sq_from(here.g, level), zeta_sq_from(here.g, level), sigma_sq_from(here.g, level))
    return Measured(*each, L, replicas, spent)


def _enough(R: int) -> int:
    if R < FEWEST:
        raise InputError(f"{R} replicas; an interval needs at least {FEWEST}")
    return R


def _jackknifed(at: float, without: np.ndarray, level: float, second: float = 0.0) -> Estimate:
    """t errors to both sides, and t^2 of the second order, as (m + t e)^2 has it: near 0 the first tells nothing."""
    R = len(without)
    t = stdtrit(R - 1, (1 + level) / 2)
    half = t * np.sqrt((R - 1) / R * np.sum((without - without.mean()) ** 2)) + t**2 * second
    return Estimate(float(at), float(at - half), float(at + half))
