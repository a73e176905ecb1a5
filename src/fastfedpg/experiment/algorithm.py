"""The algorithm that a configuration names, with its settings."""

from typing import Any

from fastfedpg import optimisers
from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.algorithms.wrappers.normalised import normalised
from fastfedpg.core import Algorithm
from fastfedpg.errors import InputError, unknown
from fastfedpg.experiment.config import Config
from fastfedpg.policies import Policy
from fastfedpg.problems import AnyProblem


def algorithm_of(config: Config) -> Algorithm:
    """The algorithm that a configuration names, with its settings."""
    config.check()
    if config.algorithm not in ALGORITHMS:
        raise unknown("algorithm", config.algorithm, ALGORITHMS)
    factory = ALGORITHMS[config.algorithm]
    lacking = config.lacked_by(factory)
    if lacking:
        raise InputError(
            f"algorithm '{config.algorithm}' needs {', '.join(lacking)}, which is no setting: "
            "give the parameter a default, or add a field of that name to Config"
        )
    try:
        return factory(**algorithm_settings(config))
    except ValueError as error:
        raise InputError(f"algorithm '{config.algorithm}': {error}") from None


def algorithm_settings(config: Config) -> dict[str, Any]:
    """The settings of the algorithm that a configuration names; an optimiser by itself, and not by its name."""
    given = config.taken_by(ALGORITHMS[config.algorithm])
    return {**given, **({"optimiser": optimisers.make(config.optimiser)} if "optimiser" in given else {})}


def opened(config: Config, algorithm: Algorithm, known: AnyProblem | None, policy: Policy | None) -> Algorithm:
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
    return normalised(algorithm, known.sizes["observation"], policy.normalise)


def local_steps(config: Config) -> int:
    """H as the algorithm uses it."""
    return int(config.taken_by(ALGORITHMS[config.algorithm]).get("H", 1))
