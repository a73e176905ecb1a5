"""Fast-FedPG: Algorithm 1 of Zhu, Heath Jr. and Mitra, "Towards Fast Rates for Federated and Multi-Task RL" (2024)."""

from typing import Any, NamedTuple

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
    State,
    Theta,
    at_server,
    local_steps,
    room_for_a_batch,
    server_step,
    sgd,
    theta_of,
)


class Memory(NamedTuple):
    """What agent i remembers within a round: where it began, the gradient it sent, and perhaps on which batch."""

    theta_bar: Theta
    g_i: Theta
    batch: Any = ()


def fast_fedpg(
    eta: Scalar,
    H: int,
    alpha_g: Scalar = 1.0,
    reuse: bool = False,
    B0: int | None = None,
    optimiser: MakeOptimiser = sgd,
    server: MakeOptimiser = sgd,
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
            Where batches serve local steps again (ppo, trpo) it takes the batch of that gradient, for all of them.
        B0: trajectories for the gradient that is sent, if not the oracle's own number.
        optimiser: takes the gradient step's place in Eq. (6). Where the corrected gradient is 0 theta stays, and no
            more is kept of the theory. adam, yogi and rmsprop by name divide by the agent's own gradient too, and come
            there where that is large beside eta; optax's see the corrected one alone, and circle it at about eta / 2.
        server: takes alpha_g's place in Eq. (7), with alpha_g as its step size and -mean_i Delta_i as its gradient; it
            lasts from round to round (FedOpt, Reddi et al. 2021). Where all Delta_i are 0 theta stays.
    """

    def send_gradient(
        memory: Memory, own: Own, theta_bar: Down, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Theta, Info]:
        batch, own = oracle.sample(theta_bar, own, key, B0)
        g_i = oracle.gradient(theta_bar, own, batch)  # line 13
        kept = Memory(theta_bar, g_i, batch if reuse and oracle.replay else ())
        return kept, own, g_i, Info(steps=oracle.steps(batch))

    def send_change(
        memory: Memory, own: Own, g_bar: Down, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Theta, Info]:
        theta_bar, g_i, batch = memory

        def direction(theta: Theta, g: Theta) -> Theta:
            return g - g_i + g_bar  # Eq. (6): theta - eta times this

        first = {} if not reuse else {"batch": batch} if oracle.replay else {"first": g_i}
        theta, own, info = local_steps(oracle, direction, optimiser(eta), theta_bar, own, key, H, **first)
        return memory, own, theta - theta_bar, info  # line 9

    def broadcast_gradient(state: State, g_bar: Theta, share: float, key: RngKey) -> tuple[State, Down]:
        return state, g_bar  # line 15

    def move(state: State, Delta: Theta, share: float, key: RngKey) -> tuple[State, Down]:
        state = server_step(server(alpha_g), state, -Delta)  # Eq. (7): theta_bar + alpha_g Delta
        return state, theta_of(state)  # line 11

    def init(theta: Theta, N: int) -> tuple[State, Down, Memory]:
        nothing = jnp.zeros((N, *theta.shape), theta.dtype)
        return at_server(theta, server(alpha_g).init(theta)), theta, Memory(nothing, nothing)

    def open(memory: Memory, theta: Theta, oracle: Oracle, own: Own, key: RngKey) -> Memory:
        return memory._replace(batch=room_for_a_batch(oracle, theta, own, key, B0) if oracle.replay else ())

    return Algorithm(
        init,
        (Exchange("gradient", send_gradient, broadcast_gradient), Exchange("local", send_change, move)),
        policy=theta_of,
        open=open if reuse else None,
    )
