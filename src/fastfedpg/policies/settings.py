"""A policy by its name and settings, which may be words from a command line."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from fastfedpg.errors import InputError
from fastfedpg.policies.policy import Policy
from fastfedpg.registry import is_own, told
from fastfedpg.spaces import Box, Space, said
from fastfedpg.tables import POLICIES

GAUSSIAN = ("log_std", "learn_std", "squash")
"""Settings that only actions of a Box have."""


def make(
    name: str, observations: Space, actions: Space, normalise: bool = False, settings: Mapping[str, Any] | None = None
) -> Policy:
    """The policy `name` of `POLICIES`, or a user's own; settings are values, or words for them.

    Examples:
        >>> from fastfedpg.spaces import Discrete, box
        >>> make("mlp", box(4), Discrete(2), settings={"hidden": "8x8"}).size
        130
    """
    maker, settings = POLICIES.resolve(name), settings or {}
    chosen = POLICIES.choose(name, settings)
    usual = takes(name)
    for setting in settings:
        if setting in GAUSSIAN and not isinstance(actions, Box) and chosen.args[setting] != usual[setting]:
            raise InputError(f"{setting} is for actions of a Box, and these are {said(actions)}; leave it out")
    with told(f"policy '{name}' can't be made") if is_own(name) else nullcontext():
        made = maker(observations, actions, normalise, **{setting: chosen.args[setting] for setting in settings})
    if not isinstance(made, Policy):
        raise InputError(f"policy '{name}' returns a {type(made).__name__}; it must return a fastfedpg.policies.Policy")
    return made


def takes(name: str) -> dict[str, Any]:
    """The settings of a policy, with what they are unless given."""
    return {k: p.default for k, p in POLICIES.describe(name).parameters.items()}
