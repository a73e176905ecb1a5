"""SCAFFOLD with policy gradients, after Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging" (2020)."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Exchange,
    Info,
    MakeOptimiser,
    Oracle,
    Own,
    PerAgent,
    RngKey,
    Scalar,
    Theta,
    estimate,
    local_steps,
    sgd,
)


class Broadcast(NamedTuple):
    """The server's parameters and control variate; both are broadcast."""

    theta: Theta
    c: Theta


class Change(NamedTuple):
    """What an agent sends: the changes of its parameters and of its control variate, never the variate itself."""

    theta: Theta
    c: Theta


def scaffold_pg(
    eta: Scalar, H: int, alpha_g: Scalar = 1.0, option: Literal["I", "II"] = "II", optimiser: MakeOptimiser = sgd
) -> Algorithm:
    """Local steps corrected by control variates from earlier rounds, in one synchronisation.

        x_{l+1} = x_l - eta (g_i(x_l) - c_i + c),                       x_0 = theta
        c_i+    = g_i(theta)                             (option I)     or
        c_i+    = c_i - c + (theta - x_H) / (eta H)      (option II: the mean local gradient of this round)
        theta+  = theta + alpha_g mean_i (x_H - theta),  c+ = c + |S|/N mean_i (c_i+ - c_i)

    H estimates a round, or H + 1 with option I. All control variates start at zero. Option II reads the mean gradient
    off the change of theta, which only gradient steps allow: with another optimiser take option I.
    """
    if option not in ("I", "II"):
        raise ValueError(f"option = {option!r}; it must be 'I' or 'II'")
    if option == "II" and optimiser is not sgd:
        raise ValueError("option II reads gradients off gradient steps; with another optimiser take option I")

    def send_changes(
        c_i: Theta, own: Own, model: Broadcast, oracle: Oracle, key: RngKey
    ) -> tuple[Theta, Own, Change, Info]:
        theta, c = model

        x, own, info = local_steps(oracle, lambda x, g: g - c_i + c, optimiser(eta), theta, own, key, H)
        if option == "I":
            c_new, own, steps = estimate(oracle, theta, own, jax.random.fold_in(key, H))
            info = Info(info.drift, info.steps + steps)
        else:
            c_new = c_i - c + (theta - x) / (eta * H)
        return c_new, own, Change(x - theta, c_new - c_i), info

    def move(model: Broadcast, change: Change, share: float, key: RngKey) -> tuple[Broadcast, Broadcast]:
        model = Broadcast(model.theta + alpha_g * change.theta, model.c + share * change.c)
        return model, model

    def init(theta: Theta, N: int) -> tuple[Broadcast, Broadcast, PerAgent]:
        model = Broadcast(theta, jnp.zeros_like(theta))
        return model, model, jnp.zeros((N, *theta.shape), theta.dtype)

    return Algorithm(init, (Exchange("local", send_changes, move),), policy=lambda model: model.theta)
