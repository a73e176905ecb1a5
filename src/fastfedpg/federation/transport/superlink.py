"""The server at its SuperLink: it admits the agents' keys, starts a run, takes the run's task itself, and asks nodes.

A SuperLink with `--isolation process` starts no process. Whoever proves to know its secret may take a task, and no task
but that of our own app is taken here. Nothing that it keeps is needed after it was started again: the keys are admitted
anew, and another run goes on where the last one was.
"""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from flwr.app.metadata import Metadata
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest, StopRunRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    GetNodesRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, SuperExecAuthHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient

from fastfedpg.errors import InputError, Stopped
from fastfedpg.federation.terms import Address
from fastfedpg.federation.transport import keys
from fastfedpg.federation.transport.engine import Answer, EngineLost, Failure, Pace, Seen
from fastfedpg.federation.transport.flower import (
    IN_HEAD,
    READS_HEADS,
    SILENT,
    TYPE,
    UNSENT,
    confirm,
    parcel,
    push_objects,
    take,
)
from fastfedpg.federation.transport.flower_http import client, said

APP = Path(__file__).parent / "app"
TASK_SECONDS, HEARTBEAT_SECONDS, PAUSE_SECONDS, LOOK_SECONDS = 20.0, 5.0, 1.0, 1.0
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


def connect(address: Address, limit: int, seconds: float, say: Callable[[str], None]) -> "SuperLinkEngine":
    """An engine, waited for that long: the SuperLink may be on its way up again."""
    end, before = time.monotonic() + seconds, ""
    while True:
        try:
            engine = SuperLinkEngine(address, limit)
            say(f"connected to the SuperLink at {address.superlink} (Flower's run {engine.run})")
            return engine
        except EngineLost as error:
            why = str(error)
        if why != before:
            say(f"no engine yet: {why}")
            before = why
        if time.monotonic() > end:
            raise Stopped(f"no engine at {address.superlink} within {seconds:g} s: {why}")
        time.sleep(PAUSE_SECONDS)


