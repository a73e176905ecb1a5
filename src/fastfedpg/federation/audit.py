"""One JSON line for each message that was sent or came: who, when, which exchange, how large, and its hash."""

import hashlib
import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from fastfedpg.errors import printable
from fastfedpg.federation import wire
from fastfedpg.files import append_regular

FILE = "audit.jsonl"
LARGEST, OLDER = 2**24, 4
"""Bytes of a file, and how many full ones are kept beside it: no stranger fills the disk with it."""

WORDS = ("run", "ask", "round", "exchange")
LONGEST = 100


def told(question: bytes) -> dict[str, Any]:
    """Which exchange a question is about, by its own words: numbers, and text that is short and harmless in a log."""
    try:
        about = wire.about(question)
    except wire.Malformed:
        return {}
    plain = lambda said: said if type(said) is int and abs(said) < 2**63 else wire.plain(said, LONGEST)
    return {name: plain(about[name]) for name in WORDS if name in about}


class _Regular(RotatingFileHandler):
    """A file and nothing that only looks like one: a pipe would wait for somebody who reads."""

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(append_regular(Path(self.baseFilename)), "ascii", write_through=True)


class Audit:
    """A log of messages in a folder. One that can't be written is said once, and stops nothing."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.say, self.lame = say, False
        self.handler = _Regular(folder / FILE, "a", LARGEST, OLDER, "ascii", delay=True)
        self.handler.handleError = self._failed  # type: ignore[method-assign]

    def note(self, way: str, who: str, data: bytes | None, about: dict[str, Any], **more: object) -> None:
        """One message; without `data` one that never came."""
        size = {} if data is None else {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": now, "way": way, "who": who} | about | size | more).replace("\x7f", "\\u007f")
        self.handler.handle(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        """Let go of the file."""
        self.handler.close()

    def _failed(self, record: logging.LogRecord) -> None:
        if not self.lame:
            self.say(f"{self.handler.baseFilename} can't be written: {printable(sys.exc_info()[1])}")
        self.lame = True


def audited(answer: Callable[[bytes], bytes], audit: Audit, who: str) -> Callable[[bytes], bytes]:
    """An agent's answers, each written down with the question it was given for."""

    def both(question: bytes) -> bytes:
        about = told(question)
        audit.note("in", "server", question, about)
        began = time.monotonic()
        said = answer(question)
        audit.note("out", who, said, about, seconds=round(time.monotonic() - began, 4))
        return said

    return both
