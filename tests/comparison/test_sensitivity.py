"""What tuning tried on each seed is kept, and drawn against the step size beside every tuned comparison."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from commands import command
from compared import TWO, column, compare, fake_try, notes, table, tried
from fastfedpg.comparison import cell_plans, tuning
from fastfedpg.comparison.spec import Comparison
from fastfedpg.draw import sensitivity
from fastfedpg.draw.sensitivity import Tried
from fastfedpg.experiment.config import from_toml
from fastfedpg.problems import compromise, random

pytestmark = pytest.mark.usefixtures("fresh_folder")

SAMPLED = ("--problem", "compromise", "--H", 2, "--oracle", "gpomdp", "--B", 2, "--K", 3, "--rounds", 3, "--seeds", 2)
TUNE = ("--tune", "--candidates", 6, "--eta", 0.5, *TWO)


def drawn(monkeypatch) -> list[dict[str, Tried]]:
    """What is given to the picture."""
    seen = []
    monkeypatch.setattr(sensitivity, "sensitivity", lambda path, tried, *rest: seen.append(tried) or [path])
    return seen


def test_four_seeds_that_are_not_reported():
    assert Comparison().tune_seeds == tuning.ENOUGH == 4


def test_the_second_picture_of_a_tuned_comparison(monkeypatch, capsys):
    """Every step size with its gap on each tuning seed, whose mean is J's but for J*; and it is drawn second."""
    seen = drawn(monkeypatch)
    out = compare(*SAMPLED, *TUNE)
    said = capsys.readouterr()
    files = [line for line in said.out.splitlines() if line.startswith("written: ")]
    assert files[1] == "written: out/sensitivity", "after the table; other pictures are not drawn here"
    assert "by luck" not in said.err
    best = float((column(out / "fast_fedpg", "J") - column(out / "fast_fedpg", "gap"))[0, 0])
    for name, found in seen[0].items():
        assert found.chosen == from_toml(out / name / "config.toml").eta
        assert found.values.shape == (len(found.eta), 4)
        assert np.ptp(found.values, axis=1).min() > 0, "seeds differ"
        assert dict(zip(found.eta, found.values.mean(axis=1) + best, strict=True)) == pytest.approx(tried(out)[name])
    assert command("resume", out) == 0
    np.testing.assert_array_equal(seen[1]["fedavg_pg"].values, seen[0]["fedavg_pg"].values)


def test_few_seeds_are_said_where_there_is_noise(monkeypatch, capsys):
    drawn(monkeypatch)
    fake_try(monkeypatch, lambda name, e: abs(math.log2(e)))
    compare(*SAMPLED, *TUNE, "--tune-seeds", 2)
    assert "step sizes are chosen on 2 seeds, so partly by luck; take --tune-seeds 4 or more" in notes(capsys)
    compare(*SAMPLED, *TUNE, "--oracle", "exact", "--tune-seeds", 1, "--overwrite")
    assert not [words for words in notes(capsys) if "luck" in words]


def test_a_file_of_before_has_no_values_and_is_drawn_without_intervals(monkeypatch, capsys):
    seen = drawn(monkeypatch)
    out = compare(*SAMPLED, *TUNE)
    with (out / "tune.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cells = cell_plans.plan_cells(Comparison(from_toml(out / "fast_fedpg/config.toml"), TWO[1:], {"all": 0.5}))
    lines = [["algorithm", "eta", "J", "seeds", "state", "sum"]]
    plans = {name: cells[name].for_rounds(from_toml(out / name / "config.toml").rounds) for name in TWO[1:]}
    for row in rows:
        said = [row[name] for name in lines[0][:-1]]
        who = tuning.identity_of(plans[row["algorithm"]], 4)
        lines.append([*said, tuning.sum_of(who, said)])
    Path("out/tune.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    monkeypatch.setattr(tuning, "_try", lambda *_: pytest.fail("tried again"))
    capsys.readouterr()
    assert command("resume", out) == 0
    assert not [words for words in notes(capsys) if "tune.csv" in words]
    for name, found in seen[0].items():
        np.testing.assert_allclose(seen[1][name].values[:, 0], found.values.mean(axis=1), atol=1e-12)
        assert seen[1][name].values.shape[1] == 1


def test_only_the_chosen_variant_is_drawn(monkeypatch):
    seen = drawn(monkeypatch)
    fake_try(monkeypatch, lambda name, e: abs(math.log2(e)) + ("H=2" in name))
    compare(*SAMPLED, *TUNE, "--tune-over", "H=1,2")
    assert list(seen[0]) == list(TWO[1:])
    assert all(len(found.eta) == len({*found.eta}) for found in seen[0].values())
    assert [float(row["eta"]) for row in table().values()] == [1, 1]


@pytest.mark.parametrize("shared", [True, False])
def test_the_picture(shared, tmp_path):
    """Chosen step sizes are ringed; what diverged stands at the upper edge; nothing is pushed out of the picture."""
    from matplotlib.figure import Figure

    eta = 2.0 ** np.arange(-2, 4)
    values = np.exp(np.random.default_rng(0).normal(size=(6, 4)))
    values[4:, 1] = np.nan
    found = {"a": Tried(eta, values, 1.0), "b": Tried(eta, 2 * np.nan_to_num(values, nan=3.0), 0.5)}
    problem = compromise() if shared else random(kernel=1.0)
    axis = Figure().add_subplot()
    handles, labels = sensitivity.draw_sensitivity(axis, found, problem)
    assert labels == ["a", "b", "chosen", "diverged"]
    assert len(handles) == 4
    rings = [line for line in axis.lines if line.get_markersize() == 13]
    assert [line.get_ydata()[0] for line in rings] == [
        pytest.approx(values[2].mean()),
        pytest.approx(found["b"].values[1].mean()),
    ]
    (cross,) = [line for line in axis.lines if line.get_marker() == "x"]
    assert len(cross.get_xdata()) == 2
    assert [t for t in axis.get_xticks() if t in eta] == list(eta)
    assert "step size" in axis.get_xlabel()
    assert "reward units" in axis.get_ylabel()
    files = sensitivity.sensitivity(tmp_path / "sensitivity", found, problem, "a title")
    assert [file.suffix for file in files] == [".png", ".svg"]
