"""What an agent answers and keeps, and every byte that leaves it."""

import json
import os
import shutil
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import Config, InputError, simulate
from fastfedpg.core import key_for
from fastfedpg.runtime import Schedule
from fastfedpg.runtime.loop import answer
from fastfedpg.runtime.pytrees import arrays_of
from grid import RUN, agents_of, declared, engine_of, federated, grid_of, served, short_folder, site_of
from sites import (
    ALL,
    EXACT,
    FAST,
    OTHER,
    SAMPLED,
    SCAFFOLD,
    TABULAR,
    ZERO,
    H,
    N,
    Server,
    accepting,
    asked,
    d,
    hello,
    mode,
    one,
    raw,
)

# isort: split
from fastfedpg.federation import agent_store, protocol, wire
from fastfedpg.federation.agent import Agent
from fastfedpg.federation.terms import Terms
from fastfedpg.federation.transport import agent_socket, unix_socket

# An agent


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
        "link": protocol.beginning(RUN, 1, ZERO),
        "round": -1,
    }
    assert said.arrays == {}
    server = Server(agent)
    up = server.gradient(0)
    exact = EXACT.oracle(jnp.asarray(EXACT.tasks[1]))
    gradient = exact.gradient(jnp.asarray(ZERO), (), exact.sample(jnp.asarray(ZERO), (), jax.random.key(0), None)[0])
    np.testing.assert_allclose(up.arrays["up"], gradient, atol=1e-14)
    assert up.about == {"agent": 1, "link": protocol.memory_hash(server.base, 0, "gradient", {"down": ZERO})}
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
    assert str(refused.value) == f"agent 0: agent 1 does not fit this server: {back}"


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
    begun = jax.tree.map(lambda x: x[1], SCAFFOLD.init(jnp.asarray(ZERO), N)[2])
    c, _, up, _ = half(begun, 0, x)
    lost = half(begun, 0, discarded)[0]
    assert np.abs(np.asarray(c.c_i - lost.c_i)).max() > 1e-3, "the discarded round would be seen"
    ask = lambda t, base, x: asked(agent, protocol.question(RUN, t, "local", base, base, arrays_of("down", _model(x))))
    ask(0, base, discarded)
    agent = fresh() if restart else agent
    said = ask(0, base, x)
    np.testing.assert_array_equal(said.arrays["up.theta"], up.theta)
    agent = fresh() if restart else agent
    said = ask(1, said.about["link"], y)
    np.testing.assert_array_equal(said.arrays["up.theta"], half(c, 1, y)[2].theta)
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


def test_only_so_many_runs_are_remembered_and_none_that_goes_on_is_forgotten(tmp_path):
    """RUNS + 2 greetings leave RUNS files, and the run that goes on; with RUNS of those a new one is refused."""
    agent = one(tmp_path)
    Server(agent).gradient(0)
    os.utime(page(tmp_path), (0, 0))
    for k in range(agent_store.RUNS + 2):
        hello(agent, f"{k:032x}")
    kept = {p.stem for p in tmp_path.glob("*.safetensors")}
    assert kept == {RUN, *(f"{k:032x}" for k in range(3, agent_store.RUNS + 2))}
    assert mode(tmp_path / f"{9:032x}.safetensors") == 0o600
    agent = one(tmp_path)  # what it knows of them is on disk
    for k in range(3, agent_store.RUNS + 2):
        Server(agent, f"{k:032x}").gradient(0)
    assert "8 runs go on here already" in hello(agent, OTHER).about["refused"]
    assert {p.stem for p in tmp_path.glob("*.safetensors")} == kept
    agent.store.note(RUN, agent_store.OVER)
    assert "link" in hello(agent, OTHER).about
    assert not page(tmp_path).exists()


def test_rounds_beyond_those_declared_are_not_answered(tmp_path):
    """3 were declared: whoever raises the number, from the memory it has, is refused; the last one ends the run."""
    agent = one(tmp_path, said={"rounds": 3})
    server = Server(agent)
    for t in range(3):
        assert agent.store.runs[RUN] != agent_store.OVER
        server.gradient(t, ZERO + t)
        assert "link" in server.local(t).about
        server.counts()
    assert "3 rounds were declared" in server.gradient(3).about["refused"]
    assert agent.store.runs[RUN] == agent_store.OVER


def test_a_sites_budget_outlives_runs_and_restarts(tmp_path):
    """5 questions: 3 in one run, 2 in another after a restart, no more in a third; what was answered is still told."""
    site = one(tmp_path).site._replace(questions=5)
    first, second = Server(Agent(site, tmp_path)), Server(Agent(site, tmp_path), OTHER)
    for k in range(3):
        first.gradient(0, ZERO + k)
    second = Server(Agent(site, tmp_path), OTHER)
    assert "link" in second.gradient(0).about
    assert "link" in second.local(0).about
    third = Server(Agent(site, tmp_path), "7" * 32)
    assert "has answered 5 questions" in third.gradient(0).about["refused"]
    evaluation = protocol.evaluation(OTHER, ZERO)
    assert "has answered 5 questions" in asked(third.agent, evaluation).about["refused"]
    assert "link" in second.gradient(0).about, "a stored answer costs nothing"


