"""Files are whole or not there at all, on a disk that is full or read-only."""

import errno
import json
import os
import re
import resource
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import fastfedpg
from commands import command
from fastfedpg import files
from fastfedpg.experiment import checkpoints, run_folder
from fastfedpg.experiment import recorded_run as run
from fastfedpg.runtime import shapes
from stopped_runs import CONFIG, DRAWN, FILES, OFTEN, flags, killed, newest, numbers, rounds_kept

pytestmark = pytest.mark.usefixtures("fresh_folder")


def no_space(*args, **more):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def files_of(size: int):
    """The system itself refuses to write more than this into a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def failing(monkeypatch, where: str):
    with monkeypatch.context() as patch:
        if where == "file":
            with files_of(100):  # bytes, fewer than any of the two files has
                yield
        else:
            patch.setattr(os, where, no_space)
            yield


FULL = pytest.mark.parametrize("where", ["mkdir", "file", "fsync", "replace"])


@FULL
def test_a_full_disk_costs_a_checkpoint_and_not_the_run(where, monkeypatch, never_stopped):
    """At round 6 alone the disk is full: the earlier one stays, nothing half is left, and the run goes on."""
    real, heard, seen = checkpoints.write, [], {}

    def write(out, who, standing, *rest):
        if standing.round != 6:
            return real(out, who, standing, *rest)
        with failing(monkeypatch, where):
            return real(out, who, standing, *rest)

    def report(done: int, record=None) -> None:
        seen.setdefault(done, sorted(p.name for p in Path("out/checkpoints").glob("*")))
        if done == 6:
            planned = run.plan(OFTEN)
            form = shapes(planned.problem, planned.algorithm, planned.schedule)
            assert checkpoints.read(newest("out"), run.identity(planned), form).standing.round == 4

    monkeypatch.setattr(checkpoints, "write", write)
    with run.begin(OFTEN, Path("out")) as planned:
        run.execute(planned, Path("out"), report, note=heard.append)
    why = "File too large" if where == "file" else "No space left on device"
    kept = "kept in out: config.toml, a checkpoint after round 4 (fastfedpg resume out goes on from it)"
    assert heard == [f"no checkpoint after round 6: {why}; {kept}"]
    assert seen[6] == ["000000002", "000000004", "records.bin"]
    assert seen[8] == ["000000004", "000000008", "records.bin"]
    assert numbers("out") == never_stopped


def test_the_command_line_says_that_a_checkpoint_failed(monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "sync", no_space)
    assert command("run", *flags(replace(CONFIG, checkpoint_rounds=6)), "--out", "out") == 0
    assert (
        "note: no checkpoint after round 6: No space left on device; kept in out: config.toml\n"
        in capsys.readouterr().err
    )


def test_files_are_on_disk_before_they_take_their_name(monkeypatch):
    """Both files and the list of their names before the rename, and the list that it is in after."""
    calls = []
    fsync, rename, move = os.fsync, os.rename, os.replace

    def name(path) -> str:
        return re.sub(
            rf"{re.escape(files.PART)}\d+-", files.PART, str(Path(path).resolve().relative_to(Path().resolve()))
        )

    monkeypatch.setattr(os, "fsync", lambda n: (calls.append(("sync", name(f"/proc/self/fd/{n}"))), fsync(n))[1])
    monkeypatch.setattr(os, "rename", lambda a, b: (calls.append(("name", name(b))), rename(a, b))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append(("name", name(b))), move(a, b))[1])
    fastfedpg.run(replace(CONFIG, checkpoint_rounds=6), "out")
    part = "out/checkpoints/.part-000000006"
    expected = [
        ("sync", "out/.part-.written"),
        ("name", "out/.written"),
        ("sync", "out"),
        ("sync", "out/.part-config.toml"),
        ("sync", "out/.written"),  # where the file is listed before it has its name
        ("name", "out/config.toml"),
        ("sync", "out"),
        ("sync", "out"),  # with the new folder for checkpoints in it
        ("sync", "out/checkpoints/records.bin"),
        ("sync", f"{part}/state.safetensors"),
        ("sync", f"{part}/checkpoint.toml"),
        ("sync", part),
        ("name", "out/checkpoints/000000006"),
        ("sync", "out/checkpoints"),
    ]
    for file in ("results.npz", "final.npz", "agents.npz", "metrics.csv", "summary.json"):
        expected += [("sync", f"out/.part-{file}"), ("sync", "out/.written"), ("name", f"out/{file}"), ("sync", "out")]
    assert calls == expected


def only_for(name: str, function, error: int):
    """The function, that fails where the file of this name is to be put."""

    def called(a, b, *args, **more):
        if Path(b).name == name:
            raise OSError(error, os.strerror(error))
        return function(a, b, *args, **more)

    return called


@pytest.mark.parametrize(
    ("file", "there"),
    [
        ("results.npz", "config.toml"),
        ("final.npz", "config.toml, results.npz"),
        ("metrics.csv", "config.toml, final.npz, agents.npz, results.npz"),
        ("summary.json", "config.toml, metrics.csv, final.npz, agents.npz, results.npz"),
    ],
)
def test_a_disk_that_is_full_at_the_end(file, there, monkeypatch, never_stopped, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", only_for(file, os.replace, errno.ENOSPC))
        assert command("run", *flags(OFTEN), "--out", "out") == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said
    kept = f"kept in out: {there}, a checkpoint after round 10 (fastfedpg resume out goes on from it)"
    assert said.splitlines()[-1].endswith(kept)
    assert not list(Path("out").glob(f"{files.PART}*"))
    assert command("resume", "out") == 0
    assert "note: from round 10 of 11" in capsys.readouterr().err
    assert numbers("out") == never_stopped


def test_in_python_a_disk_that_is_full_at_the_end_is_no_mistake_of_input(monkeypatch):
    """It must not say that nothing was run."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", only_for("metrics.csv", os.replace, errno.ENOSPC))
        with pytest.raises(OSError, match="No space left on device"):
            fastfedpg.run(OFTEN, "out")
    assert rounds_kept("out") == [10, 8]


