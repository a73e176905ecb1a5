"""Agents' own nodes and the server's own engine at a real SuperLink over TLS, all in one process."""

import shutil
import threading
import time
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'fastfedpg[federation]'")

from flwr.proto.message_pb2 import Message as Head
from flwr.proto.recorddict_pb2 import ArrayRecord, ConfigRecord, ConfigRecordValue
from flwr.proto.recorddict_pb2 import RecordDict as RecordDictProto
from flwr.supercore.corestate import in_memory_corestate
from flwr.supercore.protobuf.client import ProtobufClient

from fastfedpg import InputError
from fastfedpg.errors import Stopped
from fastfedpg.federation import hosting
from fastfedpg.federation.terms import Address
from fastfedpg.federation.transport import flower, flower_http, keys, node, superlink, unix_socket
from fastfedpg.federation.transport.node import Node
from grid import agents_of
from sites import EVERYBODY, EXACT, FAST, ROUNDS, N, by_hand
from superlinks import LIMIT, Dies, attending, deployed, signed, until_it_dies

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flower's own


def test_a_run_leaves_nothing_at_a_superlink_that_starts_again_in_its_middle(link, tmp_path):
    """After round 1 it has forgotten keys, nodes and run: all come back by themselves, and theta is as by hand.

    What agents send is gone from it once it was fetched, and so is what they were sent.
    """
    agents, log = agents_of(EXACT, FAST, tmp_path), []

    def tick(done, standing):
        assert names_alone(link) <= 2 * N
        if done == 1:
            link.stop()
            link.start()

    with attending(link, {i: signed(link, a, i) for i, a in enumerate(agents)}, tmp_path):
        theta = deployed(link, tick, log)
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))
    assert sum("the engine was lost" in words for words in log) == 1, log
    assert sum(words.startswith("connected to the SuperLink") for words in log) == 2


def names_alone(link):
    """How many messages the SuperLink knows by name; of none it has anything else."""
    state = link.app.state.linkstate_factory.state()
    assert not state.message_ins_store
    assert not state.message_res_store
    assert all(not entry.content and not entry.child_object_ids for entry in state.object_store.store.values())
    # One more: of a greeting, whose bytes are the same for all, so that one may confirm what is still being sent to it.
    assert len(state._object_push_sessions) <= len(state.object_store) + 1
    return len(state.object_store)


@pytest.fixture
def requests(monkeypatch):
    """How often each of Flower's methods was called since it was cleared, by whatever client."""
    called, sent = Counter(), ProtobufClient._unary_unary

    def counted(self, *, rpc_method, **more):
        called[rpc_method.rpartition("proto.")[2]] += 1
        return sent(self, rpc_method=rpc_method, **more)

    monkeypatch.setattr(ProtobufClient, "_unary_unary", counted)
    return called


def test_an_exchange_is_two_requests_for_each_agent_and_the_looks(link, tmp_path, requests):
    """After the first one: the server sends all questions at once, and each node its answer; and names are used again,
    so that a SuperLink's memory does not grow with the rounds."""
    agents, found = agents_of(EXACT, FAST, tmp_path), []

    def tick(done, standing):
        found.append((names_alone(link), requests.copy()))
        requests.clear()

    with attending(link, {i: signed(link, a, i) for i, a in enumerate(agents)}, tmp_path):
        theta = deployed(link, tick)
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))
    looks = {"Fleet/PullMessages", "Runtime/PullMessages", "Runtime/GetNodes", "Fleet/SendNodeHeartbeat"}
    for names, called in found[1:]:
        assert names == found[0][0] <= 2 * N
        exchanges = len(FAST.exchanges)
        assert {k: n for k, n in called.items() if k not in looks | {"Runtime/SendTaskHeartbeat"}} == {
            "Runtime/PushMessages": exchanges,
            "Fleet/PushMessages": exchanges * N,
        }
        assert called["Fleet/PullMessages"] >= exchanges * N
        assert called["Runtime/GetNodes"] >= exchanges
    assert names_alone(link) == 0, "the run is over"


@pytest.mark.parametrize("large", ["questions", "answers", "both", "a node that knows nothing of heads"])
def test_what_is_too_large_for_a_head_and_who_reads_none_are_sent_objects(large, link, tmp_path, requests, monkeypatch):
    """One way and the other, and in turns; nothing of it stays at the SuperLink."""
    if large in ("questions", "both"):
        monkeypatch.setattr(superlink, "IN_HEAD", 10)
    if large in ("answers", "both"):
        monkeypatch.setattr(node, "IN_HEAD", 10)
    if large.startswith("a node"):
        monkeypatch.setattr(node, "READS_HEADS", "something else")
    agents, pulled = agents_of(EXACT, FAST, tmp_path), []

    def tick(done, standing):
        assert names_alone(link) <= 2 * N
        pulled.append((requests["Fleet/PullObject"], requests["Runtime/PullObject"]))
        requests.clear()

    with attending(link, {i: signed(link, a, i) for i, a in enumerate(agents)}, tmp_path):
        theta = deployed(link, tick)
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))
    # A node is asked in a head when it has said that it reads them, and answers in one when it was asked so.
    down = 0 if large == "answers" else len(FAST.exchanges) * N
    assert all((found[0] >= down if down else found[0] == 0) for found in pulled[1:]), pulled
    assert all(found[1] >= len(FAST.exchanges) * N for found in pulled[1:]), pulled