def test_noise_can_not_be_averaged_away(tmp_path):
    """Private keys: one policy asked in 5 runs has one answer, bit for bit. With the run's seed 2 rounds have two."""
    agent = one(tmp_path / "a", problem=SAMPLED, said=PRIVATE)
    ups = [Server(agent, f"{k:032x}").gradient(0, ZERO + 0.1).arrays["up"] for k in range(5)]
    for up in ups[1:]:
        np.testing.assert_array_equal(up, ups[0])
    server = Server(agent, "a" * 32)
    rounds = []
    for t in range(2):
        rounds.append(server.gradient(t, ZERO + 0.1).arrays["up"])
        server.local(t)
        server.counts()
    np.testing.assert_array_equal(rounds[0], rounds[1])
    np.testing.assert_array_equal(rounds[0], ups[0])


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_while_a_page_is_written_leaves_the_old_one_or_the_new_one(tmp_path, monkeypatch, call, when):
    """Each call that syncs or renames dies in turn; a new agent answers the question to the same bits every time."""
    plain = Server(one(tmp_path / "plain"))
    plain.gradient(0)
    expected = plain.local(0, ZERO + 0.1).arrays["up"]
    original, crashes = getattr(os, call), 0
    for k in range(1, 12):
        server = Server(one(tmp_path / str(k)))
        server.gradient(0)
        question, count = server.question(0, "local", ZERO + 0.1), 0

        def dies(*arguments, **names):
            nonlocal count
            count += 1
            if count == k and when == "before":
                raise _Crash
            try:
                result = original(*arguments, **names)
            except FileNotFoundError:  # of a list that is not kept here: there is no moment after it
                count -= when == "after"
                raise
            if count == k and when == "after":
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
    agent.compile()
    assert "raised in a rehearsal; it answers all the same" in caplog.text
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
    """The same answer after a restart that lost the memory; another one at another site."""
    ups = {}
    for name in ("a", "b"):
        ups[name] = Server(one(tmp_path / name, problem=SAMPLED, said=PRIVATE)).gradient(0).arrays["up"]
        page(tmp_path / name).unlink()
    again = Server(one(tmp_path / "a", problem=SAMPLED, said=PRIVATE)).gradient(0).arrays["up"]
    np.testing.assert_array_equal(again, ups["a"])
    assert np.abs(ups["a"] - ups["b"]).max() > 1e-3
    assert mode(tmp_path / "a" / "secret") == 0o600
    (tmp_path / "a" / "secret").chmod(0o644)
    with pytest.raises(InputError, match="others can read"):
        one(tmp_path / "a", problem=SAMPLED, said=PRIVATE)


def test_another_message_is_answered_with_other_random_numbers(tmp_path):
    """Private keys: policies that differ by 1e-12 are played with different draws; with the run's seed, with the same.

    So a server can't find single trajectories by asking at policies that are a little apart.
    """
    near = ZERO + 1e-12 * np.eye(len(ZERO))[0]
    for said, apart in (({}, False), (PRIVATE, True)):
        ups = [
            Server(one(tmp_path / f"{apart}", problem=SAMPLED, said=said)).gradient(0, x).arrays["up"]
            for x in (ZERO, near)
        ]
        assert (np.abs(ups[0] - ups[1]).max() > 1e-3) == apart


def test_an_answer_that_is_not_finite_is_never_stored(tmp_path, monkeypatch):
    """It is refused by the agent itself; once the environment is repaired, the same question has a good answer."""
    agent = one(tmp_path)
    server, compute = Server(agent), Agent._answer
    broken = lambda self, *rest: (lambda m, o, up, i: (m, o, up * np.nan, i))(*compute(self, *rest))
    monkeypatch.setattr(Agent, "_answer", broken)
    assert "not finite" in server.gradient(0).about["refused"]
    monkeypatch.setattr(Agent, "_answer", compute)
    assert np.isfinite(Server(one(tmp_path)).gradient(0).arrays["up"]).all()


def test_a_late_copy_of_a_discarded_question_does_no_harm(tmp_path):
    """The second exchange is asked with one mean, then with another that counts, then the first one comes once more."""
    server = Server(one(tmp_path))
    server.gradient(0)
    middle = server.previous
    server.local(0, ZERO + 1)
    counted = server.local(0, ZERO + 2, previous=middle).about["link"]
    assert "link" in server.local(0, ZERO + 1, previous=middle).about
    server.base = counted
    assert "refused" not in server.gradient(1).about
    assert "not here" in server.gradient(0).about["refused"], "nor is an older round asked again"


