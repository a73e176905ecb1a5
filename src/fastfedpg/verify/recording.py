"""Rounds of an algorithm, as it is, in many replicas: which points its oracles were asked at, and what they said."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fastfedpg.algorithms.fast_fedpg import fast_fedpg
from fastfedpg.core import Algorithm, Batch, Oracle, Own, Problem, RngKey, Task, Theta
from fastfedpg.runtime import Schedule, simulate_records
from fastfedpg.verify.listening import counted

AT_ONCE = 256
"""Gradients that are computed together."""
BLOCK = 1024
"""Points of each agent between two words about how far it is."""


class Seen(NamedTuple):
    """What an oracle keeps beside its own: where it was asked, and its answers."""

    own: Own
    thetas: Any  # (calls, d)
    answers: Any  # (calls, d)
    calls: Any


def recording(problem: Problem, calls: int) -> Problem:
    """The same problem with oracles that remember; an agent asks at most `calls` times."""
    theta0 = np.asarray(problem.theta0)
    nothing = np.zeros((calls, theta0.shape[-1]), theta0.dtype)

    def oracle(task: Task) -> Oracle:
        inner = problem.oracle(task)

        def init(key: RngKey) -> Seen:
            return Seen(inner.init(key), jnp.asarray(nothing), jnp.asarray(nothing), jnp.zeros((), jnp.int32))

        def sample(theta: Theta, seen: Seen, key: RngKey, B: int | None) -> tuple[Batch, Seen]:
            batch, own = inner.sample(theta, seen.own, key, B)
            answer = inner.gradient(theta, own, batch)
            put = lambda all, one: all.at[seen.calls].set(one)
            seen = Seen(own, put(seen.thetas, theta), put(seen.answers, answer), seen.calls + 1)
            return (batch, answer), seen

        return Oracle(init, sample, lambda theta, seen, batch: batch[1], lambda batch: inner.steps(batch[0]), B=inner.B)

    return problem._replace(oracle=oracle)


class Replicas(NamedTuple):
    """One round from theta_bar, R times; the last H questions of an agent are its local steps."""

    theta_bar: np.ndarray  # (R, d)
    iterates: np.ndarray  # (R, N, H, d)
    answers: np.ndarray  # (R, N, H, d)
    first: np.ndarray  # (R, N, d): the answer at theta_bar that was sent, where one was
    end: np.ndarray  # (R, d)

    @property
    def drift(self) -> np.ndarray:
        """||theta_{i,l} - theta_bar||^2: (R, N, H)."""
        return np.sum((self.iterates - self.theta_bar[:, None, None]) ** 2, axis=-1)


class Recorded(NamedTuple):
    """Some rounds of an algorithm, each as Replicas, and the environment steps of all agents in each of them."""

    rounds: list[Replicas]
    steps: list[np.ndarray]  # (R,)


def recorded(
    watched: Problem,
    make: Callable[[Any], Algorithm],
    eta: float,
    theta_bar: Any,
    H: int,
    replicas: int,
    first_seed: int,
    rounds: int,
) -> Recorded:
    """Run an algorithm's own exchanges with a `recording` problem; theta_bar is (d,), or (R, d) for each replica.

    Called again with the same `watched` and `make` it compiles nothing.
    """
    kept: list[Seen] = []
    schedule = Schedule(rounds, replicas, theta0=np.asarray(theta_bar, np.float64), first_seed=first_seed)
    hear = lambda done, now: kept.append(now().own)
    records = list(simulate_records(watched, make, schedule, hear, sweep=[eta]))
    seen = jax.tree.map(np.asarray, kept[-1])
    calls = int(seen.calls.flat[0]) // rounds
    found = []
    for t in range(rounds):
        first, last = t * calls, (t + 1) * calls
        thetas, answers = seen.thetas[:, :, last - H : last], seen.answers[:, :, last - H : last]
        start, end = (np.asarray(records[k].theta) for k in (t, t + 1))
        found.append(Replicas(start, thetas, answers, seen.answers[:, :, first], end))
    counts = np.stack([record.env_steps for record in records])
    return Recorded(found, list(np.diff(counts, axis=0)))


def one_round(
    watched: Problem,
    make: Callable[[Any], Algorithm],
    eta: float,
    theta_bar: Any,
    H: int,
    replicas: int,
    first_seed: int = 0,
) -> Replicas:
    """`recorded`, the first round alone."""
    return recorded(watched, make, eta, theta_bar, H, replicas, first_seed, rounds=1).rounds[0]


def single_step(eta: float) -> Algorithm:
    """A round with H = 1, in which every agent is asked twice at theta_bar."""
    return fast_fedpg(eta, 1)


def estimates(watched: Problem, theta: Any, samples: int, first_seed: int = 0) -> np.ndarray:
    """Independent answers of every agent at one theta: (samples, N, d), two from each replica of a round with H = 1."""
    seen = one_round(watched, single_step, 1.0, theta, 1, -(-samples // 2), first_seed)
    return np.concatenate([seen.first, seen.answers[:, :, 0]])


def gradients_at(problem: Problem, thetas: np.ndarray) -> np.ndarray:
    """Each agent's own answer at its own points (R, N, H, d)."""
    R, N, H, d = thetas.shape
    points = np.swapaxes(thetas, 0, 1).reshape(N, R * H, d)
    size = min(BLOCK, R * H)
    starts = range(0, R * H, size)
    blocks = [np.arange(start, start + size) % (R * H) for start in starts]  # all of one length: one program
    found = [np.asarray(_answers(problem.oracle, problem.tasks, points[:, block])) for block in counted(blocks)]
    return np.swapaxes(np.concatenate(found, axis=1)[:, : R * H].reshape(N, R, H, d), 0, 1)


@partial(jax.jit, static_argnums=0)
def _answers(oracle: Callable[[Task], Oracle], tasks: Any, points: Any) -> Any:
    def agent(given: tuple[Task, Any]) -> Any:
        task, own = given
        return lax.map(lambda theta: oracle(task).gradient(theta, (), ()), own, batch_size=AT_ONCE)

    return lax.map(agent, (tasks, points))
