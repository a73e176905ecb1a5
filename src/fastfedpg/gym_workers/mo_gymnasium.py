"""mo-gymnasium's environments: agents that share everything but how they weigh the numbers of a vector reward."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from fastfedpg.envs.environments import Environments
from fastfedpg.errors import InputError, missing_extra
from fastfedpg.gym_workers import make_env
from fastfedpg.gym_workers.adapter import check_agents, environments, meant, specification

WEIGHTS = "rows of numbers, one for each agent, such as [[1, 0], [0.5, 0.5]]"


def mo_environments(
    name: str,
    weights: Sequence[Sequence[float]] | str | None = None,
    agents: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **given: Any,
) -> Environments:
    """N agents in an environment of mo-gymnasium, agent i with the reward r_i = w_i . r.

    Args:
        name: its id, such as "mo-lunar-lander-v3".
        weights: w, a row for each agent; without it the rows are `fastfedpg.gym_workers.weighted.share(i, N, m)`.
        agents: N, where there are no weights to count; 1 unless given.
        arguments: of the environment's own.
        given: see `fastfedpg.gym_workers.adapter.environments`.
    """
    try:
        import_module("mo_gymnasium")
    except ImportError as error:  # itself, or what it needs
        raise missing_extra(f"mo:{name}", f"mo-gymnasium ({error})", "mo") from None
    from fastfedpg.gym_workers import weighted

    check_agents(agents)
    if weights is None:
        N = 1 if agents is None else agents
        rewards = [partial(weighted.shared_out, i=i, N=N) for i in range(N)]
    else:
        rewards = [partial(weighted.given, weights=row) for row in rows(weights, agents)]
    spec = specification(f"mo_gymnasium:{name}")
    made = partial(make_env.made_quietly, spec, {k: meant(v) for k, v in (arguments or {}).items()})
    return environments(made, rewards, **{"name": f"mo:{name}", **given})


def rows(weights: Any, agents: int | None, m: int | None = None) -> list[tuple[float, ...]]:
    """Weights as rows of m numbers, from rows or from words for them, with what is wrong in words."""
    read = meant(weights)
    try:
        found = [tuple(float(x) for x in row) for row in read]
        if any(isinstance(row, str) for row in read):
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(f"weights is {weights!r}; it must be {WEIGHTS}") from None
    if not found:
        raise InputError(f"weights is empty; it must be {WEIGHTS}")
    if agents is not None and agents != len(found):
        raise InputError(f"{len(found)} rows of weights for agents = {agents}; give one for each, or leave agents out")
    for i, row in enumerate(found):
        said = f"the weights of agent {i} are {list(row)}"
        if len(row) != (m or len(found[0])):
            right = f"{m}" if m else f"{len(found[0])}, as those of agent 0"
            raise InputError(f"{said}; they must be {right}")
        if not all(map(math.isfinite, row)):
            raise InputError(f"{said}; they must be finite")
        if not any(row):
            raise InputError(f"{said}; one of them must differ from 0, or there is nothing to want")
    return found
