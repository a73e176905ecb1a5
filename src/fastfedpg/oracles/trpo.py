"""Trust-region policy optimisation as what an agent asks of its environment: one step a batch, as long as KL allows."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from fastfedpg.core import Oracle, Own, Replay, Theta
from fastfedpg.errors import InputError
from fastfedpg.oracles.played import Game
from fastfedpg.oracles.surrogate import (
    CriticSettings,
    Played,
    Rows,
    above_zero,
    at_least_one,
    distance,
    rows_of,
    surrogate,
)


def trpo(
    game: Game,
    B: int,
    lam: float = 0.95,
    kl_limit: float = 0.01,
    damping: float = 0.1,
    cg_steps: int = 10,
    halvings: int = 10,
    entropy: float = 0.0,
    critic_eta: float = 1e-3,
    critic_hidden: tuple[int, ...] | str = (64, 64),
    critic_steps: int = 40,
    gamma_weights: bool = False,
    segments: bool = True,
    scaled: bool = True,
) -> Oracle:
    """A batch that serves one natural step, as long as a limit on KL allows, after Schulman et al. (2015).

        p = (F + damping I)^-1 v,     step = min over j of 2^-j sqrt(2 kl_limit / p'(F + damping I) p) p, such that
        mean KL(pi_old || pi_new) <= kl_limit and L(new) + (v - g)'(new - old) < L(old)

    L is PPO's surrogate without the clip, g its gradient where the batch was played, and v the direction that the
    algorithm makes of g: g itself, or g corrected. F is the Fisher information there, the second derivative of the mean
    KL, of which only products are formed; p is found by conjugate gradients. Where no j up to `halvings` will do,
    theta stays. Of a v that the batch says nothing of, damping alone decides. The step is multiplied by the
    algorithm's eta: take eta = 1 for the method itself, and sgd, which every other optimiser would undo.

    What is left of the theory: under Fast-FedPG with `reuse` and H = 1 every agent's v is the mean gradient, so where
    that is 0 theta stays. Nearby steps do not shrink by themselves: each agent halves them by its own surrogate, and
    the mean of what they take circles the point, by less than a step. Without a correction each agent's step is
    equally long in KL, however small its rewards: their mean is 0 at the agents' geometric median (in F's norm), and
    not where the gradient of J is.

    Args:
        lam: lambda of the generalised advantages, in [0, 1].
        kl_limit: the mean KL(old || new) that a step may lead to.
        damping: added to F's diagonal.
        cg_steps: conjugate gradient's steps.
        halvings: how often a step is halved until it is allowed.
        entropy: weight of the policy's mean entropy, beside advantages of spread 1.
        critic_hidden: sizes of the critic's hidden layers.
        gamma_weights: whether step k of an episode weighs gamma^k, as in Eq. (5); without, all steps weigh the same.
        segments: play B lanes of K steps in which episodes follow each other, instead of B episodes.
        scaled: whether advantages are divided by their standard deviation, averaged over the agents (see `ppo`).
    """
    above_zero("kl_limit", kl_limit, "about 0.01")
    if not 0 <= damping < float("inf"):
        raise InputError(f"damping = {damping:g}; it must be finite and at least 0: about 0.1")
    at_least_one(cg_steps=cg_steps, critic_steps=critic_steps)
    if halvings < 0:
        raise InputError(f"halvings = {halvings}; it must be at least 0")
    if game.policy.kl is None:
        raise InputError(
            "oracle trpo limits KL, which this policy does not tell: take a policy that does, or oracle ppo"
        )
    how = CriticSettings(lam, critic_eta, critic_hidden, critic_steps, 1, gamma_weights, segments, scaled)
    oracle, loss, log_ratio = surrogate(game, B, "trpo", lambda r, A: r * A, entropy, how)

    def bounded(theta: Theta, own: Own, rows: Rows, g: Theta, v: Theta) -> Theta:
        def kl(x: Theta) -> Any:
            assert game.policy.kl is not None
            found = game.policy.kl(theta, x, rows.seen)
            return jnp.sum(jnp.where(rows.alive, found, 0)) / jnp.maximum(rows.alive.sum(), 1)

        corrected = lambda x: loss(x, own, rows) + (v - g) @ (x - theta)
        return trusted(kl, corrected, theta, v, kl_limit, damping, cg_steps, halvings)

    def note(theta: Theta, batch: Played) -> dict[str, Any]:
        rows = rows_of(game, batch)
        return {"kl": distance(log_ratio(theta, rows), rows.alive)}

    one = Replay(
        order=lambda batch, key: jnp.zeros(1, jnp.int32), part=lambda batch, row: rows_of(game, batch), note=note
    )
    return oracle._replace(replay=one._replace(bounded=bounded))


def trusted(
    kl: Callable[[Theta], Any],
    loss: Callable[[Theta], Any],
    theta: Theta,
    v: Theta,
    limit: float,
    damping: float,
    cg_steps: int,
    halvings: int,
) -> Theta:
    """What is to be subtracted from theta: see `trpo`. kl(x) is 0 at theta, and v is the gradient of the loss there."""
    F = lambda p: jax.jvp(jax.grad(kl), (theta,), (p,))[1] + damping * p
    p, _ = jax.scipy.sparse.linalg.cg(F, v, maxiter=cg_steps)
    square = p @ F(p)
    p = p * jnp.where(square > 0, jnp.sqrt(2 * limit / jnp.where(square > 0, square, 1)), 0)
    start = loss(theta)

    def allowed(share: Any) -> Any:
        new = theta - share * p
        return (kl(new) <= limit) & (loss(new) < start)

    more = lambda share: (share > 2.0**-halvings) & ~allowed(share)
    share = lax.while_loop(more, lambda share: share / 2, jnp.ones((), theta.dtype))
    return jnp.where(jnp.isfinite(v).all(), jnp.where(allowed(share), share, 0) * p, v)  # what diverged is not hidden
