"""The types that everything else is built from: what an algorithm is, and what a problem is.

A federated algorithm is a value: a NamedTuple of pure functions, closed over its hyper-parameters. A communication
round is a tuple of exchanges; in each, every agent answers one question and the server sees only the combined answer.
Nothing here knows how it is run: `runtime.loop` and `runtime.simulate` both take these values as they are.

What an agent may ask is in `answers`.
"""

import zlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fastfedpg.answers import Batch, Oracle, Own, RngKey, Scalar, Theta
from fastfedpg.messages import Codec, Combine, mean

PerAgent: TypeAlias = Float[Array, "N d"]
"""One such vector for each agent."""

# Pytrees of arrays whose shape is the algorithm's own business.
State: TypeAlias = Any  # what the server carries from one exchange to the next
Memory: TypeAlias = Any  # what the algorithm keeps at one agent
Up: TypeAlias = Any  # one agent's message to the server, or their combination
Down: TypeAlias = Any  # the server's message to the agents
Task: TypeAlias = Any  # what differs between agents


class Info(NamedTuple):
    """What an agent may log about one exchange; it is never sent.

    `drift` is agent i's part of Lemma 1's sum, sum_l ||theta_{i,l} - theta_bar||^2 over the local steps. `extra` are
    any other scalars by name: each becomes a metric, its mean over the agents that took part in the last round, by the
    last exchange that says it.
    """

    drift: Scalar = 0.0
    steps: Scalar = 0
    extra: dict[str, Scalar] = {}  # noqa: RUF012


class Exchange(NamedTuple):
    """One question and answer between the server and every agent.

    - `name` is part of every random key of the exchange: methods whose exchanges share a name share random numbers.
    - `agent(memory, own, down, oracle, key) -> (memory, own, up, info)` runs where the data is.
    - `server(state, up, share, key) -> (state, down)` sees the combined upload only; share = |S|/N, the part of the
      agents that took part.
    """

    name: str
    agent: Callable[[Memory, Own, Down, Oracle, RngKey], tuple[Memory, Own, Up, Info]]
    server: Callable[[State, Up, float, RngKey], tuple[State, Down]]
    combine: Combine = mean
    codec: Codec | None = None


class Turns(NamedTuple):
    """So many agents take part in each of an algorithm's rounds, and in this order unless another is asked for."""

    participants: int
    order: Literal["random", "cyclic", "arrival"]


class Algorithm(NamedTuple):
    """A federated algorithm: `init(theta, N) -> (state, down, memory)`, then `exchanges`, in order, in every round.

    The memory has a leading axis N, and each agent is given its slice. `policy(state)` is what is evaluated and saved:
    theta, or one theta per agent. The first `opening` exchanges are those of the first round alone. `needs` names the
    answers that it asks of an oracle beyond the first four; of "one or another", either will do.

    `open(memory, theta, oracle, own, key)` is what an agent has in the place of its slice, where that depends on its
    oracle: room for a batch that outlives an exchange (`room_for_a_batch`). It makes room, and plays nothing.
    `personalise(theta, memory)` is what an agent makes of the policy with its own memory; then that is what is
    evaluated and saved, one theta per agent. `everybody` says, where a round must have all agents, why, and what else
    can be done: those are the words with which fewer are refused. `turns` says who takes part in a round, where that is
    not for others to choose. `draws` says whether it draws numbers of its own, so that seeds differ with exact
    gradients too.
    """

    init: Callable[[Theta, int], tuple[State, Down, Memory]]
    exchanges: tuple[Exchange, ...]
    policy: Callable[[State], Float[Array, "*agents d"]]
    opening: int = 0
    needs: tuple[str, ...] = ()
    open: Callable[[Memory, Theta, Oracle, Own, RngKey], Memory] | None = None
    personalise: Callable[[Theta, Memory], Theta] | None = None
    everybody: str = ""
    turns: Turns | None = None
    draws: bool = False

    def in_round(self, t: int) -> tuple[Exchange, ...]:
        """The exchanges of round t, counted from 0."""
        return self.exchanges if t == 0 else self.exchanges[self.opening :]

    @property
    def per_agent(self) -> bool:
        """Whether every agent is its own server."""
        return any(e.combine.per_agent for e in self.exchanges)


class Evaluation(NamedTuple):
    """What a policy is worth, in the user's units; arrays have one leading axis for the policies evaluated."""

    J: Any  # the objective, a cost: Eq. (3), plus entropy if any
    gap: Any  # J - J*, or NaN where J* is not defined
    grad_norm_sq: Any  # ||grad J||^2
    returns: Any  # (…, N): each agent's expected discounted reward; in environments its mean return of an episode
    by_mode: Any = None  # (…, N): the same of the policy that does what is likeliest, where that is shown beside it


class Evaluate(Protocol):
    """What policies are worth: thetas (runs, d), or (runs, N, d), and the training seed of each.

    Where nothing is known exactly, a seed has episodes of its own; without seeds they are those of seed 0.
    """

    def __call__(self, thetas: Any, seeds: Any = None) -> Evaluation:
        """One row for each run."""
        ...


class Problem(NamedTuple):
    """N agents' tasks with one kind of oracle: all that a runtime needs to know.

    `tasks` is a pytree with leading axis N, `ids` the agents' numbers in the random keys, `oracle(task)` builds an
    agent's oracle, `evaluate(thetas, seeds)` is the edge where costs become rewards again. Where not every theta has a
    value, `why_undefined(theta)` says in words why this one has none, and nothing where it has one;
    `explain_batch(batch)` does so for what was played. `host_error()` is what an environment outside JAX has raised, of
    which JAX says little; `release()` ends its processes until it is played again. Where seeds start from policies of
    their own, `start(seed)` is a seed's, and theta0 that of seed 0.
    """

    tasks: Task
    ids: Int[Any, " N"]
    oracle: Callable[[Task], Oracle]
    evaluate: Evaluate
    theta0: Any
    why_undefined: Callable[[Any], str] | None = None
    explain_batch: Callable[[Batch], str] | None = None
    host_error: Callable[[], Exception | None] | None = None
    release: Callable[[], None] | None = None
    start: Callable[[int], Any] | None = None

    @property
    def N(self) -> int:
        """The number of agents."""
        return len(self.ids)


def key_for(seed: Scalar, round: Scalar, name: str, agent: Scalar | None = None) -> RngKey:
    """The random key of one agent (or, without one, of the server) in one exchange of one round.

    Keys are counted, never threaded through a loop: the same run in a loop, under vmap, in eight processes, or a
    round that is computed again, draws the same numbers.
    """
    label = zlib.crc32((name if agent is not None else name + "@server").encode())
    return _folded(np.int64(seed) if isinstance(seed, int) else seed, round, np.uint32(label), agent)


@jax.jit
def _folded(seed: Scalar, round: Scalar, label: Any, agent: Scalar | None) -> RngKey:
    """One program for all names: where it stands alone, as in the loop, its four parts would take 30 times as long."""
    key = jax.random.key(seed, impl="threefry2x32")
    key = jax.random.fold_in(jax.random.fold_in(key, round), label)
    return key if agent is None else jax.random.fold_in(key, agent)


def count_dtype() -> Any:
    """int64 where JAX's 64-bit mode is on: counts of environment steps pass 2^31 sooner than one thinks."""
    return jax.dtypes.canonicalize_dtype(jnp.int64)


def squared_norm(x: Float[Array, " d"]) -> Float[Array, ""]:
    """||x||^2."""
    return jnp.sum(x * x)
