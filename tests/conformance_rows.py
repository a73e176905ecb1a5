"""The table of all algorithms, a row each, with what `test_conformance.py` must know of it beside its factory."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_softmax

import reference as ref
from fastfedpg import (
    adaptive_anchor,
    afedpg,
    centralised_pg,
    decentralised_pg,
    fast_fedpg,
    fedavg_pg,
    fedhapg_m,
    fedkl,
    fedlin_pg,
    fednpg,
    fednpg_admm,
    fedpg_br,
    fedprox_pg,
    fedsvrpg_m,
    heavy_anchor,
    incremental_pg,
    independent_pg,
    mdpgt,
    mfpo,
    minibatch_pg,
    pavg,
    personal_heads,
    proxskip_pg,
    qavg,
    rc_pg,
    scaffold_pg,
    with_oracle,
)
from fastfedpg.algorithms.fedhapg_m import MIX
from fastfedpg.algorithms.wrappers.compressed import compressed
from fastfedpg.core import Algorithm, Codec, key_for
from fastfedpg.problems import tabular_exact

H, N, S, A, B, K = 3, 3, 4, 3, 4, 6
d = S * A


class Row(NamedTuple):
    make: Callable[..., Algorithm]  # from eta; cached, so that one algorithm is compiled once for all tests
    up: tuple[int, ...]  # vectors of length d that an agent sends, exchange by exchange
    down: tuple[int, ...]  # and is sent
    estimates: int  # per agent and round
    local: int = H  # gradient steps in a round when there is one agent
    stretch: tuple[int, ...] = (1,)  # by how much these, one after the other, are longer than eta
    scalars: tuple[int, int] = (0, 0)  # numbers in a round beside those vectors, up and down
    lengths: Callable[[int], list[int]] | None = None  # where rounds differ: the estimates of each of the first
    part: int = N  # agents that take part in a round, where the method says who
    roles: bool = False  # whether agent 0 has a part of its own
    alone: Callable[..., np.ndarray] | None = None  # where these are others: (problem, eta, rounds) -> theta
    step: Callable[..., np.ndarray] | None = None  # or (problem, theta, eta) -> theta: one step of one agent
    tabular: bool = False  # whether it needs an oracle that knows the MDP, and plays nothing
    plays: bool = False  # whether it needs one that plays
    scale: float = 1.0  # of its theta, for tolerances

    def in_rounds(self, T: int, of_round: int) -> int:
        """So many in each round, or as many as there were."""
        return T * of_round if self.lengths is None else sum(self.lengths(T))


def drawn(T: int) -> list[int]:
    """What ProxSkip's server draws after each round, for the next; the first has 1/p."""
    draw = lambda t: min(int(jax.random.geometric(key_for(0, t, "local"), 1 / H)), 2 * H)
    return [H, *(draw(t) for t in range(T - 1))]


def momentum(b):
    """FedSVRPG-M of one agent: v = g(x) - (1 - b)(g(theta-) - u), H times, and u+ = the mean of v."""

    def rounds(problem, eta, T):
        g = lambda x: tabular_exact.gradient(problem, x)
        theta = old = np.zeros((S, A))
        for _ in range(T):
            u, x = (old - theta) / (eta * H), theta
            for _ in range(H):
                x = x - eta * (g(x) - (1 - b) * (g(old) - u))
            theta, old = x, theta
        return theta

    return rounds


def hessians(b):
    """FedHAPG-M of one agent: v = b g(x) + (1 - b)(u + hess(z)(x - theta-)), z between theta- and x by the keys."""

    def rounds(problem, eta, T):
        g = lambda x: with_oracle(problem, "exact").oracle(jnp.asarray(problem.cost[0])).gradient(x, (), ())
        theta = old = jnp.zeros(d)
        for t in range(T):
            u, x = (old - theta) / (eta * H), theta
            for l in range(H):
                key = jax.random.fold_in(key_for(0, t, "local", 0), l)
                z = old + jax.random.uniform(jax.random.fold_in(key, MIX), dtype=float) * (x - old)
                x = x - eta * (b * g(x) + (1 - b) * (u + jax.jvp(g, (z,), (x - old,))[1]))
            theta, old = x, theta
        return np.asarray(theta).reshape(S, A)

    return rounds


