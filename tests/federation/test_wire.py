"""What a message is, and who may say one at a local socket."""

import os
import pickle
import struct
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from fastfedpg import InputError
from fastfedpg.runtime import Schedule
from grid import agents_of, engine_of, federated, grid_of, short_folder
from sites import ALL, EXACT, TABULAR, ZERO, N, accepting, listening, mode, raw

# isort: split
from fastfedpg.federation import protocol, wire
from fastfedpg.federation.terms import Terms
from fastfedpg.federation.transport import unix_socket

# Messages


@pytest.mark.parametrize(
    "x",
    [np.float64(2.5), np.arange(6.0).reshape(2, 3), np.ones(3, np.float32), np.arange(4), np.zeros((0, 2)), ZERO[::2]],
    ids=lambda x: f"{x.dtype}{list(np.shape(x))}",
)
def test_arrays_arrive_as_they_were_sent(x):
    """To the bit, with shape and dtype: a scalar keeps its shape (), and what is empty stays empty."""
    message = wire.unpack(wire.pack({"round": 3, "words": "é"}, {"x": x, "y": x}))
    assert message.about == {"round": 3, "words": "é"}
    for name in "xy":
        assert message.arrays[name].shape == np.shape(x)
        assert message.arrays[name].dtype == x.dtype
        assert message.arrays[name].tobytes() == x.tobytes()


GOOD = wire.pack({"agent": 1}, {"up": np.arange(3.0)})


@pytest.mark.parametrize(
    "data",
    [b"", b"junk", b"\xff" * 200, GOOD[:-1], GOOD[:20], GOOD + b"x", pickle.dumps({"up": 1}), b"PK\x03\x04" * 9]
    + [
        struct.pack("<Q", len(head)) + head
        for head in (b"[]", b"{}", b'{"__metadata__":{"about":"[1]"}}', b"[" * 10**5)
    ],
    ids=range(12),
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(wire.Malformed, match=r"bytes that are no message|what it says of itself is no table"):
        wire.unpack(data)


def test_a_pickle_is_never_opened(tmp_path):
    """The same bytes leave their mark when they are unpickled."""
    mark = tmp_path / "mark"
    poison = pickle.dumps(_Poison(str(mark)))
    with pytest.raises(wire.Malformed):
        wire.unpack(poison)
    assert not mark.exists()
    pickle.loads(poison)
    assert mark.exists()


class _Poison:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path(self.path).touch, ()


FORM = {"g": ((2,), "float64"), "n": ((), "int64")}
FINE = {"g": np.array([3.0, 4.0]), "n": np.int64(1)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"g": None}, "it lacks 'g'"),
        ({"extra": np.zeros(1)}, "it has 'extra'"),
        ({"n": None, "m": np.int64(1)}, "it lacks 'n' and has 'm'"),
        ({"g": np.zeros(3)}, r"g is float64\[3\]; it must be float64\[2\]"),
        ({"g": np.zeros((1, 2))}, r"g is float64\[1, 2\]"),
        ({"g": np.zeros(2, np.float32)}, r"g is float32\[2\]"),
        ({"n": np.zeros(1, np.int64)}, r"n is int64\[1\]; it must be int64\[\]"),
        ({"g": np.array([np.nan, np.inf])}, "g has 2 entries that are not finite"),
        ({"g": np.array([0.0, -np.inf])}, "g has 1 entries that are not finite"),
        ({"g": np.array([3.0, 4.01])}, "g has norm 5.008; the limit is 5"),
        ({"g": np.array([1e300, 1e300])}, "g has norm inf; the limit is 5"),
    ],
)
def test_arrays_of_another_form_are_refused(change, words):
    """The norm of (3, 4) is 5, just the limit; that of (3, 4.01) is beyond it; a square that overflows is so too."""
    wire.check(FINE, FORM, 5.0)
    with np.errstate(over="ignore"), pytest.raises(wire.Malformed, match=words):
        wire.check({k: v for k, v in {**FINE, **change}.items() if v is not None}, FORM, 5.0)


@pytest.mark.parametrize("name", ALL)
def test_the_limit_bounds_every_message(name, tmp_path):
    """Every question and answer of a run with evaluation; arrays alone are beyond it with ROOM more bytes."""
    agents, sizes = agents_of(EXACT, ALL[name], tmp_path, TABULAR), []
    limit = agents[0].limit
    for agent in agents:
        inner = agent.answer
        agent.answer = lambda data, inner=inner: (
            sizes.append(len(data)),
            reply := inner(data),
            sizes.append(len(reply)),
        )[1]
    with grid_of(agents) as grid:
        federated(engine_of(grid), EXACT, ALL[name], Schedule(2), terms=Terms(evaluate="agents"))
    exchanges = len(ALL[name].exchanges)
    assert len(sizes) == 2 * N * (1 + 2 * exchanges + 3), "hello, exchanges of 2 rounds, 3 evaluations; both ways"
    assert max(sizes) <= limit
    talks = protocol.talks(ALL[name], ZERO, N)
    assert limit < max(wire.size(t.up_form) for t in talks) + 2 * wire.ROOM


