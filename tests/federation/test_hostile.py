"""Sites that have a key and mean harm, and a SuperLink that sends nonsense: what it costs the others."""

import hashlib
import secrets
import time

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'fastfedpg[federation]'")

from flwr.app import RecordDict
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesResponse, PushMessagesRequest
from flwr.proto.message_pb2 import Message as Head
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.recorddict_pb2 import ConfigRecord, ConfigRecordValue
from flwr.supercore.protobuf.client import ProtobufClient

from fastfedpg.federation import wire
from fastfedpg.federation.roster import Roster
from fastfedpg.federation.transport import flower, node, superlink
from fastfedpg.federation.transport.engine import Answer, EngineLost, Failure, Seen
from fastfedpg.federation.transport.node import Node
from grid import RUN, agents_of
from sites import EXACT, FAST
from superlinks import LIMIT, attending, deployed, signed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flower's own
MIRROR = lambda question: question[::-1]


def late(seconds):
    def answer(question):
        time.sleep(seconds)
        return question[::-1]

    return answer


def announcing(blob):
    """A node whose answers are objects made by hand: the one with this content, or one that it never sends."""

    class Announcing(Node):
        def _push(self, asked, data, seconds):
            root, leaf, about = secrets.token_hex(32), hashlib.sha256(blob or b"never").hexdigest(), asked.metadata
            whose = (about.run_id, root, self.number.node_id, SUPERLINK_NODE_ID, about.message_id, "")
            task = about.src_task_id if about.HasField("src_task_id") else None
            metadata = Metadata(*whose, about.created_at, about.ttl, flower.TYPE, None, task)
            tree = ObjectTree(object_id=root, children=[ObjectTree(object_id=leaf)])
            made = flower.Parcel(message_to_proto(make_message(metadata, RecordDict())), tree, {leaf: blob})
            heads = {"messages_list": [made.head], "message_object_trees": [tree], "clientapp_runtime_list": [seconds]}
            pushed = self.fleet.PushMessages(PushMessagesRequest(node=self.number, **heads))
            if blob is not None:
                flower.push_objects(self.fleet, self.number, about.run_id, pushed, [made])

    return Announcing


def heard(link, count, seconds, also=lambda engine, nodes: None):
    """What so many agents say to a question, each after how many seconds, and how long the whole took."""
    engine = superlink.SuperLinkEngine(link.address, LIMIT)
    try:
        end = time.monotonic() + 20
        while len(nodes := {seen.agent: number for number, seen in engine.nodes().items()}) < count:
            assert time.monotonic() < end, "a node's thread has ended"
            time.sleep(0.02)
        began, agents = time.monotonic(), {number: agent for agent, number in nodes.items()}
        came = {
            agents[answer.node]: (answer.content, time.monotonic() - began)
            for answer in engine.ask(dict.fromkeys(agents, b"question"), seconds)
        }
        took = time.monotonic() - began
        also(engine, nodes)
        return came, took
    finally:
        engine.close()


@pytest.mark.parametrize("body", [b"\xff\xff\xff\xff", b"no value", b"a header alone"])
def test_an_object_that_can_not_be_read_is_its_agents_failure_alone(body, link, tmp_path):
    """Its name fits what is in it, so that the SuperLink takes it: what is no protobuf, and a value of no kind."""
    if body == b"no value":
        body = ConfigRecord(items=[ConfigRecord.Item(key="message", value=ConfigRecordValue())]).SerializeToString()
    head = b"ConfigRecord  %d\x00" % len(body)
    with attending(
        link, {0: MIRROR, 1: MIRROR}, tmp_path, {0: announcing(head + (b"" if body == b"a header alone" else body))}
    ):
        came, _ = heard(link, 2, 9.0)
    assert came[1][0] == b"noitseuq"
    assert isinstance(came[0][0], Failure)
    assert came[0][0].startswith("its answer: "), came


def test_who_announces_an_answer_and_never_sends_it_holds_up_nobody_beyond_the_time(link, tmp_path):
    """Who answers later is heard when its answer comes; of the other there is nothing left at the SuperLink."""
    state = link.app.state.linkstate_factory.state()

    def left(engine, nodes):
        assert len(state.object_store) == 0, "both questions and answers were objects"

    with attending(link, {0: MIRROR, 1: late(0.5)}, tmp_path, {0: announcing(None)}):
        came, took = heard(link, 2, 3.0, left)
    assert came[1][0] == b"noitseuq"
    assert came[1][1] < 2.0
    assert came[0][0] == "its answer: it was not sent to the end"
    assert 3.0 <= took < 5.0


def test_what_comes_while_others_are_fetched_is_heard(link, tmp_path, monkeypatch):
    """Fetching two answers takes longer than there is time; the third was there in time, and would be lost after it."""
    take, taken = superlink.take, []

    def fetched(*given):
        taken.append(time.sleep(0.0 if len(taken) > 1 else 1.2))
        return take(*given)

    monkeypatch.setattr(superlink, "take", fetched)
    with attending(link, {0: MIRROR, 1: MIRROR, 2: late(0.6)}, tmp_path):
        came, took = heard(link, 3, 2.0)
    assert {agent: content for agent, (content, _) in came.items()} == dict.fromkeys((0, 1, 2), b"noitseuq")
    assert took > 2.0


def test_no_node_is_asked_under_a_name_that_another_one_knows(link, tmp_path, monkeypatch):
    """Whoever has a key may delete messages by their names, and push others first; so names are used again for one."""
    asked, made = [], superlink.parcel

    def noted(metadata, *more):
        one = made(metadata, *more)
        asked.append((one.name, metadata.dst_node_id))
        return one

    monkeypatch.setattr(superlink, "parcel", noted)
    agents = agents_of(EXACT, FAST, tmp_path)
    with attending(link, {i: signed(link, a, i) for i, a in enumerate(agents)}, tmp_path):
        deployed(link)
    assert len({name for name, _ in asked}) == len({*asked}), "one node for each name"
    assert len({*asked}) < len(asked), "used again"


