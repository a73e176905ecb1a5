"""The tiny problem's programs are compiled once, and the command is run once on it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fastfedpg import problems
from fastfedpg.problems import TabularProblem
from fastfedpg.verify import agenda
from fastfedpg.verify.recording import estimates, gradients_at
from fastfedpg.verify.test_case import Subject
from tiny_subject import EFFECTS, FLAGS, LAWS, TINY, follow, heterogeneous, like, saved, told


@pytest.fixture(scope="session")
def subject() -> Subject:
    return Subject(problems.random(agents=3, S=3, A=2, gamma=0.5), **TINY, name="tiny.npz")


@pytest.fixture(scope="session")
def scaled(subject) -> Subject:
    """The same with rewards of -3 + 8 R, in [-3, 5]; costs are the same, and so is the pilot."""
    known = replace(subject.tabular, reward=-3 + 8 * subject.tabular.reward, reward_range=(-3.0, 5.0))
    return like(subject, known=known)


@pytest.fixture(scope="session")
def theta() -> np.ndarray:
    return np.random.default_rng(5).normal(size=6)


@pytest.fixture(scope="session")
def drawn(subject, theta):
    """Many estimates at theta, and their means."""
    means = gradients_at(subject.truncated, np.broadcast_to(theta, (1, 3, 1, 6)))[0, :, 0]
    return estimates(subject.watched_sampled, theta, 2**14), means


@pytest.fixture
def wrong_average(monkeypatch):
    """The average MDP, with one reward that is wrong by 1e-9; called to begin with it."""
    average = TabularProblem.average

    def wrong(known):
        right = average(known)
        reward = right.reward.copy()
        reward[0, 1, 0] += 1e-9
        return replace(right, reward=reward)

    return lambda: monkeypatch.setattr(TabularProblem, "average", wrong)


@pytest.fixture(scope="session")
def command_run(subject, tmp_path_factory):
    """The whole of it on a user's file, with little effort, and floors that follow a law in the place of long runs.

    Programs are those of `subject`, which the command's own must equal.
    """
    folder = tmp_path_factory.mktemp("verify")
    file, make = saved(folder / "tiny.npz", subject.tabular), agenda._subject

    def shared(settings, known, name, tau):
        own = make(settings, known, name, tau)
        np.testing.assert_array_equal(own.known.reward, subject.tabular.reward)
        assert replace(own, known=subject.known, make=subject.make) == subject
        return subject

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agenda, "QUICK", EFFECTS)
        patch.setattr(agenda, "_subject", shared)
        follow(patch, subject, LAWS["as (13) says"][0])
        heterogeneous(patch, subject, fast=0, average=2)
        patch.setenv("COLUMNS", "400")
        said = told("--quick", "--problem", file, *FLAGS, "--out", folder / "out")
    said.folder = folder / "out"
    said.file = json.loads((said.folder / "verify.json").read_text())
    return said


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    return tmp_path
