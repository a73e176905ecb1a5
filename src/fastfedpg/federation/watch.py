"""What an operator wants to know of a run: who is there, which round, seconds for an exchange, bytes.

A watched engine counts what passes, and writes it down as status.json, whole, once a second if something has changed.
It stands outside the rounds: they know nothing of it.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fastfedpg.errors import InputError
from fastfedpg.federation import wire
from fastfedpg.federation.audit import Audit, told
from fastfedpg.federation.transport.engine import Answer, Engine, Failure, Seen
from fastfedpg.files import read_text, write_text

FILE = "status.json"
FORMAT = 1
WRITE_SECONDS = 1.0


@dataclass
class Peer:
    """One agent, as the server saw it."""

    here: bool = False
    asked: int = 0
    answered: int = 0
    failed: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float = 0.0  # that its last answer took
    heard: float = 0.0  # when it came, since 1970
    lack: str = ""  # why the last answer was none


@dataclass
class Phase:
    """One kind of exchange: how often all that were asked had answered, and how long that took."""

    count: int = 0
    seconds: float = 0.0
    last: float = 0.0


@dataclass
class Status:
    """A run since its process began."""

    run: str
    rounds: int
    agents: int
    began: float
    at: float = 0.0
    round: int = 0  # from 1; the one that is asked for
    exchange: str = ""
    phases: dict[str, Phase] = field(default_factory=dict)
    peers: dict[str, Peer] = field(default_factory=dict)
    format: int = FORMAT


def read(folder: Path) -> Status:
    """What a server wrote last."""
    path = folder / FILE
    try:
        table = json.loads(read_text(path))
        if table["format"] != FORMAT:
            raise InputError(f"{path}: of another version of fastfedpg (format {table['format']}, not {FORMAT})")
        kinds: tuple[tuple[str, type], ...] = (("phases", Phase), ("peers", Peer))
        inner = {name: {k: kind(**v) for k, v in table[name].items()} for name, kind in kinds}
        return Status(**{**table, **inner})
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; a deployed run writes it (server, federate)") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not as it was written ({type(error).__name__}: {error})") from None


class Watch:
    """Counts the messages of one run, and keeps status.json and the audit log."""

    def __init__(self, folder: Path, run: str, rounds: int, agents: int, say: Callable[[str], None]) -> None:
        self.status, self.path = Status(run, rounds, agents, time.time()), folder / FILE
        self.audit, self.say = Audit(folder, say), say
        self.lock, self.changed, self.over = threading.Lock(), True, threading.Event()
        self.names: dict[int, str] = {}
        self.lame = False

    def __enter__(self) -> "Watch":
        self._write()
        self.writer = threading.Thread(target=self._keep_writing, daemon=True)
        self.writer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.writer.join()
        for peer in self.status.peers.values():
            peer.here = False
        self._write()
        self.audit.close()

    def over_engine(self, connect: Callable[[float], Engine]) -> Callable[[float], Engine]:
        """The same engines, watched."""
        return lambda seconds: Watched(connect(seconds), self)

    def snapshot(self) -> dict[str, Any]:
        """All that is known, as in status.json."""
        with self.lock:
            return asdict(self.status) | {"at": time.time()}

    def online(self, found: Mapping[int, Seen]) -> None:
        """Who is connected."""
        with self.lock:
            for node, seen in found.items():
                self.names[node] = f"node {node}" if seen.agent is None else f"agent-{seen.agent}"
            here = {self.names[node] for node in found}
            for name in here - self.status.peers.keys():
                self.status.peers[name] = Peer()
            for name, peer in self.status.peers.items():
                self.changed |= peer.here != (name in here)
                peer.here = name in here

    def asked(self, node: int, question: bytes) -> dict[str, Any]:
        """A question goes out; what it is about."""
        about, who = told(question), self._name(node)
        self.audit.note("out", who, question, about)
        with self.lock:
            peer, self.changed = self.status.peers.setdefault(who, Peer()), True
            peer.asked += 1
            peer.bytes_down += len(question)
            if type(about.get("round")) is int:
                self.status.round = about["round"] + 1
            self.status.exchange = str(about.get("exchange", about.get("ask", "")))
        return about

    def came(self, node: int, content: bytes | Failure, about: dict[str, Any], seconds: float) -> None:
        """An answer, or why there is none."""
        who, lack = self._name(node), wire.plain(content) if isinstance(content, Failure) else ""
        data = None if isinstance(content, Failure) else content
        self.audit.note("in", who, data, about, seconds=round(seconds, 4), **({"lack": lack} if lack else {}))
        with self.lock:
            peer, self.changed = self.status.peers.setdefault(who, Peer()), True
            peer.failed += data is None
            peer.answered += data is not None
            peer.bytes_up += 0 if data is None else len(data)
            peer.seconds, peer.heard, peer.lack = seconds, time.time(), lack

    def complete(self, about: dict[str, Any], seconds: float) -> None:
        """All that were asked have answered."""
        with self.lock:
            phase = self.status.phases.setdefault(str(about.get("exchange", about.get("ask", ""))), Phase())
            phase.count, phase.seconds, phase.last = phase.count + 1, phase.seconds + seconds, seconds

    def _name(self, node: int) -> str:
        return self.names.get(node, f"node {node}")

    def _keep_writing(self) -> None:
        while not self.over.wait(WRITE_SECONDS):
            if self.changed:
                self._write()

    def _write(self) -> None:
        with self.lock:
            self.changed = False
        try:
            write_text(self.path, json.dumps(self.snapshot(), indent=1) + "\n")
        except OSError as error:  # said once; of a full disk the checkpoint will tell too
            if not self.lame:
                self.say(f"{self.path} can't be written: {error.strerror}")
            self.lame = True


class Watched:
    """An engine of which every message is counted."""

    def __init__(self, engine: Engine, watch: Watch) -> None:
        self.engine, self.watch = engine, watch

    def nodes(self) -> dict[int, Seen]:
        """Who is there."""
        found = self.engine.nodes()
        self.watch.online(found)
        return found

    def ask(self, questions: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        """Every answer as it comes."""
        began, left = time.monotonic(), {node: self.watch.asked(node, q) for node, q in questions.items()}
        for answer in self.engine.ask(questions, seconds):
            about = left.pop(answer.node, {})
            self.watch.came(answer.node, answer.content, about, time.monotonic() - began)
            if not left:
                self.watch.complete(about, time.monotonic() - began)
            yield answer
        for node, about in left.items():
            self.watch.came(node, Failure(f"no answer within {seconds:g} s"), about, time.monotonic() - began)

    def close(self) -> None:
        """Let the engine go."""
        self.engine.close()
