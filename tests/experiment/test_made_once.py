"""What is made once, so that it is compiled once; and what is made anew, because it may have changed."""

from dataclasses import replace

import numpy as np
import pytest

import fastfedpg
from fastfedpg import problems
from fastfedpg.experiment import made_once
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.plan import plan
from fastfedpg.runtime import program

CONFIG = Config("compromise", algorithm="fast_fedpg", oracle="gpomdp", eta=0.3, H=2, B=2, K=3, rounds=2)
JAX_ENV = Config("cart-pole", oracle="gpomdp", policy="linear", eta=0.1, H=2, B=2, K=3, rounds=1, agents=2)


def test_a_second_run_of_the_same_compiles_nothing(tmp_path):
    fastfedpg.run(CONFIG, tmp_path / "a")
    before = program.advance._cache_size()
    fastfedpg.run(replace(CONFIG, first_seed=7), tmp_path / "b")
    assert program.advance._cache_size() == before
    fastfedpg.run(CONFIG.but(H=3), tmp_path / "c")
    assert program.advance._cache_size() == before + 1


@pytest.mark.parametrize("config", [CONFIG, JAX_ENV], ids=["table", "environment"])
def test_equal_configurations_share_what_they_name(config):
    one, other = plan(config), plan(replace(config, seeds=3))
    assert one.algorithm is other.algorithm
    assert one.problem.oracle is other.problem.oracle
    assert one.with_eta is other.with_eta


@pytest.mark.parametrize("but", [{"eta": 0.2}, {"H": 3}, {"alpha_g": 0.5}, {"optimiser": "adam"}])
def test_another_setting_is_another_algorithm(but):
    assert plan(CONFIG.but(**but)).algorithm is not plan(CONFIG).algorithm


@pytest.mark.parametrize("but", [{"B": 3}, {"K": 4}, {"tau": 0.1}, {"problem_args": {"mid": 0.7}}])
def test_another_setting_is_another_oracle(but):
    assert plan(CONFIG.but(**but)).problem.oracle is not plan(CONFIG).problem.oracle


def test_policies_are_evaluated_as_each_configuration_says():
    found = [plan(replace(JAX_ENV, evaluate_by=how)).problem.evaluate for how in ("sampled", "mode", "both")]
    assert len(set(map(id, found))) == 3


def test_steps_that_decay_know_over_how_many_rounds():
    """For other rounds, given from the start or by a budget: 2 and 5 have two algorithms, 5 and 5 one."""
    config = CONFIG.but(optimiser="sgd", decay="linear", keep_optimiser=True)
    two, five = plan(config), plan(replace(config, rounds=5))
    assert two.algorithm is not five.algorithm
    assert two.for_rounds(5).algorithm is five.algorithm


def test_what_is_read_from_a_file_is_read_again(tmp_path):
    path = tmp_path / "mine.npz"
    problems.make("compromise").save(path)
    config = replace(CONFIG, problem=str(path))
    before = plan(config)
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "reward": 1 - arrays["reward"]})
    after = plan(config)
    assert not np.array_equal(before.problem.tasks, after.problem.tasks)


def test_what_is_written_by_a_user_is_made_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from fastfedpg import fedavg_pg\n\ndef mine(eta: float, H: int): return fedavg_pg(eta, H)\n"
    )
    config = CONFIG.but(algorithm="mine.py:mine")
    assert plan(config).algorithm is not plan(config).algorithm


def test_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(made_once, "MOST", 2)
    monkeypatch.setitem(made_once._KEPT, "algorithm", {})
    first, *_ = (plan(CONFIG.but(eta=eta)).algorithm for eta in (0.11, 0.12, 0.13))
    assert len(made_once._KEPT["algorithm"]) == 2
    assert plan(CONFIG.but(eta=0.11)).algorithm is not first


def test_large_problems_are_forgotten_before_there_are_many(monkeypatch):
    """64 that just fit into memory would not: the oldest go, and the last one stays, however large it is."""
    grids = [Config("compromise-grid", problem_args={"n": n}, agents=2, eta=0.3, H=2, rounds=1) for n in (5, 7, 5, 7)]
    made_once.forget()
    first, _, again, last = (plan(config).problem.oracle for config in grids)
    assert again is first
    size = max(made_once._bytes(x) for x in made_once._KEPT["problem"].values())
    assert size >= 2 * 49 * 8, "tables are counted"
    monkeypatch.setattr(made_once, "MEMORY", size)
    made_once.forget()
    first, _, again, last = (plan(config).problem.oracle for config in grids)
    assert again is not first
    assert plan(grids[-1]).problem.oracle is last
    assert len(made_once._KEPT["problem"]) == 1