def lookahead(alpha):
    """AFedPG of one agent: v <- (1 - alpha) v + alpha g(z), z = theta + (1/alpha - 1)(theta - theta-); steps of eta."""

    def rounds(problem, eta, T):
        theta = old = np.zeros((S, A))
        for t in range(T):
            g = tabular_exact.gradient(problem, theta + (1 / alpha - 1) * (theta - old))
            v = g if t == 0 else (1 - alpha) * v + alpha * g
            theta, old = theta - eta * v / np.linalg.norm(v), theta
        return theta

    return rounds


# A code that loses nothing: what is told apart is the upload and its code, and feedback has nothing to add.
FLIPPED = Codec(lambda up, key: jax.tree.map(jnp.negative, up), lambda coded: jax.tree.map(jnp.negative, coded))


def natural(problem, theta, eta):
    """theta - eta (Q - V)/(1-gamma)."""
    Q = tabular_exact.q_values(problem, theta)[0]
    V = (ref.policy(theta, S, A) * Q).sum(axis=1, keepdims=True)
    return theta - eta * (Q - V) / (1 - problem.gamma)


def projected(problem, theta, eta):
    """log Proj(pi - eta d Q/(1-gamma)), whose rows are found by bisection."""
    d_pi, Q = tabular_exact.occupancy(problem, theta)[0], tabular_exact.q_values(problem, theta)[0]
    x = ref.policy(theta, S, A) - eta * d_pi[:, None] * Q / (1 - problem.gamma)
    low, high = x.min(axis=1, keepdims=True) - 1, x.max(axis=1, keepdims=True)
    for _ in range(100):
        middle = (low + high) / 2
        over = np.maximum(x - middle, 0).sum(axis=1, keepdims=True) > 1
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return np.log(np.maximum(x - high, 1e-30))


def sweep(problem, theta, eta):
    """theta = -1e8 Q with Q <- (1-eta) Q + eta (c + gamma P min_a Q)."""
    Q = -theta / 1e8
    return -1e8 * ((1 - eta) * Q + eta * (problem.cost[0] + problem.gamma * problem.P @ Q.min(axis=1)))


def value_sweeps(problem, eta, T):
    """theta = -1e8 Q: H times V <- (1-eta) V + eta min_a (c + gamma P V) from V = min_a Q, then Q = c + gamma P V."""
    Q = np.zeros((S, A))
    for _ in range(T):
        V = Q.min(axis=1)
        for _ in range(H):
            V = (1 - eta) * V + eta * (problem.cost[0] + problem.gamma * problem.P @ V).min(axis=1)
        Q = problem.cost[0] + problem.gamma * problem.P @ V
    return -1e8 * Q


def admm(problem, theta, eta):
    """theta - eta y/sqrt(y'g), y = M (g + rho M g), M = (F + rho I)^-1: two sweeps of one agent, rho = .1."""
    pi, d_pi, g = (
        ref.policy(theta, S, A),
        tabular_exact.occupancy(problem, theta)[0],
        tabular_exact.gradient(problem, theta),
    )
    F = np.zeros((S, A, S, A))
    for s in range(S):
        F[s, :, s] = d_pi[s] * (np.diag(pi[s]) - np.outer(pi[s], pi[s]))
    M = np.linalg.inv(F.reshape(d, d) + 0.1 * np.eye(d))
    y = M @ (g.ravel() + 0.1 * M @ g.ravel())
    return theta - eta * y.reshape(S, A) / np.sqrt(y @ g.ravel())


