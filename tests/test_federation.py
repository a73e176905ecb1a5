"""What travels between a server and its agents, what they keep, and what happens when one of them does it wrongly."""

import ast
import json
import os
import pickle
import shutil
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import Config, InputError, centralised_pg, fast_fedpg, fedavg_pg, scaffold_pg, simulate, with_oracle
from fastfedpg.core import key_for
from fastfedpg.errors import Stopped
from fastfedpg.runtime import Schedule
from fastfedpg.runtime.loop import answer, serve, stack
from fastfedpg.study import Interrupted, checkpoints, files, plan, runs
from grid import (
    RUN,
    Node,
    agents_of,
    declared,
    engine_of,
    federated,
    grid_of,
    identity,
    served,
    short_folder,
    site_of,
)

# isort: split
from fastfedpg.federation import bridge, deployment, local, memory, protocol, roster, serving, site, wire
from fastfedpg.federation.agent import Agent
from fastfedpg.federation.bridge import Answer, EngineLost, Failure, Remote
from fastfedpg.federation.flower import Context, FlowerEngine, RecordDict, server_app
from fastfedpg.federation.settings import Address, Deployment, Terms

N, S, A, H = 3, 4, 3, 3
d = S * A
TABULAR = ref.small_problem(N=N, S=S, A=A, seed=30)
EXACT = with_oracle(TABULAR, "exact")
SAMPLED = with_oracle(TABULAR, "gpomdp", B=2, K=4)
FAST, SCAFFOLD = fast_fedpg(0.3, H), scaffold_pg(0.3, H)
ALL = {
    "fast_fedpg": FAST,
    "fedavg_pg": fedavg_pg(0.3, H),
    "scaffold_pg": SCAFFOLD,
    "centralised_pg": centralised_pg(0.3),
}
ZERO = np.zeros(d)
OTHER = "6" * 32


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    monkeypatch.setattr(roster, "PAUSE_SECONDS", 0.01)


@cache
def theta_of(algorithm, rounds, participants=None):
    """What a simulation ends in."""
    return simulate(EXACT, algorithm, rounds, participants=participants).theta[0]


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
def listening(path, group=None):
    listener = local.Listener(path, group)
    try:
        yield listener
    finally:
        listener.close()


@contextmanager
def accepting(listener):
    """Accept callers on another thread, and collect them."""
    callers, stop = [], threading.Event()

    def run():
        while not stop.is_set():
            caller = listener.accept(0.02)
            if caller is not None:
                callers.append(caller)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield callers
    finally:
        stop.set()
        thread.join()
        for caller in callers:
            caller.close()


def raw(path):
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.connect(str(path))
    return opened


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_only_bytes_of_callers_who_know_the_secret_arrive(place):
    with listening(place / "s") as listener, accepting(listener) as callers:
        secret = local.secret_of(place / "s")
        right = secret.read_bytes()
        with pytest.MonkeyPatch.context() as wrong:
            wrong.setattr(
                local, "_secret", lambda path: right if threading.current_thread().name != "MainThread" else b"x"
            )
            with pytest.raises(local.Closed, match="the other end does not know the secret"):
                local.dial(place / "s")
        assert callers == []
        caller = local.dial(place / "s")
        local.send(caller, b"hello")
        until(lambda: callers)
        assert local.receive(callers[0], 5, 1.0) == b"hello"
        caller.close()
        with pytest.raises(local.Closed):
            local.receive(callers[0], 5, 1.0)


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("said", [b"", b"\0\0"], ids=["nothing", "half a frame"])
def test_a_silent_caller_holds_up_others_for_a_moment_only(place, monkeypatch, said):
    """For 0.2 s, instead of for ever; who gives up after the same time is heard when he calls again."""
    monkeypatch.setattr(local, "HANDSHAKE_SECONDS", 0.2)
    with listening(place / "s") as listener, accepting(listener), raw(place / "s") as silent:
        silent.sendall(said)

        def heard():
            try:
                local.dial(place / "s").close()
            except local.Closed:
                return False
            return True

        until(heard, 1.5)  # seven calls: eight would fill the queue of one who is held up for ever


def test_a_frame_beyond_the_limit_closes_the_connection(place):
    with listening(place / "s") as listener, accepting(listener) as callers:
        caller = local.dial(place / "s")
        until(lambda: callers)
        local.send(caller, b"x" * 100)
        assert local.receive(callers[0], 100, 1.0) == b"x" * 100
        local.send(caller, b"x" * 101)
        with pytest.raises(local.Closed, match="bad message length"):
            local.receive(callers[0], 100, 1.0)
        assert callers[0].closed
        caller.close()


def test_nobody_else_can_open_the_socket_or_the_secret(place):
    group = __import__("grp").getgrgid(os.getgid()).gr_name
    before = os.umask(0)
    try:
        for name, given, modes in (("own", None, (0o600, 0o600)), ("group", group, (0o660, 0o640))):
            with listening(place / "sub" / name, given) as listener:
                assert (mode(listener.path), mode(local.secret_of(listener.path))) == modes
    finally:
        os.umask(before)
    assert mode(place / "sub") == 0o700
    assert [*(place / "sub").iterdir()] == [], "both are gone with the listener"
    with pytest.raises(InputError, match="no socket can be opened there: no such group: 'no-such-group'"):
        local.Listener(place / "x", "no-such-group")


def test_a_live_socket_is_not_taken_over_and_a_dead_one_is(place, monkeypatch):
    """Live is also one that is too busy to answer, or whose secret is gone."""
    monkeypatch.setattr(local, "HANDSHAKE_SECONDS", 0.1)
    with listening(place / "s") as listener:
        for _ in range(2):
            with pytest.raises(InputError, match="another process answers there already"):
                local.Listener(place / "s")
            local.secret_of(place / "s").unlink(missing_ok=True)
        listener.socket.close()
        assert (place / "s").exists(), "what a killed process leaves"
        with pytest.raises(local.Closed, match=r"nobody answers at .*: Connection refused"):
            local.dial(place / "s")
        with listening(place / "s") as second, accepting(second):
            local.dial(place / "s").close()
    with pytest.raises(local.Closed, match=r"nobody answers at .*: No such file"):
        local.dial(place / "s")


def test_a_path_that_is_too_long_for_a_socket(place):
    """100 bytes, of which the system takes 107."""
    fits = place / ("x" * (100 - len(str(place)) - 1))
    with listening(fits) as listener, accepting(listener):
        local.dial(fits).close()
    with pytest.raises(InputError, match="may have at most 100 bytes; choose a shorter one"):
        local.Listener(fits.with_name(fits.name + "x"))


# An agent


def asked(agent, question):
    """An agent's answer as it says it: about, and arrays."""
    return wire.unpack(agent.answer(question))


def hello(agent, run=RUN, theta=ZERO, **other):
    return asked(agent, protocol.hello(run, {**agent.site.declared, **other}, theta))


