"""The only door to a SuperLink: it passes what Flower's nodes ask of it, and nothing else.

    node  -- TLS -->  proxy  -- TLS, loopback -->  SuperLink

A SuperLink has all on one port, and who reaches `/v1/control/` may start runs and admit nodes, unasked who it is.
So it listens on loopback, and this proxy passes POST to `/v1/fleet/<name>`, with the body and headers as they came.
"""

import asyncio
import errno
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h11
import httpx
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Router
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose
from uvicorn.protocols.http.h11_impl import H11Protocol

from fastfedpg.errors import InputError

Log = Callable[[str], None]
Header = tuple[bytes, bytes]

FLEET = re.compile(rb"/v1/fleet/[a-z-]+")

HOP_BY_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
"""Headers about one connection, not about the message."""

OURS = {b"host", b"content-length", b"expect"}
"""Headers of a request that the proxy answers or writes itself."""

CLAIMS = (b"forwarded", b"x-forwarded-", b"x-real-ip")
"""Headers that a SuperLink believes, because they come from loopback: a stranger could choose an address with them."""

CONNECTIONS = 256
HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 10.0
BODY_SECONDS = 120.0
LINGER_SECONDS = 10.0
REPLY_SECONDS = 120.0
SHUTDOWN_SECONDS = 5
# A node's own client drops a connection after 5 s of silence; the proxy waits longer, so as not to close one under it.
KEEP_ALIVE_SECONDS = 10
BODIES_TOGETHER = 8
"""Bodies of the largest size that are held at the same time."""

LOG_LINES = 20
LOG_SECONDS = 60.0
LOG_CHARACTERS = 100


