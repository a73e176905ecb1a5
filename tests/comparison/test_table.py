"""One table, its pictures, and no more claims than the numbers bear."""

import json
import math
import shutil

import numpy as np
import pytest

from commands import command
from compared import EXACT, PICTURES, THREE, TWO, column, compare, line_of, table
from fastfedpg import Config, simulate
from fastfedpg.comparison import run_cells
from fastfedpg.comparison.paired import EQUIVALENT, NONE, difference
from fastfedpg.comparison.spec import Comparison
from fastfedpg.comparison.table import has_noise
from fastfedpg.experiment import plan
from fastfedpg.experiment.config import Settings
from fastfedpg.statistics import bootstrap, geometric

pytestmark = pytest.mark.usefixtures("fresh_folder")


# One table


def test_the_table_is_what_the_run_folders_hold(original):
    found = table(original)
    assert list(found) == list(THREE)
    first = column(original / THREE[0], "gap")[:, -1]
    for name, row in found.items():
        folder = original / name
        gap = column(folder, "gap")
        value = lambda key, row=row: float(row[key])
        mean, low, high = bootstrap(gap[:, -1])
        assert (value("value"), value("value_low"), value("value_high")) == pytest.approx((mean, low, high), rel=1e-12)
        assert gap[:, -1].min() <= low < mean < high <= gap[:, -1].max()
        with np.load(folder / "agents.npz") as file:
            returns = file["returns"][:, -1]
        assert value("return_mean") == pytest.approx(returns.mean(), rel=1e-12)
        assert value("return_worst") == pytest.approx(returns.min(axis=1).mean(), rel=1e-12)
        sent = column(folder, "bytes_up") + column(folder, "bytes_down")
        assert value("bytes") == sent[:, -1].mean()
        assert value("syncs") == column(folder, "syncs")[0, -1]
        assert value("samples") == column(folder, "env_steps")[0, -1]
        assert value("seconds") == json.loads((folder / "summary.json").read_text())["seconds"]
        assert row["seeds"] == "6"
        if name == THREE[0]:
            assert row["difference"] == row["verdict"] == ""
        else:
            assert value("difference") == pytest.approx((gap[:, -1] - first).mean(), rel=1e-9)
            assert value("ratio") == pytest.approx(np.exp(np.log(gap[:, -1] / first).mean()), rel=1e-9)
            assert (value("ratio_low"), row["ratio_high"]) == (0, ""), "6 seeds are too few for two comparisons"
            assert value("chance") == (gap[:, -1] < first).mean()
            assert row["verdict"] == difference(first, gap[:, -1], 2, log=True).verdict
        assert value("geometric") == pytest.approx(np.exp(np.log(gap[:, -1]).mean()), rel=1e-9)
        assert value("geometric_low") == pytest.approx(geometric(gap[:, -1]).low, rel=1e-9)


def test_what_is_printed(finished, capsys):
    assert command("resume", finished) == 0
    said = capsys.readouterr().out
    for words in (
        "step size eta", "mean gap to best common policy", "geometric mean, 6 seeds", "its 95% interval",
        "times that of fast_fedpg",
        "its interval, paired", "so it is", "mean return of the agents", "worst agent's return",
        "rounds to 1% of the first gap", "environment steps until then", "rounds", "environment steps, all agents",
        "bytes per agent, up and down", "synchronisations", "seconds",
    ):  # fmt: skip
        assert line_of(said, words)
    found = table(finished)
    for label, name in (("mean gap to best common policy", "value"), ("geometric mean", "geometric")):
        shown = line_of(said, label).split()[-3:]
        assert shown == [f"{float(row[name]):.4g}" for row in found.values()], "each mean by its name"
    assert line_of(said, "environment steps, all agents").split()[-3:] == ["216", "216", "216"]
    low, high = float(found["fast_fedpg"]["geometric_low"]), float(found["fast_fedpg"]["geometric_high"])
    assert f"{low:.4g} to {high:.4g}" in line_of(said, "its 95% interval")
    assert "95% for all 2 together" in said
    assert "written: finished/table.csv" in said


