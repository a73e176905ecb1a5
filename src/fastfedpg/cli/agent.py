"""`fastfedpg agent`: one site's environment, behind a private socket."""

import logging
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fastfedpg.cli.flags import need_flower, settings_for
from fastfedpg.experiment.config import Config
from fastfedpg.federation.terms import Keys


@dataclass(frozen=True)
class Own(Config):
    """What one site knows of a run."""

    problem: str = Config.problem
    """A problem's name (see `fastfedpg list`), the path of an .npz file with P, reward, rho and gamma, gym:ID, or
    module:function: this site's own, which returns its Gymnasium environment or a fastfedpg.Problem with one task; then
    give --agents too."""


@dataclass(frozen=True)
class Agent:
    """Answer one algorithm's questions for one site's environment, which nobody outside sees."""

    settings: Config
    agent: int
    """This agent's number, from 0."""
    socket: Path
    """The private socket at which the site's Flower node reaches the agent."""
    state: Path
    """The folder for what the agent must remember."""
    config: Path | None = None
    """A TOML file with any of these settings; flags given beside it win."""
    keys: Keys = "counter"
    """Random numbers from the run's seed, as in a simulation, or from a secret of this site's own."""
    tell: bool = False
    """Say what a policy is worth here (two numbers) when the server asks."""
    group: str | None = None
    """A Unix group that may use the socket too: the node's, if it runs as another user."""


def agent(arguments: list[str], console: Console, errors: Console) -> int:
    """Be one site's agent: answer the server's questions through the site's own Flower node."""
    given = settings_for(Agent, "fastfedpg agent", arguments, Own)
    need_flower()
    # Imported here: whoever only simulates does not need Flower, nor wait for it.
    from fastfedpg.federation import site
    from fastfedpg.federation.agent import Agent as Answering
    from fastfedpg.federation.transport import agent_socket, unix_socket
    from fastfedpg.files import clear_parts, hold

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("fastfedpg").setLevel(logging.INFO)
    unix_socket.check(given.socket, given.group)  # before anything that takes long
    built = site.build(given.settings, given.agent, given.keys, given.tell)
    given.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with hold(given.state):
        clear_parts(given.state)
        answering = Answering(built, given.state)
        log, stop = logging.getLogger("fastfedpg.agent"), threading.Event()
        log.info("agent %d of %d: compiling %s", built.number, built.agents, given.settings.algorithm)
        answering.compile()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stop.set())
        listener = unix_socket.Listener(given.socket, given.group)
        log.info("agent %d is ready at %s", built.number, given.socket)
        agent_socket.serve(answering, listener, stop)
        log.info("agent %d ends", built.number)
    return 0
