"""What a round is made of, found by walking one agent through it: its messages, and the samples it takes."""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Combine, Oracle, Problem, Sums, Tabular, Task, Transitions, key_for, watch
from fastfedpg.errors import InputError
from fastfedpg.runtime.round import begun, combined, heard, reply, served
from fastfedpg.runtime.schedule import Schedule, participants_of

RACES = 1000
"""Of which it is counted who meets whom."""


class MessageSizes(NamedTuple):
    """What one agent sends (up) and is sent (down) in one round, from the messages' own shapes."""

    floats_up: float
    floats_down: float
    bytes_up: float
    bytes_down: float
    syncs: int


class Walked(NamedTuple):
    """One agent's messages up (as they travel) and down in the first round, what it takes and logs in every round.

    `began` and `ended` are the server's state, what is sent down, the agent's memory and what its oracle keeps.
    """

    ups: list[Any]
    downs: list[Any]
    steps: Any
    extra: dict[str, Any]
    policy: Any = ()
    began: tuple[Any, ...] = ()
    ended: tuple[Any, ...] = ()


def in_form(problem: Problem, algorithm: Algorithm, theta: Any) -> tuple[Walked, int]:
    """A walk in shapes and dtypes alone, and the bytes of the largest batch on the way; nothing is computed."""
    leaves, form = jax.tree.flatten(problem.tasks)
    one = tuple(jax.ShapeDtypeStruct(np.shape(x)[1:], jax.dtypes.canonicalize_dtype(x.dtype)) for x in leaves)
    start = jax.ShapeDtypeStruct(np.shape(theta), jax.dtypes.canonicalize_dtype(theta.dtype))
    return _in_form(algorithm, problem.oracle, form, one, start, problem.N, jax.dtypes.canonicalize_dtype(np.float64))


@lru_cache(maxsize=64)
def _in_form(
    algorithm: Algorithm,
    oracle: Callable[[Task], Oracle],
    form: Any,
    task: tuple[Any, ...],
    theta: Any,
    N: int,
    precision: Any,
) -> tuple[Walked, int]:
    played = [0]

    def sample(answer: Callable[..., Any], *given: Any) -> Any:
        batch, own = answer(*given)
        played.append(size_of(batch))
        return batch, own

    go = lambda theta, task: walk(algorithm, watch(oracle(jax.tree.unflatten(form, task)), sample=sample), theta, N)
    return jax.eval_shape(go, theta, task), max(played)


def size_of(tree: Any) -> int:
    """Bytes."""
    leaves = [x for x in jax.tree.leaves(tree) if hasattr(x, "dtype")]
    return sum(int(np.prod(x.shape)) * int(x.dtype.itemsize) for x in leaves)


def message_sizes(problem: Problem, algorithm: Algorithm, theta: Any, schedule: Schedule | None = None) -> MessageSizes:
    """One agent's messages in a round that it takes part in, added up; all agents take part unless a schedule says."""
    walked, _ = in_form(problem, algorithm, theta)
    every = [
        # Where each agent is its own server, what it hears are its neighbours' uploads.
        (_met(e.combine.of(problem.N), problem.N, schedule), up, up if e.combine.per_agent else down)
        for number, (e, up, down) in enumerate(zip(algorithm.exchanges, walked.ups, walked.downs, strict=True))
        if number >= algorithm.opening and e.combine.sent
    ]
    count = lambda tree: sum(x.size for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating))
    total = lambda of, which: sum(message[0] * of(message[which]) for message in every)
    return MessageSizes(total(count, 1), total(count, 2), total(size_of, 1), total(size_of, 2), len(every))


