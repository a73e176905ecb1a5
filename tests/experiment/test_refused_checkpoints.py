"""Checkpoints that cannot be used are refused by name, and the previous one is used."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fastfedpg
import reference as ref
from commands import command
from fastfedpg import Config, files
from fastfedpg.experiment import checkpoints, run_folder
from fastfedpg.experiment.checkpoints import FORMAT
from fastfedpg.runtime import shapes, simulate_records
from stopped_runs import (
    CONFIG,
    OFTEN,
    PROBLEM,
    SCHEDULE,
    VERSION,
    WHO,
    WHOLE,
    algorithm,
    edit,
    every_standing,
    killed,
    newest,
    numbers,
    recorded,
    reseal,
    rounds_kept,
    table_of,
)

pytestmark = pytest.mark.usefixtures("fresh_folder")


def a_flipped_bit(folder: Path) -> None:
    data = bytearray((folder / checkpoints.ARRAYS).read_bytes())
    data[-1] ^= 1
    (folder / checkpoints.ARRAYS).write_bytes(data)


def half_a_file(folder: Path) -> None:
    data = (folder / checkpoints.ARRAYS).read_bytes()
    (folder / checkpoints.ARRAYS).write_bytes(data[: len(data) // 2])


def in_words(old: str, new: str):
    """As if it had been written like that."""
    return lambda folder: (edit(folder / checkpoints.ABOUT, old, new), reseal(folder / checkpoints.ABOUT))


def by_hand(old: str, new: str):
    return lambda folder: edit(folder / checkpoints.ABOUT, old, new)


def a_flipped_record(folder: Path) -> None:
    """The second round, in the first column."""
    data = bytearray((folder.parent / "records.bin").read_bytes())
    data[8] ^= 1
    (folder.parent / "records.bin").write_bytes(data)


def without(name: str):
    return lambda folder: (folder / name).unlink()


def with_words(data: bytes):
    return lambda folder: (folder / checkpoints.ABOUT).write_bytes(data)


OTHER_FORMAT = in_words(f"format = {FORMAT}\n", f"format = {FORMAT + 1}\n")

OTHER_VERSION = in_words(run_folder.versions(), VERSION)

REFUSED = {
    "a flipped bit": (a_flipped_bit, "damaged: state.safetensors is not what was written"),
    "half a file": (half_a_file, "damaged: state.safetensors is not what was written"),
    "no arrays": (without(checkpoints.ARRAYS), "damaged: state.safetensors: No such file or directory"),
    "no words": (without(checkpoints.ABOUT), "damaged: checkpoint.toml can't be read (No such file or directory)"),
    "garbage": (with_words(b"\xff\x00"), "damaged: checkpoint.toml can't be read ("),
    "nothing said": (with_words(b""), f"of another version: its format is None, this is {FORMAT}"),
    "another format": (OTHER_FORMAT, f"of another version: its format is {FORMAT + 1}, this is {FORMAT}"),
    "another version": (OTHER_VERSION, f"of another version: made by {VERSION}; this is {run_folder.versions()}"),
    "another step": (
        in_words("\neta = 0.5", "\neta = 0.25"),
        "of another configuration: eta is 0.25 there and 0.5 here",
    ),
    "another seed": (in_words("\nseeds = 2", "\nseeds = 3"), "of another configuration: seeds is 3 there and 2 here"),
    "no such setting": (in_words("\nseeds = 2", "\nseed = 2"), "damaged: "),
    "another round": (in_words("\nround = 8", "\nround = 9"), "damaged: "),
    "another record": (in_words("\nrecorded = 4", "\nrecorded = 8"), "damaged: "),
    "no round": (in_words("\nround = 8", "\nround = 'x'"), "damaged: "),
    "another column": (in_words('"gap"', '"gab"'), "damaged: "),
    "a step by hand": (by_hand("\neta = 0.5", "\neta = 0.25"), "damaged: checkpoint.toml is not what was written"),
    "a time by hand": (by_hand("\nseconds = ", "\nseconds = 1"), "damaged: checkpoint.toml is not what was written"),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_one_that_cannot_be_used_is_refused_by_name_and_the_previous_one_used(mistake, never_stopped, capsys):
    make, says = REFUSED[mistake]
    out = killed()
    make(newest(out))
    capsys.readouterr()
    assert command("resume", out) == 0
    said = capsys.readouterr().err
    assert f"note: out/checkpoints/000000008: refused: {says}" in said
    assert "000000006: refused" not in said
    assert "note: from round 6 of 11" in said
    assert numbers(out) == never_stopped


def test_records_that_were_changed_are_refused_with_the_checkpoints_that_count_them(capsys):
    """The second of the two records; a checkpoint of round 2 would know nothing of it, but is no longer there."""
    out = killed()
    a_flipped_record(newest(out))
    before = contents(out)
    assert command("resume", out) == 2
    said = capsys.readouterr().err
    for number in (8, 6):
        assert f"00000000{number}: refused: damaged: records.bin is not what was written" in said
    assert contents(out) == before
    (out / "checkpoints" / "records.bin").unlink()
    assert command("resume", out) == 2
    assert "refused: damaged: records.bin: No such file or directory" in capsys.readouterr().err


def contents(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file() and p.name != files.LOCK}


REFUSES = "fastfedpg: out: none of its checkpoints can be used ({}); nothing was changed. Put that right, or begin anew"


def test_where_both_are_refused_nothing_is_touched_and_a_restart_keeps_them(never_stopped, capsys):
    """Whatever the reason: they may be good, for the version or the configuration that wrote them."""
    out = killed()
    for folder in checkpoints.present(out):
        OTHER_VERSION(folder)
    before = contents(out)
    assert command("resume", out) == 2
    said = capsys.readouterr().err
    for number in (8, 6):
        assert f"00000000{number}: refused: of another version: made by {VERSION}" in said
    assert REFUSES.format(f"of another version: made by {VERSION}; this is {run_folder.versions()}") in said
    assert contents(out) == before
    assert command("resume", out, "--restart") == 0
    said = capsys.readouterr().err
    assert "note: what was there is kept in out/before-restart\n" in said
    assert "note: from the beginning" in said
    assert numbers(out) == never_stopped
    old = {name: data for name, data in before.items() if name.startswith("checkpoints/")}
    assert contents(out / "before-restart") == old


@pytest.mark.parametrize("words", [None, "{}", '{"state": "interrupted"}'])
def test_results_without_checkpoints_are_kept_too(words, capsys):
    """Somebody has removed or changed the words that said that the run had finished, and a setting."""
    fastfedpg.run(CONFIG, "out")
    before = Path("out/results.npz").read_bytes()
    Path("out/summary.json").unlink()
    if words is not None:
        Path("out/summary.json").write_text(words)
    edit(Path("out/config.toml"), "eta = 0.5", "eta = 0.25")
    there = contents(Path("out"))
    assert command("resume", "out") == 2
    assert "it has results and no checkpoint, so it can't go on; nothing was changed" in capsys.readouterr().err
    assert contents(Path("out")) == there
    assert command("resume", "out", "--restart") == 0
    assert "note: what was there is kept in out/before-restart\n" in capsys.readouterr().err
    assert Path("out/before-restart/results.npz").read_bytes() == before
    assert Path("out/results.npz").read_bytes() != before


def test_what_an_interrupted_run_had_written_is_kept_too_and_never_twice_in_one_place(capsys):
    """Two restarts: each leaves what was there in a folder of its own."""

    def stop(done: int, record=None) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(fastfedpg.Interrupted):
        fastfedpg.run(OFTEN, "out", report=stop)
    written = contents(Path("out"))
    for kept, eta in (("before-restart", "0.25"), ("before-restart-2", "0.125")):
        edit(Path("out/config.toml"), f"eta = {float(eta) * 2:g}", f"eta = {eta}")
        with pytest.raises(fastfedpg.Interrupted), pytest.warns(UserWarning, match="refused|kept in"):
            fastfedpg.resume("out", report=stop, restart=True)
        assert Path("out", kept, "checkpoints").is_dir()
    moved = contents(Path("out/before-restart"))
    assert moved == {name: data for name, data in written.items() if name not in ("config.toml", ".written")}
    assert Path("out/before-restart-2/results.npz").read_bytes() != moved["results.npz"]


def test_a_damaged_one_is_not_kept_as_the_previous_one(capsys):
    out = killed(config=replace(CONFIG, checkpoint_rounds=4), at=8)
    assert rounds_kept(out) == [8, 4]
    a_flipped_bit(newest(out))
    edit(out / "config.toml", "checkpoint_rounds = 4", "checkpoint_rounds = 3")
    seen = {}
    with pytest.warns(UserWarning, match="refused: damaged"):
        fastfedpg.experiment.resume(out, lambda done, record=None: seen.setdefault(done, rounds_kept(out)))
    assert seen[6] == [6, 4], "two that can be used"
    assert [p.name for p in Path("out/checkpoints").iterdir()] == ["000000008-refused"], "also when it has finished"


def test_an_edited_configuration_is_another_run(capsys):
    out = killed()
    edit(out / "config.toml", "eta = 0.5", "eta = 0.25")
    assert command("resume", out) == 2
    said = capsys.readouterr().err
    for number in (8, 6):
        assert f"00000000{number}: refused: of another configuration: eta is 0.5 there and 0.25 here" in said
    assert REFUSES.format("of another configuration: eta is 0.5 there and 0.25 here") in said
    assert rounds_kept(out) == [8, 6]
    assert command("resume", out, "--restart") == 0
    fastfedpg.run(replace(CONFIG, eta=0.25), "other")
    assert numbers(out) == numbers("other")


def test_how_often_checkpoints_are_written_may_be_edited(never_stopped, capsys):
    out = killed()
    edit(out / "config.toml", "checkpoint_rounds = 2", "checkpoint_rounds = 5")
    edit(out / "config.toml", "checkpoint_seconds = 30.0", "checkpoint_seconds = 7.0")
    assert command("resume", out) == 0
    assert "note: from round 8 of 11" in capsys.readouterr().err
    assert numbers(out) == never_stopped


def killed_with_files() -> Path:
    """A run of a problem and a start from files, each a few numbers, killed after the third of four rounds."""
    two = ref.small_problem(N=2, S=2, A=2, seed=3)
    np.savez("mdp.npz", P=two.P, reward=two.reward, rho=two.rho, gamma=two.gamma)
    np.savez("start.npz", theta=np.zeros((2, 2)))
    files_too = Config("mdp.npz", theta0="start.npz", algorithm="centralised_pg", rounds=4, checkpoint_rounds=1)
    return killed(at=3, config=files_too)


def test_a_run_from_files_goes_on_in_its_own_folder(capsys):
    out = killed_with_files()
    for name in ("mdp.npz", "start.npz"):
        Path(name).unlink()
    out.rename("moved")
    assert command("resume", "moved") == 0
    assert "note: from round 3 of 4" in capsys.readouterr().err
    assert numbers("moved") == numbers(WHOLE)


@pytest.mark.parametrize("changed", ["problem.npz", "theta0.npz"])
def test_another_problem_or_start_is_another_run(changed, capsys):
    out = killed_with_files()
    with np.load(out / changed) as file:
        arrays = dict(file)
    for name in {"reward", "theta"} & {*arrays}:
        arrays[name] = (arrays[name] + 0.5) / 2
        arrays[name][..., 0] = 0.75
    np.savez(out / changed, **arrays)
    assert command("resume", out) == 2
    assert command("resume", out, "--restart") == 0
    said = capsys.readouterr().err
    why = "of another configuration: the problem's arrays or theta0 have changed"
    for number in (3, 2):
        assert f"note: out/checkpoints/00000000{number}: refused: {why}" in said
    assert "note: from the beginning" in said
    assert recorded(out) == [0, 1, 2, 3, 4]
    first = [np.load(Path(folder) / "agents.npz")["returns"][0, 0] for folder in (out, WHOLE)]
    assert not np.allclose(*first), "already the start is that of the files as they are now"


def test_arrays_of_another_form_are_refused():
    """The words fit, the sum over the file does too; what is in it is of another algorithm."""
    _, stood = every_standing(simulate_records, PROBLEM, algorithm("fedavg_pg"))
    folder = checkpoints.write(Path(), WHO, stood[0]._replace(recorded=-1), table_of(None), 0.0)
    with pytest.raises(checkpoints.UnusableCheckpoint, match="damaged"):
        checkpoints.read(folder, WHO, shapes(PROBLEM, algorithm("scaffold_pg"), SCHEDULE))
    with pytest.raises(checkpoints.UnusableCheckpoint, match=r"damaged: .* is float64\(2, .* and must be float64\(3, "):
        checkpoints.read(folder, WHO, shapes(PROBLEM, algorithm("fedavg_pg"), replace(SCHEDULE, seeds=3)))


def test_what_a_link_leads_to_is_somebody_else_s(never_stopped, capsys):
    """Another run's checkpoints, linked to: they are neither gone on from nor removed."""
    out = killed()
    before = contents(out)
    other = Path("other")
    shutil.copytree(out, other)
    for folder in (other / "checkpoints").iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
            folder.symlink_to((out / "checkpoints" / folder.name).absolute())
    assert command("resume", other) == 0
    assert numbers(other) == never_stopped
    assert contents(out) == before
    assert command("resume", out) == 0
    assert "from round" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["results.npz", "metrics.csv", "summary.json", "checkpoints"])