class Server:
    """Asks one agent the questions of fast_fedpg, as the server would."""

    def __init__(self, agent, run=RUN):
        self.agent, self.run = agent, run
        self.base = self.previous = hello(agent, run).about["link"]

    def gradient(self, t, down=ZERO, **other):
        self.previous = self.base
        return self._ask(t, "gradient", down, **other)

    def local(self, t, down=ZERO, **other):
        return self._ask(t, "local", down, **other)

    def question(self, t, name, down, base=None, previous=None):
        return protocol.question(self.run, t, name, base or self.base, previous or self.previous, {"down": down})

    def _ask(self, t, name, down, **other):
        said = asked(self.agent, self.question(t, name, down, **other))
        self.previous = said.about.get("link", self.previous)
        return said

    def counts(self):
        """The round counts: the next one starts from what it made."""
        self.base = self.previous


def one(folder, algorithm=FAST, problem=EXACT, i=1, **other):
    return Agent(site_of(problem, algorithm, i, TABULAR, **other), folder)


@pytest.fixture
def calls(monkeypatch):
    """The names of the exchanges that agents compute."""
    made, compute = [], Agent._answer
    monkeypatch.setattr(Agent, "_answer", lambda self, name, *rest: (made.append(name), compute(self, name, *rest))[1])
    return made


def test_an_agent_answers_hello_exchanges_and_evaluations(tmp_path):
    """The gradient that it sends is its own; so are J and the return."""
    agent = one(tmp_path)
    said = hello(agent)
    assert said.about == {
        "agent": 1,
        "declared": agent.site.declared,
        "tells": True,
        "link": protocol.beginning(RUN, ZERO),
        "round": -1,
    }
    assert said.arrays == {}
    server = Server(agent)
    up = server.gradient(0)
    exact = EXACT.oracle(jnp.asarray(EXACT.tasks[1]))
    gradient = exact.gradient(jnp.asarray(ZERO), (), exact.sample(jnp.asarray(ZERO), (), jax.random.key(0), None)[0])
    np.testing.assert_allclose(up.arrays["up"], gradient, atol=1e-14)
    assert up.about == {"agent": 1, "link": protocol.link(server.base, 0, "gradient", {"down": ZERO})}
    value = asked(agent, protocol.evaluation(RUN, ZERO))
    assert value.about == {"agent": 1}
    np.testing.assert_allclose(value.arrays["return"], EXACT.evaluate(ZERO[None]).returns[0, 1], rtol=1e-12)
    cost = ref.J(TABULAR.P, TABULAR.cost[1], TABULAR.rho, TABULAR.gamma, ZERO)
    np.testing.assert_allclose(value.arrays["J"], cost, rtol=1e-9)


def test_an_agent_refuses_everything_else(tmp_path):
    """In words, of which each is the reason."""
    agent = one(tmp_path)
    server = Server(agent)
    base, ask = server.base, protocol.question
    down = {"down": ZERO}
    refusals = {
        b"junk": "4 bytes that are no message",
        wire.pack({"ask": "drift"}): "asked 'drift'; an agent answers hello, exchange, evaluate",
        wire.pack({}): "asked 'None'",
        wire.pack({"ask": "hello"}): "a hello without a declaration and a run",
        wire.pack({"ask": "hello", "run": "../" + RUN, "declared": {}}): "a hello without a declaration and a run",
        protocol.hello(RUN, agent.site.declared, ZERO[1:]): "theta is float64[11]; it must be float64[12]",
        ask(RUN, 0, "average", base, base, down): "exchange 'average' of round 0; this algorithm has gradient, local",
        ask(RUN, -1, "gradient", base, base, down): "exchange 'gradient' of round -1",
        ask(RUN, 2**31, "gradient", base, base, down): f"exchange 'gradient' of round {2**31}",
        ask(RUN, 0, "gradient", base, base, {"up": ZERO}): "it lacks 'down' and has 'up'",
        ask(RUN, 0, "gradient", base, base, {"down": ZERO * np.nan}): "down has 12 entries that are not finite",
        ask(OTHER, 0, "gradient", base, base, down): f"run {OTHER} is not known here",
        ask(RUN, 0, "gradient", "0" * 64, base, down): "round 0 starts from a memory that is not here",
        ask(RUN, 0, "gradient", base, "0" * 64, down): "exchange 'gradient' of round 0 does not follow what this agent",
        ask(RUN, 0, "local", base, base, down): "exchange 'local' of round 0 does not follow what this agent has heard",
        protocol.evaluation(OTHER, ZERO): f"run {OTHER} is not known here",
        protocol.evaluation(RUN, ZERO[1:]): "theta is float64[11]",
    }
    for question, words in refusals.items():
        said = asked(agent, question)
        assert words in said.about["refused"]
        assert (said.about["agent"], said.about["again"], said.arrays) == (1, False, {})
    silent = one(tmp_path / "silent", tells=False)
    assert hello(silent).about["tells"] is False
    assert "does not say what a policy is worth" in asked(silent, protocol.evaluation(RUN, ZERO)).about["refused"]


