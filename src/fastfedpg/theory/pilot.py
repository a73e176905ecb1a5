"""An exact run before the run, from which L and mu are known in advance."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Scalar, Theta
from fastfedpg.errors import InputError
from fastfedpg.precision import float64
from fastfedpg.theory.estimates import Gradients, domination_estimate, hessian_norm

HALVINGS = 50
"""How often a step that does not descend is halved before the pilot ends where it is."""


class Pilot(NamedTuple):
    """Where exact gradient descent went, and what it met on the way."""

    thetas: np.ndarray  # (n, d)
    norms_sq: np.ndarray  # (n,): ||grad J||^2
    gaps: np.ndarray  # (n,)
    L: float  # the largest Hessian norm of any J_i that was met
    mu: float  # `domination_estimate`


@float64
def pilot(
    gradients: Gradients,
    gaps_of: Callable[[Theta], Scalar],
    theta0: Any,
    rounds: int = 1000,
    target: float = 1e-10,
    every: int = 25,
    heard: Callable[[int], None] = lambda steps: None,
) -> Pilot:
    """Exact gradient descent on J with step 1/L(theta): theta <- theta - (1/L) mean_i grad J_i.

    L(theta) is the largest Hessian norm of any J_i, found anew `every` so many steps, and after four times as many
    only every fourth time; a step that does not descend is halved, and stays so until then. It ends when the gap is at
    most `target` times the first, after `rounds` steps, or when nothing descends. `gaps_of` is J - J*, or J less a
    lower bound: mu is then too small rather than too large. `heard` is told the number of steps so far.
    Both functions are pure JAX; all is in 64-bit mode.
    """
    norm = jax.jit(lambda theta: hessian_norm(gradients, theta))
    descend = jax.jit(lambda theta, g, L: (theta - g / L, gaps_of(theta - g / L)))
    slope = jax.jit(lambda theta: jnp.mean(gradients(theta), axis=0))
    theta = jnp.asarray(np.asarray(theta0, np.float64))
    gap, g = float(jax.jit(gaps_of)(theta)), slope(theta)
    if not np.isfinite(gap):
        raise InputError("the gap is not a number where the pilot begins: gaps_of must give J - J* or J itself")
    thetas, norms_sq, gaps, smooth = [theta], [float(g @ g)], [gap], [float(norm(theta))]
    L, halved = smooth[0], False
    while len(thetas) <= rounds and gaps[-1] > target * gaps[0] and norms_sq[-1] > target**2 * norms_sq[0]:
        if len(thetas) % (every if len(thetas) <= 4 * every else 4 * every) == 0:
            L, halved = float(norm(theta)), False
            smooth.append(L)
        # Where the Hessian happens to vanish: ||grad J||^2 <= 2 L (J - J*) asks for at least this much of L.
        L = max(L, norms_sq[-1] / (2 * gaps[-1]))
        smooth.append(norms_sq[-1] / (2 * gaps[-1]))
        before = L
        for _ in range(HALVINGS):
            ahead, gap = descend(theta, g, L)
            if gap < gaps[-1]:
                break
            L *= 2
        else:
            break
        if before < L and not halved:  # curvature grew on the way: look at it once
            halved = True
            smooth.append(float(norm(ahead)))
        theta, g = ahead, slope(ahead)
        thetas.append(theta)
        heard(len(thetas) - 1)
        norms_sq.append(float(g @ g))
        gaps.append(float(gap))
    smooth.append(float(norm(theta)))
    mu = domination_estimate(norms_sq, gaps)
    return Pilot(np.stack(thetas), np.array(norms_sq), np.array(gaps), max(smooth), mu)
