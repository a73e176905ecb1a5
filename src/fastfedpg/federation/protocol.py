"""What a server and its agents say to each other: who they are, which exchange is meant, from which memory it starts.

An agent's memory after an exchange is named by a hash, of its name before and of what the server sent. A question names
the memory that it starts from, an answer (as its `link`) the one that it made: names that both ends know without saying
more. So an answer to an old question can't be taken for a new one, asked twice an agent finds its stored reply, and a
round that is begun again with other agents goes on from where its messages first differ.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import numpy as np

from fastfedpg.core import Algorithm, Problem
from fastfedpg.errors import InputError
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.copies import described
from fastfedpg.federation import wire
from fastfedpg.federation.terms import Keys
from fastfedpg.federation.wire import Form
from fastfedpg.runtime import counting_oracle, walk
from fastfedpg.runtime.pytrees import named

FORMAT = 2
EVALUATION: Form = {"J": ((), "float64"), "return": ((), "float64")}
"""What an agent that tells says about a policy: its expected discounted cost and reward there."""


class Talk(NamedTuple):
    """The messages of one exchange: their trees, with shapes and dtypes in the place of arrays, and their forms."""

    name: str
    down: Any
    up: Any

    @property
    def down_form(self) -> Form:
        """What the server sends."""
        return wire.form_of(dict(named("down", self.down)))

    @property
    def up_form(self) -> Form:
        """What an agent sends."""
        return wire.form_of(dict(named("up", self.up)))


def theta_of(problem: Problem) -> np.ndarray:
    """The start of a problem's one run."""
    theta = np.asarray(problem.theta0)
    return theta.reshape(-1, theta.shape[-1])[0]


def talks(algorithm: Algorithm, theta: Any, N: int) -> tuple[Talk, ...]:
    """The messages of every exchange; they depend on theta's shape and dtype alone."""
    silent = [e.name for e in algorithm.exchanges if not e.combine.sent]
    if len(silent) == len(algorithm.exchanges):
        raise InputError("this algorithm has no server: its agents say nothing to each other, so run each one alone")
    if silent:
        raise InputError(
            f"exchange '{silent[0]}' never leaves an agent, so the server can't take its part in it; deployed, each "
            "exchange must be sent"
        )
    return _talks(algorithm, np.shape(theta), jax.dtypes.canonicalize_dtype(theta.dtype), N)


@lru_cache(maxsize=64)
def _talks(algorithm: Algorithm, shape: tuple[int, ...], dtype: Any, N: int) -> tuple[Talk, ...]:
    steps = lambda theta: walk(algorithm, counting_oracle(lambda B: 1, theta.size), theta, N)[:2]
    ups, downs = jax.eval_shape(steps, jax.ShapeDtypeStruct(shape, dtype))
    return tuple(Talk(e.name, down, up) for e, down, up in zip(algorithm.exchanges, downs, ups, strict=True))


def largest(every: tuple[Talk, ...], theta: Any) -> int:
    """No message of this algorithm has more bytes."""
    forms = [form for talk in every for form in (talk.down_form, talk.up_form)]
    return wire.limit(*forms, {"theta": (np.shape(theta), str(theta.dtype))})


def declaration(config: Config, N: int, theta: Any, keys: Keys) -> dict[str, Any]:
    """What a server and its agents must have in common; each of them says it for itself."""
    algorithm = described(config).choice("algorithm")  # a file of weights by its sum, wherever it is
    return {
        "format": FORMAT,
        "version": version("fastfedpg"),
        "algorithm": algorithm.name,
        **algorithm.args,
        "algorithm_source": algorithm.source or None,
        "policy": _policy(config),
        "normalise": config.normalise,
        "tau": config.tau,
        "rounds": config.rounds,
        "agents": N,
        "parameters": int(np.shape(theta)[-1]),
        "dtype": str(theta.dtype),
        "keys": keys,
        "seed": config.first_seed if keys == "counter" else None,
    }


def _policy(config: Config) -> str | None:
    """The policy in words: one of the same length may be another one. None where only the problem itself knows it."""
    if config.policy is None:
        return None
    name, args, source = config.choice("policy")
    return f"{name}({', '.join(f'{k}={v}' for k, v in args.items())}){source and f' from {source}'}"


def differences(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """In which points two declarations differ, in words; nothing where they agree."""
    names = [*mine, *(name for name in theirs if name not in mine)]
    if theirs.get("policy") is None or mine.get("policy") is None:  # agents must agree among themselves all the same
        names = [name for name in names if name != "policy"]
    said = lambda table, name: "not set" if table.get(name) is None else table[name]
    pairs = [(name, said(theirs, name), said(mine, name)) for name in names if theirs.get(name) != mine.get(name)]
    return ", ".join(
        f"{wire.plain(name)} is {wire.plain(a)} there and {wire.plain(b)} here" for name, a, b in pairs[:20]
    )


def memory_hash(previous: str, round: int, exchange: str, arrays: Mapping[str, np.ndarray]) -> str:
    """The name of an agent's memory after an exchange: what it was before, and what the server sent."""
    digest = hashlib.sha256(json.dumps([previous, round, exchange]).encode())
    for name in sorted(arrays):
        x = arrays[name]
        digest.update(json.dumps([name, x.dtype.str, x.shape]).encode())
        digest.update(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)  # the array itself, and no copy of it
    return digest.hexdigest()


def beginning(run: str, agent: int, theta: np.ndarray) -> str:
    """The name of the memory that a run starts from at one of its agents."""
    return memory_hash(run, -1, f"agent {agent}", {"theta": theta})


def is_run(name: Any) -> bool:
    """Whether this can be a run's name: it becomes a file's."""
    return isinstance(name, str) and re.fullmatch("[0-9a-f]{32}", name) is not None


def hello(run: str, declared: Mapping[str, Any], theta: np.ndarray) -> bytes:
    """The first question, and the first after an interruption: who are you?"""
    return wire.pack({"ask": "hello", "run": run, "declared": dict(declared)}, {"theta": theta})


def question(run: str, round: int, exchange: str, base: str, previous: str, down: Mapping[str, np.ndarray]) -> bytes:
    """One exchange; `base` names the memory that the round starts from, `previous` the one that the exchange does."""
    about = {"ask": "exchange", "run": run, "round": round, "exchange": exchange, "base": base, "previous": previous}
    return wire.pack(about, down)


def evaluation(run: str, theta: np.ndarray, made: str | None = None) -> bytes:
    """What is this policy worth to you, or what you make of it with the memory of this name?"""
    return wire.pack({"ask": "evaluate", "run": run} | ({} if made is None else {"link": made}), {"theta": theta})


def reply(agent: int, made: str, up: Mapping[str, np.ndarray]) -> bytes:
    """An answer to an exchange, with the name of the memory that it made."""
    return wire.pack({"agent": agent, "link": made}, up)


def refusal(agent: int, words: str, again: bool = False) -> bytes:
    """No answer, and why; `again` says that asking again may help."""
    return wire.pack({"agent": agent, "refused": words, "again": again})
