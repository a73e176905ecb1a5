"""A cell of a comparison is a run: the same random numbers for all, and step sizes for all or for each."""

from pathlib import Path

import numpy as np
import pytest

from commands import command
from compared import EXACT, NUMBERS, SETTINGS, THREE, TWO, column, compare, refused, table
from fastfedpg import Config
from fastfedpg.cli.compare import parse_etas as _parse_etas
from fastfedpg.comparison.spec import Comparison
from fastfedpg.experiment.config import from_toml

pytestmark = pytest.mark.usefixtures("fresh_folder")


# Common random numbers


def test_a_cell_is_the_run_of_the_same_configuration_to_the_byte(original, capsys):
    for name in THREE:
        config = original / name / "config.toml"
        assert command("run", "--config", config, "--out", f"again-{name}") == 0
        for file in NUMBERS:
            assert Path(f"again-{name}", file).read_bytes() == (original / name / file).read_bytes()


def test_methods_that_do_the_same_draw_the_same(original):
    """In the first round all control variates are zero, so scaffold_pg's is fedavg_pg's: to the last bit of J."""
    a, b = (column(original / name, "J") for name in ("fedavg_pg", "scaffold_pg"))
    np.testing.assert_array_equal(a[:, :2], b[:, :2])
    assert len({*a[:, 1]}) == 6, "and every seed has numbers of its own"
    assert (a[:, 2:] != b[:, 2:]).all()


def test_all_methods_have_the_same_seeds_and_start(original):
    for name in THREE:
        assert column(original / name, "seed")[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
        np.testing.assert_array_equal(column(original / name, "J")[:, 0], column(original / THREE[0], "J")[:, 0])


# Step sizes


def test_a_step_size_for_each():
    compare(*EXACT, *TWO, "--eta", "fast_fedpg=.5", "fedavg_pg=.25")
    assert [from_toml(f"out/{name}/config.toml").eta for name in TWO[1:]] == [0.5, 0.25]
    assert [row["eta"] for row in table().values()] == ["0.5", "0.25"]


def test_a_step_size_for_one_leaves_the_others_theirs():
    comparison = Comparison(SETTINGS, THREE, _parse_etas(["2", "fedavg_pg=.5"]))
    assert [comparison.config(name).eta for name in THREE] == [2.0, 0.5, 2.0]
    comparison = Comparison(SETTINGS, THREE, _parse_etas(["fedavg_pg=.5"]))
    assert [comparison.config(name).eta for name in THREE] == [Config().eta, 0.5, Config().eta]
    assert comparison.without_eta == ["fast_fedpg", "scaffold_pg"], "which a note says"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["fedavg=2"], "unknown algorithm in eta 'fedavg'; did you mean 'fedavg_pg'?"),
        (["scaffold_pg=2"], "unknown algorithm in eta 'scaffold_pg'"),
        (["fast_fedpg=two"], "two"),
        (["fast"], "fast"),
        (["0"], "eta = 0; a step size must be positive and finite"),
        (["1", "fedavg_pg=-1"], "eta = -1; a step size must be positive and finite"),
        (["nan"], "eta = nan; a step size must be positive and finite"),
        (["fedavg_pg="], "fedavg_pg="),
        (["fedavg_pg=1", "fedavg_pg=2"], "one step size for all, and one for each method"),
    ],
)
def test_wrong_step_sizes(words, why, capsys):
    assert why in refused(capsys, *EXACT, *TWO, "--eta", *words, "--out", "out")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--algorithms", "fast_fedpg", "fedavg"], "unknown algorithm 'fedavg'; did you mean 'fedavg_pg'?"),
        (["--algorithms", "fast_fedpg", "dial", "--trust", 1], "unknown algorithm 'dial'"),
        (["--algorithms", "fedavg_pg", "fedavg_pg"], "two methods are called fedavg_pg"),
        (["--algorithms"], "at least one"),
        (["--budget", "samples", "--rounds", 0], "rounds = 0; it must be at least 1"),
        (["--tune", "--candidates", 5], "candidates = 5; a fair choice needs at least 6"),
        (["--tune", "--tune-seeds", 0], "tune_seeds = 0; it must be at least 1"),
        (["--problem", "compromis"], "did you mean 'compromise'?"),
    ],
)
def test_wrong_comparisons(words, why, capsys):
    assert why in refused(capsys, *words, "--out", "out")
    assert not Path("out").exists()


def test_an_unknown_budget(capsys):
    assert command("compare", *EXACT, "--budget", "seconds", "--out", "out") == 2
    assert not Path("out").exists()
