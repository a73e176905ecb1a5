"""A real SuperLink over TLS, agents' own nodes and the server's own engine at it, all in one process."""

import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'fastfedpg[federation]'")

import uvicorn
from flwr.superlink.main import create_app

from fastfedpg.federation.roster import Roster
from fastfedpg.federation.rounds import Rounds
from fastfedpg.federation.terms import Address, Terms
from fastfedpg.federation.transport import keys, superlink
from fastfedpg.federation.transport.node import Node
from fastfedpg.runtime import Schedule
from fastfedpg.runtime.run_state import unheard
from grid import RUN, declared
from sites import EXACT, FAST, ROUNDS, N

LIMIT = 2**20


class Link:
    """Flower's SuperLink as `flower-superlink --isolation process` would be, on a thread; it can be started again."""

    def __init__(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as opened:
            self.port = opened.getsockname()[1]
        self.folder, self.address = folder, Address(f"127.0.0.1:{self.port}", folder / keys.CA)
        self.start()

    def start(self):
        """With empty state, as always."""
        self.app = create_app()
        self.app.state.enable_supernode_auth = True
        self.app.state.superexec_auth_secret = keys.read_secret(self.folder)
        tls = {"ssl_certfile": self.folder / keys.CERTIFICATE, "ssl_keyfile": self.folder / keys.KEY}
        plain = {"log_config": None, "log_level": "critical", "ws": "none", "http": "h11", "loop": "asyncio"}
        config = uvicorn.Config(self.app, "127.0.0.1", self.port, **plain, **tls)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)

    def stop(self):
        self.server.should_exit = True
        self.thread.join()


@contextmanager
def attending(link, answers, tmp_path, kinds=()):
    """Nodes that answer with these functions, each with its agent's key; some may be of another kind."""
    stop = threading.Event()
    threads = []
    for i, answer in answers.items():
        (tmp_path / f"node-{i}").mkdir(exist_ok=True)
        kind = dict(kinds).get(i, Node)
        there = kind(link.address, link.folder / keys.node_name(i), tmp_path / f"node-{i}")
        threads.append(threading.Thread(target=until_it_dies, args=(there, answer, stop)))
        threads[-1].start()
    try:
        yield stop
    finally:
        stop.set()
        for thread in threads:
            thread.join()


class Dies(BaseException):
    """A process that is killed says nothing more."""


def until_it_dies(there, answer, stop):
    with suppress(Dies):
        there.attend(answer, LIMIT, stop)


def signed(link, agent, i):
    private = keys.private_key(link.folder / keys.node_name(i))
    return lambda question: keys.sign(private, question, agent.answer(question))


def deployed(link, tick=unheard, log=None, **terms):
    """theta after a run."""
    log = [] if log is None else log
    known = keys.public_keys(link.folder)
    opened = lambda i, question, content: keys.signed_by(known[i], question, content)
    connect = lambda seconds: superlink.connect(link.address, LIMIT, seconds, log.append)
    people = Roster(connect, RUN, declared(EXACT), N, 60.0, log.append, opened=opened)
    rounds = Rounds(people, EXACT, FAST, Terms(**{"evaluate": "server", "timeout": 60.0} | terms), 0.0)
    try:
        return [*rounds.records(Schedule(ROUNDS), tick)][-1].theta[0]
    finally:
        people.close()