def test_a_run_is_never_a_path(tmp_path):
    """Whether a file stands beside the agent's folder can't be found out by naming it."""
    agent = one(tmp_path / "own")
    hello(agent)
    shutil.copy(tmp_path / "own" / f"{RUN}.safetensors", tmp_path / "there.safetensors")
    words = {asked(agent, protocol.evaluation(name, ZERO)).about["refused"] for name in ("../there", "../gone")}
    assert {w.replace("there", "gone") for w in words} == {
        "run ../gone is not known here: it was begun elsewhere, or its memory is lost"
    }


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "fedavg_pg"},
        {"version": "0.0.1"},
        {"agents": 4},
        {"parameters": 13},
        {"dtype": "float32"},
        {"seed": 1},
        {"eta": 0.2},
        {"H": 4},
        {"keys": "private"},
        {"tau": None},
        {"new": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_settings_that_differ_are_refused_by_name(tmp_path, change):
    """By the agent, which begins nothing, and by the server for itself."""
    config = Config(algorithm="fast_fedpg", eta=0.3, H=H)
    mine = protocol.declaration(config, N, ZERO, "counter")
    agent = one(tmp_path / "agent", said=mine)
    theirs = {**agent.site.declared, **change}
    (name,) = change
    said = asked(agent, protocol.hello(RUN, theirs, ZERO))
    shown = lambda x: "not set" if x is None else x
    words = f"{name} is {shown(theirs[name])} there and {shown(agent.site.declared.get(name))} here"
    assert said.about["refused"] == words
    assert [*(tmp_path / "agent").iterdir()] == []
    with grid_of([agent]) as grid, pytest.raises(InputError) as refused:
        federated(engine_of(grid), EXACT, FAST, Schedule(1), said={**mine, **change})
    back = f"{name} is {shown(agent.site.declared.get(name))} there and {shown(theirs[name])} here"
    assert str(refused.value) == f"agent-0: agent 1 does not fit this server: {back}"


def test_asked_twice_an_agent_gives_the_stored_reply(tmp_path, calls):
    """To the bit and without a computation, in either exchange, and by a new agent on the same folder too."""
    agent = one(tmp_path, problem=SAMPLED)
    server = Server(agent)
    first = server.question(0, "gradient", ZERO)
    answers = [agent.answer(first)]
    server.gradient(0)
    second = server.question(0, "local", ZERO + 0.1)
    answers.append(agent.answer(second))
    again = one(tmp_path, problem=SAMPLED)
    for speaker in (agent, again):
        assert [speaker.answer(q) for q in (first, second)] == answers
    assert hello(again).about["round"] == 0
    assert calls == ["gradient", "local"]


@pytest.mark.parametrize("restart", [False, True], ids=["", "restarted"])
def test_a_discarded_round_leaves_no_trace(tmp_path, restart, calls):
    """SCAFFOLD's control variates: a round that is asked again with another message starts from the memory before it,
    one that counts from the memory after it; here against the agent's half alone."""

    def fresh():
        return one(tmp_path, SCAFFOLD)

    task, e = jnp.asarray(EXACT.tasks[1]), SCAFFOLD.exchanges[0]
    half = lambda c, t, x: answer(e, EXACT.oracle, task, c, (), _model(x), key_for(0, t, "local", 1))
    agent = fresh()
    base = hello(agent).about["link"]
    x, y, discarded = np.random.default_rng(0).normal(size=(3, d))  # a constant would be no change of policy
    c, _, up, _ = half(ZERO, 0, x)
    c_lost = half(ZERO, 0, discarded)[0]
    assert np.abs(np.asarray(c - c_lost)).max() > 1e-3, "the discarded round would be seen"
    ask = lambda t, base, x: asked(
        agent, protocol.question(RUN, t, "local", base, base, protocol.sent(_model(x), "down"))
    )
    ask(0, base, discarded)
    agent = fresh() if restart else agent
    said = ask(0, base, x)
    np.testing.assert_array_equal(said.arrays["up.c"], up.c)
    agent = fresh() if restart else agent
    said = ask(1, said.about["link"], y)
    np.testing.assert_array_equal(said.arrays["up.c"], half(c, 1, y)[2].c)
    assert len(calls) == 3
    assert "starts from a memory that is not here" in ask(0, base, x).about["refused"], "a round of long ago"


def _model(x):
    return type(SCAFFOLD.init(jnp.asarray(ZERO), N)[1])(jnp.asarray(x), jnp.asarray(x / 3))


def test_rounds_and_exchanges_in_the_wrong_order(tmp_path):
    """A round that has only begun can't count, and one that counts can't be skipped."""
    agent = one(tmp_path)
    server = Server(agent)
    begun = server.gradient(0).about["link"]
    refused = server.gradient(1, base=begun, previous=begun).about["refused"]
    assert "round 1 starts from a memory that is not here: this agent stands after round 0" in refused
    server.previous = begun
    server.local(0)
    old = server.base
    server.counts()
    server.gradient(1)
    server.local(1)
    assert "not here" in asked(agent, server.question(2, "gradient", ZERO, old, old)).about["refused"]


def page(folder):
    return folder / f"{RUN}.safetensors"


def test_another_runs_file_and_a_damaged_one_are_refused(tmp_path):
    """Cut short, of another run, or with one bit of its arrays changed: in words, and the file stays as it is."""
    server = Server(one(tmp_path))
    server.gradient(0)
    whole, question = page(tmp_path).read_bytes(), server.question(0, "local", ZERO)
    assert "link" in asked(one(tmp_path), question).about
    page(tmp_path).write_bytes(whole)
    Server(one(tmp_path), OTHER)
    other = (tmp_path / f"{OTHER}.safetensors").read_bytes()
    flipped = bytearray(whole)
    flipped[-5] ^= 1
    for data, words in ((whole[:-9], ""), (other, f"it is of run {OTHER}"), (bytes(flipped), ""), (b"", "")):
        page(tmp_path).write_bytes(data)
        refused = asked(one(tmp_path), question).about
        assert refused["refused"].startswith(f"the memory of run {RUN} can't be read: ")
        assert words in refused["refused"]
        assert refused["again"] is False
        assert page(tmp_path).read_bytes() == data
    page(tmp_path).unlink()
    assert f"run {RUN} is not known here" in asked(one(tmp_path), question).about["refused"]


def test_only_the_last_runs_are_remembered(tmp_path):
    """RUNS of them, of which each is newer than the one before."""
    agent = one(tmp_path)
    for k in range(memory.RUNS + 2):
        hello(agent, f"{k:032x}")
        os.utime(tmp_path / f"{k:032x}.safetensors", (k, k))
    kept = sorted(int(p.stem, 16) for p in tmp_path.glob("*.safetensors"))
    assert kept == [*range(2, memory.RUNS + 2)]
    assert mode(tmp_path / f"{9:032x}.safetensors") == 0o600


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_while_a_page_is_written_leaves_the_old_one_or_the_new_one(tmp_path, monkeypatch, call, when):
    """Each call that syncs or renames dies in turn; a new agent answers the question to the same bits every time."""
    plain = Server(one(tmp_path / "plain"))
    plain.gradient(0)
    expected = plain.local(0, ZERO + 0.1).arrays["up"]
    original, crashes = getattr(os, call), 0
    for k in range(1, 9):
        server = Server(one(tmp_path / str(k)))
        server.gradient(0)
        question, count = server.question(0, "local", ZERO + 0.1), 0

        def dies(*arguments, **names):
            nonlocal count
            count += 1
            if count == k and when == "before":
                raise _Crash
            result = original(*arguments, **names)
            if count == k:
                raise _Crash
            return result

        with monkeypatch.context() as patched:
            patched.setattr(os, call, dies)
            try:
                server.agent.answer(question)
            except _Crash:
                crashes += 1
        said = asked(one(tmp_path / str(k)), question)
        np.testing.assert_array_equal(said.arrays["up"], expected)
        if count < k:
            break
    assert crashes == count > 0, "the last attempt went through whole"


class _Crash(BaseException):
    pass


@pytest.mark.parametrize("kind", [ZeroDivisionError, InputError])
def test_an_environment_that_raises_is_named_by_its_type_alone(tmp_path, caplog, kind):
    """Its words may hold what must not leave; they are in the site's own log. Asked again it may do better."""
    broken = True

    def oracle(task):
        if broken and not isinstance(task, jax.core.Tracer):
            raise kind("patient 17")
        return EXACT.oracle(task)

    agent = Agent(site_of(EXACT._replace(oracle=EXACT.oracle), FAST, 1), tmp_path)
    agent.site = agent.site._replace(problem=agent.site.problem._replace(oracle=oracle))
    reply = agent.answer(protocol.hello(RUN, agent.site.declared, ZERO))
    assert b"patient" not in reply
    said = wire.unpack(reply).about
    assert said["refused"] == f"its environment raised {kind.__name__}; the site's own log says more"
    assert said["again"] is True
    assert "patient 17" in caplog.text
    broken = False
    assert "link" in hello(agent).about


PRIVATE = {"keys": "private", "seed": None}


def test_private_keys_are_a_sites_own_and_stay(tmp_path):
    """The same answer after a restart that lost the memory; another one at another site, and in another run; the secret is
    its owner's alone."""
    ups = {}
    for name in ("a", "b"):
        ups[name] = Server(one(tmp_path / name, problem=SAMPLED, said=PRIVATE)).gradient(0).arrays["up"]
        page(tmp_path / name).unlink()
    again = Server(one(tmp_path / "a", problem=SAMPLED, said=PRIVATE)).gradient(0).arrays["up"]
    np.testing.assert_array_equal(again, ups["a"])
    assert np.abs(ups["a"] - ups["b"]).max() > 1e-3
    other = Server(one(tmp_path / "a", problem=SAMPLED, said=PRIVATE), OTHER).gradient(0).arrays["up"]
    assert np.abs(ups["a"] - other).max() > 1e-3
    assert mode(tmp_path / "a" / "secret") == 0o600
    (tmp_path / "a" / "secret").chmod(0o644)
    with pytest.raises(InputError, match="others can read"):
        one(tmp_path / "a", problem=SAMPLED, said=PRIVATE)


def test_a_float32_site_says_float32(tmp_path):
    """8 bytes become 4, and theta is a float32 simulation's to its rounding: 3 rounds of sums below 1, 1e-6."""
    single = EXACT._replace(theta0=np.zeros(d, np.float32))
    agents = agents_of(single, FAST, tmp_path)
    with grid_of(agents) as grid:
        last = federated(engine_of(grid), single, FAST, Schedule(3))[-1]
    assert last.theta.dtype == np.float32
    np.testing.assert_allclose(last.theta[0], simulate(single, FAST, 3).theta[0], atol=1e-6)
    assert wire.unpack(agents[0].notebook.page.after[0].reply).arrays["up"].dtype == np.float32
    said = hello(agents[0], OTHER, ZERO)
    assert said.about["refused"] == "theta is float64[12]; it must be float32[12]"


# Every byte that leaves an agent


@contextmanager
def tapped(path):
    """A socket before an agent's: passes every byte, and keeps those that came from the agent, call by call."""
    behind, heard, stop = path.with_name(path.name + "r"), [], threading.Event()
    for old in (path, local.secret_of(path)):
        old.rename(behind if old == path else local.secret_of(behind))
    shutil.copy(local.secret_of(behind), local.secret_of(path))
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind(str(path))
    door.listen(8)
    door.settimeout(0.02)

    def pour(source, target, kept):
        while data := source.recv(65536):
            kept += data
            try:
                target.sendall(data)
            except OSError:
                break
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def call(caller):
        with caller, raw(behind) as agent:
            kept = bytearray()
            heard.append(kept)
            back = threading.Thread(target=pour, args=(agent, caller, kept))
            back.start()
            pour(caller, agent, bytearray())
            back.join()

    def run():
        threads = []
        while not stop.is_set():
            try:
                caller, _ = door.accept()
            except TimeoutError:
                continue
            caller.settimeout(None)
            threads.append(threading.Thread(target=call, args=(caller,)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield heard
    finally:
        stop.set()
        thread.join()
        door.close()
        local.secret_of(path).unlink()
        behind.rename(path)


FRAME = 4  # bytes of a length before each frame
CHALLENGE = 32  # bytes of a random challenge, and of an HMAC-SHA256


def parsed(stream):
    """What one call's bytes are, by the formats' own definitions: words, arrays, and nothing after them."""
    frames = []
    while stream:
        (length,) = struct.unpack_from("!i", stream)
        frames.append(bytes(stream[FRAME : FRAME + length]))
        assert len(frames[-1]) == length
        stream = stream[FRAME + length :]
    challenge, proof, message = frames
    assert len(challenge) == len(proof) == CHALLENGE
    (length,) = struct.unpack_from("<Q", message)
    head, body = json.loads(message[8 : 8 + length]), message[8 + length :]
    about = head.pop("__metadata__")
    assert about.keys() == {"about"}
    ends = sorted(entry["data_offsets"] for entry in head.values())
    assert [a for a, _ in ends] == [0, *(b for _, b in ends)][: len(ends)], "no byte between arrays"
    assert len(body) == (ends[-1][1] if ends else 0), "nor after them"
    return json.loads(about["about"]), {name: (entry["dtype"], entry["shape"]) for name, entry in head.items()}


UPS = {"scaffold_pg": ("up.theta", "up.c")}


@pytest.mark.parametrize("tells", [True, False], ids=["tells", "no-tell"])
@pytest.mark.parametrize("name", ALL)
def test_every_byte_that_leaves_an_agent(name, tells, tmp_path):
    """Over a run of 2 rounds: who it is and its declared settings once, then per exchange a link and vectors of theta's
    length, and per record J and the return if it tells; no drift, no steps, no reward, nothing else."""
    agents = agents_of(EXACT, ALL[name], tmp_path, TABULAR, tells=tells)
    with grid_of(agents) as grid, tapped(grid.nodes[101].socket) as heard:
        federated(engine_of(grid), EXACT, ALL[name], Schedule(2), terms=Terms(evaluate="agents"))
    vectors = {up: ("F64", [d]) for up in UPS.get(name, ("up",))}
    value = {"J": ("F64", []), "return": ("F64", [])}
    exchanges = len(ALL[name].exchanges)
    kinds = [({"agent", "declared", "tells", "link", "round"}, {})]
    for t in range(3):
        kinds += [({"agent", "link"}, vectors)] * (exchanges * (t > 0)) + [({"agent"}, value)] * tells
    found = [parsed(stream) for stream in heard]
    assert [(about.keys(), arrays) for about, arrays in found] == kinds
    assert found[0][0]["declared"] == declared(EXACT), "which the server has said itself"
    assert all(about["agent"] == 1 for about, _ in found)
    assert all(len(about.get("link", "0" * 64)) == 64 for about, _ in found), "a SHA-256"
    if not tells:
        assert not any(b'"J"' in stream or b'"return"' in stream for stream in heard)


# Agents that misbehave


class Faulty:
    """An agent whose answer to one exchange of one round is spoilt, so many times."""

    def __init__(self, agent, spoil, exchange="local", round=1, times=10**6):
        self.agent, self.limit, self.spoil = agent, agent.limit, spoil
        self.where, self.times, self.last = ("exchange", exchange, round), times, {}

    def answer(self, data):
        about, reply = wire.unpack(data).about, self.agent.answer(data)
        old, self.last[about["run"], about.get("exchange")] = (
            self.last.get((about["run"], about.get("exchange"))),
            reply,
        )
        if (about["ask"], about.get("exchange"), about.get("round")) != self.where or self.times <= 0:
            return reply
        self.times -= 1
        return self.spoil(wire.unpack(reply), old)


def spoilt(**change):
    """The reply with other arrays."""

    def spoil(reply, old):
        arrays = {name: x.copy() for name, x in reply.arrays.items()}
        for name, f in change.items():
            arrays[name] = f(arrays["up"])
        return wire.pack(reply.about, {name: x for name, x in arrays.items() if x is not None})

    return spoil


def gone(reply, old):
    raise local.Closed("the agent ends")


FINAL = {
    "nan": (spoilt(up=lambda x: np.append(x[1:], np.nan)), "up has 1 entries that are not finite"),
    "shape": (spoilt(up=lambda x: x[1:]), "up is float64[11]; it must be float64[12]"),
    "dtype": (spoilt(up=lambda x: x.astype(np.float32)), "up is float32[12]; it must be float64[12]"),
    "missing": (spoilt(up=lambda x: None), "it lacks 'up'"),
    "extra": (spoilt(drift=lambda x: x[0]), "it has 'drift'"),
    "norm": (spoilt(up=lambda x: x + 1e7), "the limit is 1e+06"),
    "old": (lambda reply, old: old, "an answer to another question, perhaps of an old round"),
    "other": (lambda reply, old: wire.pack({**reply.about, "agent": 0}, reply.arrays), "it answers as agent 0"),
    "junk": (lambda reply, old: b"junk", "4 bytes that are no message"),
    "refuses": (lambda reply, old: protocol.refusal(1, "I will not"), "refused: I will not"),
}
PASSING = {
    "raises": (lambda reply, old: protocol.refusal(1, "its environment raised Oops", again=True), "raised Oops"),
    "gone": (gone, "the site's agent does not answer"),
}
FAULTS = {**FINAL, **PASSING}
EXCHANGES = pytest.mark.parametrize("exchange", ["gradient", "local"])


def by_hand(algorithm, who, problem=EXACT):
    """Rounds with these agents, one after the other; `who[t]` take part in round t from beginning to end."""
    state, down, every = algorithm.init(jnp.asarray(problem.theta0), N)
    memories = [jax.tree.map(lambda x: x[i], every) for i in range(N)]
    for t, some in enumerate(who):
        for e in algorithm.exchanges:
            ups = []
            for i in some:
                key = key_for(0, t, e.name, i)
                task = jnp.asarray(problem.tasks[i])
                memories[i], _, up, _ = answer(e, problem.oracle, task, memories[i], (), down, key)
                ups.append(up)
            state, down = serve(e, len(some) / N, state, e.combine.merge(stack(ups)), key_for(0, t, e.name))
    return np.asarray(algorithm.policy(state))


ROUNDS = 3
EVERYBODY = [0, 1, 2]


@EXCHANGES
@pytest.mark.parametrize("fault", FAULTS)
def test_an_agent_that_misbehaves_in_either_exchange(fault, exchange, tmp_path):
    """abort: the run stops, and says who, why and when. wait: the same, unless asking again may help; then theta is as
    if nothing had been. reweight: the round is begun again with the others, here 0 and 2 in the second of 3 rounds."""
    spoil, words = FAULTS[fault]
    agents = agents_of(EXACT, FAST, tmp_path)
    agents[1] = faulty = Faulty(agents[1], spoil, exchange)
    with grid_of(agents) as grid:

        def run(on_missing, number, **other):
            log = []
            terms = Terms(on_missing, evaluate="server", **other)
            ended = federated(
                engine_of(grid), EXACT, FAST, Schedule(ROUNDS), terms=terms, log=log, run=f"{number:032x}"
            )
            return ended[-1].theta[0], log

        with pytest.raises(Stopped) as stopped:
            run("abort", 0)
        assert f"round 2, {exchange}: agent 1: " in str(stopped.value)
        assert words in str(stopped.value)

        theta, log = run("reweight", 1)
        np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY, [0, 2], EVERYBODY]))
        said = "\n".join(log)
        assert f"round 2, {exchange}: agent 1: " in said
        assert "round 1: agents 0, 1, 2 took part (3 of 3)\n" in said
        assert "round 2: begins again without agent 1" in said
        assert "round 2: agents 0, 2 took part (2 of 3), at attempt 2\n" in said
        assert log[-1] == "round 3: agents 0, 1, 2 took part (3 of 3)"

        with pytest.raises(Stopped, match=r"round 2: 2 of 3 agents are left, and the quorum is 3.*agent 1: "):
            run("reweight", 2, quorum=3)

        faulty.times = 2
        if fault in FINAL:
            with pytest.raises(Stopped) as stopped:
                run("wait", 3)
            assert f"round 2, {exchange}: agent 1: " in str(stopped.value)
            assert words in str(stopped.value)
        else:
            np.testing.assert_array_equal(run("wait", 3)[0], by_hand(FAST, [EVERYBODY] * ROUNDS))
            assert faulty.times == 0


