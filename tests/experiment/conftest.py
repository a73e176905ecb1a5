"""Runs are made in folders of their own, and one that was never stopped is made once."""

import tomllib
from dataclasses import replace
from functools import cache

import pytest

import fastfedpg
from fastfedpg import Config
from fastfedpg.experiment import plan
from fastfedpg.experiment import recorded_run as run
from fastfedpg.problems import PROBLEMS
from stopped_runs import CONFIG, numbers

plan_once = cache(lambda toml: plan(fastfedpg.experiment.config.from_mapping(tomllib.loads(toml))))


@pytest.fixture
def fresh_folder(tmp_path, monkeypatch):
    """A folder of its own; and runs of one configuration share what was compiled, where no file is part of it."""

    def remembered(config: Config, like=None):
        if config.problem not in PROBLEMS or config.theta0 is not None:
            return plan(config)
        plain = replace(config, checkpoint_rounds=None, checkpoint_seconds=30.0)
        return replace(plan_once(plain.to_toml()), config=config)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(run, "plan", remembered)


@pytest.fixture(scope="session")
def never_stopped(tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("never") / "stopped"
    fastfedpg.run(CONFIG, out)
    return numbers(out)