def test_run_runs_and_compare_show_one_mean_by_that_name(original, capsys):
    """The plain mean of the six gaps; it is not the geometric one."""
    gap = column(original / "fast_fedpg", "gap")[:, -1]
    mean = f"{gap.mean():.4g}"
    assert mean != f"{np.exp(np.log(gap).mean()):.4g}"
    assert command("compare", original / "fast_fedpg", "--out", "one") == 0
    assert line_of(capsys.readouterr().out, "mean gap to best common policy").split()[-1] == mean
    assert command("runs", original / "fast_fedpg") == 0
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert row[: head.index("mean gap") + len("mean gap")].split()[-1] == mean
    assert command("run", "--config", original / "fast_fedpg" / "config.toml", "--out", "again") == 0
    _, head, _, row, *_ = said = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "mean"
    assert row.removeprefix("gap to the best common policy").split()[0] == mean
    sent = sum(column(original / "fast_fedpg", name)[0, -1] for name in ("bytes_up", "bytes_down"))
    assert line_of("\n".join(said), "bytes per agent, up and down").split()[-1] == f"{sent:,.0f}"


def test_rounds_and_samples_to_one_percent_of_the_first_gap():
    """From the records themselves: the first that has no more than 1% of the gap at round 0."""
    out = compare(
        "--problem", "compromise", "--H", 5, "--eta", 10, "--rounds", 20, "--seeds", 3, "--algorithms", "fast_fedpg"
    )
    gap = column(out / "fast_fedpg", "gap")[0]
    reached = next(k for k, g in enumerate(gap) if g <= 0.01 * gap[0])
    assert 0 < reached < 20
    row = table(out)["fast_fedpg"]
    assert float(row["rounds_to"]) == reached
    assert float(row["samples_to"]) == 2 * 6 * reached
    assert row["arrived"] == "3"


def test_the_median_counts_seeds_that_never_arrive_as_infinitely_late():
    from fastfedpg.comparison.table import _median

    assert _median(np.array([3, 5, 9]), 3).mean == 5
    assert _median(np.array([3, 5, 9]), 5).mean == 9
    assert _median(np.array([3, 5, 9]), 6).mean == math.inf
    assert _median(np.array([]), 4).mean == math.inf


def test_pngs_and_svgs(pictures, rendered, capsys):
    grid = ("--problem", "compromise-grid", "--problem-args", "n=3", "--H", 2, "--eta", 2)
    out = compare(*grid, "--rounds", 2, *TWO)
    for name in PICTURES:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (out / f"{name}.svg").read_text(encoding="utf-8")
    said = capsys.readouterr().out
    assert all(f"written: out/{name}.png" in said for name in PICTURES)
    svg = (out / "curves.svg").read_text(encoding="utf-8")
    assert svg.count('id="axes_') == 3, "over rounds, samples and bytes"


def test_kernels_that_differ_are_compared_by_J(capsys):
    out = compare("--problem", "random", "--problem-args", "S=3", "A=2", "kernel=1", "--H", 2, "--rounds", 3, *TWO[:2])
    said = capsys.readouterr().out
    assert line_of(said, "J, the mean cost (there is no J*)")
    assert "gap" not in said.replace("of the first gap on", "")
    for name, row in table(out).items():
        assert float(row["value"]) == column(out / name, "J")[0, -1]
        assert row["rounds_to"] == row["samples_to"] == ""


def test_a_title_and_labels_with_brackets_are_printed_as_they_are(finished, capsys):
    shutil.copytree(finished / "fast_fedpg", "a[b]")
    shutil.copytree(finished / "fast_fedpg", "c[d]")
    compare("a[b]", "c[d]")
    said = capsys.readouterr().out
    assert "fast_fedpg (a[b])" in said
    assert "fast_fedpg (c[d])" in said


# Where the difference disappears


def verdicts(said: str) -> str:
    row = line_of(said, "so it is")
    return " ".join(row.split()[3:])


