"""The smallest sequences that `test_any_sequence` has found to go wrong; each did before it was mended."""

import os
from pathlib import Path

import pytest

from commands import command
from fastfedpg import files
from folders import in_time
from stopped_runs import edit, killed, newest, numbers, rounds_kept

pytestmark = pytest.mark.usefixtures("fresh_folder")

THESIS = "years of work"


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(THESIS)
    return path


def test_restart_moves_a_run_s_own_files_alone(never_stopped):
    """It moved the whole folder of checkpoints, with what somebody had put there."""
    out = killed()
    theirs = [put(out / name) for name in ("checkpoints/model.pt", "checkpoints/000000008/model.pt")]
    edit(out / "config.toml", "eta = 0.5", "eta = 0.25")
    assert command("resume", out) == 2
    edit(out / "config.toml", "eta = 0.25", "eta = 0.5")
    for name in rounds_kept(out):
        (out / f"checkpoints/{name:09d}/checkpoint.toml").write_text("damaged")
    assert command("resume", out, "--restart") == 0
    assert [path.read_text() for path in theirs] == [THESIS] * 2
    assert (out / "before-restart/checkpoints/000000008/checkpoint.toml").read_text() == "damaged"
    assert numbers(out) == never_stopped


@pytest.mark.parametrize("name", ["000000006", "000000008", "000000010"])
def test_a_checkpoint_goes_without_what_lies_beside_it(name, never_stopped):
    """Old checkpoints, those of a run that has finished, and one of the same round took everything in them along."""
    out = killed()
    theirs = put(out / "checkpoints" / name / "model.pt")
    assert command("resume", out) == 0
    assert theirs.read_text() == THESIS
    assert [path.name for path in theirs.parent.iterdir()] == ["model.pt"]
    assert numbers(out) == never_stopped


def test_a_refused_checkpoint_is_renamed_without_what_lies_beside_it():
    out = killed()
    theirs = put(newest(out) / "model.pt")
    (newest(out) / "checkpoint.toml").write_text("damaged")
    assert command("resume", out) == 0
    assert theirs.read_text() == THESIS
    assert (out / "checkpoints/000000008-refused/checkpoint.toml").read_text() == "damaged"


def test_what_only_begins_like_a_part_is_somebody_else_s():
    out = killed()
    theirs, ours = put(out / f"{files.PART}of-a-thesis"), put(out / f"{files.PART}7-summary.json")
    assert command("resume", out) == 0
    assert theirs.read_text() == THESIS
    assert not ours.exists()


@pytest.mark.parametrize("name", ["checkpoints/000000010", ".lock", "checkpoints/records.bin"])
def test_a_pipe_in_the_place_of_a_folder_or_the_lock_holds_nobody_up(name, never_stopped):
    """shutil.rmtree opens what it is given, and waited for a writer, deaf to Ctrl-C; so did a look at the lock."""
    out = killed()
    (out / name).unlink(missing_ok=True)
    os.mkfifo(out / name)
    with in_time():
        code = command("resume", out)
    if code == 0:
        assert numbers(out) == never_stopped
    else:  # the records are gone, and with them what checkpoints say of them
        assert (code, name) == (2, "checkpoints/records.bin")