TABLE = {
    "fast_fedpg": Row(cache(lambda eta: fast_fedpg(eta, H)), (1, 1), (1, 1), H + 1),
    "fast_fedpg-reuse": Row(cache(lambda eta: fast_fedpg(eta, H, reuse=True)), (1, 1), (1, 1), H),
    "fast_fedpg-coded": Row(cache(lambda eta: compressed(fast_fedpg(eta, H), FLIPPED)), (1, 1), (1, 1), H + 1),
    "fedavg_pg": Row(cache(lambda eta: fedavg_pg(eta, H)), (1,), (1,), H),
    "scaffold_pg-I": Row(cache(lambda eta: scaffold_pg(eta, H, option="I")), (2,), (2,), H + 1),
    "scaffold_pg-II": Row(cache(lambda eta: scaffold_pg(eta, H, option="II")), (1,), (1,), H),
    "scaffold_pg-some": Row(cache(lambda eta: scaffold_pg(eta, H, everybody=False)), (1,), (2,), H),
    "fedprox_pg": Row(cache(lambda eta: fedprox_pg(eta, H, 0.0)), (1,), (1,), H),
    "fedlin_pg": Row(cache(lambda eta: fedlin_pg(eta, H)), (1, 1), (1, 1), H + 1),
    "proxskip_pg": Row(
        cache(lambda eta: proxskip_pg(eta, 1 / H, most=2 * H)), (1,), (1,), H, scalars=(0, 1), lengths=drawn
    ),
    "rc_pg": Row(cache(lambda eta: rc_pg(eta, H)), (1,), (1,), H, scalars=(5, 2)),
    "fedsvrpg_m": Row(cache(lambda eta: fedsvrpg_m(eta, H, 0.4)), (1,), (2,), H, alone=momentum(0.4)),
    "fedhapg_m": Row(cache(lambda eta: fedhapg_m(eta, H, 0.4)), (1,), (2,), H, alone=hessians(0.4)),
    "mfpo": Row(cache(lambda eta: mfpo(eta, H, 0.4)), (2,), (2,), H),
    "fedpg_br": Row(cache(lambda eta: fedpg_br(eta, H, B0=B)), (1, 1), (1, 1), (N + H) // N, roles=True),
    "afedpg": Row(cache(lambda eta: afedpg(eta, 0.4)), (1,), (1,), 1, part=1, alone=lookahead(0.4)),
    "incremental_pg": Row(cache(lambda eta: incremental_pg(eta)), (1,), (1,), 1, local=1, part=1),
    "centralised_pg": Row(cache(lambda eta: centralised_pg(eta)), (1,), (1,), 1, local=1),
    "minibatch_pg": Row(cache(lambda eta: minibatch_pg(eta, H)), (1,), (1,), H, local=1, stretch=(H,)),
    "heavy_anchor": Row(cache(lambda eta: heavy_anchor(eta, H, 2)), (1, 1), (1, 1), H, local=2, stretch=(2, 1)),
    "adaptive_anchor": Row(cache(lambda eta: adaptive_anchor(eta, H)), (1, 1), (1, 1), H, local=3, scalars=(1, 1)),
    "personal_heads": Row(cache(lambda eta: personal_heads(eta, H)), (0, 0), (0, 0), H + 1, scalars=(d, d)),
    "personal_heads-average": Row(
        cache(lambda eta: personal_heads(eta, H, correct=False)), (0,), (0,), H, scalars=(d // 2, d // 2)
    ),
    "independent_pg": Row(cache(lambda eta: independent_pg(eta, H)), (), (), H),
    # On a ring of three everybody has two neighbours.
    "decentralised_pg": Row(cache(lambda eta: decentralised_pg(eta, "ring")), (2,), (2,), 1, local=1),
    "mdpgt": Row(cache(lambda eta: mdpgt(eta, "ring")), (4,), (4,), 1, local=1),
    "pavg-natural": Row(cache(lambda eta: pavg(eta, H)), (1,), (1,), 0, tabular=True, step=natural),
    "pavg-projected": Row(
        cache(lambda eta: pavg(eta, H, "projected")), (1,), (1,), 0, tabular=True, step=projected, scale=1e3
    ),
    # Conjugate gradients end at a residual of 1e-10.
    "fednpg_admm-trust": Row(cache(lambda eta: fednpg_admm(eta, 2)), (2, 1), (1, 1), 1, 1, step=admm, scale=1e3),
    "fednpg": Row(
        cache(lambda eta: fednpg(eta)),
        (2, 2),
        (2, 2),
        0,
        1,
        tabular=True,
        step=lambda problem, theta, eta: (
            log_softmax(theta, axis=1) - eta / (1 - problem.gamma) * tabular_exact.q_values(problem, theta)[0]
        ),
    ),
    "fedkl": Row(
        cache(lambda eta: fedkl(eta, H, beta=0.1, sigma=0.1, epochs=2, minibatches=2)), (1,), (1,), H, plays=True
    ),
    "qavg-V": Row(cache(lambda eta: qavg(eta, H, "V")), (1,), (1,), 0, tabular=True, alone=value_sweeps, scale=1e9),
    "qavg-Q": Row(cache(lambda eta: qavg(eta, H, "Q")), (1,), (1,), 0, tabular=True, step=sweep, scale=1e9),
}
