"""A relay before a port that counts what passes, byte by byte: TLS records, headers, polls and all."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Relay:
    """Connections to `address` are passed on to `target`; `bytes` is what went up to it and came down."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.bytes = 0
        self._count = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are open end with their peers."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
                called = socket.create_connection(self.target)
            except OSError:  # closed, or nobody is there to be called
                if self._listener.fileno() < 0:
                    return
                caller.close()
                continue
            threading.Thread(target=self._pass_on, args=(caller, called), daemon=True).start()

    def _pass_on(self, caller: socket.socket, called: socket.socket) -> None:
        with caller, called, selectors.DefaultSelector() as ready:
            ready.register(caller, selectors.EVENT_READ, called)
            ready.register(called, selectors.EVENT_READ, caller)
            while ready.get_map():
                for key, _ in ready.select():
                    source, other = key.fileobj, key.data
                    try:
                        piece = source.recv(1 << 16)
                        if piece:
                            other.sendall(piece)
                        else:
                            ready.unregister(source)
                            other.shutdown(socket.SHUT_WR)
                    except OSError:
                        return
                    with self._count:
                        self.bytes += len(piece)


@contextmanager
def relays() -> Iterator[tuple[list[Relay], object]]:
    """The relays so far, and a wrapper of a node's command that puts one more between the node and its server."""
    made: list[Relay] = []

    def through(agent: int, words: list[str]) -> list[str]:
        at = words.index("--superlink") + 1
        host, port = words[at].rsplit(":", 1)
        made.append(Relay((host, int(port))))
        return [*words[:at], made[-1].address, *words[at + 1 :]]

    try:
        yield made, through
    finally:
        for relay in made:
            relay.close()


def total(made: list[Relay]) -> int:
    """Bytes so far through all of them, both ways."""
    return sum(relay.bytes for relay in made)
