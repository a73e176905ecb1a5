"""Proximal policy optimisation as what an agent asks of its environment: a batch that serves many clipped steps."""

from typing import Any

import jax
import jax.numpy as jnp

from fastfedpg.core import Oracle, Replay, Theta
from fastfedpg.errors import InputError
from fastfedpg.oracles.played import Game
from fastfedpg.oracles.running_critic import shuffled
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


def ppo(
    game: Game,
    B: int,
    lam: float = 0.95,
    clip: float = 0.2,
    epochs: int = 10,
    minibatches: int = 4,
    entropy: float = 0.0,
    kl_stop: float | None = None,
    critic_eta: float = 1e-3,
    critic_hidden: tuple[int, ...] | str = (64, 64),
    gamma_weights: bool = False,
    segments: bool = True,
    scaled: bool = True,
) -> Oracle:
    """A batch that serves epochs x minibatches steps on the clipped surrogate of Schulman et al. (2017).

        L(theta) = (1/n) sum max(r A, clip(r, 1 - clip, 1 + clip) A) / s - entropy (1/n) sum H(pi_theta(.|o)),
        r = pi_theta(a|o) / pi_old(a|o),   n steps of a part of the batch,   A as in `actor_critic`, less their mean

    A are cost advantages, so the larger of the two is the pessimistic one. At theta = old the ratio is 1, nothing is
    clipped, and the gradient is that of `actor_critic` divided by K s, but for gamma^k and the mean: what an algorithm
    sends from there, and corrects by, is an ordinary policy gradient. Where the agents' mean of it is 0 a corrected
    step on the same batch does not move theta, if it is on the whole of it; on parts, that holds for their mean.
    Away from old the clip takes part in the local steps alone. There a correction counts as far as the batch still
    speaks: v, the direction that an algorithm makes of a part's gradient g, becomes g + (free/n) (v - g), where free
    steps of the part are not clipped. Whole, it would go on where the clip has ended the surrogate's own part. At
    theta = old nothing is clipped, and v is taken as it is. Nothing else of the theory is left; how far a batch may
    lead is for `kl_stop`.

    s is the standard deviation of A, averaged over the agents by the server, so that nobody is re-weighted: with a
    scale of its own, an agent whose rewards are small would count like one whose rewards are large. In the first round,
    when nobody has said one, each agent takes its own. The critic takes as many steps as the policy, on the same parts,
    towards A + V in units of their running mean and spread; where these change its last layer is changed with them, so
    that it says what it said (van Hasselt et al. 2016).

    Args:
        lam: lambda of the generalised advantages, in [0, 1].
        clip: how far the ratio of probabilities may move from 1 with a gain, in (0, 1).
        epochs: passes over each batch.
        minibatches: parts of the batch in a pass, a step each; they must divide B K, or with a policy that remembers,
            whose parts are whole lanes, B.
        entropy: weight of the policy's mean entropy, beside advantages of spread 1.
        kl_stop: no more steps on a batch once the mean KL(old || new), estimated on a part, is above this.
        critic_hidden: sizes of the critic's hidden layers.
        gamma_weights: whether step k of an episode weighs gamma^k, as in Eq. (5); without, all steps weigh the same.
        segments: play B lanes of K steps in which episodes follow each other, instead of B episodes.
        scaled: whether advantages are divided by s.
    """
    if not 0 < clip < 1:
        raise InputError(f"clip = {clip:g}; it must lie between 0 and 1")
    at_least_one(epochs=epochs, minibatches=minibatches)
    above_zero("kl_stop", kl_stop, "about 0.01 to 0.05")
    gain = lambda r, A: jnp.maximum(r * A, jnp.clip(r, 1 - clip, 1 + clip) * A)
    how = CriticSettings(lam, critic_eta, critic_hidden, epochs, minibatches, gamma_weights, segments, scaled)
    oracle, _, log_ratio = surrogate(game, B, "ppo", gain, entropy, how)
    unit = "B" if game.policy.memory else "B K"

    def far(theta: Theta, rows: Rows) -> Any:
        return distance(log_ratio(theta, rows), rows.alive) > kl_stop

    def free(theta: Theta, rows: Rows) -> Any:
        r, A = jnp.exp(log_ratio(theta, rows)), rows.weights
        return (rows.alive & (gain(r, A) == r * A)).sum() / jnp.maximum(rows.alive.sum(), 1)

    def note(theta: Theta, batch: Played) -> dict[str, Any]:
        rows = rows_of(game, batch)
        by = log_ratio(theta, rows)
        outside = rows.alive & (jnp.abs(jnp.exp(by) - 1) > clip)
        return {"kl": distance(by, rows.alive), "clipped": outside.sum() / jnp.maximum(rows.alive.sum(), 1)}

    replay = Replay(
        order=lambda batch, key: shuffled(key, len(rows_of(game, batch).weights), epochs, minibatches, unit),
        part=lambda batch, row: jax.tree.map(lambda x: x[row], rows_of(game, batch)),
        note=note,
        free=free,
    )
    return oracle._replace(replay=replay if kl_stop is None else replay._replace(far=far))
