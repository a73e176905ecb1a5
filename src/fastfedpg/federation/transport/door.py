"""The proxy as a server: its socket, its TLS, how long it waits for callers, and how it ends."""

import asyncio
import errno
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, h11  # type: ignore[attr-defined]

from fastfedpg.errors import InputError
from fastfedpg.federation.transport import proxy, tls

CONNECTIONS = 256
HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 10.0
SHUTDOWN_SECONDS = 5
# A node's own client drops a connection after 5 s of silence; the proxy waits longer, so as not to close one under it.
KEEP_ALIVE_SECONDS = 10


class Door(NamedTuple):
    """Where the proxy stands, and what it may let in; without certificate, in plain HTTP."""

    listen: tuple[str, int]
    upstream: str  # the SuperLink's URL
    largest: int  # bytes of a message
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None


def run_proxy(door: Door, log: proxy.Log) -> None:
    """Stand before the SuperLink until SIGTERM or SIGINT."""
    server, listener = prepare(door, log)
    with listener, _ended_by_signals(server):
        server.run([listener])


def prepare(door: Door, log: proxy.Log) -> tuple[uvicorn.Server, socket.socket]:
    """A server that is ready to run, and the socket it will listen on: whatever the user got wrong is found here."""
    _check_upstream(door.upstream, "http" if door.certificate is None else "https")
    context = None if door.certificate is None else tls.server_context(door.certificate, door.key)
    verify = door.certificate is not None if door.ca is None else tls.client_context(door.ca)
    config = uvicorn.Config(
        proxy.app(door.upstream, verify, door.largest, proxy.sparingly(log)),
        loop="asyncio",
        http=_Impatient,
        ws="none",
        lifespan="on",
        workers=1,
        # uvicorn would print a warning for everything odd that a stranger sends.
        log_config=None,
        log_level="critical",
        access_log=False,
        # The address in the log is the peer's, not what the peer claims; the reply's headers are the SuperLink's.
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ssl_context_factory=(lambda config, default: context) if context else None,
    )
    return uvicorn.Server(config), _bound(*door.listen)


class _Impatient(H11Protocol):
    """uvicorn's HTTP, for connections that ask something: it would wait for ever for the end of a request's headers."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_again()

    def _look_again(self) -> None:
        self.loop.call_later(HEAD_SECONDS, self._look, self.scope)

    def _look(self, before: Any) -> None:
        """Close the connection if since the last look no request has begun, and none is being worked on."""
        if self.transport.is_closing():
            return
        if self.scope is before and self.conn.their_state is h11.IDLE:
            self.transport.close()
        else:
            self._look_again()


@contextmanager
def _ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let SIGTERM and SIGINT end the server only: uvicorn raises them once more when it is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_upstream(upstream: str, scheme: str) -> None:
    try:
        parts = urlsplit(upstream)
        right = parts.scheme == scheme and bool(parts.hostname and parts.port) and parts.path in ("", "/")
    except ValueError:
        right = False
    if not right:
        raise InputError(
            f"the SuperLink's address is '{upstream}', where {scheme}://host:port is right "
            f"{'without' if scheme == 'http' else 'with'} a certificate"
        )


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error that says what is wrong with the address."""
    where = f"{host}:{port}"
    if not 0 <= port <= 65535:
        raise InputError(f"{where}: a port is a number from 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.getaddrinfo(host, port, family)
    except (OSError, UnicodeError):
        raise InputError(f"{where}: the host is unknown; give an address of this machine, or 0.0.0.0 for all") from None
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        hints = {
            errno.EADDRINUSE: "another program listens on this port; end it, or choose another port",
            errno.EACCES: "ports below 1024 are for root alone; choose one from 1024 to 65535",
            errno.EADDRNOTAVAIL: "this machine has no such address; give one that it has, or 0.0.0.0 for all",
        }
        raise InputError(f"{where}: {hints.get(error.errno or 0, f'can not listen here: {error}')}") from None