def test_a_folder_in_a_file_s_place_is_seen_before_anything_is_run(name, capsys):
    out = killed()
    if name == "checkpoints":
        shutil.rmtree(out / name)
        (out / name).write_bytes(b"")
    else:
        (out / name).mkdir()
    before = contents(out)
    assert command("resume", out) == 2
    assert f"out/{name}: a f" in capsys.readouterr().err
    assert contents(out) == before


def test_a_folder_in_the_place_of_the_records_is_named(capsys):
    out = killed()
    (out / "checkpoints/records.bin").unlink()
    (out / "checkpoints/records.bin").mkdir()
    assert command("resume", out) == 2
    assert "damaged: records.bin: Is a directory" in capsys.readouterr().err


def test_somebody_s_folder_called_federation_changes_nothing(never_stopped):
    out = killed()
    (out / "federation").mkdir()
    (out / "federation/notes.txt").write_text("mine")
    assert command("resume", out) == 0
    assert numbers(out) == never_stopped
    assert (out / "federation/notes.txt").read_text() == "mine"


def test_a_pipe_in_the_place_of_the_records_does_not_hold_a_run_up(capsys):
    """Its records are gone with the file; but it comes to its end, and says so."""

    def report(done: int, record=None) -> None:
        path = Path("out/checkpoints/records.bin")
        if path.exists() and not path.is_fifo():
            path.unlink()
            os.mkfifo(path)

    with pytest.raises((OSError, ValueError)), pytest.warns(UserWarning, match="no checkpoint after round"):
        fastfedpg.run(OFTEN, "out", report=report)
