"""Policies of one length may be different ones: a server and its sites compare what they are, and not only how long."""

import numpy as np
import pytest

from fastfedpg import Config, InputError
from fastfedpg.federation import protocol, site
from fastfedpg.federation.agent import Agent
from fastfedpg.federation.roster import Roster
from grid import engine_of, grid_of

PLAYED = {"problem": "compromise", "oracle": "gpomdp", "B": 2, "K": 3, "agents": 2}


def test_a_declaration_has_the_policy_with_its_settings():
    said = lambda **other: site.build(Config(**PLAYED, **other), 0).declared
    one, two = said(policy="table"), said(policy="linear")
    assert one["parameters"] == two["parameters"], "one state: both have a number for each action"
    assert protocol.differences(one, two) == (
        "policy is table(log_std=0.0, learn_std=True, squash=False) there and "
        "linear(log_std=0.0, learn_std=True, squash=False) here"
    )
    assert protocol.differences(one, said(policy="table")) == ""


def test_normalise_is_compared():
    one, two = ({**site.build(Config(**PLAYED, policy="table"), 0).declared, "normalise": x} for x in (True, False))
    assert protocol.differences(one, two) == "normalise is True there and False here"


def test_where_the_server_knows_none_the_agents_must_agree(tmp_path):
    """The server's problem is private; two sites have policies of one length that are not the same."""
    agents = [
        Agent(site.build(Config(**PLAYED, policy=policy), i), tmp_path / str(i))
        for i, policy in enumerate(("table", "linear"))
    ]
    said = {**agents[0].site.declared, "policy": None}
    theta = np.zeros(said["parameters"])
    with grid_of(agents) as grid:
        roster = Roster(engine_of(grid), "5" * 32, said, 2, 1.0, lambda words: None)
        with pytest.raises(InputError, match="does not fit the others: policy is"):
            roster.enlist(range(2), 2, theta)
        roster.close()
