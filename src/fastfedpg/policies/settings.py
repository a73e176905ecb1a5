"""A policy by its name and settings, which may be words from a command line."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fastfedpg.errors import InputError, unknown
from fastfedpg.policies import words
from fastfedpg.policies.makers import POLICIES
from fastfedpg.policies.policy import Policy
from fastfedpg.spaces import Box, Space, said

GAUSSIAN = ("log_std", "learn_std", "squash")
"""Settings that only actions of a Box have."""


def make(
    name: str, observations: Space, actions: Space, normalise: bool = False, settings: Mapping[str, Any] | None = None
) -> Policy:
    """The policy `name` of `POLICIES`; settings are values, or words for them.

    Example:
        >>> from fastfedpg.spaces import Discrete, box
        >>> make("mlp", box(4), Discrete(2), settings={"hidden": "8x8"}).size
        130
    """
    if name not in POLICIES:
        raise unknown("policy", name, POLICIES)
    known = takes(name)
    for setting in settings or {}:
        if setting not in known:
            raise unknown(f"setting of the policy {name}:", setting, known)
        if setting in GAUSSIAN and not isinstance(actions, Box):
            raise InputError(f"{setting} is for actions of a Box, and these are {said(actions)}; leave it out")
    read = {setting: READ[setting](setting, value) for setting, value in (settings or {}).items()}
    return POLICIES[name](observations, actions, normalise, **read)


def takes(name: str) -> dict[str, Any]:
    """The settings of a policy, with what they are unless given."""
    given = inspect.signature(POLICIES[name]).parameters.values()
    return {p.name: p.default for p in given if p.name not in ("observations", "actions", "normalise")}


READ: dict[str, Callable[[str, Any], Any]] = {
    "hidden": words.sizes,
    "features": words.whole,
    "bandwidth": words.number,
    "seed": words.whole,
    "log_std": words.number,
    "learn_std": words.switch,
    "squash": words.switch,
}
"""From what was given to what the makers take."""
