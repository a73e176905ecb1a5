"""Whatever reads a file that somebody else may have put there goes through one door, which no pipe holds open."""

import ast
import os
from pathlib import Path

import pytest

from fastfedpg import InputError
from fastfedpg.federation.agent_store import AgentStore
from fastfedpg.federation.localhost import processes
from fastfedpg.federation.transport import keys
from fastfedpg.federation.wire import Malformed
from fastfedpg.files import append_regular
from fastfedpg.problems.npz import name_of, read_npz

SOURCE = Path(__file__).parents[1] / "src" / "fastfedpg"
ROOMS = ("experiment", "comparison", "problems", "federation")
EXCUSED = {
    "Path('/proc/cpuinfo').read_text()",  # the system's own
    "part.open('w', newline='', encoding='utf-8')",  # a new name of ours
    *("archive.open(member)", "archive.open(f'{name}.npy', 'w', force_zip64=True)"),  # in a file that is open
    "np.load(opened, allow_pickle=False)",
    "self.store.open(str(run), declared, self.site.own)",  # an agent's memory, which `AgentStore` reads
    "self.store.open(str(run), self.site.declared, self.site.own)",
    "(files(__package__) / 'templates' / name).read_text(encoding='utf-8')",  # the package's own
    "os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 438)",  # never waits, open for both
}


def opens(call: ast.Call) -> bool:
    """Whether this is a call that would wait for a pipe, by its name."""
    f = call.func
    return (
        ast.unparse(f) == "np.load"
        or (isinstance(f, ast.Name) and f.id == "open")
        or (isinstance(f, ast.Attribute) and f.attr in ("read_bytes", "read_text", "open"))
    )


def test_no_file_is_opened_past_the_door():
    found = {}
    for room in ROOMS:
        for path in (SOURCE / room).rglob("*.py"):
            calls = [x for x in ast.walk(ast.parse(path.read_text())) if isinstance(x, ast.Call) and opens(x)]
            found |= {ast.unparse(call): f"{path.relative_to(SOURCE)}:{call.lineno}" for call in calls}
    assert {words: where for words, where in found.items() if words not in EXCUSED} == {}
    assert len(found) > 4  # it finds what there is


@pytest.fixture(autouse=True)
def fresh_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pipe():
    """A pipe into which nobody writes, where a file should be."""
    os.mkfifo("pipe", 0o600)
    return Path("pipe")


def test_a_problem(pipe):
    assert name_of(pipe) == "pipe"
    with pytest.raises(InputError, match=r"pipe: not a file; an \.npz file with theta is needed"):
        read_npz(pipe, ("theta",))


def test_an_agent_s_memory():
    os.mkfifo(f"{'ab' * 16}.safetensors")
    with pytest.raises(Malformed, match=f"the memory of run {'ab' * 16} can't be read: not a file but something else"):
        AgentStore(Path(), ((), ())).open("ab" * 16, {}, "")


def test_the_log_of_a_process(pipe):
    assert processes._tail(pipe) == ""
    with pytest.raises(OSError, match="No such device or address"):
        processes.Started("agent-0", ["true"], {}, pipe).start()
    with pytest.raises(OSError, match="not a file but something else"):
        append_regular(Path("/dev/null"))


def test_certificates_and_keys(pipe):
    with pytest.raises(InputError, match="pipe: the authority's certificate is needed here, but: not a file"):
        keys.check_certificate(pipe, "the authority's certificate")
    with pytest.raises(InputError, match="pipe: not a file, and a private key is one"):
        keys.check_secret(pipe)


def test_what_is_written_on_is_kept():
    for words in (b"one\n", b"two\n"):
        with append_regular(Path("log")) as file:
            file.write(words)
    assert Path("log").read_bytes() == b"one\ntwo\n"
