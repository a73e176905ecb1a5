"""An engine in one process: Flower's ClientApp with our code in it, without processes and networks."""

import shutil
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import jax
import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'fastfedpg[federation]'")

from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fastfedpg import with_oracle
from fastfedpg.core import Algorithm, Problem
from fastfedpg.federation import roster
from fastfedpg.federation.agent import Agent, Site
from fastfedpg.federation.roster import Roster
from fastfedpg.federation.rounds import Rounds
from fastfedpg.federation.terms import Terms
from fastfedpg.federation.transport import agent_socket, unix_socket
from fastfedpg.federation.transport.engine import Answer, Failure, Seen
from fastfedpg.federation.transport.flower import NAME, TYPE, client_app, content
from fastfedpg.runtime.run_state import unheard

RUN = "5" * 32
RAISED = 2  # Flower's code for a ClientApp that raised


class Node(NamedTuple):
    agent: int | None
    socket: Path
    since: str = ""


class InProcessEngine:
    """Brings each question at once to the ClientApp of Flower's own node, and so to an agent's socket."""

    def __init__(self, nodes: dict[int, Node], limit: int = 2**24):
        self.there, self.limit = nodes, limit
        self.asked = []  # the nodes, in the order in which they were asked
        self.mute = set()  # nodes that never answer

    def nodes(self):
        return {number: Seen(node.agent, node.since) for number, node in self.there.items()}

    def ask(self, questions, seconds):
        self.asked += questions  # all of them, before the first answer is taken
        heard = {n: self._delivered(n, question, seconds) for n, question in questions.items() if n not in self.mute}
        yield from (Answer(number, content) for number, content in heard.items())

    def close(self):
        pass

    def _delivered(self, number, question, seconds):
        message = Message(content(question), number, TYPE, ttl=seconds)
        message.metadata.__dict__["_message_id"] = "m"
        config = {"socket": str(self.there[number].socket), "limit": self.limit}
        try:
            reply = client_app(message, Context(1, number, config, RecordDict(), {}))
        except Exception as error:  # as the node's own process does
            return Failure(f"Flower's error {RAISED}: {type(error)}:<'{error}'>")
        return Failure(reply.error.reason) if reply.has_error() else reply.content.config_records[NAME][NAME]


@contextmanager
def identity():
    """Flower's messages ask who makes them."""
    with ExitStack() as stack:
        for name in ("_run_id", "_node_id", "_task_id"):
            stack.enter_context(patch.object(TaskIdentity, name, 1))
        yield


@contextmanager
def short_folder():
    """A folder whose path is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="ff-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def served(agent, path: Path):
    """An agent behind its socket, on a thread of its own."""
    stop, listener = threading.Event(), unix_socket.Listener(path)
    with patch.object(agent_socket, "PAUSE_SECONDS", 0.02):
        arguments = (agent.answer, agent.limit, listener, stop)
        thread = threading.Thread(target=agent_socket.answer_callers, args=arguments)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def grid_of(agents):
    """An engine with a node for each of these agents, numbered from 100, each behind its own socket."""
    with ExitStack() as stack:
        stack.enter_context(identity())
        stack.enter_context(patch.object(roster, "PAUSE_SECONDS", 0.01))
        folder = stack.enter_context(short_folder())
        nodes = {100 + k: Node(k, folder / str(k)) for k in range(len(agents))}
        for agent, node in zip(agents, nodes.values(), strict=True):
            stack.enter_context(served(agent, node.socket))
        yield InProcessEngine(nodes)


def engine_of(grid):
    """A way to connect, that is there already."""
    return lambda seconds: grid


def declared(problem: Problem, said=()):
    """What server and agents have in common, where no configuration was their source; or what is said in its place."""
    theta = np.asarray(problem.theta0)
    of_theta = {"parameters": theta.shape[-1], "dtype": str(theta.dtype)}
    plain = {"algorithm": "as in the test", "agents": problem.N, **of_theta, "keys": "counter", "seed": 0}
    return {**plain, **dict(said)}


def site_of(problem: Problem, algorithm: Algorithm, i: int, tabular=None, tells=True, said=()) -> Site:
    """Agent i of a problem, with the oracle of all, so that one compilation serves every agent."""
    part = jax.tree.map(lambda x: x[i : i + 1], problem.tasks)
    own = problem._replace(tasks=part, ids=problem.ids[i : i + 1])
    if tabular is not None:
        if (id(tabular), i) not in EVALUATE:
            EVALUATE[id(tabular), i] = tabular, with_oracle(tabular.only(i)).evaluate
        own = own._replace(evaluate=EVALUATE[id(tabular), i][1])
    return Site(i, algorithm, own, declared(problem, said), tells)


EVALUATE = {}  # of one agent alone, compiled once for all tests


def agents_of(problem: Problem, algorithm: Algorithm, folder: Path, tabular=None, **other) -> list[Agent]:
    """Every agent of a problem, with its memory in a folder of its own."""
    return [Agent(site_of(problem, algorithm, i, tabular, **other), folder / str(i)) for i in range(problem.N)]


def rounds_of(connect, problem, algorithm, terms=None, log=None, run=RUN, said=()) -> Rounds:
    """The server's rounds, over whatever engine `connect` brings."""
    terms, log = terms or Terms(evaluate="server"), [] if log is None else log
    known = Roster(connect, run, declared(problem, said), problem.N, terms.patience, log.append)
    return Rounds(known, problem, algorithm, terms, 0.0)


def federated(connect, problem, algorithm, schedule, tick=unheard, start=None, **other):
    """The records of a run over an engine."""
    rounds = rounds_of(connect, problem, algorithm, **other)
    return [*rounds.records(schedule, tick, start)]
