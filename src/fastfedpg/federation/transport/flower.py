"""The engine seam, on Flower: two thin apps that carry bytes. The only file that imports flwr.

    server  <-- local socket -->  ServerApp  <-- Flower -->  ClientApp  <-- local socket -->  agent

An engine has `nodes()` and `ask(questions, seconds)`; `offer_engine` takes one to the server, over a local socket.
Another engine is another file like this one.
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fastfedpg import children
from fastfedpg.federation.transport import unix_socket
from fastfedpg.federation.transport.engine import Answer, Failure, offer_engine

POLL_SECONDS = 0.05
TYPE = "query"
NAME = "message"
SILENT = 1000
"""An error code of our own, beside Flower's."""

client_app = ClientApp()
server_app = ServerApp()


@client_app.query()
def _deliver(message: Message, context: Context) -> Message:
    """Carry a question to the site's own agent, and its answer back; the node's configuration says where it is."""
    try:
        with unix_socket.dial(Path(str(context.node_config["socket"]))) as connection:
            unix_socket.send(connection, _bytes(message))
            # After its time nobody wants the answer; the agent has stored it for the next question.
            answer = unix_socket.receive(connection, int(context.node_config["limit"]), message.metadata.ttl)
    except (unix_socket.Closed, TimeoutError):  # where the socket is, is nobody's business
        return Message(Error(SILENT, "the site's agent does not answer"), reply_to=message)
    return Message(_content(answer), reply_to=message)


@server_app.main()
def _main(grid: Grid, context: Context) -> None:
    """Offer Flower's grid to the server, as long as it listens."""
    children.end_with_parent()  # without its SuperLink a ServerApp tries for ever to say goodbye
    path = Path(str(context.run_config["socket"]))
    offer_engine(FlowerEngine(grid), unix_socket.dial(path), int(context.run_config["limit"]))


class FlowerEngine:
    """Flower's grid as an engine."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def nodes(self) -> dict[int, str]:
        """Who is there: node numbers, and the names under which their keys were registered."""
        return {n.node_id: n.name for n in self.grid.get_nodes()}

    def ask(self, questions: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        """Every answer as it comes, until all are here or the time is over."""
        end = time.monotonic() + seconds
        # Asked one by one: a message that can't be pushed is then known by its node.
        waiting: dict[str, int] = {}
        for node, question in questions.items():
            pushed = [*self.grid.push_messages([Message(_content(question), node, TYPE, ttl=seconds)])]
            if pushed and pushed[0] is not None:
                waiting[pushed[0]] = node
            else:
                yield Answer(node, Failure("the message could not be sent"))
        while waiting:
            for reply in self.grid.pull_messages([*waiting]):
                if reply.metadata.reply_to_message_id not in waiting:
                    continue
                node = waiting.pop(reply.metadata.reply_to_message_id)
                yield Answer(node, _failure(reply) if reply.has_error() else _bytes(reply))
            if time.monotonic() > end:  # asked at least once, however long the pushing took
                return
            time.sleep(POLL_SECONDS if waiting else 0)


def _failure(reply: Message) -> Failure:
    if reply.error.code == SILENT:
        return Failure(reply.error.reason)
    return Failure(f"Flower's error {reply.error.code}: {reply.error.reason}")


def _content(data: bytes) -> RecordDict:
    return RecordDict({NAME: ArrayRecord({NAME: Array("uint8", (len(data),), "fastfedpg", data)})})


def _bytes(message: Message) -> bytes:
    try:
        return message.content.array_records[NAME][NAME].data
    except KeyError:
        return b""
