"""FedHAPG-M, after Wang, He, Zhang, Miao and Anderson, "Momentum for the Win" (2024)."""

import zlib
from typing import Any, NamedTuple

import jax

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
    check_positive,
    check_share,
    effective_share,
    local_steps,
    log_weights,
    once,
    sgd,
    watch,
    weighted_gradient,
)

MIX = zlib.crc32(b"mix")


class Broadcast(NamedTuple):
    """The server's parameters, and those of the round before."""

    theta: Theta
    old: Theta


def fedhapg_m(eta: Scalar, H: int, b: Scalar = 0.2, lam: Scalar | None = None) -> Algorithm:
    """FedSVRPG-M whose difference of gradients is a Hessian times a vector: weights stay near 1.

        v   = b w g_i(x;tau) + (1 - b) (u + D),     w = p(tau|x)/p(tau|z),  z = a x + (1 - a) theta-,  a ~ U[0, 1]
        D   = (grad log p(tau|z) . y) g_i(z;tau) + (d/dz g_i(z;tau)) y,     tau ~ pi_z,  y = x - theta-
        x  <- x - eta v,  H times from x = theta;     u+ = -mean_i (x - theta) / (eta H),     theta+ = theta - lam u+

    and theta- is theta of the round before, u = 0 and theta- = theta at first. grad J_i(z) = E g_i(z;tau), so that
    E[D|a] = (d/dz sum_tau p(tau|z) g_i(z;tau)) y = hess J_i(z) y, whose mean over a is grad J_i(x) - grad J_i(theta-).
    D is the derivative at q = z, in the direction y, of w g_i(q;tau) with w = p(tau|q)/p(tau|z): one `jvp`. Where
    gradients are exact that is the Hessian itself, and only a is random. H estimates a round; `ess` is as in
    FedSVRPG-M, and where it stops is too.

    Public code has no costs in D: its mean is then 0.

    Use it in the place of FedSVRPG-M where its weights degenerate (look at `ess`). Do not to remove the bias of
    heterogeneity at a fixed eta.

    Args:
        b: weight of the fresh gradient, in (0, 1].
        lam: server step size; eta H unless given, which is the average of the agents' parameters.
    """
    check_share("b", b)
    check_positive("lam", lam)
    lam = eta * H if lam is None else lam

    def send_change(
        memory: tuple[()], own: Own, down: Broadcast, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        theta, old = down
        u = (old - theta) / lam

        def sample(play: Any, x: Theta, own: Own, key: RngKey, B: int | None) -> tuple[Any, Own]:
            z = old + jax.random.uniform(jax.random.fold_in(key, MIX), dtype=x.dtype) * (x - old)
            batch, own = play(z, own, key, B)
            return (batch, z), own

        def pair(g: Any, x: Theta, own: Own, batch: Any) -> Theta:
            played, z = batch
            D: Theta = jax.jvp(lambda q: weighted_gradient(oracle, q, z, own, played), (z,), (x - old,))[1]
            return b * weighted_gradient(oracle, x, z, own, played) + (1 - b) * (u + D)

        mixed = watch(once(oracle), sample=sample, gradient=pair, steps=lambda n, batch: n(batch[0]))
        note = lambda x, batch: {"ess": effective_share(log_weights(oracle, x, batch[1], batch[0]))}
        x, own, info = local_steps(mixed, lambda x, v: v, sgd(eta), theta, own, key, H, note=note)
        return memory, own, x - theta, info

    def move(state: Broadcast, Delta: Theta, share: float, key: RngKey) -> tuple[Broadcast, Broadcast]:
        state = Broadcast(state.theta + lam / (eta * H) * Delta, state.theta)
        return state, state

    def init(theta: Theta, N: int) -> tuple[Broadcast, Broadcast, tuple[()]]:
        return Broadcast(theta, theta), Broadcast(theta, theta), ()

    exchanges = (Exchange("local", send_change, move),)
    return Algorithm(init, exchanges, policy=lambda state: state.theta, needs=WEIGHTS, draws=True)