def test_the_simulation_is_what_a_loop_by_hand_is():
    np.testing.assert_allclose(by_hand(FAST, [EVERYBODY] * ROUNDS), theta_of(FAST, ROUNDS), atol=1e-12)
    assert np.abs(by_hand(FAST, [EVERYBODY, [0, 2], EVERYBODY]) - theta_of(FAST, ROUNDS)).max() > 1e-3


def test_reweighting_shares_and_memories(tmp_path):
    """SCAFFOLD: c moves by |S|/N, and an agent that was left out goes on from the variate it had before."""
    agents = agents_of(EXACT, SCAFFOLD, tmp_path)
    agents[1] = Faulty(agents[1], gone)
    with grid_of(agents) as grid:
        terms = Terms("reweight", evaluate="server")
        ended = federated(engine_of(grid), EXACT, SCAFFOLD, Schedule(4), terms=terms)
    expected = by_hand(SCAFFOLD, [EVERYBODY, [0, 2], EVERYBODY, EVERYBODY])
    np.testing.assert_array_equal(ended[-1].theta[0], expected)
    np.testing.assert_allclose(ended[-1].rounds_taken, [11 / 3], rtol=1e-15)


def test_an_agent_that_never_answers(tmp_path):
    """After the timeout; and while it is away nobody waits for it any more. Patience ends in words."""
    expected = by_hand(FAST, [EVERYBODY, [0, 2], EVERYBODY])  # and all that is asked below is compiled
    agents = agents_of(EXACT, FAST, tmp_path)
    with grid_of(agents) as grid:
        quick = {"timeout": 1.0, "evaluate": "server"}  # of which three agents that answer need a tenth
        run = lambda terms, number, tick: federated(
            engine_of(grid), EXACT, FAST, Schedule(ROUNDS), tick, terms=terms, run=f"{number:032x}", log=log
        )
        mute = lambda done, standing: grid.mute.add(101) if done == 1 else grid.mute.discard(101)
        for number, terms, words in (
            (0, Terms("abort", **quick), "round 2, gradient: agent 1: no answer within 1 s"),
            (
                1,
                Terms("wait", patience=0.3, **quick),
                "round 2, gradient: waited 0.3 s for agent 1: agent 1: no answer",
            ),
        ):
            log = []
            with pytest.raises(Stopped) as stopped:
                run(terms, number, mute)
            assert words in str(stopped.value)
            grid.mute.clear()
        log = []
        theta = run(Terms("reweight", **quick), 2, mute)[-1].theta[0]
        np.testing.assert_array_equal(theta, expected)
        node = grid.nodes[101]

        def away(done, standing):
            if done == 1:
                del grid.nodes[101]
            else:
                grid.nodes[101] = node

        log = []
        theta = run(Terms("reweight", **quick), 3, away)[-1].theta[0]
        np.testing.assert_array_equal(theta, expected)
        assert not any("attempt" in words for words in log)


