"""A site's own problem that costs nothing: J_i(theta) = ||theta - i||^2 / 2, for theta of any length."""

import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Evaluation, Oracle, Problem


def _site(agent: int, d: int) -> Problem:
    def oracle(middle: object) -> Oracle:
        return Oracle(
            init=lambda key: (),
            sample=lambda theta, own, key, B: ((), own),
            gradient=lambda theta, own, batch: theta - middle,
            steps=lambda batch: 0,
        )

    nothing = lambda thetas, seeds=None: Evaluation(
        *3 * (np.full(len(thetas), np.nan),), np.full((len(thetas), 1), np.nan)
    )
    return Problem(jnp.array([float(agent)]), np.array([agent]), oracle, nothing, np.zeros(d))


def small(agent: int) -> Problem:
    """100 parameters."""
    return _site(agent, 100)


def large(agent: int) -> Problem:
    """100,000 parameters."""
    return _site(agent, 100_000)


def huge(agent: int) -> Problem:
    """10,000,000 parameters."""
    return _site(agent, 10_000_000)
