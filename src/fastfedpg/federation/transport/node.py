"""A site's node: it calls the SuperLink, brings each question to the agent, and its answer back.

It is Flower's Fleet protocol and nothing else: no app is fetched, no process started, no port opened, so that nothing
which a server's operator ships is ever executed at a site.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from flwr.app import Error
from flwr.app.metadata import Metadata
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node as NodeNumber
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fastfedpg.errors import printable
from fastfedpg.federation.terms import Address
from fastfedpg.federation.transport import keys, unix_socket
from fastfedpg.federation.transport.engine import Pace
from fastfedpg.federation.transport.flower import (
    IN_HEAD,
    READS_HEADS,
    SILENT,
    TYPE,
    UNSENT,
    in_head,
    parcel,
    push_objects,
    take,
)
from fastfedpg.federation.transport.flower_http import client, said
from fastfedpg.files import read_text, write_text

LOG = logging.getLogger("fastfedpg.agent")
OBJECT_SECONDS, OBJECT_PAUSE = 60.0, 0.01
"""For the bytes of a question that was announced, and between two looks for them."""
ONLINE_SECONDS = 10.0
"""A node that says nothing for twice as long counts as gone; Flower's least."""
SHORTEST, LONGEST = 0.5, 10.0
"""Seconds between two tries to connect."""


class Node:
    """One key's connection to a SuperLink; made again as often as it is lost, for as long as it takes."""

    def __init__(self, address: Address, key: Path, folder: Path) -> None:
        self.address, self.private = address, keys.private_key(key)
        self.public = public_key_to_bytes(self.private.public_key())
        self.kept = folder / "node"  # its number: so that one that is started again is let in at once
        self.pace = Pace()
        self.amiss = ""  # why the last question was none

    def attend(self, answer: Callable[[bytes], bytes], limit: int, stop: threading.Event) -> None:
        """Answer questions until told to stop; whatever fails is tried again, and said once."""
        pause, before = SHORTEST, ""
        signing = NodeAuthHttpInterceptor(self.private, self.private.public_key())
        with client(FleetHttpClient, self.address, [signing]) as self.fleet:
            while not stop.is_set():
                over = threading.Event()
                try:
                    self.number = self._enter()
                    LOG.info("connected to %s as node %d", self.address.superlink, self.number.node_id)
                    threading.Thread(target=self._beat, args=(over,), daemon=True).start()
                    while not stop.is_set():
                        came = self._answered(answer, limit)
                        pause, before = SHORTEST, ""  # who lets it in and sends it nonsense is no end to what fails
                        if not came:
                            stop.wait(self.pace.pause())
                except (httpx.HTTPError, RuntimeError, ValueError) as error:
                    why = printable(said(error))
                    if why != before:
                        LOG.warning("not connected to %s: %s; it is tried again", self.address.superlink, why)
                    before = why
                    stop.wait(pause)
                    pause = min(2 * pause, LONGEST)
                finally:
                    over.set()
            with suppress(httpx.HTTPError, RuntimeError, ValueError, AttributeError):
                self.fleet.DeactivateNode(DeactivateNodeRequest(node_id=self.number.node_id))

    def _enter(self) -> NodeNumber:
        if self.address.insecure:
            with suppress(httpx.HTTPStatusError):  # it is there already
                self.fleet.RegisterNode(RegisterNodeFleetRequest(public_key=self.public))
        enter = ActivateNodeRequest(public_key=self.public, heartbeat_interval=ONLINE_SECONDS)
        try:
            number = self.fleet.ActivateNode(enter).node_id
        except httpx.HTTPStatusError as error:
            # Its process ended without a word, and still counts as there. Another machine's does not know the number.
            if not self.kept.exists():
                why = "no run's server has admitted this key yet, or another agent is connected with it"
                raise RuntimeError(f"{why} ({said(error)})") from None
            old = int(read_text(self.kept))
            self.fleet.DeactivateNode(DeactivateNodeRequest(node_id=old))
            number = self.fleet.ActivateNode(enter).node_id
        write_text(self.kept, str(number))
        return NodeNumber(node_id=number)

    def _beat(self, over: threading.Event) -> None:
        beat = SendNodeHeartbeatRequest(node=self.number, heartbeat_interval=ONLINE_SECONDS)
        while not over.wait(ONLINE_SECONDS / 3):
            with suppress(httpx.HTTPError, RuntimeError, ValueError):
                self.fleet.SendNodeHeartbeat(beat)

    def _answered(self, answer: Callable[[bytes], bytes], limit: int) -> bool:
        """Whether there was a question."""
        began = time.monotonic()
        pulled = self.fleet.PullMessages(PullMessagesRequest(node=self.number))
        self.pace.looked(time.monotonic() - began)
        if not pulled.messages_list:
            return False
        if not pulled.message_object_trees:
            raise ValueError("a message without its objects' names")
        self.pace.came()
        self.heard = time.monotonic()
        head, tree = pulled.messages_list[0], pulled.message_object_trees[0]
        try:
            question, self.amiss = self._taken(head, tree, limit), ""
            began = time.monotonic()
            self._push(head, self._asked(answer, question), time.monotonic() - began)
        except ValueError as error:
            why = printable(error)
            if why != self.amiss:
                LOG.warning("a question that is none: %s", why)
            self.amiss = why
        except httpx.HTTPStatusError as error:  # its run is over, for example: the next question may be a good one
            LOG.warning("an answer was not taken: %s", printable(said(error)))
        self.pace.begin()
        return True

    def _taken(self, head: Any, tree: Any, limit: int) -> bytes:
        end = time.monotonic() + OBJECT_SECONDS
        while (question := take(self.fleet, self.number, head, tree, limit)) is None:
            if time.monotonic() > end:
                raise ValueError(UNSENT)
            time.sleep(OBJECT_PAUSE)
        return question

    def _asked(self, answer: Callable[[bytes], bytes], question: bytes) -> bytes | Error:
        try:
            return answer(question)
        except (unix_socket.Closed, TimeoutError):
            return Error(SILENT, "the site's agent does not answer")

    def _push(self, asked: Any, data: bytes | Error, seconds: float) -> None:
        about = asked.metadata
        left = about.ttl - (time.monotonic() - self.heard)  # by no clock but one's own, and counted from the question's
        if left <= 0:
            LOG.info("an answer that comes too late is not sent; it is stored")
            return
        sent, task = about.created_at + about.ttl - left, about.src_task_id if about.HasField("src_task_id") else None
        # A question's name makes its answer's: when the server uses one again, no new ones are left at the SuperLink.
        short = in_head(asked) and (isinstance(data, Error) or len(data) <= IN_HEAD)
        name = hashlib.sha256(about.message_id.encode()).hexdigest() if short else ""
        whose = (about.run_id, name, self.number.node_id, SUPERLINK_NODE_ID, about.message_id, READS_HEADS)
        metadata = Metadata(*whose, sent, left, TYPE, None, task)
        made = parcel(metadata, data)
        pushed = self.fleet.PushMessages(
            PushMessagesRequest(
                node=self.number,
                messages_list=[made.head],
                message_object_trees=[made.tree],
                clientapp_runtime_list=[seconds],
            )
        )
        push_objects(self.fleet, self.number, about.run_id, pushed, [made])