def test_agents_that_do_not_come(tmp_path):
    agents = agents_of(EXACT, FAST, tmp_path)[:2]
    with grid_of(agents) as grid, pytest.raises(Stopped, match=r"^agent 2 did not come within 0.2 s$"):
        federated(engine_of(grid), EXACT, FAST, Schedule(1), terms=Terms(patience=0.2, evaluate="server"))


class Fragile(FlowerEngine):
    """An engine that is lost in the middle of a question, so many times."""

    left = 0

    def ask(self, questions, seconds):
        for k, found in enumerate(super().ask(questions, seconds)):
            if k == 1 and Fragile.left > 0:
                Fragile.left -= 1
                raise EngineLost("the process ended")
            yield found


def test_an_engine_that_is_lost_is_found_again(tmp_path):
    """After the first of three answers, twice: theta as without it, and who had answered is not asked again."""
    Fragile.left, made, log = 2, [], []
    with grid_of(agents_of(EXACT, FAST, tmp_path)) as grid:
        connect = lambda seconds: (made.append(seconds), Fragile(grid))[1]
        theta = federated(connect, EXACT, FAST, Schedule(ROUNDS), log=log)[-1].theta[0]
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))
    assert len(made) == 3
    assert log.count("the engine was lost (the process ended); connecting again") == 2
    # Of three greetings one was heard before the first loss, of the other two one before the second.
    assert len(grid.asked) == N * (1 + 2 * ROUNDS) + 2 + 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({102: Node("agent-1", None)}, "agent-1: there is an agent 1 already, at another node"),
        ({101: Node("agent-2", None)}, "agent-2: it says that it is agent 1, but its key is registered as agent-2"),
        ({101: Node("", None), 102: Node("", None)}, None),
    ],
    ids=["twice", "name", "no names"],
)
def test_who_is_who(tmp_path, change, words):
    """A key speaks for the agent of its name; where there are no names the agent's own word is enough."""
    agents = agents_of(EXACT, FAST, tmp_path)
    with grid_of(agents) as grid:
        for number, node in change.items():
            source = 101 if node.name else number
            grid.nodes[number] = node._replace(socket=grid.nodes[source].socket)
        run = lambda: federated(engine_of(grid), EXACT, FAST, Schedule(1))
        if words is None:
            np.testing.assert_array_equal(run()[-1].theta[0], by_hand(FAST, [EVERYBODY]))
            return
        with pytest.raises(InputError) as refused:
            run()
        assert str(refused.value) == words


