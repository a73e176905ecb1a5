"""What a round is made of, found by walking one agent through it: its messages, and the samples it takes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fastfedpg.core import Algorithm, Oracle, Problem, Sums, Tabular, Transitions, key_for
from fastfedpg.runtime.round import begun, combined, heard, reply, served


class MessageSizes(NamedTuple):
    """What one agent sends (up) and is sent (down) in one round, from the messages' own shapes."""

    floats_up: float
    floats_down: float
    bytes_up: float
    bytes_down: float
    syncs: int


def message_sizes(problem: Problem, algorithm: Algorithm, theta: Any) -> MessageSizes:
    """Trace one agent through a round and add up its messages; nothing is computed."""
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)
    one = lambda theta, tasks: walk(algorithm, problem.oracle(first(tasks)), theta, problem.N)
    ups, downs, _ = jax.eval_shape(one, theta, problem.tasks)
    every = [
        # Where each agent is its own server, what it hears are its neighbours' uploads.
        (e.combine.degree, up, up if e.combine.per_agent else down)
        for number, (e, up, down) in enumerate(zip(algorithm.exchanges, ups, downs, strict=True))
        if number >= algorithm.opening and e.combine.sent
    ]
    count = lambda tree: sum(x.size for x in jax.tree.leaves(tree))
    size = lambda tree: sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))
    total = lambda of, which: sum(message[0] * of(message[which]) for message in every)
    return MessageSizes(total(count, 1), total(count, 2), total(size, 1), total(size, 2), len(every))


def samples_in_a_round(algorithm: Algorithm, of_estimate: Callable[[int | None], int], N: int = 1) -> int:
    """What one agent's round costs, if an estimate with B trajectories (or the oracle's own number) costs so much."""
    return int(walk(algorithm, counting_oracle(of_estimate), jnp.zeros(1), N)[2])


def counting_oracle(of_estimate: Callable[[int | None], int], d: int = 1) -> Oracle:
    """An oracle that knows no environment: its gradients are zero, and an estimate costs so many steps.

    It stands in for every answer, with one trajectory of one step, in one state with d actions.
    """
    nothing = jnp.zeros((1, 1), jnp.int32)
    no = nothing == 1
    return Oracle(
        init=lambda key: (),
        sample=lambda theta, own, key, B: (of_estimate(B), own),
        gradient=lambda theta, own, batch: jnp.zeros_like(theta),
        steps=lambda batch: batch,
        observe=lambda own, key, o: (Sums(jnp.ones(()), jnp.zeros(o), jnp.zeros(o)), 0),
        log_prob=lambda theta, batch: jnp.zeros((1, 1), theta.dtype),
        credit=lambda theta, own, batch: jnp.zeros((1, 1), theta.dtype),
        tabular=lambda: Tabular(jnp.ones((1, d, 1)), jnp.zeros((1, d)), jnp.ones(1), 0.0),
        transitions=lambda batch: Transitions(nothing, nothing, jnp.zeros((1, 1)), nothing, no, no),
    )


def walk(algorithm: Algorithm, oracle: Oracle, theta: Any, N: int) -> tuple[list[Any], list[Any], Any]:
    """One agent's messages up and down in the first round, and the steps it takes in every round.

    Of N uploads like its own only the form of what they are combined to is found, and nothing is computed.
    """
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)
    state, down, memory = algorithm.init(theta, N)
    key = key_for(0, 0, "", 0)
    memory, own = begun(algorithm, oracle, theta, first(memory), key)
    if algorithm.per_agent:
        state, down = first(state), first(down)
    ups, downs = [], []
    steps: Any = 0
    for number, e in enumerate(algorithm.exchanges):
        memory, own, sent, info = reply(e, memory, own, down, oracle, key)
        up = heard(e, sent)
        steps = steps + info.steps if number >= algorithm.opening else steps
        ups.append(sent)
        downs.append(down)
        every = jax.tree.map(lambda x: jax.ShapeDtypeStruct((N, *x.shape), x.dtype), up)
        form = jax.eval_shape(partial(combined, e), every, jnp.arange(N), key)
        seen = jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), form)
        state, down = served(e, 1.0, state, first(seen) if e.combine.per_agent else seen, key)
    return ups, downs, steps
