"""The proxy before a SuperLink: it passes what Flower's nodes ask of it, and nothing else.

    node  -- TLS -->  proxy  -- TLS, loopback -->  SuperLink

A SuperLink has all on one port, and who reaches `/v1/control/` may start runs and admit nodes, unasked who it is.
So it listens on loopback, and this proxy passes POST to `/v1/fleet/<name>`, with the body and headers as they came.
"""

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Router
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

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

BODY_SECONDS = 120.0
LINGER_SECONDS = 10.0
REPLY_SECONDS = 120.0
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


def app(
    upstream: str, verify: ssl.SSLContext | bool, largest: int, log: Log = lambda line: None
) -> Router:  # Starlette's router alone: it runs the lifespan, and has no pages or redirects of its own
    """The ASGI application before the SuperLink at the URL `upstream`; `verify` is a TLS context, or httpx's bool."""
    client = httpx.AsyncClient(
        verify=verify,
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
