"""The algorithm that a configuration names, with its settings."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp

from fastfedpg import optimisers
from fastfedpg.algorithms.wrappers.lasting import lasting
from fastfedpg.algorithms.wrappers.normalised import normalised
from fastfedpg.algorithms.wrappers.scaled import scaled
from fastfedpg.core import Algorithm
from fastfedpg.errors import InputError, text_of
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.made_once import algorithm_key, once
from fastfedpg.policies import Policy
from fastfedpg.problems import AnyProblem
from fastfedpg.registry import Choice, told
from fastfedpg.runtime import Schedule
from fastfedpg.tables import ALGORITHMS


def algorithm_of(config: Config, **other: Any) -> Algorithm:
    """The algorithm that a configuration names, with its settings, perhaps with other arguments."""
    config.check()
    chosen = config.choice("algorithm")
    args = {**chosen.args, **other}
    return once("algorithm", algorithm_key(config, args), lambda: _made(config, chosen, other))


def _made(config: Config, chosen: Choice, other: dict[str, Any]) -> Algorithm:
    args = {**chosen.args, **other}
    local = optimiser_of(config, args.get("optimiser"))
    if isinstance(args.get("server"), str):
        other = {**other, "server": optimisers.make(args["server"])}
    made = make(chosen, **other, **({} if local is None else {"optimiser": local}))
    if config.keep_optimiser and "H" in args:
        made = lasting(made, local(args["eta"]))
    return scaled(made) if config.oracle in SCALED and config.choice("oracle").args["scaled"] else made


SCALED = ("ppo", "trpo")
"""Oracles whose advantages have one scale for all agents."""


def optimiser_of(config: Config, name: Any) -> Any:
    """The optimiser with what is asked of it; None where the algorithm has none. Without H it is the server's."""
    asked = [x for x in ("keep_optimiser", "clip_norm", "decay") if getattr(config, x)]
    if not isinstance(name, str):
        if asked:
            raise InputError(f"{asked[0]}: algorithm {config.algorithm} has no local optimiser; leave it out")
        return None
    if config.oracle == "trpo" and name != "sgd":
        raise InputError(
            f"optimiser {name}: oracle trpo says itself how long a step is; take sgd, with eta = 1 or less"
        )
    if config.decay and not config.keep_optimiser and "H" in config.choice("algorithm").args:
        raise InputError("decay: an optimiser that starts afresh in every round counts no rounds; add --keep-optimiser")
    return optimisers.make(name, config.clip_norm, config.decay, config.rounds * steps_in_a_round(config))


def steps_in_a_round(config: Config) -> int:
    """How many steps an agent's optimiser takes in a round."""
    args = config.choice("oracle").args
    return local_steps(config) * args.get("epochs", 1) * args.get("minibatches", 1)


def make(chosen: Choice, **other: Any) -> Algorithm:
    """The algorithm that is chosen, perhaps with other arguments; optimisers by themselves, and not by their names."""
    args = {**chosen.args, **other}
    for name in ("optimiser", "server"):
        if isinstance(args.get(name), str):
            args[name] = optimisers.make(args[name])
    with told(f"algorithm '{chosen.name}'"):
        try:
            made = ALGORITHMS.resolve(chosen.name)(**args)
        except ValueError as error:  # a setting that can't be: it says what is wrong
            if isinstance(error, InputError):
                raise
            raise InputError(f"algorithm '{chosen.name}': {text_of(error)}") from None
    if not isinstance(made, Algorithm):
        if inspect.iscoroutine(made):
            made.close()  # or Python complains that nobody awaited it
        what = type(made).__name__
        raise InputError(f"algorithm '{chosen.name}' returns a {what}; it must return a fastfedpg.Algorithm")
    return made


def with_opening(config: Config, algorithm: Algorithm, known: AnyProblem | None, policy: Policy | None) -> Algorithm:
    """The algorithm, with an opening that measures observations if the configuration asks for it."""
    if not config.normalise:
        return algorithm
    if known is None:
        raise InputError(
            "normalise needs to know what an observation is, and the problem is private: give the server one with the "
            "same spaces, such as gym:ID; what the agents play remains theirs"
        )
    if config.theta0 is not None:
        raise InputError(
            "normalise measures observations before the first round, and theta0 may hold measured ones already: give "
            "one or the other"
        )
    if algorithm.per_agent and config.participants is not None:
        raise InputError(
            f"normalise with algorithm {config.algorithm}: who is not in the first round would never measure its "
            "observations; leave participants out"
        )
    if not known.played or policy is None or policy.normalise is None:
        raise InputError(f"normalise is for observations in environments; problem '{known.name}' has none to measure")
    context: Any = getattr(known, "context", None)
    columns = 0 if context is None else context.shape[1]
    return normalised(algorithm, known.sizes["observation"] - columns, partial(_padded, policy.normalise, columns))


def _padded(normalise: Callable[..., Any], columns: int, theta: Any, mean: Any, std: Any) -> Any:
    """A policy's `normalise`, given the moments of what an environment shows; a context stays as it is."""
    more = lambda x, value: jnp.concatenate([x, jnp.full(columns, value, x.dtype)])
    return normalise(theta, more(mean, 0), more(std, 1))


def with_turns(config: Config, algorithm: Algorithm) -> Config:
    """The configuration with the algorithm's own participants and their order, where it has some and none are given."""
    if algorithm.turns is None:
        return config
    settled = Schedule(config.rounds, participants=config.participants, order=config.order).settled(algorithm)
    return config.but(participants=settled.participants, order=settled.order)


def local_steps(config: Config) -> int:
    """H as the algorithm uses it."""
    return int(config.choice("algorithm").args.get("H", 1))
