"""MFPO, after Yue, Hua et al., "Momentum-Based Federated Policy Optimization" (2024)."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fastfedpg.core import (
    WEIGHTS,
    Algorithm,
    Exchange,
    Info,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    check_share,
    effective_share,
    local_steps,
    log_weights,
    once,
    sgd,
    watch,
    weighted_gradient,
)


class Model(NamedTuple):
    """Parameters and momentum: what agents send, and what is broadcast of their means."""

    theta: Theta
    u: Theta


def mfpo(eta: Scalar, H: int, a: Scalar = 0.2) -> Algorithm:
    """Local steps along a momentum of one's own, kept fresh by importance weights; both are averaged.

        u_l     = g_i(x_l;tau) + (1 - a) (u_{l-1} - w g_i(x_{l-1};tau)),   tau ~ pi_{x_l}, w = p(tau|x_{l-1})/p(tau|x_l)
        x_{l+1} = x_l - eta u_l,    l = 0, …, H-1,    x_0 = theta,  u_{-1} = u,  x_{-1} = theta + eta u
        theta+  = mean_i x_H,       u+ = mean_i u_{H-1}

    x_{-1} is the mean of the agents' x_{H-1} of the round before, so that step 0 begins with one that all take together
    along u. a = 1 where there is no u yet. a = 1 is FedAvg-PG; the theory has a = c eta^2. w is the product over a
    trajectory's steps; where gradients are exact, w g_i(x_{l-1}) is grad J_i(x_{l-1}). `ess` is the effective number of
    trajectories as a share of B.

    u_l - g_i(x_l) = (1 - a)^(l+1) (u - g_i(x_{-1})) with exact gradients. It stops where FedAvg-PG with the same eta
    and H does, to first order in eta and for every a: agents drift apart less, by c_l = sum_{j<l} 1 - (1 - a)^(j+1)
    instead of l steps, and u keeps for longer what their drift has left in it; the two cancel.

    H estimates a round. Public code has 1 in the place of 1 - a, and w of single steps.

    Use it as FedSVRPG-M, with a momentum in each local step. Do not to remove the bias of heterogeneity at a fixed eta.

    Args:
        a: weight of the fresh gradient, in (0, 1].
    """
    check_share("a", a)

    def send_model(
        memory: tuple[()], own: Own, down: Model, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Model, Info]:
        def sample(play: Any, x: Theta, kept: Any, key: RngKey, B: int | None) -> tuple[Any, Any]:
            own, old, u = kept
            batch, own = play(x, own, key, B)
            fresh = jnp.where(jnp.any(u != 0), a, 1).astype(x.dtype)
            new = oracle.gradient(x, own, batch) + (1 - fresh) * (u - weighted_gradient(oracle, old, x, own, batch))
            return (batch, old, new), (own, x, new)

        moving = watch(once(oracle), sample=sample, gradient=lambda g, x, own, b: b[2], steps=lambda n, b: n(b[0]))
        note = lambda x, b: {"ess": effective_share(log_weights(oracle, b[1], x, b[0]))}
        start = own, down.theta + eta * down.u, down.u
        x, (own, _, u), info = local_steps(moving, lambda x, u: u, sgd(eta), down.theta, start, key, H, note=note)
        return memory, own, Model(x, u), info

    def average(state: Model, mean: Model, share: float, key: RngKey) -> tuple[Model, Model]:
        return mean, mean

    def init(theta: Theta, N: int) -> tuple[Model, Model, tuple[()]]:
        return Model(theta, jnp.zeros_like(theta)), Model(theta, jnp.zeros_like(theta)), ()

    return Algorithm(init, (Exchange("local", send_model, average),), policy=lambda state: state.theta, needs=WEIGHTS)