def _met(combine: Combine, N: int, schedule: Schedule | None) -> float:
    """How many others an agent that takes part in a round sends to, on average: a server, or neighbours who are there.

    Of m agents that are drawn at random each of the other N - 1 is there with probability (m - 1)/(N - 1). In turn
    they are the same ones after N rounds at the latest, and a race of unequal agents is run `RACES` times.
    """
    m = N if schedule is None or schedule.participants is None else schedule.participants
    if m == N or combine.present is None:
        return combine.degree
    assert schedule is not None
    if schedule.order == "random" or (schedule.order == "arrival" and schedule.speeds is None):
        return combine.degree * (m - 1) / (N - 1)
    rounds = np.arange(N // math.gcd(m, N) if schedule.order == "cyclic" else RACES)
    who = lambda t: participants_of(schedule.first_seed, t, N, m, schedule.order, schedule.speeds)
    return float(np.mean(combine.present(jax.vmap(who)(rounds))))


def samples_in_a_round(
    algorithm: Algorithm, of_estimate: Callable[[int | None], int], N: int = 1, d: int = 1, B: int = 0
) -> float:
    """What a round costs an agent on average, if an estimate with so many trajectories, or the oracle's B, does."""
    each = samples_of_each(algorithm, of_estimate, N, d, B)
    return sum(each) / len(each) if len(each) > 1 else each[0]


def samples_of_each(
    algorithm: Algorithm, of_estimate: Callable[[int | None], int], N: int = 1, d: int = 1, B: int = 0
) -> list[int]:
    """The same of every agent. Those that begin alike do alike, and one stands for all; otherwise all are asked."""
    oracle, theta = counting_oracle(of_estimate, d, B), jnp.zeros(d)
    every = range(1 if agents_alike(algorithm, theta, N) else N)
    # One program, of which only what adds up the steps is left.
    return [int(n) for n in jax.jit(lambda: [walk(algorithm, oracle, theta, N, i).steps for i in every])()]


def agents_alike(algorithm: Algorithm, theta: Any, N: int) -> bool:
    """Whether all agents begin with the same memory."""
    _, _, memory = algorithm.init(theta, N)
    return all(bool((x == x[:1]).all()) for x in map(np.asarray, jax.tree.leaves(memory)))


def counting_oracle(of_estimate: Callable[[int | None], int], d: int = 1, B: int = 0) -> Oracle:
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
        B=B,
        kl=lambda theta, other, batch: jnp.zeros((1, 1), theta.dtype),
        scale=lambda own: jnp.ones(()),
        rescaled=lambda own, scale: own,
        entropy=lambda theta, batch: jnp.zeros((1, 1), theta.dtype),
    )


def walk(algorithm: Algorithm, oracle: Oracle, theta: Any, N: int, i: int = 0) -> Walked:
    """One agent in the first round, whose messages are those of all N.

    Of N uploads like its own only the form of what they are combined to is found, and nothing is computed.
    """
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)
    state, down, memory = algorithm.init(theta, N)
    policy = algorithm.policy(state)
    key = key_for(0, 0, "", 0)
    memory, own = begun(algorithm, oracle, theta, jax.tree.map(lambda x: x[i], memory), key)
    if algorithm.per_agent:
        state, down = first(state), first(down)
    walked = Walked([], [], 0, {})
    began: tuple[Any, ...] = ()
    for number, e in enumerate(algorithm.exchanges):
        if number == algorithm.opening:
            began = state, down, memory, own
        memory, own, sent, info = reply(e, memory, own, down, oracle, key)
        steps = walked.steps + info.steps if number >= algorithm.opening else walked.steps
        walked = Walked([*walked.ups, sent], [*walked.downs, down], steps, {**walked.extra, **info.extra})
        every = jax.tree.map(lambda x: jax.ShapeDtypeStruct((N, *x.shape), x.dtype), heard(e, sent))
        form = jax.eval_shape(partial(combined, e, N), every, jnp.arange(N), key)
        seen = jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), form)
        state, down = served(e, 1.0, state, first(seen) if e.combine.per_agent else seen, key)
    return walked._replace(policy=policy, began=began, ended=(state, down, memory, own) if began else ())


PARTS = ("the server's state", "what is sent to the agents", "an agent's memory", "what an agent's oracle keeps")


def check_forms(name: str, problem: Problem, algorithm: Algorithm, theta: Any) -> None:
    """Refuse an algorithm whose round leaves what the next can't begin with, or whose policy is no theta."""
    walked, _ = in_form(problem, algorithm, theta)
    policy = jax.tree.leaves(walked.policy)
    wanted = ((*np.shape(theta),), (problem.N, *np.shape(theta)))
    if len(policy) != 1 or policy[0].shape not in wanted or policy[0].dtype.kind != "f":
        raise InputError(
            f"{name}: its policy is {_told(walked.policy)}; it must be theta, numbers of shape {wanted[0]}"
        )
    for what, before, after in zip(PARTS, walked.began, walked.ended, strict=False):
        if _form(before) != _form(after):
            raise InputError(
                f"{name}: {what}: {_told(before)} when a round begins, and {_told(after)} when it has ended; "
                "it must keep its form"
            )


def _form(tree: Any) -> tuple[Any, ...]:
    """Structure, shapes, and what kind of numbers; not how many bytes they have."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(x.shape, str(x.dtype).rstrip("0123456789")) for x in leaves]


def _told(tree: Any) -> str:
    words = [f"{x.dtype}{[*x.shape]}" for x in jax.tree.leaves(tree)]
    return ", ".join(words[:4]) + ", …" * (len(words) > 4) if words else "nothing"