def test_a_number_out_of_range(tmp_path):
    """Three agents are 0, 1 and 2."""
    agent = one(tmp_path)
    agent.site = agent.site._replace(number=3)
    with (
        grid_of([agent]) as grid,
        pytest.raises(InputError, match="agent 3 of 3: agents are numbered from 0 to 2"),
    ):
        federated(engine_of(grid), EXACT, FAST, Schedule(1))


def test_a_node_that_comes_back_under_another_number(tmp_path):
    """Without keys a node that is started again is a new one: it speaks for its agent when the old one has gone."""
    with grid_of(agents_of(EXACT, FAST, tmp_path)) as grid:

        def restarted(done, standing):
            if done == 1:
                grid.nodes[205] = grid.nodes.pop(101)

        terms = Terms(patience=1.0, evaluate="server")
        theta = federated(engine_of(grid), EXACT, FAST, Schedule(ROUNDS), restarted, terms=terms)[-1].theta[0]
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))


@EXCHANGES
def test_a_round_that_stops_in_the_middle_changes_nothing(tmp_path, exchange):
    """Resumed from the standing after round 1 it ends as if nothing had been."""
    agents = agents_of(EXACT, FAST, tmp_path)
    agents[1] = faulty = Faulty(agents[1], gone, exchange)
    kept = []
    with grid_of(agents) as grid:
        run = lambda **other: federated(engine_of(grid), EXACT, FAST, Schedule(ROUNDS), **other)
        with pytest.raises(Stopped):
            run(terms=Terms("abort", evaluate="server"), tick=lambda done, standing: kept.append(standing()))
        assert [s.round for s in kept] == [1]
        faulty.times = 0
        ended = run(start=kept[0])
    np.testing.assert_array_equal(ended[-1].theta[0], by_hand(FAST, [EVERYBODY] * ROUNDS))
    assert [r.round for r in ended] == [1, 2, 3], "what was not recorded before"


# Deployed runs, in their folders

CONFIG = Config(
    "compromise", algorithm="scaffold_pg", eta=0.5, H=2, oracle="gpomdp", B=2, K=3, rounds=4, metrics_every=2
)
NUMBERS = ("final.npz", "metrics.csv", "agents.npz")
plan_once = cache(lambda toml: plan(_config(toml)))


def _config(toml):
    import tomllib

    from fastfedpg.config import from_mapping

    return from_mapping(tomllib.loads(toml))


@pytest.fixture
def planned_once(monkeypatch):
    """Runs of one configuration share what was compiled."""

    def remembered(config, like=None):
        if config.theta0 is not None:
            return plan(config)
        plain = replace(config, checkpoint_rounds=None)
        return replace(plan_once(plain.to_toml()), config=config)

    monkeypatch.setattr(runs, "plan", remembered)


def sites(config, folder, **other):
    """The agents of a configuration, as `site.build` makes them, but with one oracle for all."""
    known = plan_once(replace(config, theta0=None).to_toml())
    said = protocol.declaration(config, known.problem.N, known.problem.theta0, "counter")
    return agents_of(known.problem, known.algorithm, folder, known.known, said=said, **other)


def deploy(config, out, grid, terms=None, report=lambda done, record=None: None, connect=None):
    how = Deployment(terms or Terms(), Address(insecure=True))
    with deployment.opened(config, out, False, how) as (planned, how):
        return deployment.carry_out(planned, how, out, report, None, print, connect or engine_of(grid))


