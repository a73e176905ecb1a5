"""Fast-FedPG: Algorithm 1 of Zhu, Heath Jr. and Mitra, "Towards Fast Rates for Federated and Multi-Task RL" (2024)."""

from typing import NamedTuple

import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Down,
    Exchange,
    Info,
    MakeOptimiser,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    estimate,
    local_steps,
    sgd,
)


class Memory(NamedTuple):
    """What agent i remembers within a round: where the round began, and the gradient it sent from there."""

    theta_bar: Theta
    g_i: Theta


def fast_fedpg(
    eta: Scalar,
    H: int,
    alpha_g: Scalar = 1.0,
    reuse: bool = False,
    B0: int | None = None,
    optimiser: MakeOptimiser = sgd,
) -> Algorithm:
    """Local policy-gradient steps, each corrected by the memory of the global gradient.

        theta_{i,l+1} = theta_{i,l} - eta (g_i(theta_{i,l}) - g_i(theta_bar) + g(theta_bar))      Eq. (6)
        theta_bar+    = theta_bar + alpha_g mean_i (theta_{i,H} - theta_bar)                      Eq. (7)

    Two synchronisations and H + 1 gradient estimates a round. A round begins with the gradient exchange (line 13 of the
    round before), so there is neither a special first round nor an unused last gradient.

    Use it where agents differ by more than noise: N zeta^2 above (1 - 1/N) sigma^2, which `fastfedpg advise` measures.
    Do not where they differ little: its correction is then noise alone, and costs a second synchronisation.

    Args:
        eta: local step size.
        H: local steps in a round.
        alpha_g: server step size, in (0, 1].
        reuse: local step 0 takes the gradient already sent as g_i(theta_bar): H estimates a round instead of H + 1.
        B0: trajectories for the gradient that is sent, if not the oracle's own number.
        optimiser: takes the gradient step's place in Eq. (6). Where the corrected gradient is 0 theta stays, and no
            more is kept of the theory: adam and rmsprop circle such a point at a distance of about eta.
    """

    def send_gradient(
        memory: Memory, own: Own, theta_bar: Down, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Theta, Info]:
        g_i, own, steps = estimate(oracle, theta_bar, own, key, B0)  # line 13
        return Memory(theta_bar, g_i), own, g_i, Info(steps=steps)

    def send_change(
        memory: Memory, own: Own, g_bar: Down, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Theta, Info]:
        theta_bar, g_i = memory

        def direction(theta: Theta, g: Theta) -> Theta:
            return g - g_i + g_bar  # Eq. (6): theta - eta times this

        first = g_i if reuse else None
        theta, own, info = local_steps(oracle, direction, optimiser(eta), theta_bar, own, key, H, first)
        return memory, own, theta - theta_bar, info  # line 9

    def broadcast_gradient(theta_bar: Theta, g_bar: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        return theta_bar, g_bar  # line 15

    def move(theta_bar: Theta, Delta: Theta, share: float, key: RngKey) -> tuple[Theta, Down]:
        theta_bar = theta_bar + alpha_g * Delta  # Eq. (7)
        return theta_bar, theta_bar  # line 11

    def init(theta: Theta, N: int) -> tuple[Theta, Down, Memory]:
        nothing = jnp.zeros((N, *theta.shape), theta.dtype)
        return theta, theta, Memory(nothing, nothing)

    return Algorithm(
        init,
        (Exchange("gradient", send_gradient, broadcast_gradient), Exchange("local", send_change, move)),
        policy=lambda theta_bar: theta_bar,
    )
