"""A private socket on one machine: between a site's ClientApp and its agent, and between the ServerApp and the server.

The socket and the secret beside it can be opened by their owner alone (or also by one group); both ends prove that they
know the secret, by HMAC. Only bytes travel, never pickled objects, and none beyond a limit.
"""

import hmac
import os
import secrets
import shutil
import socket
import struct
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from fastfedpg.errors import InputError
from fastfedpg.files import read_bytes, write_secret

LONGEST = 100
"""Bytes in the path of a Unix socket; the system's limit is 107."""

HANDSHAKE_SECONDS = 10.0
SECRET_BYTES = 64
LONGEST_WAIT = 1e6
"""Seconds; the system's own limit is about twice that."""
LISTENER, CALLER = b"listener", b"caller"


def secret_of(path: Path) -> Path:
    """The secret that stands beside a socket."""
    return path.with_name(path.name + ".key")


class Closed(OSError):
    """The other end has gone, or was never there."""


def check(path: Path, group: str | None = None) -> None:
    """Refuse a path at which no socket can be opened for that group; what is there is left as it is."""
    if len(os.fsencode(path)) > LONGEST:
        raise InputError(f"{path}: a socket's path may have at most {LONGEST} bytes; choose a shorter one")
    key = secret_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.is_symlink() or (path.exists() and not path.is_socket()):
            raise InputError(f"{path}: a file that is no socket; choose another path")
        if key.is_symlink() or (key.exists() and key.stat().st_size not in (0, SECRET_BYTES)):
            raise InputError(f"{key}: a file that is no socket's secret; choose another path")
        if _alive(path):
            raise InputError(f"{path}: another process answers there already")
        with tempfile.NamedTemporaryFile(dir=path.parent) as probe:
            if group is not None:
                shutil.chown(probe.name, group=group)
    except (OSError, LookupError) as error:
        raise InputError(f"{path}: no socket can be opened there: {error}") from None


class Listener:
    """A socket that waits for callers who know its secret."""

    def __init__(self, path: Path, group: str | None = None) -> None:
        self.path = path
        check(path, group)
        try:
            path.unlink(missing_ok=True)
            self.secret = secrets.token_hex(SECRET_BYTES // 2).encode()
            write_secret(secret_of(path), self.secret)
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            mask = os.umask(0o177)
            try:
                self.socket.bind(str(path))
            finally:
                os.umask(mask)
            if group is not None:
                for name, mode in ((path, 0o660), (secret_of(path), 0o640)):
                    shutil.chown(name, group=group)
                    name.chmod(mode)
            self.socket.listen(8)
        except (OSError, LookupError) as error:
            if hasattr(self, "socket"):
                self.close()
            raise InputError(f"{path}: no socket can be opened there: {error}") from None

    def accept(self, seconds: float | None = None) -> Connection | None:
        """The next caller, or nobody within that time; those who don't know the secret are turned away."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            self.socket.settimeout(left)
            try:
                called, _ = self.socket.accept()
            except TimeoutError:
                return None
            called.settimeout(None)
            with suppress(OSError):
                return _shaken(called, self.secret, LISTENER)

    def reachable(self) -> bool:
        """Whether the socket is still in its place: somebody may have tidied up."""
        return self.path.exists() and secret_of(self.path).exists()

    def close(self) -> None:
        """Nobody can call any more."""
        self.socket.close()
        for name in (self.path, secret_of(self.path)):
            name.unlink(missing_ok=True)


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
        opened.settimeout(HANDSHAKE_SECONDS)  # a listener that accepts nobody has a full queue at some time
        opened.connect(str(path))
        opened.settimeout(None)
        return _shaken(opened, _secret(path), CALLER)
    except OSError as error:
        raise Closed(f"nobody answers at {path}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        opened.close()  # nothing is left to close where the connection has taken it over


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


def _secret(path: Path) -> bytes:
    return read_bytes(secret_of(path))


def _shaken(opened: socket.socket, secret: bytes, role: bytes) -> Connection:
    """Each end proves that it knows the secret: the HMAC of its role and the other's random challenge."""
    # Once a frame has begun neither end may stop in the middle of it.
    pause = struct.pack("@ll", int(HANDSHAKE_SECONDS), int(HANDSHAKE_SECONDS % 1 * 1e6))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        opened.setsockopt(socket.SOL_SOCKET, option, pause)
    connection, other = Connection(opened.detach()), CALLER if role == LISTENER else LISTENER
    proof = lambda role, challenge: hmac.digest(secret, role + challenge, "sha256")
    try:
        mine = secrets.token_bytes(32)
        send(connection, mine)
        theirs = receive(connection, 32, HANDSHAKE_SECONDS)
        send(connection, proof(role, theirs))
        if not hmac.compare_digest(receive(connection, 32, HANDSHAKE_SECONDS), proof(other, mine)):
            raise Closed("the other end does not know the secret")
    except BaseException:
        connection.close()
        raise
    return connection