def test_a_name_whose_question_was_not_answered_is_not_used_again(link, tmp_path, monkeypatch):
    """Its answer may still come, and would be taken for the new question's. A node whose agent is gone does answer."""
    names, made, state = [], superlink.parcel, {"mood": "well"}
    monkeypatch.setattr(in_memory_corestate, "OBJECT_PUSH_SESSION_TTL_SECONDS", 0.5)  # no end for an answer
    monkeypatch.setattr(superlink, "parcel", lambda *given: names.append(given[0].message_id) or made(*given))

    def answer(question):
        if state["mood"] in ("slow", "long"):
            time.sleep(1.0)
        if state["mood"] == "gone":
            raise unix_socket.Closed
        return question[::-1]

    engine = superlink.SuperLinkEngine(link.address, LIMIT)
    with attending(link, {0: answer}, tmp_path):
        while not engine.nodes():
            time.sleep(0.02)
        (number,) = engine.nodes()
        for mood in ("well", "well", "slow", "well", "gone", "long", "well"):
            state["mood"] = mood
            came = [str(answer.content) for answer in engine.ask({number: b"question"}, 0.3 if mood == "slow" else 9.0)]
            words = {"slow": "", "gone": "the site's agent does not answer"}
            assert "".join(came) == words.get(mood, "b'noitseuq'"), mood
            time.sleep(1.0 if mood == "slow" else 0.0)
    engine.close()
    assert names[0] == "", "it is not known yet what the node reads"
    assert names[1] == names[2], "answered"
    assert names[3] != names[2], "not answered in time"
    assert len({*names[3:]}) == 1


def head_of(*records):
    return Head(content=RecordDictProto(items=records))


def test_what_is_in_a_head_is_looked_at_before_it_is_taken():
    """Its size, and that it is one record with bytes; an empty one says that there are objects."""
    record = lambda key="message", **value: RecordDictProto.Item(
        key="message", config_record=ConfigRecord(items=[ConfigRecord.Item(key=key, value=ConfigRecordValue(**value))])
    )
    take = lambda head: flower.take(None, None, head, None, 5)
    assert take(head_of(record(bytes=b"12345"))) == b"12345"
    assert not flower.in_head(head_of())
    with pytest.raises(ValueError, match=r"^it has 6 bytes; the limit is 5$"):
        take(head_of(record(bytes=b"123456")))
    with pytest.raises(ValueError, match=r"^a message with more than one record$"):
        take(head_of(record(bytes=b"1"), record(bytes=b"1")))
    for other in (
        record(string="12345"),
        record("other", bytes=b"1"),
        RecordDictProto.Item(key="message", array_record=ArrayRecord()),
    ):
        with pytest.raises(ValueError, match=r"^a record without bytes$"):
            take(head_of(other))


def test_a_node_that_was_killed_is_let_in_at_once_and_asked_again(link, tmp_path):
    """It dies with a question in hand, without a word, and comes back with the number that it wrote down."""
    agents, log, deaths = agents_of(EXACT, FAST, tmp_path), [], []
    answers = {i: signed(link, a, i) for i, a in enumerate(agents)}

    def dies(question):
        if len(deaths) == 0 and b"local" in question:
            deaths.append(time.monotonic())
            raise Dies
        return answers[1](question)

    def again():
        while not deaths and not stop.is_set():
            time.sleep(0.02)
        until_it_dies(Node(link.address, link.folder / keys.node_name(1), tmp_path / "node-1"), answers[1], stop)

    with attending(link, {**answers, 1: dies}, tmp_path) as stop:
        thread = threading.Thread(target=again)
        thread.start()
        theta = deployed(link, log=log)
        stop.set()
        thread.join()
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))
    # Whoever looks first says it: we, by the time of its activation, or the SuperLink, by a heartbeat that is missing.
    lost = ("agent 1: its node was started again", "agent 1: Flower's error 5")
    assert any(each in words for words in log for each in lost), log


