"""Graphs of agents that hear their neighbours alone, as doubly stochastic weights: by name, or somebody's own."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fastfedpg import graph_files, graph_weights
from fastfedpg.errors import InputError, unknown
from fastfedpg.memory import check_fits
from fastfedpg.messages import Combine

SLACK = 1e-9
"""Rows and columns may miss 1 by so much."""

REDRAWS, FEWEST, NUMBERS = 1000, 5, 10**8
"""Draws of a random graph until all are connected: at most so many, and fewer where each takes many numbers."""

Graph: TypeAlias = str | Sequence[Sequence[float]] | np.ndarray
"""A name, a file's name (.npy, .npz), or the weights themselves."""


def mixing(W: Any) -> Combine:
    """Every agent's own weighted sum over its neighbours, u_i+ = sum_j W_ij u_j: a graph, and no server.

    W is doubly stochastic: no entry is negative, and every row and column sums to 1, so that the mean is kept. Where
    only some agents take part their rows and columns are taken, and what an agent would have given to those that are
    absent it keeps itself: W_ii + sum_{j absent} W_ij. The mean of those who take part is then kept if W is symmetric.
    """
    W = np.asarray(W, np.float64)
    if W.ndim != 2 or W.shape[0] != W.shape[1] or not W.size:
        raise ValueError(f"mixing: W has shape {W.shape}; it must be (N, N)")
    if not (W >= 0).all():
        i, j = np.argwhere(~(W >= 0))[0]
        raise ValueError(f"mixing: W[{i}, {j}] = {W[i, j]:g}; no entry may be negative")
    for axis, name in ((1, "row"), (0, "column")):
        sums = W.sum(axis=axis)
        if (wrong := np.flatnonzero(~(np.abs(sums - 1) <= SLACK))).size:
            raise ValueError(f"mixing: {name} {wrong[0]} of W sums to {sums[wrong[0]]:.9g}; each must sum to 1")
    N = len(W)

    def merge(ups: Any, who: Any, key: Any = None) -> Any:
        def mix(x: Array) -> Array:
            w = jnp.asarray(W, x.dtype)[who][:, who]
            if len(x) < N:
                w = w + jnp.diag(1 - w.sum(axis=1))
            return jnp.tensordot(w, x, axes=1)

        return jax.tree.map(mix, ups)

    edges = (W != 0) & ~np.eye(N, dtype=bool)

    def present(who: Any) -> Any:
        who = np.asarray(who)
        return edges[who[..., :, None], who[..., None, :]].sum(axis=(-1, -2)) / who.shape[-1]

    return Combine(merge, per_agent=True, degree=float(present(np.arange(N))), agents=N, present=present)


def gossip(graph: Graph, edge_p: float = 0.5, seed: int = 0) -> Combine:
    """`mixing` on a graph: ring, torus, star, complete, erdos-renyi, or doubly stochastic weights of one's own.

    Named ones have Metropolis weights, and are made when it is known how many agents there are.
    """
    if not isinstance(graph, str) or graph_files.is_file(graph):
        W = _own(graph)
        check_agreement(W)
        return mixing(W)
    if graph not in EDGES:
        raise unknown("graph", graph, [*EDGES, "a file .npy or .npz"])
    if not 0 < edge_p <= 1:
        raise InputError(f"edge_p = {edge_p:g}; the probability of an edge must lie in (0, 1]")
    if seed < 0:
        raise InputError(f"graph_seed = {seed}; it must be at least 0")
    return Combine(_unsized, per_agent=True, made_for=cache(lambda N: mixing(weights(graph, N, edge_p, seed))))


def _unsized(ups: Any, who: Any = None, key: Any = None) -> Any:
    raise TypeError("these weights are made for a number of agents: combine.of(N) has them")