def test_nobody_who_knows_a_question_knows_the_names_of_its_objects(link, tmp_path, monkeypatch):
    """Asked again it has others, which nobody could announce before; in one exchange what goes to many is sent once."""
    sent, groups, made = [], [], superlink.parcel

    def noted(metadata, *more):
        groups.append(metadata.group_id)
        sent.append(made(metadata, *more))
        return sent[-1]

    monkeypatch.setattr(superlink, "parcel", noted)
    monkeypatch.setattr(superlink, "IN_HEAD", 0)
    with attending(link, {0: MIRROR, 1: MIRROR}, tmp_path):
        heard(link, 2, 5.0, lambda engine, nodes: [*engine.ask(dict.fromkeys(nodes.values(), b"question"), 5.0)])
    first, second, *again = [{*one.objects} for one in sent]
    assert len(again) == 2
    assert len(first & second) == 2, "all but the message itself"
    assert not (first | second) & (again[0] | again[1])
    # Of a message's own name another site may guess the rest: the time, and the receiver's number.
    assert len({*groups}) == 4
    assert all(len(group) == 32 for group in groups)


@pytest.mark.parametrize("nonsense", ["no tree", "no protobuf", "questions that can't be read"])
def test_a_node_lives_through_nonsense_says_so_once_and_answers_what_comes_then(
    nonsense, link, tmp_path, monkeypatch, caplog
):
    sent, times, made = ProtobufClient._unary_unary, [], flower.content

    def told(self, *, rpc_method, **more):
        if rpc_method.endswith("Fleet/PullMessages") and len(times) < 3 and nonsense.startswith("no"):
            times.append(rpc_method)
            if nonsense == "no protobuf":
                raise ValueError("Invalid protobuf response payload")
            return PullMessagesResponse(messages_list=[Head()])
        return sent(self, rpc_method=rpc_method, **more)

    def said(data, salt=""):
        """Content in which there is no message; it is the server that makes it, since no answer was asked for yet."""
        if len(times) == 3 or nonsense.startswith("no"):
            return made(data, salt)
        times.append(data)
        return RecordDict({flower.NAME: flower.ConfigRecord({"salt": salt})})

    monkeypatch.setattr(flower, "content", said)
    monkeypatch.setattr(node, "SHORTEST", 0.05)
    monkeypatch.setattr(ProtobufClient, "_unary_unary", told)
    with attending(link, {0: MIRROR}, tmp_path):
        while len(times) < 3:
            heard(link, 1, 0.5)
        tries = iter(range(5))  # it may be just coming back
        while (content := heard(link, 1, 9.0)[0].get(0, (None,))[0]) != b"noitseuq":
            assert next(tries) < 4, content
    words = {
        "no tree": "a message without its objects' names",
        "no protobuf": "Invalid protobuf response payload",
        "questions that can't be read": "a record without bytes",
    }
    assert sum(words[nonsense] in said.getMessage() for said in caplog.records) == 1


def test_a_superlink_that_sends_nonsense_is_lost_and_may_come_again(link, monkeypatch):
    engine, sent = superlink.SuperLinkEngine(link.address, LIMIT), ProtobufClient._unary_unary

    def none(self, **more):
        raise ValueError("Invalid protobuf response payload")

    monkeypatch.setattr(ProtobufClient, "_unary_unary", none)
    with pytest.raises(EngineLost, match=r"^Invalid protobuf response payload$"):
        engine.nodes()
    with pytest.raises(EngineLost):
        superlink.SuperLinkEngine(link.address, LIMIT)
    monkeypatch.setattr(ProtobufClient, "_unary_unary", sent)
    assert engine.nodes() == {}
    engine.close()


class Unreadable:
    """An engine at which agent 1 answers at once, and agent 0 what is none, and how much later is said."""

    def __init__(self, what, after):
        self.what, self.after = what, after

    def nodes(self):
        return {100: Seen(0), 101: Seen(1)}

    def ask(self, questions, seconds):
        yield Answer(101, wire.pack({"agent": 1}))
        time.sleep(self.after)
        yield Answer(100, self.what)


@pytest.mark.parametrize("what", [Failure("its answer: it was not sent to the end"), b"nonsense"])
def test_who_holds_up_the_others_by_an_answer_that_is_none_is_left_alone_as_if_it_were_silent(what):
    """After 0.3 seconds: for so long, then for twice as long; who is wrong at once has held up nobody."""
    engine = Unreadable(what, 0.3)
    people = Roster(lambda seconds: engine, RUN, {}, 2, 1.0, lambda words: None)
    people.nodes = {0: 100, 1: 101}
    exchange = lambda: people.ask({0: b"q", 1: b"q"}, 60.0, lambda agent, message: None)
    pauses = []
    for _ in range(2):
        answers, lacks = exchange()
        assert ({*answers}, {*lacks}) == ({1}, {0})
        assert people.ready([0, 1]) == [1]
        pauses.append(people.silent[0][1])
    assert 0.3 <= pauses[0] < 0.5
    assert 0.6 <= pauses[1] < 1.0
    engine.after = 0.0
    exchange()
    assert people.silent[0][1] >= pauses[1], "what is wrong at once makes nothing good"
    engine.what = wire.pack({"agent": 0})
    exchange()
    assert people.ready([0, 1]) == [0, 1]