def read_only(*args, **more):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_disk_that_becomes_read_only(monkeypatch, never_stopped, capsys):
    """From round 6 on no name can be made, changed or removed; as root may do all that, the answer is simulated."""
    real = checkpoints.write
    with monkeypatch.context() as patch:

        def write(out, who, standing, *rest):
            if standing.round >= 6:
                for name in ("mkdir", "rename", "replace", "unlink", "rmdir"):
                    patch.setattr(os, name, read_only)
            return real(out, who, standing, *rest)

        patch.setattr(checkpoints, "write", write)
        assert command("run", *flags(OFTEN), "--out", "out") == 1
    said = capsys.readouterr().err
    kept = "kept in out: config.toml, a checkpoint after round 4 (fastfedpg resume out goes on from it)"
    assert f"note: no checkpoint after round 6: Read-only file system; {kept}" in said
    assert "nothing was run" not in said
    assert said.splitlines()[-1].startswith("fastfedpg: failed: ")
    assert said.splitlines()[-1].endswith(kept)
    assert command("resume", "out") == 0, "the disk is in order again"
    assert "note: from round 4 of 11" in capsys.readouterr().err
    assert numbers("out") == never_stopped
    assert {p.name for p in Path("out").iterdir()} == FILES | DRAWN


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_run_in_a_folder_that_cannot_be_written_to_is_not_taken_up(error, monkeypatch, capsys):
    out, real = killed(), os.open

    def opened(path, how, *rest, **more):
        if how & os.O_CREAT:
            raise OSError(error, os.strerror(error))
        return real(path, how, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        assert command("resume", out) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"fastfedpg: out: {os.strerror(error)}")
    assert rounds_kept(out) == [8, 6]


def test_of_a_run_that_could_not_begin_no_folder_stays(monkeypatch, capsys):
    """Nor those above its own, but for those that were there."""
    Path("there").mkdir()

    monkeypatch.setattr(run_folder, "describe", no_space)
    assert command("run", "--problem", "compromise", "--rounds", "2", "--out", "there/a/b/c") == 2
    assert "there/a/b/c: No space left on device; nothing was run" in capsys.readouterr().err
    assert [*Path().rglob("*")] == [Path("there")]


def test_what_cannot_even_say_what_it_is_ends_a_run_all_the_same():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def report(done, record=None):
        if done == 8:
            raise Mute

    with pytest.raises(Mute):
        fastfedpg.run(CONFIG, "out", report=report)
    said = json.loads(Path("out/summary.json").read_text())
    assert (said["state"], "its own __str__ raised RuntimeError" in said["message"]) == ("failed", True)