# The local socket


@pytest.fixture
def place():
    with short_folder() as folder:
        yield folder


@contextmanager
def collecting(listener):
    """Accept callers on another thread, and collect them."""
    callers = []
    try:
        with accepting(lambda: listener.accept(0.02), callers.append):
            yield callers
    finally:
        for caller in callers:
            caller.close()


def test_what_a_caller_says_arrives_whole_and_his_end_is_noticed(place):
    with listening(place / "s") as listener, collecting(listener) as callers:
        caller = unix_socket.dial(place / "s")
        unix_socket.send(caller, b"hello")
        until(lambda: callers)
        assert unix_socket.receive(callers[0], 5, 1.0) == b"hello"
        caller.close()
        with pytest.raises(unix_socket.Closed):
            unix_socket.receive(callers[0], 5, 1.0)


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_caller_who_stops_in_the_middle_of_a_frame_is_given_up(place, monkeypatch):
    """After 0.2 s, instead of never."""
    monkeypatch.setattr(unix_socket, "STALL_SECONDS", 0.2)
    with listening(place / "s") as listener, collecting(listener) as callers, raw(place / "s") as silent:
        silent.sendall(b"\0\0")
        until(lambda: callers)
        with pytest.raises(unix_socket.Closed, match="temporarily unavailable"):
            unix_socket.receive(callers[0], 100, 5.0)


def test_a_frame_beyond_the_limit_closes_the_connection(place):
    with listening(place / "s") as listener, collecting(listener) as callers:
        caller = unix_socket.dial(place / "s")
        until(lambda: callers)
        unix_socket.send(caller, b"x" * 100)
        assert unix_socket.receive(callers[0], 100, 1.0) == b"x" * 100
        unix_socket.send(caller, b"x" * 101)
        with pytest.raises(unix_socket.Closed, match="bad message length"):
            unix_socket.receive(callers[0], 100, 1.0)
        assert callers[0].closed
        caller.close()


def test_nobody_else_can_open_the_socket(place):
    """Who may write to a Unix socket may call, and nobody else: its mode is all that is needed."""
    group = __import__("grp").getgrgid(os.getgid()).gr_name
    before = os.umask(0)
    try:
        for name, given, expected in (("own", None, 0o600), ("group", group, 0o660)):
            with listening(place / "sub" / name, given) as listener:
                assert mode(listener.path) == expected
    finally:
        os.umask(before)
    assert mode(place / "sub") == 0o700
    assert [*(place / "sub").iterdir()] == [], "it is gone with the listener"
    with pytest.raises(InputError, match="no socket can be opened there: no such group: 'no-such-group'"):
        unix_socket.Listener(place / "x", "no-such-group")


def test_a_live_socket_is_not_taken_over_and_a_dead_one_is(place):
    """Live is also one that is too busy to answer."""
    with listening(place / "s") as listener:
        with pytest.raises(InputError, match="another process answers there already"):
            unix_socket.Listener(place / "s")
        listener.socket.close()
        assert (place / "s").exists(), "what a killed process leaves"
        with pytest.raises(unix_socket.Closed, match=r"nobody answers at .*: Connection refused"):
            unix_socket.dial(place / "s")
        with listening(place / "s") as second, collecting(second):
            unix_socket.dial(place / "s").close()
    with pytest.raises(unix_socket.Closed, match=r"nobody answers at .*: No such file"):
        unix_socket.dial(place / "s")


def test_a_file_of_another_kind_is_somebodys_own(place):
    with listening(place / "s") as listener:
        assert listener.reachable()
        (place / "s").unlink()
        assert not listener.reachable()
    (place / "file").write_text("mine")
    with pytest.raises(InputError, match="no socket"):
        unix_socket.Listener(place / "file")
    assert (place / "file").read_text() == "mine"


def test_somebody_elses_words_are_made_fit_for_a_log():
    """No line of one's own making, no escape codes, no half of a character, and not too many."""
    said = wire.plain("x\n2026 round 1: agents 0 took part\x1b[2J\ud800")
    assert said == r"x\n2026 round 1: agents 0 took part\x1b[2J\ud800"
    said.encode()
    assert wire.plain("y" * 600) == "y" * 500 + "…"


def test_a_path_that_is_too_long_for_a_socket(place):
    """100 bytes, of which the system takes 107."""
    fits = place / ("x" * (100 - len(str(place)) - 1))
    with listening(fits) as listener, collecting(listener):
        unix_socket.dial(fits).close()
    with pytest.raises(InputError, match="may have at most 100 bytes; choose a shorter one"):
        unix_socket.Listener(fits.with_name(fits.name + "x"))
