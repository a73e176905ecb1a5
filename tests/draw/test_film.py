"""Films: in the environment's own time, and of every method of a comparison."""

from pathlib import Path

import numpy as np
import pytest

import fastfedpg as ff
from commands import command
from fastfedpg import Config
from fastfedpg.draw import film

Image = pytest.importorskip("PIL.Image")
PICTURES = [np.full((8, 8, 3), k, np.uint8) for k in (0, 90, 200)]
PLAYED = {"agents": 2, "policy": "linear", "oracle": "gpomdp", "B": 2, "K": 3, "H": 1, "evaluation_episodes": 2}


@pytest.mark.parametrize(
    ("fps", "every", "milliseconds"),
    [(50, 1, 20), (50, 5, 100), (10, 1, 100), (None, 1, 30), (1000, 1, 20)],
)
def test_a_picture_lasts_as_long_as_in_the_environment(fps, every, milliseconds, tmp_path):
    """1000 every / fps, in hundredths of a second; 30 pictures a second where nothing is said, and 20 ms at least."""
    film.write(PICTURES, tmp_path / "film.gif", every, *([] if fps is None else [fps]))
    with Image.open(tmp_path / "film.gif") as picture:
        assert picture.n_frames == 3
        assert picture.info["duration"] == milliseconds


def test_gymnasium_says_how_fast_it_is():
    """CartPole's render_fps is 50."""
    gymnasium = pytest.importorskip("gymnasium")
    assert gymnasium.make("CartPole-v1").metadata["render_fps"] == 50
    known = ff.problems.make("gym:CartPole-v1", agents=1)
    try:
        assert known.fps == 50
    finally:
        known.release()


def test_every_method_of_a_comparison(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("cmp").mkdir()
    Path("cmp/compare.toml").touch()
    for name in ("fedavg_pg", "fast_fedpg"):
        ff.run(Config("point-mass", rounds=1, algorithm=name, **PLAYED), Path("cmp", name))
    assert command("film", "cmp", "--agent", 1, "--steps", 2) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[-2:] == ["film 1 of 2: fast_fedpg", "film 2 of 2: fedavg_pg"]
    for name in ("fedavg_pg", "fast_fedpg"):
        with Image.open(f"cmp/{name}-agent-1.gif") as picture:
            assert picture.n_frames == 3
        assert f"3 pictures: cmp/{name}-agent-1.gif" in said.out
    assert command("film", "cmp/fast_fedpg", "--steps", 2, "--out", "one.gif") == 0
    assert Path("one.gif").exists()


def test_a_runs_name_is_printed_and_not_obeyed(tmp_path, monkeypatch, capsys):
    Path(tmp_path, "x\x1b[31m\nfilm 2").mkdir()
    for name in ("compare.toml", "x\x1b[31m\nfilm 2/config.toml"):
        Path(tmp_path, name).touch()
    monkeypatch.setattr(film, "film", lambda *how: 3)
    assert command("film", tmp_path) == 0
    assert "film 1 of 1: x\\x1b[31m\\nfilm 2\n" in capsys.readouterr().err


def test_what_is_there_is_replaced_only_if_asked_for(tmp_path, monkeypatch, capsys):
    """A run's own agent-0.gif is its own; whatever --out names may be somebody's. It is refused before it is played."""
    monkeypatch.chdir(tmp_path)
    ff.run(Config("point-mass", rounds=1, **PLAYED), Path("out"))
    Path("thesis.txt").write_text("precious")
    real, played = film.film, []
    monkeypatch.setattr(film, "film", lambda *how: played.append(how) or real(*how))
    assert command("film", "out", "--steps", 2, "--out", "thesis.txt") == 2
    assert command("film", "out", "--steps", 2, "--out", "out") == 2
    assert not played
    assert Path("thesis.txt").read_text() == "precious"
    refused, folder = capsys.readouterr().err.splitlines()
    assert "thesis.txt already there; give --overwrite to replace it" in refused
    assert "out is a folder; give the film's name, as in --out out/film.gif" in folder
    assert command("film", "out", "--steps", 2, "--out", "thesis.txt", "--overwrite") == 0
    assert Path("thesis.txt").read_bytes().startswith(b"GIF")
    assert [command("film", "out", "--steps", 2) for _ in range(2)] == [0, 0]
