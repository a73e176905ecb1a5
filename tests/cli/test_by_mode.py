"""Policies are shown as they act and by their mode: in a run's metrics, its table and a comparison's."""

import csv

import numpy as np

from commands import command


def test_both_are_shown_and_one_of_them_counts(tmp_path, capsys):
    """With a spread of exp(-60) they are the same but for rounding, as J is; without `both` there is no column."""
    words = ("--problem", "point-mass", "--agents", 2, "--policy", "linear", "--oracle", "gpomdp", "--B", 1, "--K", 3)
    words += ("--H", 1, "--rounds", 1, "--evaluation-episodes", 2, "--eta", 1e-3)
    sure = ("--policy-args", "log_std=-60", "learn_std=false")
    out = tmp_path / "both"
    assert command("run", *words, *sure, "--evaluate-by", "both", "--out", out) == 0
    assert "mean return, by the mode" in capsys.readouterr().out
    rows = list(csv.DictReader((out / "metrics.csv").read_text().splitlines()))
    by_chance, by_mode = (np.array([float(row[name]) for row in rows]) for name in ("return_mean", "return_mode"))
    np.testing.assert_allclose(by_mode, by_chance, rtol=1e-9)
    assert command("run", *words, *sure, "--first-seed", 1, "--out", tmp_path / "chance") == 0
    assert "by the mode" not in capsys.readouterr().out
    assert "return_mode" not in (tmp_path / "chance" / "metrics.csv").read_text()
    assert command("compare", out, tmp_path / "chance", "--out", tmp_path / "beside") == 0
    (said,) = (line for line in capsys.readouterr().out.splitlines() if "mean return, by the mode" in line)
    assert f"{by_mode[-1]:.4g}" in said
    assert "–" in said
