"""SCAFFOLD with policy gradients, after Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging" (2020)."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
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


class Broadcast(NamedTuple):
    """The server's parameters and control variate, which is not there where agents know it."""

    theta: Theta
    c: Any


class Change(NamedTuple):
    """What an agent sends: how its parameters have changed, and with option I its variate; never the variate itself."""

    theta: Theta
    c: Any


class Memory(NamedTuple):
    """An agent's control variate; where c is not sent, also where its last round began, and whether there was one."""

    c_i: Theta
    theta: Any = ()
    begun: Any = ()


def scaffold_pg(
    eta: Scalar,
    H: int,
    alpha_g: Scalar = 1.0,
    option: Literal["I", "II"] = "II",
    optimiser: MakeOptimiser = sgd,
    everybody: bool = True,
) -> Algorithm:
    """Local steps corrected by control variates from earlier rounds, in one synchronisation.

        x_{l+1} = x_l - eta (g_i(x_l) - c_i + c),                       x_0 = theta
        c_i+    = g_i(theta)                             (option I)     or
        c_i+    = c_i - c + (theta - x_H) / (eta H)      (option II: the mean local gradient of this round)
        theta+  = theta + alpha_g mean_i (x_H - theta),  c+ = c + |S|/N mean_i (c_i+ - c_i)

    H estimates a round, or H + 1 with option I, which sends two vectors each way. With option II c_i+ - c_i = (theta -
    x_H)/(eta H) - c, so that theta's change says all: c+ = (1 - |S|/N) c + |S|/N mean_i (theta - x_H)/(eta H). If all
    agents take part that is (theta - theta+)/(alpha_g eta H), which each of them knows from two broadcasts: one vector
    each way, as SCAFFLSA has it for alpha_g = 1 (Mangold et al. 2024). If only some do, c comes with theta.

    All control variates start at zero. Option II reads the mean gradient off the change of theta, which only gradient
    steps allow: with another optimiser take option I.

    Use it in the place of Fast-FedPG where synchronisations are dear. Do not where theta moves far in a round: its
    correction is a round old, as on `mazes` (docs/compare.md); nor with agents that may be absent, but for `everybody`
    false.

    Args:
        option: how control variates are renewed.
        everybody: with option II, whether all agents are in every round, so that c need not be sent.
    """
    if option not in ("I", "II"):
        raise ValueError(f"option = {option!r}; it must be 'I' or 'II'")
    if option == "II" and optimiser is not sgd:
        raise ValueError("option II reads gradients off gradient steps; with another optimiser take option I")
    known = everybody and option == "II"

    def send_changes(
        memory: Memory, own: Own, model: Broadcast, oracle: Oracle, key: RngKey
    ) -> tuple[Memory, Own, Change, Info]:
        theta, c_i = model.theta, memory.c_i
        c = memory.begun * (memory.theta - theta) / (alpha_g * eta * H) if known else model.c
        x, own, info = local_steps(oracle, lambda x, g: g - c_i + c, optimiser(eta), theta, own, key, H)
        if option == "I":
            c_new, own, steps = estimate(oracle, theta, own, jax.random.fold_in(key, H))
            return Memory(c_new), own, Change(x - theta, c_new - c_i), Info(info.drift, info.steps + steps)
        c_new = c_i - c + (theta - x) / (eta * H)
        kept = Memory(c_new, theta, jnp.ones_like(memory.begun)) if known else Memory(c_new)
        return kept, own, Change(x - theta, ()), info

    def move(model: Broadcast, change: Change, share: float, key: RngKey) -> tuple[Broadcast, Broadcast]:
        theta, c = model.theta + alpha_g * change.theta, model.c
        if option == "I":
            c = c + share * change.c
        elif not known:
            c = (1 - share) * c - share * change.theta / (eta * H)
        return Broadcast(theta, c), Broadcast(theta, c)

    def init(theta: Theta, N: int) -> tuple[Broadcast, Broadcast, Memory]:
        model = Broadcast(theta, () if known else jnp.zeros_like(theta))
        nothing = jnp.zeros((N, theta.size), theta.dtype)
        return model, model, Memory(nothing, nothing, nothing[:, 0]) if known else Memory(nothing)

    words = "c is read off theta's change, for which all agents must take part; take everybody=False (--no-everybody)"
    exchanges = (Exchange("local", send_changes, move),)
    return Algorithm(init, exchanges, policy=lambda model: model.theta, everybody=words if known else "")
