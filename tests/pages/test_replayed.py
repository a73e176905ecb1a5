"""Policies over rounds: the run played again, and only shown if it ends where the run ended."""

import numpy as np
import pytest

from fastfedpg.experiment.config import from_toml
from fastfedpg.experiment.plan import plan
from fastfedpg.pages import recorded, replayed


@pytest.mark.parametrize("rounds", [1, 2, 7, 63, 64, 65, 1000, 123_457])
def test_the_first_and_the_last_are_among_the_chosen(rounds):
    every, some = replayed.chosen(rounds)
    assert (some[0], some[-1]) == (0, rounds)
    assert len(some) <= replayed.FRAMES
    assert all(t % every == 0 for t in some[:-1])
    assert -(-rounds // every) <= replayed.RECORDS


def test_a_replay_is_the_run_or_nothing(made):
    """The policies of a replay are those of the run itself, whose last one is in its folder; another's is refused."""
    cell = made / "fast_fedpg"
    theta = recorded.read(cell).recorded.theta[0]
    planned = plan(from_toml(cell / "config.toml"))
    found = replayed.replay(planned, 0, theta, lambda done: None)
    assert found.rounds == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(found.thetas[-1], theta)
    assert not found.thetas[0].any(), "where learning starts"
    moved = theta + np.eye(1, len(theta))[0] * 0.02  # one probability of five by about 0.02 p (1 - p)
    assert replayed.replay(planned, 0, moved, lambda done: None) is None