def test_who_has_a_nodes_connection_but_not_the_agents_key_can_not_answer_for_it(link, tmp_path):
    """The node is agent 1's, the signature is agent 2's, or is that of another answer: neither counts."""
    agents = agents_of(EXACT, FAST, tmp_path)
    answers = {i: signed(link, a, i) for i, a in enumerate(agents)}
    old = []

    def replayed(question):
        old.append(answers[1](question))
        return old[0]

    with attending(link, {**answers, 1: signed(link, agents[1], 2)}, tmp_path) as stop:
        with pytest.raises(InputError, match=r"^agent 1: it is not signed by agent 1's key$"):
            deployed(link)
        stop.set()
    with (
        attending(link, {**answers, 1: replayed}, tmp_path),
        pytest.raises(Stopped, match="round 1, gradient: agent 1: it is not signed by agent 1's key"),
    ):
        deployed(link)


def test_without_the_secret_no_task_and_without_a_known_key_no_question(link, tmp_path):
    """Who has the authority's certificate alone may write to the SuperLink, and is asked nothing."""
    for name in (keys.CA,):
        (tmp_path / name).write_bytes((link.folder / name).read_bytes())
    keys.make_secret(tmp_path)
    keys.make_node_key(tmp_path / keys.node_name(0))
    address = link.address
    with pytest.raises(superlink.EngineLost, match=r"^401"):
        superlink.SuperLinkEngine(Address(address.superlink, tmp_path / keys.CA), LIMIT)  # its key is admitted before
    asked, stop = [], threading.Event()
    stranger = Node(address, tmp_path / keys.node_name(0), tmp_path)
    thread = threading.Thread(target=stranger.attend, args=(lambda q: asked.append(q) or b"", LIMIT, stop))
    thread.start()
    agents = agents_of(EXACT, FAST, tmp_path / "agents")
    with attending(link, {i: signed(link, a, i) for i, a in enumerate(agents)}, tmp_path):
        theta = deployed(link)
    stop.set()
    thread.join()
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))
    assert stranger.number.node_id, "it is connected"
    assert asked == []


def test_a_signature_is_of_one_question_and_one_answer(tmp_path):
    keys.make_node_key(tmp_path / "a")
    private = keys.private_key(tmp_path / "a")
    content = keys.sign(private, b"q", b"answer")
    assert len(content) == len(b"answer") + keys.SIGNATURE_BYTES
    assert keys.signed_by(private.public_key(), b"q", content) == b"answer"
    assert keys.signed_by(private.public_key(), b"p", content) is None
    assert keys.signed_by(private.public_key(), b"q", b"b" + content[1:]) is None
    assert keys.signed_by(private.public_key(), b"q", content[:50]) is None


@pytest.mark.parametrize("wrong", ["readable", "old", "old server", "version", "twice", "missing", "no secret"])
def test_what_is_wrong_with_keys_certificates_and_versions_is_named_before_anything_starts(
    wrong, authority, tmp_path, monkeypatch
):
    for path in authority.iterdir():
        shutil.copy(path, tmp_path)
    address = Address("127.0.0.1:9", tmp_path / keys.CA)
    monkeypatch.setattr(flower_http, "unreachable", lambda address: "")
    monkeypatch.setattr(flower_http, "flower_version", lambda address: "1.39.0" if wrong == "version" else "1.41.9")
    if wrong == "readable":
        (tmp_path / "agent-0").chmod(0o644)
    elif wrong == "old":
        monkeypatch.setattr(keys, "AUTHORITY_DAYS", -1 / 1440)
        keys.make_authority(tmp_path)
    elif wrong == "old server":
        made = keys._certificate
        monkeypatch.setattr(keys, "_certificate", lambda *names: made(*names, -1 / 1440))
        keys.make_certificate(tmp_path, tmp_path, ["127.0.0.1"])
    elif wrong == "twice":
        shutil.copy(tmp_path / "agent-0.pub", tmp_path / "agent-1.pub")
    elif wrong == "missing":
        (tmp_path / "agent-2.pub").unlink()
    elif wrong == "no secret":
        (tmp_path / keys.SECRET).unlink()
    words = {
        "readable": "^[^ ]*agent-0: a private key that others can read",
        "old": r"ca.crt: the authority's certificate that is out of date \(.*\); a new kit has one",
        "old server": r"server.pem: the server's certificate that is out of date \(.*\); `fastfedpg kit … --add certif",
        "version": "is Flower 1.39.0, and here is 1.41",
        "twice": "agent-1.pub: the same key as agent 0's",
        "missing": "agent-2.pub: agent 2's key is not there",
        "no secret": "superlink.secret: No such file",
    }[wrong]
    if wrong in ("readable", "old"):
        with pytest.raises(InputError, match=words):
            hosting._node(address, tmp_path / "agent-0", tmp_path / "state")
    if wrong != "readable":
        with pytest.raises(InputError, match=words):
            flower_http.check(address, N)