class _Refused(Exception):
    """The proxy answers this request itself."""

    def __init__(self, status: int, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.reason = reason or text


def serve(
    listen: tuple[str, int],
    upstream: str,
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
    largest: int,
    log: Log,
) -> None:
    """Stand before the SuperLink at the URL `upstream` until SIGTERM or SIGINT; without certificate, in plain HTTP."""
    server, listener = prepare(listen, upstream, certificate, key, ca, largest, log)
    with listener, _ended_by_signals(server):
        server.run([listener])


def prepare(
    listen: tuple[str, int],
    upstream: str,
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
    largest: int,
    log: Log,
) -> tuple[uvicorn.Server, socket.socket]:
    """A server that is ready to run, and the socket it will listen on: whatever the user got wrong is found here."""
    _check_upstream(upstream, "http" if certificate is None else "https")
    context = None if certificate is None else _server_context(certificate, key)
    verify = certificate is not None if ca is None else _client_context(ca)
    config = uvicorn.Config(
        app(upstream, verify, largest, sparingly(log)),
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
    return uvicorn.Server(config), _bound(*listen)


def app(
    upstream: str, verify: ssl.SSLContext | bool | str, largest: int, log: Log = lambda line: None
) -> Router:  # Starlette's router alone: it runs the lifespan, and has no pages or redirects of its own
    """The ASGI application before the SuperLink at the URL `upstream`; `verify` is a TLS context, CA file or bool."""
    client = httpx.AsyncClient(
        verify=ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(60.0, connect=5.0, pool=10.0),
        # The SuperLink drops a connection after 5 s of silence; it must not happen just as one is taken up again.
        limits=httpx.Limits(max_connections=64, max_keepalive_connections=64, keepalive_expiry=2.0),
    )

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with client:
            yield

    return Router(default=_Gate(client, upstream.rstrip("/"), largest, log), redirect_slashes=False, lifespan=lifespan)


def sparingly(
    log: Log, lines: int = LOG_LINES, seconds: float = LOG_SECONDS, clock: Callable[[], float] = time.monotonic
) -> Log:
    """A log that takes only so many lines in so much time, and counts the others."""
    start, written, dropped = clock(), 0, 0

    def limited(line: str) -> None:
        nonlocal start, written, dropped
        if clock() - start >= seconds:
            if dropped:
                log(f"{dropped} more like these were not written")
            start, written, dropped = clock(), 0, 0
        if written < lines:
            written += 1
            log(line)
        else:
            dropped += 1

    return limited


class _Gate:
    """Every request comes here, whatever its path."""

    def __init__(self, client: httpx.AsyncClient, upstream: str, largest: int, log: Log) -> None:
        self.client = client
        self.upstream = upstream
        self.largest = largest
        self.log = log
        self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await WebSocketClose()(scope, receive, send)
            return
        request = Request(scope, receive)
        body = bytearray()
        try:
            path = await self._admit(request)
            await self._read(request, body)
            answer = await self._ask(path, request, bytes(body))
            await _give_back(answer, send)
        except ClientDisconnect:
            pass
        except _Refused as refused:
            self.log(f"{refused.status} to {_described(request)}: {refused.reason}")
            # What else the peer sends on this connection is no longer read.
            response = PlainTextResponse(f"{refused.text}\n", refused.status, {"connection": "close"})
            await response(scope, receive, send)
        except Exception as error:
            # The server cuts the connection, or answers 500: half a reply must not look like a whole one.
            self.log(f"broken off: {_described(request)}: {_reason(error)}")
            raise
        finally:
            self.held -= len(body)

    async def _admit(self, request: Request) -> str:
        """The path to ask for, matched before any decoding: what is passed on is exactly what was looked at."""
        path: bytes = request.scope["raw_path"]
        if request.method != "POST" or not FLEET.fullmatch(path) or request.scope["query_string"]:
            await _let_finish(request)
            raise _Refused(403, "only Flower's nodes are served here")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.largest:
            await _let_finish(request)
            raise self._too_large()
        return path.decode("ascii")

    async def _read(self, request: Request, body: bytearray) -> None:
        """Read all of a body before the SuperLink hears of it, which has no limits of its own."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.stream():
                    if len(body) + len(piece) > self.largest:
                        break
                    if self.held + len(piece) > BODIES_TOGETHER * self.largest:
                        raise _Refused(503, "too much at once, try again later")
                    body += piece
                    self.held += len(piece)
                else:
                    return
        except TimeoutError:
            # Not 408: Flower's nodes try again after 502, 503 and 504 only.
            raise _Refused(503, "the body did not arrive in time") from None
        await _let_finish(request)
        raise self._too_large()

    def _too_large(self) -> _Refused:
        return _Refused(413, f"a message may have at most {self.largest} bytes")

    async def _ask(self, path: str, request: Request, body: bytes) -> httpx.Response:
        """The SuperLink's answer, whose body is still to be read."""
        # Not build_request, which adds headers of its own.
        asked = httpx.Request("POST", self.upstream + path, headers=_asked(request.headers.raw), content=body)
        try:
            return await self.client.send(asked, stream=True)
        except httpx.TimeoutException as error:
            raise _Refused(504, "the SuperLink does not answer in time", _reason(error)) from None
        except httpx.TransportError as error:
            raise _Refused(502, "the SuperLink can't be reached", _reason(error)) from None


async def _let_finish(request: Request) -> None:
    """Drop what is still being sent, for a while: a socket closed over unread bytes may lose the reply too."""
    # Starlette's RuntimeError: nothing is left to read. Who hangs up now has been refused all the same, and is logged.
    with suppress(TimeoutError, RuntimeError, ClientDisconnect):
        async with asyncio.timeout(LINGER_SECONDS):
            async for _ in request.stream():
                pass


async def _give_back(answer: httpx.Response, send: Send) -> None:
    """Pass on status, headers and body as they are, piece by piece."""
    try:
        async with asyncio.timeout(REPLY_SECONDS):
            headers = list(_without_hops(answer.headers.raw))
            await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
            async for piece in answer.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await answer.aclose()


def _asked(headers: Iterable[Header]) -> list[Header]:
    """The headers to ask with; those that Flower signs or reads are among them."""
    return [h for h in _without_hops(headers) if h[0] not in OURS and not h[0].startswith(CLAIMS)]


def _without_hops(headers: Iterable[Header]) -> Iterator[Header]:
    """Headers in lower case, without those for one connection and those that `Connection` names as such."""
    lower = [(name.lower(), value) for name, value in headers]
    named = {token.strip().lower() for name, value in lower if name == b"connection" for token in value.split(b",")}
    return ((name, value) for name, value in lower if name not in HOP_BY_HOP | named)


def _described(request: Request) -> str:
    """Method, path and peer, in characters that can do no harm in a log."""
    peer = request.client.host if request.client else "unknown"
    return f"{_plain(request.method)} {_plain(request.scope['raw_path'].decode('latin-1'))} from {peer}"


def _reason(error: Exception) -> str:
    return _plain(f"{type(error).__name__}: {error}".removesuffix(": "))


def _plain(text: str) -> str:
    shown = text.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= LOG_CHARACTERS else f"{shown[:LOG_CHARACTERS]}…"


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


def _server_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """TLS towards the nodes."""
    if key is None:
        raise InputError(f"{certificate}: a certificate needs its private key; give both, or neither")
    _check_pem(certificate, "BEGIN CERTIFICATE", "a certificate")
    _check_pem(key, "PRIVATE KEY", "a private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")  # without one, OpenSSL asks on the terminal
    except ssl.SSLError as error:
        # The last is the word for a key of another kind than the certificate's.
        if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
            raise InputError(
                f"{key}: not the key of the certificate {certificate}; give the one it was made with"
            ) from None
        raise InputError(
            f"{certificate} and {key} can't be used: {error.reason or error}; "
            "a certificate and its key without password are right, both in PEM"
        ) from None
    return context


def _client_context(ca: Path) -> ssl.SSLContext:
    """TLS towards the SuperLink: this CA is trusted, and no other."""
    _check_pem(ca, "BEGIN CERTIFICATE", "a CA's certificate")
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise InputError(f"{ca}: not a certificate in PEM: {error.reason or error}") from None


def _check_pem(path: Path, mark: str, what: str) -> None:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {what} in PEM is needed here, but: {error.strerror}") from None
    if mark.encode() not in content:
        raise InputError(f"{path}: not {what} in PEM, which has a line with '{mark}'")
