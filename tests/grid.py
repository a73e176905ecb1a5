"""Flower's grid in one process: the ServerApp's and ClientApp's own code, without processes and networks."""

import itertools
import threading
from contextlib import contextmanager

import pytest

flwr = pytest.importorskip("flwr", reason="flwr is not installed: pip install 'fastfedpg[federation]'")

from flwr.app import Context, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fastfedpg.federation import local
from fastfedpg.federation.flower import FlowerEngine, client_app
from fastfedpg.federation.serving import serve


class InProcessGrid(Grid):
    """Delivers each message to a ClientApp at once, on the thread that pushes it; `nodes` maps numbers to sockets."""

    def __init__(self, nodes, limit=2**24):
        self.nodes, self.limit, self.replies, self.numbers = dict(nodes), limit, {}, itertools.count()

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, *arguments, **names):
        raise NotImplementedError

    def get_node_ids(self):
        return [*self.nodes]

    def get_nodes(self):
        return [NodeInfo(node_id=n, name=f"agent-{k}") for k, n in enumerate(self.nodes)]

    def push_messages(self, messages):
        pushed = []
        for message in messages:
            name, node = f"m{next(self.numbers)}", message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = name
            config = {"socket": str(self.nodes[node]), "limit": self.limit}
            context = Context(1, node, config, RecordDict(), {})
            self.replies[name] = client_app(message, context)
            pushed.append(name)
        return pushed

    def pull_messages(self, message_ids):
        return [self.replies.pop(name) for name in message_ids if name in self.replies]

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError


@contextmanager
def identity():
    """Flower's messages ask who makes them."""
    names = ("run_id", "node_id", "task_id")
    for name in names:
        setattr(TaskIdentity, name, 1)
    yield


@contextmanager
def grid_of(agents, folder):
    """A grid whose nodes lead to these agents, each behind its own socket."""
    stop, threads, nodes = threading.Event(), [], {}
    for k, agent in enumerate(agents):
        listener = local.Listener(folder / f"{k}.sock")
        nodes[100 + k] = listener.path
        threads.append(threading.Thread(target=serve, args=(agent, listener, stop)))
        threads[-1].start()
    try:
        with identity():
            yield InProcessGrid(nodes)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def engine_of(grid):
    return lambda seconds: FlowerEngine(grid)
