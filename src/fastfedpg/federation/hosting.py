"""An agent's process: with its node in it, behind a socket for a node of another user, or that node alone."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from fastfedpg.errors import InputError
from fastfedpg.experiment.config import Config
from fastfedpg.federation import site
from fastfedpg.federation.agent import Agent
from fastfedpg.federation.agent_store import make_folder
from fastfedpg.federation.audit import Audit, audited
from fastfedpg.federation.terms import Address, Keys
from fastfedpg.federation.transport import agent_socket, keys, unix_socket
from fastfedpg.federation.transport.node import Node
from fastfedpg.files import clear_parts, hold

LOG = logging.getLogger("fastfedpg.agent")
END_SECONDS = 5.0
LARGEST = 2**31 - 1
"""Bytes of a message for a node that does not know its agent's own limit; it is Flower's."""


class Given(Protocol):
    """What an agent is started with."""

    agent: int
    state: Path
    key: Path | None
    group: str | None
    keys: Keys
    tell: bool
    share: int
    questions: int


def attend(config: Config, given: Given, address: Address, stop: threading.Event) -> None:
    """Be agents and their nodes, all in this process, until told to stop."""
    numbers = range(given.agent, given.agent + given.share)
    folders = {i: given.state if i == given.agent else given.state.with_name(str(i)) for i in numbers}
    beside = lambda i: given.key if given.key is None or i == given.agent else given.key.with_name(keys.node_name(i))
    nodes = {i: _node(address, beside(i), folders[i]) for i in numbers}
    with ExitStack() as stack:
        agents = {i: _built(config, given, i, folders[i], stack) for i in numbers}
        one_at_a_time = threading.Lock()
        threads = []
        for i, agent in agents.items():
            answer = _guarded(_signed(agent, None if address.insecure else nodes[i].private, folders[i]), one_at_a_time)
            arguments = (answer, agent.limit + keys.SIGNATURE_BYTES, stop)
            threads.append(threading.Thread(target=_attending, args=(nodes[i], *arguments), daemon=True))
            LOG.info("agent %d is ready, and calls %s", i, address.superlink)
        for thread in threads:
            thread.start()
        stop.wait()
        for thread in threads:
            thread.join(END_SECONDS)  # one that is in the middle of a long answer is not waited for
        LOG.info("agent %d ends", given.agent)


def _attending(node: Node, answer: Callable[[bytes], bytes], limit: int, stop: threading.Event) -> None:
    """A node that can't go on ends its process, which whoever started it starts again."""
    try:
        node.attend(answer, limit, stop)
    except Exception:
        LOG.exception("the node ends")
    finally:
        stop.set()


def wait_at(config: Config, given: Given, socket: Path, stop: threading.Event) -> None:
    """Be an agent without a network, behind its socket."""
    unix_socket.check(socket, given.group)  # before anything that takes long
    private = None if given.key is None else keys.private_key(given.key)
    with ExitStack() as stack:
        agent = _built(config, given, given.agent, given.state, stack)
        listener = unix_socket.Listener(socket, given.group)
        LOG.info("agent %d is ready at %s", given.agent, socket)
        agent_socket.answer_callers(_signed(agent, private, given.state), agent.limit, listener, stop)
        LOG.info("agent %d ends", given.agent)


def relay(address: Address, key: Path | None, folder: Path, socket: Path, stop: threading.Event) -> None:
    """Be the node of an agent that another user runs, and waits at a socket."""
    node = _node(address, key, folder)
    with hold(folder):
        node.attend(lambda question: unix_socket.ask(socket, question, LARGEST), LARGEST, stop)


def _node(address: Address, key: Path | None, folder: Path) -> Node:
    """A node, once everything that it needs has been looked at."""
    address.check()
    if address.ca is not None:
        keys.check_certificate(address.ca, "the authority's certificate")
        if key is None:
            raise InputError("give --key, this agent's private key; without keys only with --insecure")
    make_folder(folder)
    if key is None:
        key = folder / "key"
        if not key.exists():
            keys.make_node_key(key)
    return Node(address, key, folder)


def _built(config: Config, given: Given, number: int, folder: Path, stack: ExitStack) -> Agent:
    """An agent that has its folder to itself, and was compiled."""
    built = site.build(config, number, given.keys, given.tell, given.questions)
    make_folder(folder)
    stack.enter_context(hold(folder))
    clear_parts(folder)
    agent = Agent(built, folder)
    LOG.info("agent %d of %d: compiling %s", number, built.agents, config.algorithm)
    agent.compile()
    return agent


def _signed(agent: Agent, key: keys.PrivateKey | None, folder: Path) -> Callable[[bytes], bytes]:
    """An agent's answers as they are sent, each written down in the audit log."""
    signed = agent.answer if key is None else lambda question: keys.sign(key, question, agent.answer(question))
    return audited(signed, Audit(folder, LOG.warning), keys.node_name(agent.site.number))


def _guarded(answer: Callable[[bytes], bytes], lock: threading.Lock) -> Callable[[bytes], bytes]:
    def one(question: bytes) -> bytes:
        with lock:
            return answer(question)

    return one
