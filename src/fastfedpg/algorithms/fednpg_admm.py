"""FedNPG-ADMM, after Lan et al., "Improved Communication Efficiency in Federated Natural Policy Gradient" (2023)."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.sparse import linalg

from fastfedpg.core import (
    Algorithm,
    Batch,
    Exchange,
    Info,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    check_positive,
    room_for_a_batch,
)


class Memory(NamedTuple):
    """What agent i keeps within a round: where it played what, its gradient there, its y_i and multiplier l_i."""

    theta: Theta
    batch: Any
    g: Theta
    y: Theta
    l: Theta


class First(NamedTuple):
    """The first upload of a round."""

    g: Theta
    y: Theta


class State(NamedTuple):
    """The server's parameters, and of the present round the mean gradient."""

    theta: Theta
    g: Theta


def fednpg_admm(
    eta: Scalar, sweeps: int = 4, rho: Scalar = 0.1, step: Literal["trust", "plain"] = "trust", cg_steps: int = 20
) -> Algorithm:
    """The natural gradient of the average, found by consensus ADMM: vectors are sent, and never a Fisher matrix.

    The direction is y = argmin mean_i (y'F_i y/2 - y'g_i) = (mean F_i)^+ mean g_i. With a copy y_i at each agent,
    y_i = y, and multipliers l_i the augmented Lagrangian mean_i (y_i'F_i y_i/2 - y_i'g_i + l_i'(y_i - y) +
    rho/2 ||y_i - y||^2) is minimised over each y_i, then over y, and then l_i moves:

        y_i <- (F_i + rho I)^-1 (g_i - l_i + rho y);   y <- mean_i (y_i + l_i / rho);   l_i <- l_i + rho (y_i - y)

    `sweeps` times from y = l_i = 0, with F_i and g_i of one batch at theta, so that mean_i l_i = 0 throughout; then

        theta+ = theta - eta y / sqrt(y'g)    (trust: eta = sqrt(2 delta), a KL of delta),  or  theta - eta y    (plain)

    Where all F_i are equal, as with shared kernels, a sweep shrinks the error by rho/(rho + mu) along F's eigenvalue
    mu, so rho is to be small beside those that matter; rho -> infinity with one sweep gives rho y -> g, the gradient.
    A sweep is d numbers up and d down, the first one 2d up. F_i is the mean of score score' over all steps of the batch
    (J'J of `log_prob`), or where the MDP is known that of the discounted occupancy; its equation is solved by conjugate
    gradients. A step of `trust` does not shrink near an optimum; where y'g is negative, as it may be with few sweeps
    and F_i that differ, there is none.

    Use it where curvature is uneven and synchronisations cost little: each step has `sweeps` of them. Do not where
    solving with F_i, up to `cg_steps` products in each sweep, costs an agent more than playing.

    Args:
        sweeps: of ADMM in a round, each a synchronisation.
        rho: how strongly copies are held together.
        step: trust, of a length in KL, or plain.
        cg_steps: conjugate-gradient steps at most.
    """
    if sweeps < 1 or cg_steps < 1:
        raise ValueError(f"sweeps = {sweeps}, cg_steps = {cg_steps}; there must be at least 1")
    check_positive("rho", rho)

    def solved(product: Callable[[Theta], Theta], b: Theta) -> Theta:
        cg: Any = linalg.cg
        y: Theta = cg(lambda v: product(v) + rho * v, b, tol=1e-10, maxiter=cg_steps)[0]
        return y.astype(b.dtype)

    def begin(memory: Memory, own: Own, theta: Theta, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, First, Info]:
        batch, own = oracle.sample(theta, own, key, None)
        g = oracle.gradient(theta, own, batch)
        y = solved(fisher(oracle, theta, batch), g)
        return Memory(theta, batch, g, y, jnp.zeros_like(g)), own, First(g, y), Info(steps=oracle.steps(batch))

    def sweep(memory: Memory, own: Own, y: Theta, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        theta, batch, g, y_i, l = memory
        l = l + rho * (y_i - y)
        y_i = solved(fisher(oracle, theta, batch), g - l + rho * y)
        return Memory(theta, batch, g, y_i, l), own, y_i + l / rho, Info()

    def move(state: State, y: Theta) -> tuple[State, Theta]:
        fall = jnp.sum(y * state.g)  # where it is none, sweeps were too few for agents so unlike: no step
        length = jnp.where(fall > 1e-30, jnp.sqrt(jnp.maximum(fall, 1e-30)), jnp.inf) if step == "trust" else 1
        theta = state.theta - eta * y / length
        return State(theta, state.g), theta

    def hear_first(state: State, up: First, share: float, key: RngKey) -> tuple[State, Theta]:
        state = State(state.theta, up.g)
        return move(state, up.y) if sweeps == 1 else (state, up.y)

    def hear(last: bool) -> Callable[..., tuple[State, Theta]]:
        return lambda state, y, share, key: move(state, y) if last else (state, y)

    def init(theta: Theta, N: int) -> tuple[State, Theta, Memory]:
        nothing = jnp.zeros((N, *theta.shape), theta.dtype)
        return State(theta, jnp.zeros_like(theta)), theta, Memory(nothing, (), nothing, nothing, nothing)

    def open(memory: Memory, theta: Theta, oracle: Oracle, own: Own, key: RngKey) -> Memory:
        return memory._replace(batch=room_for_a_batch(oracle, theta, own, key))

    others = (Exchange(f"sweep {k}", sweep, hear(k == sweeps)) for k in range(2, sweeps + 1))
    exchanges = (Exchange("gradient", begin, hear_first), *others)
    return Algorithm(init, exchanges, lambda state: state.theta, needs=("log_prob or tabular",), open=open)


def fisher(oracle: Oracle, theta: Theta, batch: Batch) -> Callable[[Theta], Theta]:
    """v -> F v at theta."""
    if oracle.tabular is not None:
        mdp = oracle.tabular().like(theta)
        log_pi = mdp.log_policy(theta)
        weight = mdp.occupancy(log_pi)[:, None] * jnp.exp(log_pi)

        def known(v: Theta) -> Theta:
            table = v.reshape(weight.shape)
            return (weight * (table - jnp.sum(jnp.exp(log_pi) * table, axis=1, keepdims=True))).reshape(-1)

        return known
    assert oracle.log_prob is not None
    ask = oracle.log_prob

    def played(v: Theta) -> Theta:
        log_prob, back = jax.vjp(lambda theta: ask(theta, batch), theta)
        along = jax.jvp(lambda theta: ask(theta, batch), (theta,), (v,))[1]
        return back(along / log_prob.size)[0]

    return played
