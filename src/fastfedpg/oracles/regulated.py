"""The oracle that knows its linear-quadratic regulator."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fastfedpg.core import Batch, Oracle, Own, Theta
from fastfedpg.mdp import regulator
from fastfedpg.oracles.exact import knowing


def lqr(model: regulator.LinearSystem, Q: Float[Array, "n n"], R: Float[Array, "m m"]) -> Oracle:
    """The exact gradient 2 E_F Sigma_F for theta = F, row by row; NaN where F is not stable. It costs no steps."""

    def gradient(theta: Theta, own: Own, batch: Batch) -> Theta:
        F = theta.reshape(len(R), len(Q))
        return regulator.gradient(model.like(F), jnp.asarray(Q, F.dtype), jnp.asarray(R, F.dtype), F).reshape(-1)

    return knowing(gradient)
