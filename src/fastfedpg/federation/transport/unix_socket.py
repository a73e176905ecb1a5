"""A private socket on one machine, between an agent and a node that is another user's, or Flower's own.

The system lets nobody open it but its owner, or also one group. Only bytes travel, never pickled objects, and none
beyond a limit.
"""

import os
import shutil
import socket
import struct
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from fastfedpg.errors import InputError

LONGEST = 100
"""Bytes in the path of a Unix socket; the system's limit is 107."""

STALL_SECONDS = 10.0
"""Once a frame has begun neither end may stop in the middle of it for so long."""
LONGEST_WAIT = 1e6
"""Seconds; the system's own limit is about twice that."""


class Closed(OSError):
    """The other end has gone, or was never there."""


def check(path: Path, group: str | None = None) -> None:
    """Refuse a path at which no socket can be opened for that group; what is there is left as it is."""
    if len(os.fsencode(path)) > LONGEST:
        raise InputError(f"{path}: a socket's path may have at most {LONGEST} bytes; choose a shorter one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.is_symlink() or (path.exists() and not path.is_socket()):
            raise InputError(f"{path}: a file that is no socket; choose another path")
        if _alive(path):
            raise InputError(f"{path}: another process answers there already")
        with tempfile.NamedTemporaryFile(dir=path.parent) as probe:
            if group is not None:
                shutil.chown(probe.name, group=group)
    except (OSError, LookupError) as error:
        raise InputError(f"{path}: no socket can be opened there: {error}") from None


class Listener:
    """A socket that waits for callers."""

    def __init__(self, path: Path, group: str | None = None) -> None:
        self.path = path
        check(path, group)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            path.unlink(missing_ok=True)
            mask = os.umask(0o177)
            try:
                self.socket.bind(str(path))
            finally:
                os.umask(mask)
            if group is not None:
                shutil.chown(path, group=group)
                path.chmod(0o660)
            self.socket.listen(8)
        except (OSError, LookupError) as error:
            self.close()
            raise InputError(f"{path}: no socket can be opened there: {error}") from None

    def accept(self, seconds: float | None = None) -> Connection | None:
        """The next caller, or nobody within that time."""
        self.socket.settimeout(seconds)
        try:
            return _connection(self.socket.accept()[0])
        except TimeoutError:
            return None

    def reachable(self) -> bool:
        """Whether the socket is still in its place: somebody may have tidied up."""
        return self.path.exists()

    def close(self) -> None:
        """Nobody can call any more."""
        self.socket.close()
        self.path.unlink(missing_ok=True)


def _alive(path: Path) -> bool:
    """Whether somebody listens there, busy or not; a dead socket's file refuses, or is not there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
        opened.setblocking(False)
        try:
            opened.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except BlockingIOError:  # its queue is full
            pass
        return True


def dial(path: Path) -> Connection:
    """Call whoever listens there."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.settimeout(STALL_SECONDS)  # a listener that accepts nobody has a full queue at some time
        opened.connect(str(path))
        return _connection(opened)
    except OSError as error:
        opened.close()
        raise Closed(f"nobody answers at {path}: {getattr(error, 'strerror', None) or error}") from None


def ask(path: Path, question: bytes, largest: int, seconds: float | None = None) -> bytes:
    """Call, ask, and take the answer away."""
    with dial(path) as connection:
        send(connection, question)
        return receive(connection, largest, seconds)


def receive(connection: Connection, largest: int, seconds: float | None = None) -> bytes:
    """The next bytes, if they come in time and are not too many."""
    try:
        if not connection.poll(None if seconds is None else min(seconds, LONGEST_WAIT)):
            raise TimeoutError
        return connection.recv_bytes(largest)
    except TimeoutError:
        raise
    except (OSError, EOFError) as error:  # too many bytes, or none any more: nothing can follow
        connection.close()
        raise Closed(str(error) or "the other end has gone") from None


def send(connection: Connection, data: bytes) -> None:
    """Send bytes."""
    try:
        connection.send_bytes(data)
    except (OSError, ValueError) as error:
        raise Closed(str(error)) from None


def _connection(opened: socket.socket) -> Connection:
    opened.settimeout(None)
    pause = struct.pack("@ll", int(STALL_SECONDS), int(STALL_SECONDS % 1 * 1e6))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        opened.setsockopt(socket.SOL_SOCKET, option, pause)
    return Connection(opened.detach())
