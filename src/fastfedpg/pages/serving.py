"""A page that is served while its run goes on: on loopback alone, two addresses, and nothing else of the disk.

A page of somebody else's can have its own name lead to 127.0.0.1 (DNS rebinding) and read what is served there as its
own. Such a request names that host, so hosts are compared.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fastfedpg.errors import InputError

LOOPBACK = "127.0.0.1"
SECONDS = 10.0
"""That a request may take to arrive."""
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}

Serve = Callable[[], str]
"""What is at an address now."""


class Shown(ThreadingHTTPServer):
    """The server; what is at its addresses is asked for with each request."""

    daemon_threads = True

    def __init__(self, port: int, page: Serve, stamp: Serve) -> None:
        self.addresses = {"/": (page, "text/html; charset=utf-8"), "/stamp": (stamp, "text/plain; charset=utf-8")}
        super().__init__((LOOPBACK, port), Answer)
        self.hosts = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}
        self.hosts |= {LOOPBACK, "localhost"} if self.server_port == 80 else set()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that goes away in the middle is none of our business."""


class Answer(BaseHTTPRequestHandler):
    """One request."""

    server: Shown
    timeout = SECONDS
    server_version, sys_version = "fastfedpg", ""

    def do_GET(self) -> None:
        """The page or its stamp."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """As for GET, without the page."""
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        if (self.headers.get("Host") or "").lower() not in self.server.hosts:
            self._send(421, "text/plain", f"this page is at {self.server.url} alone\n", body)
        elif self.path not in self.server.addresses:
            self._send(404, "text/plain", "nothing else is served here\n", body)
        else:
            serve, kind = self.server.addresses[self.path]
            self._send(200, kind, serve(), body)

    def _send(self, code: int, kind: str, text: str, body: bool) -> None:
        data = text.encode()
        self.send_response(code)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it: the terminal has the panel."""


@contextmanager
def served(port: int, page: Serve, stamp: Serve) -> Iterator[str]:
    """The page at a port of loopback as long as the context lasts; 0 is a port that is free."""
    try:
        server = Shown(port, page, stamp)
    except OverflowError:
        raise InputError(f"port = {port}; it must be between 0 and 65535") from None
    except OSError as error:
        raise InputError(f"port {port}: {error.strerror}; give another, as in --port 0 for one that is free") from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
