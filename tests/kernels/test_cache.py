"""Compiled code that is kept: in a folder of ours alone, and run only if it is what we compiled."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fastfedpg import cache, entry, kernels

NOBODY = 65534
AVAILABLE = "from fastfedpg import kernels; print(kernels.available())"
PLANTED = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) { close(open("%s", O_CREAT | O_WRONLY, 0600)); }
void *fastfedpg_play(void *call) { return 0; }
void *fastfedpg_weigh(void *call) { return 0; }
"""


def python(code, where):
    """A process with this cache: what it printed, and what it said."""
    environment = {k: v for k, v in os.environ.items() if k not in ("CC", "FASTFEDPG_KERNELS")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "XDG_CACHE_HOME": str(where)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def give_away(path):
    """Make it somebody else's: by its owner where that can be done, else by who may write it."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    else:
        path.chmod(mode(path) | 0o022)


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A cache with our library in it."""
    where = tmp_path_factory.mktemp("cache")
    assert python(AVAILABLE, where) == ("True\n", "")
    return where


@pytest.fixture
def kept(compiled_once, tmp_path):
    """The library in a cache of this test's own."""
    shutil.copytree(compiled_once / "fastfedpg", tmp_path / "fastfedpg")
    (file,) = (tmp_path / "fastfedpg").iterdir()
    return file


@pytest.fixture
def evil(tmp_path):
    """A library with the right names that leaves a mark where it is loaded, and the mark."""
    mark, source, library = tmp_path / "it ran", tmp_path / "evil.c", tmp_path / "evil.so"
    source.write_text(PLANTED % mark)
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library, mark


def named_rightly(kept, library):
    """The file in which a library would be found: the name has its hash."""
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    return kept.with_name(f"{kept.stem.rsplit('-', 1)[0]}-{digest}.so")


def test_the_folder_and_the_library_are_ours_alone(compiled_once):
    (kept,) = (compiled_once / "fastfedpg").iterdir()
    assert (mode(kept.parent), mode(kept)) == (0o700, 0o600)
    assert kept.stem.endswith(hashlib.sha256(kept.read_bytes()).hexdigest())


def test_the_planted_library_would_run_if_it_were_ours(kept, evil, tmp_path):
    """The control: what the other tests plant is found and loaded, if nothing speaks against it."""
    library, mark = evil
    shutil.copy(library, kept.with_name(named_rightly(kept, library).name))
    kept.unlink()
    assert python(AVAILABLE, tmp_path)[0] == "True\n"
    assert mark.exists()


def test_somebody_elses_library_in_our_folder_is_not_loaded(kept, evil, tmp_path):
    library, mark = evil
    planted = named_rightly(kept, library)
    shutil.copy(library, planted)
    give_away(planted)
    kept.unlink()
    assert python(AVAILABLE, tmp_path) == ("True\n", "")
    assert not mark.exists()
    assert kept.exists()  # compiled again


def test_a_link_to_a_library_is_not_followed(kept, evil, tmp_path):
    library, mark = evil
    named_rightly(kept, library).symlink_to(library)
    kept.unlink()
    assert python(AVAILABLE, tmp_path) == ("True\n", "")
    assert not mark.exists()


def test_a_library_that_is_not_what_we_compiled_is_not_loaded(kept, evil, tmp_path):
    """Other bytes under the name of ours."""
    library, mark = evil
    kept.write_bytes(library.read_bytes())
    assert python(AVAILABLE, tmp_path) == ("True\n", "")
    assert not mark.exists()
    assert kept.read_bytes() != library.read_bytes()


def test_nothing_is_taken_from_a_folder_that_others_may_write(kept, evil, tmp_path):
    """Or that is somebody else's: the loops are compiled anew, with a note, and not kept."""
    library, mark = evil
    shutil.copy(library, named_rightly(kept, library))
    kept.unlink()
    before = sorted(kept.parent.iterdir())
    give_away(kept.parent)
    out, said = python(AVAILABLE, tmp_path)
    assert out == "True\n"
    assert said.count("compiled loops are not kept, and none is taken from there") == 1
    assert str(kept.parent) in said
    assert not mark.exists()
    assert sorted(kept.parent.iterdir()) == before


@pytest.mark.parametrize("shared", ["fastfedpg", "."])
def test_a_folder_for_all_is_refused_in_words(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache.private_folder("programs")
    (tmp_path / shared).chmod(0o777)
    with pytest.raises(cache.NotOurs, match=r"may be written by others \(mode 777\).* XDG_CACHE_HOME"):
        cache.private_folder("programs")
    (tmp_path / shared).chmod(0o1777)  # in a sticky folder a name belongs to whoever made it
    assert cache.private_folder("programs") == folder
    if shared == "fastfedpg":
        with pytest.raises(cache.NotOurs, match="mode 1777"):
            cache.private_folder()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("theirs", ["fastfedpg/programs", "fastfedpg", "."])
def test_somebody_elses_folder_is_refused_in_words(theirs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache.private_folder("programs")
    os.chown(tmp_path / theirs, NOBODY, NOBODY)
    with pytest.raises(cache.NotOurs, match=f"belongs to user {NOBODY}"):
        cache.private_folder("programs")


def test_a_folder_of_ours_that_others_can_only_read_is_closed(tmp_path, monkeypatch):
    """As earlier versions made it; and folders that are made on the way are closed too, whatever the umask."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    before = os.umask(0)
    try:
        folder = cache.private_folder("programs")
    finally:
        os.umask(before)
    assert {mode(path) for path in (folder, folder.parent, tmp_path / "new")} == {0o700}
    folder.chmod(0o755)
    assert mode(cache.private_folder("programs")) == 0o700


def test_jax_keeps_no_programs_where_others_may_write(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/x\x1b[31m\ny")
    folder = tmp_path / "x\x1b[31m\ny" / "fastfedpg" / "programs"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    entry.keep_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
    said = capsys.readouterr().err
    assert "fastfedpg: note: compiled programs are not kept:" in said
    assert "x\\x1b[31m\\ny/fastfedpg" in said
    assert said.count("\n") == 1


def test_what_is_noted_of_the_cache_is_printable(tmp_path, monkeypatch, caplog):
    """A folder's name may hold what a terminal would obey."""
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/x\x1b[31m\ny")

    def load(note):
        kernels.library._cache(note)
        raise OSError("\x1b")

    monkeypatch.setattr(kernels.library, "load", load)
    monkeypatch.delenv(kernels.SWITCH, raising=False)
    cache.private_folder().chmod(0o777)
    assert not kernels.available.__wrapped__()
    first, second = caplog.messages
    assert "x\\x1b[31m\\ny/fastfedpg may be written" in first
    assert second.endswith(": \\x1b")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_somebody_elses_program_is_removed(tmp_path, monkeypatch):
    """Put there while the folder was open to all."""
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache.private_folder("programs")
    for name in ("ours", "theirs"):
        (folder / name).touch()
    give_away(folder / "theirs")
    entry.keep_programs()
    assert [path.name for path in folder.iterdir()] == ["ours"]
    assert Path(os.environ["JAX_COMPILATION_CACHE_DIR"]) == folder


def test_which_implementation_is_in_use_has_a_name(tmp_path, monkeypatch):
    """`plain`, or the hash of source, flags and compiler: the same in every process, another with another flag."""
    named = "from fastfedpg import kernels; print(kernels.build())"
    monkeypatch.setenv("FASTFEDPG_KERNELS", "off")
    fresh = kernels.build.__wrapped__
    monkeypatch.setattr(kernels, "available", kernels.available.__wrapped__)
    assert fresh() == "plain"
    monkeypatch.setenv("FASTFEDPG_KERNELS", "on")
    monkeypatch.setattr(kernels, "available", lambda: True)
    here = fresh()
    assert here.startswith("c ")
    assert len(here) == 14
    assert python(named, tmp_path)[0] == f"{here}\n"
    monkeypatch.setattr(kernels.library, "FLAGS", (*kernels.library.FLAGS, "-ffast-math"))
    assert fresh() != here
