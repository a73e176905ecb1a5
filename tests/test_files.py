"""What is written takes its place at once and whole: files, folders and secrets, in every room that writes."""

import os
import re
from pathlib import Path

import pytest

import fastfedpg
from fastfedpg import InputError
from fastfedpg.files import PART, clear_parts, hold, write_atomically, write_secret, write_text


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_file_that_was_not_finished_leaves_the_one_that_was_there(tmp_path):
    path = tmp_path / "file"
    write_text(path, "before")

    def interrupted():
        with write_atomically(path) as part:
            part.write_text("half")
            assert path.read_text() == "before"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (path.read_text(), names(tmp_path)) == ("before", ["file"])


def test_a_folder_takes_the_place_of_another(tmp_path):
    path = tmp_path / "folder"
    for k in (1, 2):
        with write_atomically(path) as part:
            part.mkdir()
            write_text(part / str(k), "")
    assert (names(tmp_path), names(path)) == (["folder"], ["2"])
    with pytest.raises(FileNotFoundError), write_atomically(path) as part:
        (part / "without" / "its folder").mkdir()
    assert (names(tmp_path), names(path)) == (["folder"], ["2"])


def test_what_is_in_a_folder_is_on_disk_before_the_folder_has_its_name(tmp_path, monkeypatch):
    calls, fsync, replace = [], os.fsync, os.replace
    name = lambda path: re.sub(rf"{re.escape(PART)}\d+-", PART, str(Path(path).resolve().relative_to(tmp_path)))
    monkeypatch.setattr(os, "fsync", lambda n: (calls.append(name(f"/proc/self/fd/{n}")), fsync(n))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append(f"-> {name(b)}"), replace(a, b))[1])
    with write_atomically(tmp_path / "a") as part:
        (part / "b").mkdir(parents=True)
        (part / "b" / "c").touch()
    assert calls == [".part-a/b/c", ".part-a/b", ".part-a", "-> a", "."]


def test_a_secret_is_its_owners_alone_from_the_first_byte(tmp_path, monkeypatch):
    """Also where a file that everybody can read is replaced, and while its first byte is written."""
    path, modes, real = tmp_path / "key", [], Path.write_bytes

    def write_bytes(self, data):
        modes.append(self.stat().st_mode & 0o777)
        return real(self, data)

    path.touch(0o644)
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    before = os.umask(0)
    try:
        write_secret(path, b"secret")
    finally:
        os.umask(before)
    assert (modes, path.stat().st_mode & 0o777, path.read_bytes()) == ([0o600], 0o600, b"secret")


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / f"{PART}1-file").touch()
    (tmp_path / f"{PART}2-folder" / "deep").mkdir(parents=True)
    (tmp_path / "file").touch()
    clear_parts(tmp_path)
    assert names(tmp_path) == ["file"]


BY_HAND = re.compile(r"os\.(replace|rename)\(|\.rename\(|fsync|mkstemp|mkdtemp\(dir|\.replace\((path|final|out)\b")


def test_nobody_renames_by_hand():
    source = Path(fastfedpg.__file__).parent
    assert {file.name for file in source.rglob("*.py") if BY_HAND.search(file.read_text())} == {
        "files.py",
        "written.py",
    }


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_lock_is_named_and_nothing_is_made_elsewhere(kind, tmp_path):
    lock = tmp_path / "out" / ".lock"
    lock.parent.mkdir()
    {"folder": lock.mkdir, "link": lambda: lock.symlink_to(tmp_path / "away"), "pipe": lambda: os.mkfifo(lock)}[kind]()
    if kind == "pipe":
        with hold(lock.parent):
            pass
        return
    says = r"out/\.lock: not a file, as the lock of a folder is; remove it"
    with pytest.raises(InputError, match=says), hold(lock.parent):
        pass
    assert not (tmp_path / "away").exists()
