"""Why a message is not finite, where the problem can say: a theta without a value, or what is amiss in a batch."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from fastfedpg.core import Batch, Exchange, Own, Problem, Task, Theta, watch
from fastfedpg.runtime.round import reply


def explain(
    problem: Problem, e: Exchange, task: Task, memory: Any, own: Any, down: Any, key: Any, theta_bar: Any
) -> str:
    """The agent's half of the exchange once more, step by step, in words; nothing where the problem has none."""
    if problem.why_undefined is None and problem.explain_batch is None:
        return ""
    asked: list[np.ndarray] = []
    seen: list[str] = []

    def gradient(answer: Callable[..., Theta], theta: Theta, own: Own, batch: Batch) -> Theta:
        asked.append(np.asarray(theta))
        if (
            problem.explain_batch is not None
            and np.isfinite(asked[-1]).all()
            and (said := problem.explain_batch(batch))
        ):
            seen.append(said)
        return answer(theta, own, batch)

    watched = watch(problem.oracle(task), sample=_compiled, gradient=gradient)
    with jax.disable_jit():
        reply(e, memory, own, down, watched, key)
    if seen or problem.why_undefined is None:
        return next(iter(seen), "")
    moves, before = 0, np.asarray(theta_bar)
    for theta in asked:
        moves += not np.array_equal(theta, before)  # the first may be asked where the round began, or after a step
        before = theta
        if said := problem.why_undefined(theta):
            return f"after local step {moves} {said}" if moves else f"where the round began {said}"
    return ""


def _compiled(sample: Callable[..., Any], *given: Any) -> Any:
    """Playing as one program, where everything else goes step by step."""
    with jax.disable_jit(False):
        return jax.jit(sample, static_argnums=3)(*given)  # compiled once: it is one function for all calls


@contextmanager
def in_own_words(problem: Problem) -> Iterator[None]:
    """What an environment outside JAX has raised, in the place of what JAX makes of it; Ctrl-C there stays Ctrl-C."""
    try:
        yield
    except Exception as error:  # what a callback raises comes back as one or another of JAX's
        own = None if problem.host_error is None else problem.host_error()
        if own is not None:
            raise own from error
        if re.search(r"\nKeyboardInterrupt\b.*\s*$", str(error)):  # the last line of the callback's traceback
            raise KeyboardInterrupt from None  # it came while a callback was at work in this very thread
        raise


def explain_value(problem: Problem, theta: Any) -> str:
    """Why a policy (d,), or one of the agents' own (N, d), has no value."""
    if problem.why_undefined is None:
        return ""
    said = (problem.why_undefined(each) for each in np.reshape(theta, (-1, np.shape(theta)[-1])))
    return next((words for words in said if words), "")