def test_a_site_keeps_its_own_settings_through_a_run(tmp_path):
    """Another number of trajectories, or another agent's folder, in the middle of a run: refused."""
    first = one(tmp_path)
    Server(first).gradient(0)
    other = Agent(first.site._replace(own="other"), tmp_path)
    assert "own settings are not those" in hello(other).about["refused"]


def test_an_agent_answers_only_so_many_questions_in_a_round(tmp_path):
    """2 exchanges x (3 agents + 8): whoever asks at many policies is stopped."""
    server = Server(one(tmp_path))
    said = [server.gradient(0, ZERO + k).about for k in range(23)]
    assert ["refused" in about for about in said] == 22 * [False] + [True]


def test_a_secret_that_was_cut_off_is_not_used(tmp_path):
    one(tmp_path, said=PRIVATE)
    (tmp_path / "secret").write_bytes(b"")
    with pytest.raises(InputError, match="not a whole secret"):
        one(tmp_path, said=PRIVATE)


def test_a_float32_site_says_float32(tmp_path):
    """8 bytes become 4, and theta is a float32 simulation's to its rounding: 3 rounds of sums below 1, 1e-6."""
    single = EXACT._replace(theta0=np.zeros(d, np.float32))
    agents = agents_of(single, FAST, tmp_path)
    with grid_of(agents) as grid:
        last = federated(engine_of(grid), single, FAST, Schedule(3))[-1]
    assert last.theta.dtype == np.float32
    np.testing.assert_allclose(last.theta[0], simulate(single, FAST, 3).theta[0], atol=1e-6)
    assert wire.unpack(agents[0].store.page.after.popitem()[1].reply).arrays["up"].dtype == np.float32
    said = hello(agents[0], OTHER, ZERO)
    assert said.about["refused"] == "theta is float64[12]; it must be float32[12]"


def test_a_caller_who_says_nothing_does_not_keep_an_agent_from_others_or_from_its_end(tmp_path):
    """A second one is answered at once, and the agent ends when it is told to."""
    agent = one(tmp_path)
    began = time.monotonic()
    with short_folder() as place, served(agent, place / "s"):
        silent = unix_socket.dial(place / "s")
        caller = unix_socket.dial(place / "s")
        unix_socket.send(caller, protocol.hello(RUN, agent.site.declared, ZERO))
        assert wire.unpack(unix_socket.receive(caller, agent.limit, 20.0)).about["agent"] == 1
        caller.close()
    assert time.monotonic() - began < 20 < agent_socket.QUESTION_SECONDS
    silent.close()


# Every byte that leaves an agent


@contextmanager
def tapped(path):
    """A socket before an agent's: passes every byte, and keeps those that came from the agent, call by call."""
    behind, heard, threads = path.with_name(path.name + "r"), [], []
    path.rename(behind)
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

    def accept():
        try:
            return door.accept()[0]
        except TimeoutError:
            return None

    def take(caller):
        caller.settimeout(None)
        threads.append(threading.Thread(target=call, args=(caller,)))
        threads[-1].start()

    try:
        with accepting(accept, take):
            yield heard
    finally:
        for thread in threads:
            thread.join()
        door.close()
        behind.rename(path)


FRAME = 4  # bytes of a length before each frame


def parsed(stream):
    """What one call's bytes are, by the formats' own definitions: words, arrays, and nothing after them."""
    frames = []
    while stream:
        (length,) = struct.unpack_from("!i", stream)
        frames.append(bytes(stream[FRAME : FRAME + length]))
        assert len(frames[-1]) == length
        stream = stream[FRAME + length :]
    (message,) = frames
    (length,) = struct.unpack_from("<Q", message)
    head, body = json.loads(message[8 : 8 + length]), message[8 + length :]
    about = head.pop("__metadata__")
    assert about.keys() == {"about"}
    ends = sorted(entry["data_offsets"] for entry in head.values())
    assert [a for a, _ in ends] == [0, *(b for _, b in ends)][: len(ends)], "no byte between arrays"
    assert len(body) == (ends[-1][1] if ends else 0), "nor after them"
    return json.loads(about["about"]), {name: (entry["dtype"], entry["shape"]) for name, entry in head.items()}


UPS = {"scaffold_pg": ("up.theta",)}


@pytest.mark.parametrize("tells", [True, False], ids=["tells", "no-tell"])
@pytest.mark.parametrize("name", ALL)
def test_every_byte_that_leaves_an_agent(name, tells, tmp_path):
    """Over a run of 2 rounds: who it is and its declared settings once, then per exchange a link and vectors of theta's
    length, and per record J and the return if it tells; no drift, no steps, no reward, nothing else."""
    agents = agents_of(EXACT, ALL[name], tmp_path, TABULAR, tells=tells)
    with grid_of(agents) as grid, tapped(grid.there[101].socket) as heard:
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
