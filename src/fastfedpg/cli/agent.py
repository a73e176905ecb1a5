"""`fastfedpg agent`: one site's environment, behind a private socket."""

import logging
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fastfedpg.cli.consoles import LogFormatter
from fastfedpg.cli.extras import need_flower
from fastfedpg.cli.parse_flags import option, settings_for
from fastfedpg.federation.terms import Keys
from fastfedpg.parameters import NEEDED

OWN = (
    "A problem's name (see `fastfedpg list`), the path of an .npz file with P, reward, rho and gamma, gym:ID, or "
    "module:function: this site's own, which returns its Gymnasium environment or a fastfedpg.Problem with one task; "
    "then give --agents too."
)
EXAMPLE = "fastfedpg agent --config agent.toml --agent 0 --socket /run/fastfedpg/agent --state /var/lib/fastfedpg"


@dataclass(frozen=True)
class AgentFlags:
    """Answer one algorithm's questions for one site's environment, which nobody outside sees."""

    agent: int = option(NEEDED, "This agent's number, from 0.", "run")
    socket: Path = option(NEEDED, "The private socket at which the site's Flower node reaches the agent.")
    state: Path = option(NEEDED, "The folder for what the agent must remember.")
    config: Path | None = option(None, "A TOML file with any of these settings; flags given beside it win.")
    keys: Keys = option(
        "counter", "Random numbers from the run's seed, as in a simulation, or from a secret of this site's own.", "run"
    )
    tell: bool = option(False, "Say what a policy is worth here (two numbers) when the server asks.", "run")
    group: str | None = option(None, "A Unix group that may use the socket too: the node's, if that is another user.")


def agent(arguments: list[str], console: Console, errors: Console) -> int:
    """Be one site's agent: answer the server's questions through the site's own Flower node."""
    config, (given,) = settings_for((AgentFlags,), "fastfedpg agent", arguments, {"problem": OWN}, EXAMPLE)
    need_flower()
    # Imported here: whoever only simulates does not need Flower, nor wait for it.
    from fastfedpg.federation import site
    from fastfedpg.federation.agent import Agent
    from fastfedpg.federation.transport import agent_socket, unix_socket
    from fastfedpg.files import clear_parts, hold

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(asctime)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("fastfedpg").setLevel(logging.INFO)
    unix_socket.check(given.socket, given.group)  # before anything that takes long
    built = site.build(config, given.agent, given.keys, given.tell)
    given.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with hold(given.state):
        clear_parts(given.state)
        answering = Agent(built, given.state)
        log, stop = logging.getLogger("fastfedpg.agent"), threading.Event()
        log.info("agent %d of %d: compiling %s", built.number, built.agents, config.algorithm)
        answering.compile()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stop.set())
        listener = unix_socket.Listener(given.socket, given.group)
        log.info("agent %d is ready at %s", built.number, given.socket)
        agent_socket.answer_callers(answering, listener, stop)
        log.info("agent %d ends", built.number)
    return 0