class SuperLinkEngine:
    """A run of our app at a SuperLink, whose ServerApp this process is."""

    def __init__(self, address: Address, limit: int) -> None:
        self.address, self.limit, self.here, self.pace = address, limit, Node(node_id=SUPERLINK_NODE_ID), Pace()
        self.over = threading.Event()
        self.ours: set[tuple[int, Seen | None]] = set()  # nodes that look for a question in its head
        self.lent: set[str] = set()  # names of questions that are not answered
        self.free: dict[int, list[str]] = {}  # and of those that were, by the only node that has seen them
        self.agents = {} if address.ca is None else keys.node_keys(address.ca.parent)
        with _lost():
            self.run, token = self._begun()
            self.runtime = client(RuntimeHttpClient, address, [RuntimeTokenHttpInterceptor(token)])
            self.runtime.PullTaskInput(PullTaskInputRequest())
        threading.Thread(target=self._beat, daemon=True).start()

    def nodes(self) -> dict[int, Seen]:
        """Who is there: nodes with an agent's key; where there are no keys, all of them."""
        with _lost():
            found = self.runtime.GetNodes(GetNodesRequest()).nodes
        agent = lambda node: self.agents.get(node.public_key)
        return {
            node.node_id: Seen(agent(node), node.last_activated_at)
            for node in found
            if self.address.ca is None or agent(node) is not None
        }

    def ask(self, questions: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        """Every answer as it comes, until all are here or the time is over; a node that comes anew has lost its one."""
        with _lost():
            yield from self._ask(questions, seconds)

    def _ask(self, questions: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        end, looked, before = time.monotonic() + seconds, time.monotonic(), self.nodes()
        waiting = self._push(questions, seconds, before)
        here: dict[int, tuple[Any, Any]] = {}  # announced; the bytes of some may never come, and hold up nobody
        self.pace.begin()
        while waiting or here:
            time.sleep(min(self.pace.pause(), max(0.0, end - time.monotonic())))
            look = time.monotonic()
            here |= self._announced(waiting, before, end)
            for node, (head, tree) in [*here.items()]:
                content = self._content(head, tree, look >= end)
                if content is not None:
                    del here[node]
                    self.pace.came()
                    yield Answer(node, content)
                if waiting and look < end and time.monotonic() - look > LOOK_SECONDS:
                    break  # large ones first are no reason to miss what comes meanwhile
            if (waiting or here) and time.monotonic() - looked > LOOK_SECONDS:
                looked, now = time.monotonic(), self.nodes()
                for name, node in [*waiting.items(), *((None, node) for node in here)]:
                    if node in now and now[node].since != before.get(node, now[node]).since:
                        if node in here:  # what there is of it nobody will take
                            confirm(self.runtime, self.here, self.run, here.pop(node)[1].object_id)
                        waiting.pop(name or "", None)
                        yield Answer(node, Failure("its node was started again"))
            if look >= end:  # a look that began before may have missed what came while it went on
                return

    def _announced(self, waiting: dict[str, int], before: Mapping[int, Seen], end: float) -> dict[int, tuple[Any, Any]]:
        """Heads and trees of answers, by node, which are waited for no more."""
        found: dict[int, tuple[Any, Any]] = {}
        if not waiting:
            return found
        heard = self.runtime.PullMessages(PullAppMessagesRequest(message_ids=[*waiting]))
        for head, tree in zip(heard.messages_list, heard.message_object_trees, strict=True):
            node = waiting.pop(head.metadata.reply_to_message_id, None)
            if node is None or (time.monotonic() > end and _by_flower(head)):  # that its time is over, we know
                continue
            if head.metadata.group_id == READS_HEADS:
                self.ours.add((node, before.get(node)))
            self._tidy(head, node)
            found[node] = head, tree
        return found

    def _push(self, questions: Mapping[int, bytes], seconds: float, seen: Mapping[int, Seen]) -> dict[str, int]:
        """Send questions, in their heads to those who are known to read them there; which name is whose."""
        parcels, salt = {}, secrets.token_hex(16)  # one, so that what goes to many is at the SuperLink once
        for node, question in questions.items():
            short = len(question) <= IN_HEAD and (node, seen.get(node)) in self.ours
            # The SuperLink lets a node push and delete by any name; a group makes that of an object its receiver's own.
            name, group = (self._name(node), "") if short else ("", secrets.token_hex(16))
            about = (self.run, name, SUPERLINK_NODE_ID, node, "", group, time.time())
            parcels[node] = parcel(Metadata(*about, seconds, TYPE), question, salt)
        if not parcels:
            return {}
        every = [*parcels.values()]
        pushed = self.runtime.PushMessages(
            PushAppMessagesRequest(messages_list=[p.head for p in every], message_object_trees=[p.tree for p in every])
        )
        push_objects(self.runtime, self.here, self.run, pushed, every)
        return {one.name: node for node, one in parcels.items()}

    def _name(self, node: int) -> str:
        """A name for a question that goes in its head: one whose question this node has answered, if there is any.

        The SuperLink keeps a message's name until somebody confirms it, or the run is over; when questions have names
        that were used before, and answers names that follow from theirs, it keeps no more of them from one round to the
        next. A name whose question was not answered is not used again: the answer may still come. Nor is another
        node's: who knows a name may delete what goes by it, or push something else first.
        """
        free = self.free.get(node)
        name = free.pop() if free else secrets.token_hex(32)
        self.lent.add(name)
        return name

    def _tidy(self, head: Any, node: int) -> None:
        """A question was answered: its name is free again, for this node."""
        name = head.metadata.reply_to_message_id
        if _by_flower(head):  # the answer may still come
            return
        if name in self.lent:
            self.lent.remove(name)
            self.free.setdefault(node, []).append(name)
        elif head.HasField("error"):  # which nobody will take
            confirm(self.runtime, self.here, self.run, head.metadata.message_id)

    def _content(self, head: Any, tree: Any, last: bool) -> bytes | Failure | None:
        """The bytes of an answer, or why there are none; None while they may still come, until the last look."""
        if head.HasField("error"):
            code, reason = head.error.code, head.error.reason
            return Failure(reason if code == SILENT else f"Flower's error {code}: {reason}")
        try:
            content = take(self.runtime, self.here, head, tree, self.limit)
            if content is None and last:
                confirm(self.runtime, self.here, self.run, tree.object_id)  # what there is of it nobody will take
                raise ValueError(UNSENT)
            return content
        except ValueError as error:
            return Failure(f"its answer: {error}")

    def close(self) -> None:
        """The run is over, and stopped: of one that is completed the SuperLink keeps the messages' names for ever."""
        self.over.set()
        with suppress(httpx.HTTPError, OSError, ValueError), client(ControlHttpClient, self.address) as control:
            control.StopRun(StopRunRequest(run_id=self.run))
        self.runtime.close()

    def _begun(self) -> tuple[int, str]:
        """A new run, and the token of its task."""
        fab = build_fab_from_disk(APP)
        name = hashlib.sha256(fab).hexdigest()
        with client(ControlHttpClient, self.address) as control:
            for key, agent in self.agents.items():
                try:
                    control.RegisterNode(RegisterNodeRequest(public_key=key, name=keys.node_name(agent)))
                except httpx.HTTPStatusError as error:  # it is there already, or was struck off: Flower says the same
                    if error.response.status_code >= 500:
                        raise
            run = control.StartRun(StartRunRequest(fab=fab_to_proto(Fab(name, fab, {})))).run_id
        signed = [] if self.address.ca is None else [keys.read_secret(self.address.ca.parent)]
        auth = [SuperExecAuthHttpInterceptor(master_secret=s, protected_methods={ACQUIRE}) for s in signed]
        end = time.monotonic() + TASK_SECONDS
        with client(RuntimeHttpClient, self.address, auth) as runtime:
            while time.monotonic() < end:
                found = runtime.AcquireTask(AcquireTaskRequest(agentapp_fab_hashes=[name]))
                if found.HasField("task") and found.task.run_id == run:
                    return run, found.token
                time.sleep(0.05)
        raise EngineLost(f"run {run} was taken by another; start the SuperLink with --isolation process")

    def _beat(self) -> None:
        while not self.over.wait(HEARTBEAT_SECONDS):
            with suppress(httpx.HTTPError, RuntimeError, ValueError):
                self.runtime.SendTaskHeartbeat(SendTaskHeartbeatRequest())


def _by_flower(head: Any) -> bool:
    """Whether it is no answer, but Flower's word that there is none."""
    return bool(head.HasField("error") and head.error.code != SILENT)


class _lost:
    """Whatever HTTP says is the loss of the engine, and so is an answer that is none of Flower's."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpx.HTTPError | RuntimeError | ValueError) and not isinstance(error, InputError):
            raise EngineLost(said(error)) from None
