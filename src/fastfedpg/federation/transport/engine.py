"""What a server needs of an engine, and the same over a local socket, for an engine that lives in another process."""

import json
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

from fastfedpg.federation.transport import unix_socket

LONGEST = 1000
"""Characters of a failure's words."""

SLACK_SECONDS = 60.0
"""How much later than promised an engine may answer before it counts as lost."""


LISTS = 2**22
"""Bytes for lists of nodes, beside which a message of a small algorithm is small."""


class Failure(str):
    """Why there is no answer, in words."""


class Answer(NamedTuple):
    """What came back from a node."""

    node: int
    content: bytes | Failure


class EngineLost(OSError):
    """The engine has gone; a new one may come."""


class Engine(Protocol):
    """Carries bytes to nodes and back. A second engine is one more class like this."""

    def nodes(self) -> dict[int, str]:
        """Who is there: node numbers, and their registered names (empty where there are none)."""
        ...

    def ask(self, questions: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        """Every answer as it comes, until all are here or the time is over."""
        ...


def offer_engine(engine: Engine, connection: Connection, limit: int) -> None:
    """Serve an engine to whoever is at the other end, until it goes."""
    try:
        while True:
            asked = json.loads(unix_socket.receive(connection, LISTS))
            if asked["ask"] == "nodes":
                _say(connection, nodes=engine.nodes())
                continue
            questions = {node: unix_socket.receive(connection, limit) for node in asked["nodes"]}
            for node, content in engine.ask(questions, asked["seconds"]):
                if not isinstance(content, Failure) and len(content) > limit:
                    content = Failure(f"its answer has {len(content):,} bytes; the limit is {limit:,}")
                if isinstance(content, Failure):
                    _say(connection, node=node, failure=content[:LONGEST])
                else:
                    _say(connection, node=node)
                    unix_socket.send(connection, content)
            _say(connection, done=True)
    except unix_socket.Closed:
        connection.close()


class RemoteEngine:
    """An engine at the other end of a local socket."""

    def __init__(self, connection: Connection, limit: int) -> None:
        self.connection, self.limit = connection, limit

    def nodes(self) -> dict[int, str]:
        """Who is there."""
        self._tell(ask="nodes")
        return {int(node): name for node, name in self._hear(SLACK_SECONDS)["nodes"].items()}

    def ask(self, questions: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        """Every answer as it comes."""
        self._tell(ask="answers", nodes=[*questions], seconds=seconds)
        for question in questions.values():
            self._send(question)
        while not (said := self._hear(seconds + SLACK_SECONDS)).get("done"):
            if "failure" in said:
                yield Answer(said["node"], Failure(said["failure"]))
            else:
                yield Answer(said["node"], self._receive(SLACK_SECONDS, self.limit))

    def close(self) -> None:
        """Let the engine go."""
        self.connection.close()

    def _tell(self, **words: Any) -> None:
        self._send(json.dumps(words).encode())

    def _send(self, data: bytes) -> None:
        try:
            unix_socket.send(self.connection, data)
        except unix_socket.Closed as error:
            raise EngineLost(str(error)) from None

    def _hear(self, seconds: float) -> dict[str, Any]:
        return json.loads(self._receive(seconds, LISTS))

    def _receive(self, seconds: float, limit: int) -> bytes:
        try:
            return unix_socket.receive(self.connection, limit, seconds)
        except (unix_socket.Closed, TimeoutError) as error:
            raise EngineLost(str(error) or "the engine says nothing") from None


def _say(connection: Connection, **words: Any) -> None:
    unix_socket.send(connection, json.dumps(words).encode())