def weights(graph: str, N: int, edge_p: float = 0.5, seed: int = 0) -> Float[np.ndarray, "N N"]:
    """Metropolis weights of a named graph: W_ij = 1/(1 + max(deg_i, deg_j)) on its edges, W_ii = 1 - sum_j W_ij."""
    check_fits(f"the weights of {N} agents on a graph", 24 * N * N, "take fewer agents")
    edges = np.zeros((N, N), bool)
    for i, j in EDGES[graph](N, edge_p, seed) if N > 1 else ():
        edges[i, j] = edges[j, i] = i != j
    degree = edges.sum(axis=1)
    W = np.where(edges, 1 / (1 + np.maximum(degree, degree[:, None])), 0.0)
    return W + np.diag(1 - W.sum(axis=1))


Edges: TypeAlias = Sequence[tuple[int, int]]


def _ring(N: int, edge_p: float, seed: int) -> Edges:
    return [(i, (i + 1) % N) for i in range(N)]


def _torus(N: int, edge_p: float, seed: int) -> Edges:
    """Rows and columns that close to rings, as many of each as can be."""
    n = next((n for n in range(int(N**0.5), 2, -1) if N % n == 0), 0)
    if not n:
        raise InputError(f"graph = torus has {N} agents; it needs rows and columns of at least 3: 9, 12, 15, 16, …")
    m = N // n
    return [(i, other) for i in range(N) for other in (i // m * m + (i + 1) % m, (i + m) % N)]


def _star(N: int, edge_p: float, seed: int) -> Edges:
    return [(0, i) for i in range(1, N)]


def _complete(N: int, edge_p: float, seed: int) -> Edges:
    return [(i, j) for i in range(N) for j in range(i)]


def _erdos_renyi(N: int, edge_p: float, seed: int) -> Edges:
    """Every edge with the same probability, drawn again until all agents are connected."""
    rng = np.random.default_rng([*b"erdos-renyi", N, seed])
    draws = min(REDRAWS, max(FEWEST, NUMBERS // N**2))
    for _ in range(draws):
        drawn = np.tril(rng.random((N, N)) < edge_p, -1)
        if (_steps(drawn | drawn.T) >= 0).all():
            return [(int(i), int(j)) for i, j in np.argwhere(drawn)]
    enough = min(1.0, 2 * math.log(N) / N)  # an agent is alone with probability (1 - p)^(N-1), about 1/N^2
    raise InputError(
        f"graph = erdos-renyi: in {draws} draws {N} agents were never connected at edge_p = {edge_p:g}; from log N / N "
        f"= {math.log(N) / N:.2g} on they may be, and with edge_p = {enough:.2g} they nearly always are"
    )


EDGES: dict[str, Callable[[int, float, int], Edges]] = {
    "ring": _ring,
    "torus": _torus,
    "star": _star,
    "complete": _complete,
    "erdos-renyi": _erdos_renyi,
}


def check_agreement(W: Float[np.ndarray, "N N"]) -> None:
    """Refuse weights with which agents that do nothing else would never come to agree."""
    mixing(W)
    steps = _steps(W > 0)
    if (apart := np.flatnonzero(steps < 0)).size:
        raise InputError(f"graph: what agent 0 says never reaches agent {apart[0]}; W must connect all agents")
    hears, heard = np.nonzero(W)
    period = int(np.gcd.reduce(steps[heard] + 1 - steps[hears]))
    if period != 1:
        raise InputError(
            f"graph: with W agents take turns for ever, all ways back have a multiple of {period} steps; let them keep "
            "a part of their own, W_ii > 0"
        )


def _steps(hears: np.ndarray) -> np.ndarray:
    """How many steps after agent 0 each agent has heard of what it said; -1 for never."""
    steps = np.where(np.arange(len(hears)) == 0, 0, -1)
    for n in range(1, len(hears)):
        new = hears[:, steps == n - 1].any(axis=1) & (steps < 0)
        if not new.any():
            break
        steps[new] = n
    return steps


def _own(graph: Graph) -> Float[np.ndarray, "N N"]:
    if isinstance(graph, str):
        return graph_weights.read(graph)
    try:
        found = np.asarray(graph)
    except ValueError:
        raise InputError("graph: its rows differ in length; weights are a square matrix") from None
    return graph_weights.real("what was given", found)
