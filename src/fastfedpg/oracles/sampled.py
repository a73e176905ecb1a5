"""Oracles that play: Eq. (5) to the letter (`reinforce`), and its causal form (`gpomdp`).

Both are sums of weighted scores, sum_{b,k} w_{b,k} grad log pi(a_k|s_k), and differ in the weights alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.backend import backends
from jaxtyping import Array, Float, Int, UInt32

from fastfedpg import kernels
from fastfedpg.core import Oracle, Own, RngKey, Theta, Transitions
from fastfedpg.errors import InputError
from fastfedpg.mdp import finite
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.oracles.alias import Draw, tabulate, thresholds

Weights = Callable[[Float[Array, "B K"]], Float[Array, "B K"]]
"""From discounted costs gamma^t r_t to the weight of each step's score."""

Generator = UInt32[Array, "4"]


class DrawTables(NamedTuple):
    """The dynamics as tables to draw from."""

    next: Draw  # one for each (s, a), in the order of theta
    first: Draw


@partial(jax.tree_util.register_dataclass, data_fields=["visited"], meta_fields=["A"])
@dataclass(frozen=True)
class Trajectories:
    """B roll-outs of K steps; `visited` numbers pairs (s, a) in the order of theta."""

    visited: Int[Array, "*lanes B K"]
    A: int

    @property
    def states(self) -> Int[Array, "*lanes B K"]:
        """s_k."""
        return self.visited // self.A

    @property
    def actions(self) -> Int[Array, "*lanes B K"]:
        """a_k."""
        return self.visited % self.A


def prepare(P: Any, rho: np.ndarray) -> DrawTables:
    """The dynamics of one agent, or with a leading axis of all of them."""
    flat = lambda x: x.reshape(*x.shape[:-3], -1, x.shape[-1])  # (s, a) in the order of theta
    rows = tabulate(flat(P.p), flat(P.next)) if isinstance(P, Sparse) else tabulate(flat(P))
    return DrawTables(rows, tabulate(rho))


def generators(key: RngKey, B: int) -> UInt32[Array, "B 4"]:
    """The state of each trajectory's own generator: 128 bits from the counter key and the trajectory's number."""
    words = jax.vmap(lambda j: jax.random.key_data(jax.random.fold_in(key, j)))(jnp.arange(2 * B))
    return words.reshape(B, -1)[:, :4]


def bits(g: Generator) -> tuple[Generator, Int[Array, ""]]:
    """31 random bits, by xoshiro128++ (Blackman and Vigna, 2021); a lane's stream has nothing to do with another's."""
    left = lambda x, k: (x << k) | (x >> (32 - k))
    s0, s1, s2, s3 = g
    v = (left(s0 + s3, 7) + s0) >> 1
    t = s1 << 9
    s2, s3 = s2 ^ s0, s3 ^ s1
    s1, s0 = s1 ^ s2, s0 ^ s3
    return jnp.stack([s0, s1, s2 ^ t, left(s3, 11)]), v.astype(jnp.int32)


def draw(table: Draw, row: Int[Array, ""] | int, v: Int[Array, ""]) -> Int[Array, ""]:
    """The outcome of a row for 31 random bits: the upper ones choose a bin, the others one of its two outcomes."""
    W, flat = table.bins.shape[-2], table.bins.reshape(-1)
    rest = 31 - (W.bit_length() - 1)
    i = 4 * (row * W + (v >> rest))
    return flat[i + 1 + ((v & (2**rest - 1)) >= flat[i])]


