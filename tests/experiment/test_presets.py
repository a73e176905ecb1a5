"""Presets: settings of ours, by name; flags beside them win, and each can be planned."""

import pytest

from commands import command
from fastfedpg.cli.parse_flags import base_file
from fastfedpg.comparison import cell_plans
from fastfedpg.comparison.spec import Comparison
from fastfedpg.errors import InputError
from fastfedpg.experiment import presets
from fastfedpg.experiment.config import Config, from_toml
from fastfedpg.experiment.plan import plan


@pytest.mark.parametrize("name", presets.known())
def test_every_preset_says_what_it_is_and_has_a_policy_that_learns(name):
    """Its minibatches divide a batch, which is looked at only when it is played."""
    config = from_toml(presets.find(name))
    args = config.choice("oracle").args
    assert config.oracle == "ppo"
    assert args["B"] * args["K"] % args["minibatches"] == 0
    assert config.keep_optimiser
    assert presets.said(name).endswith(".")


def test_a_preset_gives_the_defaults(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ("--B", 2, "--K", 4, "--minibatches", 1, "--epochs", 1, "--rounds", 1, "--evaluation-episodes", 1)
    assert command("run", "--preset", "pendulum", *small, "--out", "one") == 0
    stored = from_toml(tmp_path / "one" / "config.toml")
    assert (stored.problem, stored.oracle, stored.keep_optimiser, stored.rounds) == ("gym:Pendulum-v1", "ppo", True, 1)
    assert stored.get("B") == 2
    assert stored.get("optimiser") == "adam"


def test_what_is_refused():
    with pytest.raises(InputError, match="give one of them"):
        base_file(["--config", "a.toml", "--preset", "pendulum"])
    with pytest.raises(InputError, match=r"unknown preset 'pendulun'.*pendulum"):
        presets.find("pendulun")


def test_methods_with_ppo_are_compared_on_one_budget():
    """A batch is paid for once, however many steps it serves: with `reuse` both have as many rounds."""
    about = {"policy": "linear", "oracle": "ppo", "B": 2, "K": 4, "minibatches": 2, "H": 1, "optimiser": "adam"}
    settings = Config("point-mass", agents=2, keep_optimiser=True, rounds=2, **about)
    comparison = Comparison(settings, ("fast_fedpg,reuse=true", "fedavg_pg"))
    plans = cell_plans.give_rounds(comparison, cell_plans.plan_cells(comparison), lambda words: None)
    assert [planned.schedule.rounds for planned in plans.values()] == [2, 2]


def test_lanes_that_are_shorter_than_an_episode_are_noted():
    """They begin anew in every batch; whole episodes, and lanes as long as one, see all that is evaluated."""
    about = {"policy": "linear", "B": 1, "H": 1, "minibatches": 1}
    made = lambda **more: plan(Config("point-mass", agents=1, **about, **more))
    noted = lambda **more: any("lanes begin anew in every batch" in note for note in made(**more).notes)
    whole = made(oracle="ppo", K=4).here.horizon
    assert [noted(oracle="ppo", K=K) for K in (whole - 1, whole)] == [True, False]
    assert not noted(oracle="ppo", K=4, segments=False)
    assert not noted(oracle="ppo")
