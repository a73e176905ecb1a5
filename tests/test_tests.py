"""What the tests rest on: shapes are checked, slow tests fail, long ones have a part, and kept programs have an end."""

import gc
import os
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import compiled
import limits
import longer
import parts
from fastfedpg.policies import arrays


def test_shapes_are_checked():
    """Three axes where a table belongs would be multiplied without a word."""
    with pytest.raises(TypeError, match=r"(?i)type-check"):
        arrays.times(np, np.ones((2, 3)), np.ones((1, 3, 4)))


def work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_test_that_works_or_waits_too_long_fails():
    gc.collect()  # which takes a while, and would come at any moment
    with limits.watched(seconds=0.05, by_the_clock=60):
        time.sleep(0.1)  # which is no CPU time
    with pytest.raises(pytest.fail.Exception, match=r"of CPU time .* more than 0.05 and 60"), limits.watched(0.05, 60):
        work(0.06)
    with pytest.raises(pytest.fail.Exception, match="by the clock"), limits.watched(60, 0.05):
        time.sleep(0.06)


def test_long_parts_are_left_out_of_one_command_and_run_by_the_other():
    """Each part has a marker of its own; `make test` takes none of them, `make test-all` all of them and the rest."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    settings = tomllib.loads(text)["tool"]["pytest"]["ini_options"]
    assert [line.split(":")[0] for line in settings["markers"]] == [*limits.PARTS, "whole"]
    assert settings["addopts"].endswith(f"-m '{parts.words(parts.QUICK)[-1]}'")
    assert [parts.words(part)[-1] for part in limits.PARTS] == [*limits.PARTS]
    assert parts.main(["kils"]) == 2


def test_what_is_left_to_long_is_there(request):
    """Every function that is listed; and, where all tests were asked for, a test for every row that stays."""
    for file, functions in longer.LEFT.items():
        text = (longer.HERE / file).read_text(encoding="utf-8")
        assert [name for name in functions if f"def {name}(" not in text] == [], file
    names = [item.nodeid.removeprefix("tests/") for item in request.session.items]
    if len(names) > 2000:
        stay = {
            f"{f}::{name}[{row}" for f, names in longer.LEFT.items() for name, rows in names.items() for row in rows
        }
        assert {start for start in stay if not any(name.startswith(start) for name in names)} == set()


def test_programs_that_are_kept_have_an_end(tmp_path, monkeypatch):
    """Of three of 40 bytes each the oldest is beyond 100; an old empty one is what a killed process left."""
    monkeypatch.setattr(compiled, "AT_MOST", 100)
    for age, name in enumerate(("new", "older", "oldest")):
        (tmp_path / name).write_bytes(bytes(40))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    for name in ("left", "begun"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "left", (1000, 1000))
    compiled.tidy(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "older", "begun"}


def test_programs_are_kept_for_this_user_alone_or_in_the_copy(tmp_path, monkeypatch):
    """Programs are code: a folder that others may write to is not taken."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = compiled.folder(tmp_path / "copy")
    assert kept == tmp_path / "fastfedpg" / "tests"
    kept.chmod(0o777)
    assert compiled.folder(tmp_path / "copy") == tmp_path / "copy"
