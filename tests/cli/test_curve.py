"""The picture with which a run ends: of the metric that leads, on an axis that shows it."""

import numpy as np
import pytest

import fastfedpg as ff
from commands import command
from fastfedpg.cli import execute


@pytest.fixture(autouse=True)
def _really(drawing, monkeypatch, tmp_path):
    monkeypatch.setattr(execute, "_picture", drawing)
    monkeypatch.chdir(tmp_path)


def test_a_run_ends_with_its_curve(capsys, tmp_path):
    assert command("run", "--problem", "compromise", "--rounds", 3, "--out", "out") == 0
    assert "picture: out/curve.png" in capsys.readouterr().out
    assert (tmp_path / "out" / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "out" / "curve.svg").read_text()


@pytest.mark.parametrize(("eta", "scale"), [(0.01, "linear"), (0.5, "log")])
def test_all_points_are_inside_the_axis(eta, scale):
    """With eta = .01 the gap of the compromise falls by less than a factor of three in 20 rounds, with .5 by more."""
    result = ff.run(ff.Config("compromise", eta=eta, H=5, rounds=60))
    axis = result.plot().axes[0]
    gap = result.metrics["gap"][0]
    assert axis.get_yscale() == scale
    low, high = axis.get_ylim()
    assert low < gap.min()
    assert gap.max() < high
    assert np.ptp(gap) > 0.25 * (high - low) if scale == "linear" else high / low > 3


def test_ctrl_c_while_it_is_drawn_loses_nothing_but_the_picture(capsys, monkeypatch, tmp_path):
    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(execute, "_picture", interrupted)
        assert command("run", "--problem", "compromise", "--rounds", 3, "--out", "out") == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == (
        "fastfedpg: interrupted when the run had finished; its results are in out; "
        "its picture is missing: fastfedpg resume out draws it"
    )
    assert command("resume", "out") == 0
    assert capsys.readouterr().out == "out: the run has finished; its picture was missing: out/curve.png\n"
    assert (tmp_path / "out" / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert command("resume", "out") == 0
    assert capsys.readouterr().out == "out: the run has finished; there is nothing to do\n"
