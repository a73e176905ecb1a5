"""Processes that one process starts, keeps running, and ends; all of them, and what they started themselves."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fastfedpg import children
from fastfedpg.errors import Stopped
from fastfedpg.files import append_regular, read_text

WATCH_SECONDS = 0.5
LONGEST_PAUSE = 10.0


@dataclass
class Started:
    """A process that is to keep running."""

    name: str
    words: list[str]
    environment: dict[str, str]
    log: Path
    stage: int = 0  # higher ones end first
    running: children.Child = field(init=False)
    line: int | None = None  # the end of its lifeline that nobody else holds: killed, we take it with us
    ends: int = 0
    next: float = 0.0

    def start(self) -> None:
        """Start it, or start it again; a request to end that reaches the terminal does not reach it."""
        with append_regular(self.log) as log:
            # Each its own: the system keeps one group for a line's end, however many processes hold it.
            theirs, ours = os.pipe()
            how = {"stdout": log, "stderr": subprocess.STDOUT, "pass_fds": (theirs,)}
            try:
                self.running = children.start(children.tie(self.words, theirs), self.environment, **how)
            finally:
                os.close(theirs)
                self.cut()
                self.line = ours

    def cut(self) -> None:
        """Let go of its lifeline: what is still there is killed."""
        if self.line is not None:
            os.close(self.line)
        self.line = None


class Processes:
    """Starts processes and starts them again when they end; used as a context it ends them all, whatever happens."""

    def __init__(self, logs: Path, say: Callable[[str], None]) -> None:
        self.logs, self.say = logs, say
        logs.mkdir(parents=True, exist_ok=True)
        self.started: dict[str, Started] = {}
        self.over, self.ended = threading.Event(), threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Processes":
        self.watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        while not self.ended.is_set():  # a thread's join that is interrupted takes the thread for ended
            with suppress(KeyboardInterrupt):  # asked a second time to end: nothing may outlive us
                self.ended.wait()
        for process in self.started.values():
            process.cut()

    def start(self, name: str, words: list[str], environment: dict[str, str], stage: int = 0) -> Started:
        """Start a process under a name; what it prints goes to its own log."""
        new = Started(name, words, environment, self.logs / f"{name}.log", stage)
        new.start()
        self.started[name] = new
        return new

    def wait(self, name: str, ready: Callable[[], bool], seconds: float, what: str) -> None:
        """Until a process is ready; if it ends instead, say so with the end of its log."""
        end = time.monotonic() + seconds
        process = self.started[name]
        while not ready():
            if process.ends > 2 or time.monotonic() > end:
                why = "it ended again and again" if process.ends > 2 else f"it was not ready within {seconds:g} s"
                raise Stopped(f"{what} did not start: {why}; the end of {process.log}: {_tail(process.log)}")
            time.sleep(0.05)

    def _watch(self) -> None:
        try:
            while not self.over.wait(WATCH_SECONDS):
                for process in [*self.started.values()]:
                    self._look_after(process)
        finally:
            # The last stage first: a node says goodbye to its SuperLink, and is let in again at once the next time.
            try:
                for stage in sorted({s.stage for s in self.started.values()}, reverse=True):
                    children.end([s.running for s in self.started.values() if s.stage == stage])
            finally:
                self.ended.set()

    def _look_after(self, process: Started) -> None:
        code = process.running.poll()
        if code is None:
            return
        if process.next == 0:
            process.ends += 1
            process.next = time.monotonic() + min(0.5 * 2 ** (process.ends - 1), LONGEST_PAUSE)
            self.say(f"{process.name} ended ({_how(code)}); it is started again")
        if time.monotonic() >= process.next:
            process.next = 0
            try:
                process.start()
            except OSError as error:
                self.say(f"{process.name} can't be started: {error}")


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return f"killed by {signal.Signals(-code).name if -code in {*signal.Signals} else f'signal {-code}'}"


def _tail(path: Path, lines: int = 12) -> str:
    try:
        return " | ".join(line.strip() for line in read_text(path, errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