def go_on(out, grid):
    with deployment.opened_again(out, print) as (planned, how, found):
        return deployment.carry_out(planned, how, out, lambda done, record=None: None, found, print, engine_of(grid))


def numbers(out):
    return {name: (out / name).read_bytes() for name in NUMBERS}


@pytest.fixture
def whole(tmp_path, planned_once):
    with grid_of(sites(CONFIG, tmp_path / "whole-sites")) as grid:
        deploy(CONFIG, tmp_path / "whole", grid)
    return tmp_path / "whole"


def test_a_deployed_run_leaves_the_files_of_a_simulated_one(whole, tmp_path):
    """And the same numbers in them, but for the drift, which is the agents' own affair."""
    runs.run(CONFIG, tmp_path / "simulated")
    simulated = {p.name for p in (tmp_path / "simulated").iterdir()}
    assert simulated == {"config.toml", "metrics.csv", "final.npz", "agents.npz", "summary.json"}
    assert {p.name for p in whole.iterdir()} == simulated | {"federation"}
    rows = [(p / "metrics.csv").read_text().splitlines() for p in (whole, tmp_path / "simulated")]
    assert rows[0][0] == rows[1][0]
    names = rows[0][0].split(",")
    for a, b in zip(*(r[1:] for r in rows), strict=True):
        for name, x, y in zip(names, a.split(","), b.split(","), strict=True):
            assert (
                (x == "")
                if name == "drift"
                else (x == y == "" or abs(float(x) - float(y)) <= 1e-9 * max(1, abs(float(y))))
            ), name
    for name, key in (("final.npz", "theta"), ("agents.npz", "returns")):
        with np.load(whole / name) as a, np.load(tmp_path / "simulated" / name) as b:
            np.testing.assert_allclose(a[key], b[key], atol=1e-9)
    assert json.loads((whole / "summary.json").read_text())["state"] == "finished"
    assert deployment.is_deployed(whole)
    said = deployment.read(whole)
    assert protocol.is_run(said.run)
    assert mode(whole / "federation") == 0o700
    log = (whole / "federation" / "log.txt").read_text()
    assert "round 4: agents 0, 1 took part (2 of 2)" in log
    assert log.rstrip().endswith("finished after round 4")


@pytest.mark.parametrize("at", range(1, CONFIG.rounds))
@pytest.mark.parametrize("how", [KeyboardInterrupt, RuntimeError])
def test_interrupted_after_any_round_it_ends_in_the_same_bytes(whole, tmp_path, at, how):
    def report(done, record=None):
        if done == at and record is None:
            raise how

    out = tmp_path / "out"
    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        with pytest.raises(Interrupted if how is KeyboardInterrupt else how):
            deploy(CONFIG, out, grid, report=report)
        assert int(checkpoints.present(out)[0].name) == at
        go_on(out, grid)
    assert numbers(out) == numbers(whole)


@pytest.mark.parametrize("at", range(CONFIG.rounds))
def test_killed_between_an_answer_and_the_next_checkpoint_it_ends_in_the_same_bytes(whole, tmp_path, at):
    """The folder is copied before round at + 1, and the agents go on to its end: they are one round ahead."""
    out, running = tmp_path / "out", tmp_path / "running"

    def kill(done, record=None):
        if done == at and (record is not None if at == 0 else record is None) and not out.exists():
            shutil.copytree(running, out, ignore=shutil.ignore_patterns(files.LOCK))
        if done == at + 1 and record is None:
            raise RuntimeError

    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        with pytest.raises(RuntimeError):
            deploy(CONFIG, running, grid, report=kill)
        go_on(out, grid)
    assert numbers(out) == numbers(whole)


def test_no_checkpoint_no_further_round(whole, tmp_path, monkeypatch):
    """The agents are told nothing that the server might forget; once there is room again the run goes on."""

    def full(*arguments):
        if arguments[2].round == 2:
            raise OSError(28, "No space left on device")
        return write(*arguments)

    write = checkpoints.write
    out = tmp_path / "out"
    agents = sites(CONFIG, tmp_path / "sites")
    with grid_of(agents) as grid:
        monkeypatch.setattr(checkpoints, "write", full)
        with pytest.raises(
            Stopped, match="no checkpoint could be written after round 2; the agents wait where they are"
        ):
            deploy(CONFIG, out, grid)
        assert [a.notebook.page.round for a in agents] == [1, 1], "counted from 0: none has heard of a third round"
        monkeypatch.setattr(checkpoints, "write", write)
        go_on(out, grid)
    assert numbers(out) == numbers(whole)


def test_agents_evaluate_for_themselves(tmp_path, planned_once):
    """J is the mean of the J_i, and returns are the simulation's; the gap is nobody's to know. Or nothing is known."""
    result = simulate(plan_once(CONFIG.to_toml()).problem, plan_once(CONFIG.to_toml()).algorithm, 4, metrics_every=2)
    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        told = deploy(CONFIG, tmp_path / "agents", grid, Terms(evaluate="agents"))
        untold = deploy(CONFIG, tmp_path / "none", grid, Terms(evaluate="none"))
    np.testing.assert_allclose(told.metrics["J"], result.metrics["J"], rtol=1e-9)
    np.testing.assert_allclose(told.returns, result.returns, rtol=1e-9)
    assert np.isnan(told.metrics["gap"]).all()
    for name in ("J", "gap", "return_mean"):
        assert np.isnan(untold.metrics[name]).all()
    np.testing.assert_array_equal(told.theta, untold.theta)
    with grid_of(sites(CONFIG, tmp_path / "silent", tells=False)) as grid:
        silent = deploy(CONFIG, tmp_path / "no-tell", grid, Terms(evaluate="agents"))
    assert np.isnan(silent.metrics["J"]).all()
    log = (tmp_path / "no-tell" / "federation" / "log.txt").read_text()
    assert log.count("agents 0, 1 will not say what a policy is worth; J is not known") == 1


def test_a_problem_that_the_server_does_not_know(tmp_path, planned_once):
    """It knows theta's length alone, and ends in the same theta."""
    known = plan_once(CONFIG.to_toml())
    length = int(np.shape(known.problem.theta0)[-1])
    private = replace(CONFIG, problem="private", agents=2, parameters=length)
    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        with pytest.raises(InputError, match="evaluate = server needs a problem that the server knows"):
            deploy(private, tmp_path / "refused", grid, Terms(evaluate="server"))
        assert not (tmp_path / "refused").exists()
        found = deploy(private, tmp_path / "out", grid)
    expected = simulate(known.problem, known.algorithm, 4, metrics_every=2)
    np.testing.assert_allclose(found.theta, expected.theta, atol=1e-9)
    np.testing.assert_allclose(found.metrics["J"], expected.metrics["J"], rtol=1e-9)
    assert np.isnan(found.metrics["gap"]).all()