def play(model: DrawTables, below: Int[Array, "S others"], g: Generator, K: int) -> Int[Array, " K"]:
    """One trajectory of K steps, two draws each: one for the state, one for the action."""
    A = below.shape[1] + 1

    def act(s: Int[Array, ""], g: Generator) -> tuple[Generator, Int[Array, ""]]:
        g, v = bits(g)
        return g, s * A + jnp.sum(v >= below[s], dtype=jnp.int32)

    def step(carry: tuple[Generator, Array], _: None) -> tuple[tuple[Generator, Array], Array]:
        g, pair = carry
        g, v = bits(g)
        g, pair = act(draw(model.next, pair, v), g)
        return (g, pair), pair

    g, v = bits(g)
    g, pair = act(draw(model.first, 0, v), g)
    _, rest = lax.scan(step, (g, pair), None, length=K - 1)
    return jnp.concatenate([pair[None], rest])


def weigh(
    weights: Weights, visited: Int[Array, "B K"], r: Float[Array, " d"], discount: Float[Array, " K"]
) -> Float[Array, " d"]:
    """The total weight of each pair (s, a) over all trajectories; r is each pair's cost.

    Every sum has one order, so that the compiled loop gives the same bits: trajectories from the first on, and of each
    the steps from the last on. What is added was rounded before: costs are looked up in a loop of their own, since XLA
    would otherwise compute r anew for each, within other code, and round it otherwise.
    """
    _, paid = lax.scan(lambda _, step: (None, step[0] * r[step[1]]), None, (discount, visited.T))
    return jnp.zeros_like(r).at[visited[:, ::-1]].add(weights(paid.T)[:, ::-1])


def whole(r: Float[Array, "B K"]) -> Float[Array, "B K"]:
    """Every score times the whole discounted cost: Eq. (5)."""
    return jnp.broadcast_to(_add_up(r.T)[:, None], r.shape)


def to_go(r: Float[Array, "B K"]) -> Float[Array, "B K"]:
    """Every score times what comes from it on."""
    both = lambda later, now: (later + now, later + now)
    return lax.scan(both, jnp.zeros_like(r[:, 0]), r.T, reverse=True)[1].T


def leave_one_out(r: Float[Array, "B K"]) -> Float[Array, "B K"]:
    """And minus the mean of the same over all other trajectories.

    That mean has a loop of its own: in one with the difference, XLA would round the product and the difference at once.
    """
    mine = to_go(r)
    together, share = _add_up(mine), np.ones((), r.dtype) / np.asarray(len(r) - 1, r.dtype)
    return mine - lax.map(lambda own: (together - own) * share, mine)


def _add_up(x: Float[Array, "n m"]) -> Float[Array, " m"]:
    """The sum of rows from the first to the last: a reduction's order is XLA's."""
    return lax.scan(lambda total, row: (total + row, None), jnp.zeros_like(x[0]), x)[0]


COMPILED = (whole, to_go, leave_one_out)
"""Weights that the compiled loop knows, by these numbers."""


