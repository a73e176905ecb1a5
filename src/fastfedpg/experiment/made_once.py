"""What a configuration names is made once in a process: the same objects are the same program, which is compiled once.

Of ours alone. What a user wrote, what is read from a file, and environments in other processes are made anew each time,
since they may have changed or may have ended.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from fastfedpg import graph_files
from fastfedpg.experiment.config import Config
from fastfedpg.registry import is_own

T = TypeVar("T")

MOST, MEMORY = 64, 2**30
"""Of each kind, and the bytes of their arrays; programs that were compiled hold what they were made of in any case."""

_KEPT: dict[str, dict[Any, Any]] = {"problem": {}, "built": {}, "algorithm": {}, "maker": {}}


def once(kind: str, key: Any, make: Callable[[], T]) -> T:
    """What was made for a key, or what is made now; without a key always the latter. The oldest are forgotten."""
    kept = _KEPT[kind]
    if key is None:
        return make()
    if key not in kept:
        kept[key] = make()
        while len(kept) > MOST or (len(kept) > 1 and sum(map(_bytes, kept.values())) > MEMORY):
            old = next(iter(kept))
            del kept[old]
            for built in [key for key in _KEPT["built"] if kind == "problem" and key[0] == old]:
                del _KEPT["built"][built]  # it holds the problem
    found: T = kept[key]
    return found


def _bytes(made: Any) -> int:
    """Of the arrays in a problem's fields."""
    return sum(getattr(x, "nbytes", 0) for x in jax.tree.leaves(getattr(made, "__dict__", made)))


def forget() -> None:
    """Everything is made anew from now on."""
    for kept in _KEPT.values():
        kept.clear()


def algorithm_key(config: Config, args: Mapping[str, Any]) -> Any:
    """All that an algorithm is made of; None where it is a user's own, has weights from a file or is being traced."""
    if is_own(config.algorithm) or is_own(config.oracle):
        return None
    if any(isinstance(x, jax.core.Tracer) or graph_files.is_file(x) for x in args.values()):
        return None
    decay = (config.decay, config.rounds) if config.decay else None
    asked = (config.keep_optimiser, config.clip_norm, decay)
    return config.algorithm, repr(sorted(args.items())), asked, _oracle(config), _precision()


def problem_key(config: Config, ours: bool) -> Any:
    """All that a problem is made of; None where it is not one of ours by its name."""
    return (config.problem, repr(sorted(config.problem_args.items())), config.agents) if ours else None


def built_key(config: Config, problem: Any) -> Any:
    """All that a problem of that key is made of together with its oracle and its policy."""
    if problem is None or config.context is not None or is_own(config.oracle) or is_own(config.policy or ""):
        return None
    policy = config.policy, repr(sorted(config.policy_args.items())), config.normalise
    worth = config.evaluation_episodes, config.evaluate_by
    return problem, _oracle(config), config.tau, policy, worth, _precision()


def _oracle(config: Config) -> tuple[str, str]:
    return config.oracle, repr(sorted(config.choice("oracle").args.items()))


def _precision() -> Any:
    """What a float is at the moment: arrays that are made on the way have it."""
    return jax.dtypes.canonicalize_dtype(np.float64)
