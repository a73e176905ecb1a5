"""Flower's messages with our bytes in them, and the app for Flower's own SuperNode, which carries them to an agent.

A site needs neither app nor SuperNode: `node.py` is its node. Where SuperNodes are there already, they run this app,
which brings each question to the agent's socket; it imports no JAX, since it lives for one message.

Flower announces a message by its head and sends its content after it, as a tree of objects. A head has room for content
of its own, and SuperLinks pass it on: so between two of ours a message that is not large is its head, pushed once and
pulled once. SuperNodes do not look for it there.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.proto.recorddict_pb2 import ConfigRecord as Record
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_body,
    get_object_tree,
    no_object_id_recompute,
)

from fastfedpg.federation.transport import unix_socket

TYPE, NAME, SALT = "query", "message", "salt"
READS_HEADS = "heads"
"""The group of an answer by which a node says what it is; a SuperNode's has the question's group, which is none."""
IN_HEAD = 2**18
"""Bytes; what is larger is sent as objects: the SuperLink takes heads apart, and gets those of all nodes at once."""
SILENT = 1000
"""An error code of our own, beside Flower's."""
UNSENT = "it was not sent to the end"

client_app = ClientApp()
server_app = ServerApp()


@server_app.main()
def _main(grid: Grid, context: Context) -> None:
    """The run's server is the process that started it; somebody else has taken its task."""
    raise RuntimeError("this run's server takes its task itself: start the SuperLink with --isolation process")


@client_app.query()
def _deliver(message: Message, context: Context) -> Message:
    """Carry a question to the site's own agent, and its answer back; the node's configuration says where it is."""
    try:
        question = message.content.config_records[NAME][NAME]
        assert isinstance(question, bytes)
        socket, limit = Path(str(context.node_config["socket"])), int(context.node_config["limit"])
        # After its time nobody wants the answer; the agent has stored it for the next question.
        answer = unix_socket.ask(socket, question, limit, message.metadata.ttl)
    except (unix_socket.Closed, TimeoutError):  # where the socket is, is nobody's business
        return Message(Error(SILENT, "the site's agent does not answer"), reply_to=message)
    return Message(content(answer), reply_to=message)


class Parcel(NamedTuple):
    """A message as Flower sends it: its head, the tree of its objects, and their contents in the order of sending.

    The bytes themselves come last. Whoever finds them there needs no other object, and may confirm at once. Where they
    are in the head there are no objects.
    """

    head: Any
    tree: ObjectTree
    objects: dict[str, bytes]

    @property
    def name(self) -> str:
        """Flower's identifier of the message."""
        return str(self.head.metadata.message_id)


def parcel(metadata: Metadata, data: bytes | Error, salt: str = "") -> Parcel:
    """A message with these bytes: in its head, if the message has a name already, or else as objects that name it.

    Objects are named by what is in them; with salt nobody who knows the bytes knows the names before they are there.
    """
    error = isinstance(data, Error)
    made = make_message(metadata, error=data) if error else make_message(metadata, content(data, salt))  # type: ignore[arg-type]
    if metadata.message_id:  # the SuperLink asks for a tree, and keeps the name of its root: nothing is sent for it
        return Parcel(message_to_proto(made), ObjectTree(object_id=metadata.message_id), {})
    with no_object_id_recompute():
        made.metadata.__dict__["_message_id"] = made.object_id
        objects = {name: found.deflate() for name, found in reversed(get_all_nested_objects(made).items())}
        return Parcel(message_to_proto(remove_content_from_message(made)), get_object_tree(made), objects)


def push_objects(client: Any, node: Any, run: int, pushed: Any, parcels: Iterable[Parcel]) -> None:
    """Send what the SuperLink wants of the messages that were just announced to it, in their order."""
    wanted, about = {*pushed.objects_to_push}, {"node": node, "run_id": run, "session_id": pushed.session_id}
    for one in parcels:
        for name, content in one.objects.items():
            if name in wanted:
                client.PushObject(PushObjectRequest(object_id=name, object_content=content, **about))


def take(client: Any, node: Any, head: Any, tree: ObjectTree, limit: int) -> bytes | None:
    """The bytes of a message, which are gone from the SuperLink when they are here; None while they are on their way.

    ValueError says why there never will be any.
    """
    if in_head(head):
        return _of_head(head, limit)
    run, name = head.metadata.run_id, _leaf(tree)
    found = client.PullObject(PullObjectRequest(node=node, run_id=run, object_id=name))
    if not found.object_available:
        if not found.object_found:
            raise ValueError(UNSENT)
        return None
    confirm(client, node, run, tree.object_id)
    _check_size(len(found.object_content), limit)
    if hashlib.sha256(found.object_content).hexdigest() != name:
        raise ValueError("an object that is not what its name says")
    try:
        record = Record.FromString(get_object_body(found.object_content, ConfigRecord))
    except Exception as error:  # whoever made the bytes chooses which one
        raise ValueError(f"an object that can't be read ({type(error).__name__})") from None
    return _of_record(record, limit)


def confirm(client: Any, node: Any, run: int, name: str) -> None:
    """A message has come: the SuperLink may forget it."""
    client.ConfirmMessageReceived(ConfirmMessageReceivedRequest(node=node, run_id=run, message_object_id=name))


def in_head(head: Any) -> bool:
    """Whether a message's content came with its head."""
    return bool(head.content.items)


def _of_head(head: Any, limit: int) -> bytes:
    """The bytes in a message's head, looked at where they are: nothing is unpacked before its size is known."""
    if len(head.content.items) > 1:
        raise ValueError("a message with more than one record")
    return _of_record(head.content.items[0].config_record, limit)  # an empty one, if it is of another kind


def _of_record(record: Any, limit: int) -> bytes:
    values = [item.value for item in record.items if item.key == NAME]
    if len(values) != 1 or values[0].WhichOneof("value") != "bytes":
        raise ValueError("a record without bytes")
    _check_size(len(values[0].bytes), limit)
    return bytes(values[0].bytes)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise ValueError(f"it has {size:,} bytes; the limit is {limit:,}")


def _leaf(tree: ObjectTree) -> str:
    """The object that holds the bytes, in the tree of a message that has one record."""
    while tree.children:
        if len(tree.children) > 1:
            raise ValueError("a message with more than one record")
        tree = tree.children[0]
    return tree.object_id


def content(data: bytes, salt: str = "") -> RecordDict:
    """Bytes as a message's content: one record, so that a message is three objects."""
    return RecordDict({NAME: ConfigRecord({NAME: data, **({SALT: salt} if salt else {})})})