def test_a_start_from_a_file(tmp_path, planned_once):
    known = plan_once(CONFIG.to_toml())
    start = np.random.default_rng(0).normal(size=known.theta_shape)
    np.savez(tmp_path / "start.npz", theta=start)
    config = replace(CONFIG, theta0=str(tmp_path / "start.npz"))
    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        found = deploy(config, tmp_path / "out", grid)
    expected = simulate(known.problem, known.algorithm, 4, metrics_every=2, theta0=start.ravel())
    np.testing.assert_allclose(found.theta, expected.theta, atol=1e-9)


@pytest.mark.parametrize(
    ("config", "terms", "words"),
    [
        (replace(CONFIG, seeds=2), Terms(), "seeds = 2; a deployed run has one"),
        (replace(CONFIG, algorithm="independent_pg"), Terms(), "this algorithm has no server"),
        (CONFIG, Terms(timeout=0), "timeout = 0; it must be positive"),
        (CONFIG, Terms(patience=float("nan")), "patience = nan; it must be positive"),
        (CONFIG, Terms("reweight", quorum=3), "quorum = 3; it must be between 1 and the number of agents, 2"),
    ],
)
def test_what_can_be_wrong_before_a_folder_is_there(tmp_path, config, terms, words, planned_once):
    with pytest.raises(InputError, match=words):
        deploy(config, tmp_path / "out", None, terms)
    assert not (tmp_path / "out").exists()


def test_a_site_is_one_agents_part_and_nothing_of_the_others(tmp_path):
    """Its declaration is the server's, and its gradient that of its number in the whole problem."""
    config = replace(CONFIG, oracle="exact")
    whole = plan(config)
    for i in range(2):
        built = site.build(config, i)
        assert built.declared == protocol.declaration(config, 2, whole.problem.theta0, "counter")
        assert built.problem.N == 1
        for mine, every in zip(jax.tree.leaves(built.problem.tasks), jax.tree.leaves(whole.problem.tasks), strict=True):
            np.testing.assert_array_equal(mine, every[i : i + 1])
    with pytest.raises(InputError, match="agent = 2; problem 'compromise' has agents 0 to 1"):
        site.build(config, 2)


# The ServerApp's side


@contextmanager
def server_app_of(grid, folder, limit=2**20):
    """Flower's ServerApp on a thread, and the engine that it offers at a local socket."""
    with listening(folder / "server") as listener:
        context = Context(1, 1, {}, RecordDict(), {"socket": str(listener.path), "limit": limit})
        thread = threading.Thread(target=server_app, args=(grid, context))
        thread.start()
        remote = Remote(listener.accept(5.0), limit)
        try:
            yield remote
        finally:
            remote.close()
            thread.join(5)
            assert not thread.is_alive(), "the ServerApp ends with the server"


def test_the_server_app_carries_a_run(tmp_path, place):
    """Through both of Flower's apps and both sockets: theta as by hand; failures come through as such."""
    agents = agents_of(EXACT, FAST, tmp_path)
    agents[1] = Faulty(agents[1], gone, times=1)
    with grid_of(agents) as grid, server_app_of(grid, place) as remote:
        assert remote.nodes() == {100: "agent-0", 101: "agent-1", 102: "agent-2"}
        theta = federated(lambda seconds: remote, EXACT, FAST, Schedule(ROUNDS))[-1].theta[0]
        grid.mute.add(100)
        question = protocol.hello(OTHER, declared(EXACT), ZERO)
        answers = [*remote.ask({100: question, 102: question}, 0.1)]
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))
    assert [a.node for a in answers] == [102], "who says nothing is left out when the time is over"
    assert wire.unpack(answers[0].content).about["agent"] == 2


def pair():
    """Two ends of one connection."""
    return [Connection(s.detach()) for s in socket.socketpair()]


class Many:
    """An engine with so many nodes, half of which fail."""

    def __init__(self, count):
        self.count = count

    def nodes(self):
        return {2**63 + k: f"agent-{k}" for k in range(self.count)}

    def ask(self, questions, seconds):
        for k, (node, question) in enumerate(questions.items()):
            yield Answer(node, question[::-1] if k % 2 else Failure(f"no {k}"))


def test_the_bridge_carries_a_thousand_nodes():
    """Their numbers have 19 digits, so that a list of them has far more bytes than a message's limit."""
    mine, theirs = pair()
    thread = threading.Thread(target=bridge.carry, args=(Many(1000), theirs, wire.ROOM))
    thread.start()
    remote = Remote(mine, wire.ROOM)
    nodes = remote.nodes()
    assert nodes == Many(1000).nodes()
    found = [*remote.ask({node: str(node).encode() for node in nodes}, 1.0)]
    assert found == [*Many(1000).ask({node: str(node).encode() for node in nodes}, 1.0)]
    assert [isinstance(a.content, Failure) for a in found[:2]] == [True, False]
    remote.close()
    thread.join(5)
    assert not thread.is_alive()


def test_an_engine_that_goes_away_is_lost(monkeypatch):
    mine, theirs = pair()
    theirs.close()
    with pytest.raises(EngineLost):
        Remote(mine, 100).nodes()
    mine.close()
    mine, theirs = pair()
    monkeypatch.setattr(bridge, "SLACK_SECONDS", 0.05)
    with pytest.raises(EngineLost, match="the engine says nothing"):
        Remote(mine, 100).nodes()
    mine.close()
    theirs.close()


def test_a_caller_who_says_nothing_does_not_keep_an_agent_from_others_or_from_its_end(tmp_path, place):
    """He has passed the handshake; a second one is answered at once, and the agent ends when it is told to."""
    agent = one(tmp_path)
    began = time.monotonic()
    with served(agent, place / "s"):
        silent = local.dial(place / "s")
        caller = local.dial(place / "s")
        local.send(caller, protocol.hello(RUN, agent.site.declared, ZERO))
        assert wire.unpack(local.receive(caller, agent.limit, 20.0)).about["agent"] == 1
        caller.close()
    assert time.monotonic() - began < 20 < serving.QUESTION_SECONDS
    silent.close()


SOURCE = Path(protocol.__file__).parents[1]


@pytest.mark.parametrize("name", ["wire", "local", "bridge", "flower"])
def test_what_lives_for_one_message_does_not_import_jax(name):
    """Importing JAX would cost each message a second."""
    found = "[m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib')]"
    code = f"import fastfedpg.federation.{name}, sys; print({found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_flower_is_imported_in_one_file():
    """Another engine is another file."""

    def imports(path):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (a.name for a in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module or ""

    using = {
        p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py") for m in imports(p) if m.split(".")[0] == "flwr"
    }
    assert using == {"federation/flower.py"}


def test_flower_asks_who_makes_a_message_and_forgets_it():
    """The grid of these tests leaves nothing behind in Flower."""
    from flwr.supercore.task_identity import TaskIdentity

    with identity():
        assert TaskIdentity.run_id == 1
    with pytest.raises(RuntimeError, match="is not set"):
        _ = TaskIdentity.run_id
