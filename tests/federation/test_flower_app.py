"""The app that a run ships to every node is where it is looked for, and names functions that are there."""

import tomllib
from importlib import import_module

from fastfedpg.federation.transport import superlink


def test_the_app_names_what_exists():
    table = tomllib.loads((superlink.APP / "pyproject.toml").read_text())
    for name in table["tool"]["flwr"]["app"]["components"].values():
        module, function = name.split(":")
        assert hasattr(import_module(module), function), name