def test_small_steps_show_no_difference(capsys):
    """eta H = 0.002: the methods' gaps differ by far less than a factor of 1.25."""
    compare(*EXACT, "--eta", 0.001, *TWO)
    said = capsys.readouterr().out
    assert verdicts(said) == EQUIVALENT
    assert EQUIVALENT == "equivalent within the margin"
    assert {row["verdict"] for row in table().values()} == {"", EQUIVALENT}


def test_large_steps_show_one(capsys):
    """The same methods where client drift is large, so that the words above are not said of everything."""
    compare("--problem", "compromise", "--H", 20, "--eta", 2, "--rounds", 20, *TWO)
    assert verdicts(capsys.readouterr().out) == "worse"


def test_noise_above_drift_shows_no_difference(capsys):
    """Eq. (5) on the grid, with 2 trajectories in an estimate."""
    grid = ("--problem", "compromise-grid", "--problem-args", "n=3", "--oracle", "reinforce", "--B", 2, "--K", 5)
    compare(*grid, "--H", 2, "--eta", 0.02, "--rounds", 4, "--seeds", 8, *TWO, "--margin", 1e-6)
    said = capsys.readouterr().out
    assert verdicts(said) == NONE
    gap = [column(f"out/{name}", "gap")[:, -1] for name in TWO[1:]]
    assert not np.allclose(*gap, rtol=1e-6), "they do differ, seed by seed"


# What goes wrong on the way


def test_a_start_from_a_file_is_no_noise(tmp_path):
    """One theta for all seeds makes exact runs no less exact: the 1% rule holds, and copies are not replicates."""
    np.savez(tmp_path / "start.npz", theta=np.zeros((1, 3)))
    settings = Settings(problem="compromise", H=10, rounds=60, seeds=1, theta0=str(tmp_path / "start.npz"))
    report = run_cells.compare(
        Comparison(settings, TWO[1:], eta={"all": 0.05}), tmp_path / "out", note=lambda words: None
    )
    assert not report.lines[1].noise
    assert report.lines[1].difference.verdict == "worse"


def test_a_gap_below_rounding_is_shown_as_it_is_and_counts_for_more_in_ratios(capsys):
    words = ("--problem", "compromise", "--algorithms", "fast_fedpg", "fedavg_pg", "--H", 10, "--eta", 16)
    assert command("compare", *words, "--rounds", 40, "--seeds", 1, "--out", "out") == 0
    said = capsys.readouterr().out
    gap = column("out/fast_fedpg", "gap")[0]
    assert 0 < gap[-1] < 1e-9 * gap[0]
    assert f"{gap[-1]:.4g}" in line_of(said, "gap to the best common policy")
    assert "in ratios a gap below 1e-09 of the first one counts as that: less is rounding" in said


@pytest.mark.parametrize(
    ("settings", "differ"),
    [
        ({"algorithm": "fedavg_pg"}, False),
        ({"algorithm": "fedavg_pg", "participants": 2}, True),
        ({"algorithm": "fedavg_pg", "participants": 2, "order": "cyclic"}, False),
        ({"algorithm": "incremental_pg"}, False),
        ({"algorithm": "proxskip_pg", "p": 0.3}, True),
        ({"algorithm": "fedhapg_m"}, True),
        ({"algorithm": "fedpg_br"}, False),
        ({"algorithm": "fedpg_br", "geometric": True}, True),
    ],
    ids=lambda x: " ".join(map(str, x.values())) if isinstance(x, dict) else "",
)
def test_seeds_differ_where_it_is_said_with_exact_gradients_too(settings, differ):
    """What a method draws by itself is noise as much as trajectories are; agents in turn are none."""
    planned = plan(Config("compromise", agents=4, H=3, oracle="exact", rounds=4, **settings))
    order = {"participants": planned.config.participants, "order": planned.config.order}
    theta = simulate(planned.problem, planned.algorithm, 4, 3, **order).theta
    assert bool((theta != theta[0]).any()) == differ
    assert has_noise(planned) == differ
