"""What a round of an algorithm costs, whatever it is run on: found by walking it with two sizes of each thing."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Evaluation, Oracle, Problem
from fastfedpg.runtime.walk import agents_alike, counting_oracle, in_form, message_sizes, walk

N = 5
SIZES, STEPS = (64, 128), (10, 20)
"""Of theta, and H: what is counted at both is taken for a line in between and beyond."""

OWN = 2**20
"""Trajectories of an estimate that asks for no number: so many that those asked for by a number can be told apart."""


class Line(NamedTuple):
    """slope x + offset."""

    slope: float
    offset: float

    def at(self, x: float) -> float:
        """Its value there."""
        return self.slope * x + self.offset

    def told(self, letter: str) -> str:
        """As in `2 d + 5`."""
        front = letter if self.slope == 1 else f"{self.slope:g} {letter}"
        if not self.slope or not self.offset:
            return front if self.slope else f"{self.offset:g}"
        return f"{front} {'+' if self.offset > 0 else '-'} {abs(self.offset):g}"


class Estimates(NamedTuple):
    """What an agent plays in a round: estimates of the oracle's own size, a line in H, and trajectories beside them."""

    own: Line
    trajectories: int


class Costs(NamedTuple):
    """An agent's messages in a round (lines in d), what it plays, and what it has in memory.

    `estimates` has one entry where agents are alike, and else the first agent's and the last's. `memory` are the
    numbers that it has, with the state of an agent that is its own server; `kept` are those that a round depends on:
    the others last no longer than one. `own_policies` says whether each agent has a policy of its own.
    """

    syncs: int
    up: Line
    down: Line
    estimates: tuple[Estimates, ...]
    memory: Line
    kept: Line
    own_policies: bool


def costs(make: Callable[[int], Algorithm]) -> Costs:
    """Walk the algorithm that is made for each H."""
    algorithm, made = make(STEPS[0]), [make(H) for H in STEPS]
    sizes, memories = [], []
    for d in SIZES:
        problem, theta = counted(d), np.zeros(d)
        sizes.append(message_sizes(problem, algorithm, theta))
        walked, _ = in_form(problem, algorithm, theta)
        state, _, memory, _ = walked.began
        memories.append((memory, state if algorithm.per_agent else ()))
    parts = [np.array([x.size for x in jax.tree.leaves(memory)], int) for memory in memories]
    known = _needed(algorithm, memories[0][0], SIZES[0])
    needed = np.array(known + [True] * (len(parts[0]) - len(known)), bool)
    few = jnp.zeros(2)
    who = (0,) if agents_alike(algorithm, few, N) else (0, N - 1)
    each = lambda i: [walk(a, _oracle(2), few, N, i).steps for a in made]
    played = jax.jit(lambda: [each(i) for i in who])()
    in_d = lambda found: _through(SIZES, found)
    return Costs(
        sizes[0].syncs,
        in_d([s.floats_up for s in sizes]),
        in_d([s.floats_down for s in sizes]),
        tuple(Estimates(_through(STEPS, [int(n) // OWN for n in counts]), int(counts[0]) % OWN) for counts in played),
        in_d([p.sum() for p in parts]),
        in_d([p[needed].sum() for p in parts]),
        algorithm.personalise is not None or walked.policy.ndim == 2,
    )


def counted(d: int) -> Problem:
    """N agents with d parameters, of whom nothing but their messages is of interest."""
    oracle = _oracle(d)
    return Problem(np.zeros((N, 1)), np.arange(N), lambda task: oracle, _worth_nothing, np.zeros(d))


def _worth_nothing(thetas: Any, seeds: Any = None) -> Evaluation:
    return Evaluation(0.0, 0.0, 0.0, 0.0)


def _oracle(d: int) -> Oracle:
    return counting_oracle(lambda n: OWN if n is None else n, d, OWN)


def _through(xs: tuple[int, int], ys: Any) -> Line:
    slope = float(ys[1] - ys[0]) / (xs[1] - xs[0])
    return Line(slope, float(ys[0]) - slope * xs[0])


def _needed(algorithm: Algorithm, began: Any, d: int) -> list[bool]:
    """Of each part of an agent's memory, whether what a round sends and leaves depends on how it was before."""
    leaves, form = jax.tree.flatten(began)

    def outcome(*leaves: Any) -> Any:
        opened = lambda *given: jax.tree.unflatten(form, leaves)
        walked = walk(algorithm._replace(open=opened), _asked_somewhere(d), jnp.zeros(d), N)
        return walked.ups, walked.ended[2]

    jaxpr = jax.make_jaxpr(outcome)(*leaves).jaxpr
    asked = {*map(id, jaxpr.outvars)}
    for equation in reversed(jaxpr.eqns):
        if asked & {*map(id, equation.outvars)}:
            asked |= {*map(id, equation.invars)}
    return [id(x) in asked for x in jaxpr.invars]


def _asked_somewhere(d: int) -> Oracle:
    """The counting oracle, whose answers depend on where they are asked for."""
    there = lambda theta, *given: theta[None, :1]
    gradient, kl = lambda theta, *given: theta, lambda theta, other, batch: (theta - other)[None, :1]
    return _oracle(d)._replace(gradient=gradient, log_prob=there, credit=there, kl=kl, entropy=there)
