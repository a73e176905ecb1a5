"""A SuperLink for the tests that need one; Flower is imported where it is used, since it may not be installed."""

import logging

import pytest


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Keys of an authority, its SuperLink and N agents."""
    from fastfedpg.federation.transport import keys
    from sites import N

    folder = tmp_path_factory.mktemp("keys")
    keys.make_authority(folder)
    keys.make_certificate(folder, folder, ["127.0.0.1"])
    keys.make_secret(folder)
    for i in range(N):
        keys.make_node_key(folder / keys.node_name(i))
    return folder


@pytest.fixture
def link(authority, monkeypatch):
    """A SuperLink that looks often."""
    from fastfedpg.federation.transport import superlink
    from superlinks import Link

    monkeypatch.setattr(superlink, "PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(superlink, "LOOK_SECONDS", 0.1)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    there = Link(authority)
    yield there
    there.stop()
