"""`fastfedpg agent`: one site's environment, and the node that calls the server for it."""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fastfedpg.cli.consoles import LogFormatter
from fastfedpg.cli.extras import need_flower
from fastfedpg.cli.parse_flags import option, settings_for
from fastfedpg.errors import InputError
from fastfedpg.federation.terms import Keys
from fastfedpg.parameters import NEEDED

OWN = (
    "A problem's name (see `fastfedpg list`), the path of an .npz file with P, reward, rho and gamma, gym:ID, or "
    "module:function: this site's own, which returns its Gymnasium environment or a fastfedpg.Problem with one task; "
    "then give --agents too."
)
EXAMPLE = (
    "fastfedpg agent --config agent.toml --agent 0 --state /var/lib/fastfedpg --superlink fed.example.org:8443 "
    "--ca ca.crt --key agent-0"
)


@dataclass(frozen=True)
class AgentFlags:
    """Answer one algorithm's questions for one site's environment, which nobody outside sees."""

    agent: int = option(NEEDED, "This agent's number, from 0.", "run")
    state: Path = option(NEEDED, "The folder for what the agent must remember.")
    superlink: str | None = option(None, "HOST:PORT of the SuperLink, or of what stands in front of it.", "run")
    ca: Path | None = option(None, "The authority's certificate, ca.crt, by which the server is known.")
    key: Path | None = option(None, "This agent's private key: it signs every answer, and opens the connection.")
    insecure: bool = option(False, "Without TLS and keys: for trying things out on one machine.", "run")
    socket: Path | None = option(
        None, "Without --superlink: wait at this socket for a node. With it: be the node of the agent that waits there."
    )
    config: Path | None = option(None, "A TOML file with any of these settings; flags given beside it win.")
    keys: Keys = option(
        "counter", "Random numbers from the run's seed, as in a simulation, or from a secret of this site's own.", "run"
    )
    tell: bool = option(False, "Say what a policy is worth here (two numbers) when the server asks.", "run")
    questions: int = option(10_000, "So many questions are answered in all, by all runs together; raise it on purpose.")
    group: str | None = option(None, "A Unix group that may use the socket too: the node's, if that is another user.")
    share: int = option(
        1, "So many agents in this process, for trials on one machine: the next numbers' keys and folders stand beside."
    )


def agent(arguments: list[str], console: Console, errors: Console) -> int:
    """Be one site's agent: answer the questions of an algorithm's server, and no others."""
    config, (given,) = settings_for((AgentFlags,), "fastfedpg agent", arguments, {"problem": OWN}, EXAMPLE)
    need_flower()
    # Imported here: whoever only simulates does not need Flower, nor wait for it.
    from fastfedpg.federation import hosting
    from fastfedpg.federation.terms import Address

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(asctime)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("fastfedpg").setLevel(logging.INFO)
    if given.superlink is None and given.socket is None:
        raise InputError("give --superlink, to be a node too, or --socket, to wait for one")
    address = None if given.superlink is None else Address(given.superlink, given.ca, given.insecure)
    with _asked_to_end() as stop:
        if address is not None and given.socket is not None:
            hosting.relay(address, given.key, given.state, given.socket, stop)
        elif address is not None:
            hosting.attend(config, given, address, stop)
        else:
            assert given.socket is not None
            hosting.wait_at(config, given, given.socket, stop)
    return 0


@contextmanager
def _asked_to_end() -> Iterator[threading.Event]:
    """An event that signals set, for as long as an agent is at work: it ends between two answers."""
    stop = threading.Event()
    before = {n: signal.signal(n, lambda *_: stop.set()) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