def _oracle(
    model: DrawTables, cost: Float[Array, "S A"], gamma: float, tau: float, B: int, K: int, weights: Weights
) -> Oracle:
    S, A = cost.shape
    model = jax.tree.map(jnp.asarray, model)
    fast = kernels.available()

    def sample(theta: Theta, own: Own, key: RngKey, size: int | None) -> tuple[Trajectories, Own]:
        n = B if size is None else size
        if n < 1:
            raise InputError(f"{n} trajectories were asked for; an estimate needs at least 1")
        if n < 2 and weights is leave_one_out:
            raise InputError("the leave-one-out baseline needs at least 2 trajectories; B (or B0) = 1 has no others")
        plain = lambda model, below, g: jax.vmap(lambda g: play(model, below, g, K))(g)
        compiled = lambda model, below, g: kernels.play(model.next.bins, model.first.bins, below, g, K)
        given = model, thresholds(finite.softmax_policy(theta, S, A)), generators(key, n)
        return Trajectories(_on_cpu(fast, compiled, plain, *given), A), own

    def costs(theta: Theta) -> tuple[Float[Array, " d"], Float[Array, " K"]]:
        """Each pair's cost, and the discount of each step."""
        r = cost.astype(theta.dtype)
        if tau:
            r = r + tau * finite.log_softmax_policy(theta, S, A)
        return r.reshape(-1), jnp.asarray(gamma, theta.dtype) ** jnp.arange(K)

    def gradient(theta: Theta, own: Own, batch: Trajectories) -> Theta:
        visited, pi = batch.visited, finite.softmax_policy(theta, S, A)
        plain = partial(weigh, weights)
        compiled = lambda *given: kernels.weigh(COMPILED.index(weights), *given)
        known = weights in COMPILED and theta.dtype in (jnp.float32, jnp.float64)
        total = _on_cpu(fast and known, compiled, plain, visited, *costs(theta))
        # A score is e_{s,a} - pi(.|s) in row s, so the weighted sum of scores needs only each pair's total weight.
        total = total.reshape(S, A) / visited.shape[-2]
        return (total - pi * total.sum(axis=1, keepdims=True)).reshape(-1)

    def log_prob(theta: Theta, batch: Trajectories) -> Float[Array, "B K"]:
        return finite.log_softmax_policy(theta, S, A).reshape(-1)[batch.visited]

    def credit(theta: Theta, own: Own, batch: Trajectories) -> Float[Array, "B K"]:
        r, discount = costs(theta)
        return weights(discount * r[batch.visited])

    def kl(theta: Theta, other: Theta, batch: Trajectories) -> Float[Array, "B K"]:
        log_pi, log_other = (finite.log_softmax_policy(x, S, A) for x in (theta, other))
        return jnp.sum(jnp.exp(log_pi) * (log_pi - log_other), axis=1)[batch.states]

    def entropy(theta: Theta, batch: Trajectories) -> Float[Array, "B K"]:
        log_pi = finite.log_softmax_policy(theta, S, A)
        return -jnp.sum(jnp.exp(log_pi) * log_pi, axis=1)[batch.states]

    def transitions(batch: Trajectories) -> Transitions:
        """K - 1 steps: the state after the last is not drawn."""
        s, a, yes = batch.states, batch.actions, jnp.ones(batch.visited[..., 1:].shape, bool)
        paid = jnp.asarray(cost)[s, a]
        return Transitions(s[..., :-1], a[..., :-1], paid[..., :-1], s[..., 1:], yes, ~yes)

    steps = lambda batch: batch.visited.size
    known = Oracle(lambda key: (), sample, gradient, steps)
    return known._replace(log_prob=log_prob, credit=credit, transitions=transitions, kl=kl, entropy=entropy, B=B)


def _on_cpu(there: bool, compiled: Callable[..., Array], plain: Callable[..., Array], *given: Any) -> Array:
    """The compiled loop on CPUs, the plain one elsewhere; where there is no elsewhere, it is not traced for nothing."""
    if not there:
        return plain(*given)
    return compiled(*given) if {*backends()} == {"cpu"} else lax.platform_dependent(*given, cpu=compiled, default=plain)


def reinforce(model: DrawTables, cost: Float[Array, "S A"], gamma: float, B: int, K: int, tau: float = 0.0) -> Oracle:
    """Eq. (5) to the letter, averaged over B trajectories: (sum_t gamma^t r_t) (sum_k grad log pi(a_k|s_k))."""
    return _oracle(model, cost, gamma, tau, B, K, whole)


def gpomdp(
    model: DrawTables,
    cost: Float[Array, "S A"],
    gamma: float,
    B: int,
    K: int,
    tau: float = 0.0,
    baseline: Literal["none", "leave-one-out"] = "none",
) -> Oracle:
    """The causal form, sum_k grad log pi(a_k|s_k) (sum_{t>=k} gamma^t r_t - b_k), with the mean of Eq. (5).

    The leave-one-out baseline b_k of a trajectory is the mean of sum_{t>=k} gamma^t r_t over the B - 1 others, which is
    independent of its own scores; the whole batch's mean is not, and would shrink the gradient by (B-1)/B.
    """
    return _oracle(model, cost, gamma, tau, B, K, to_go if baseline == "none" else leave_one_out)
