"""A whole federation on one machine, everything real: SuperLink, proxy, nodes and agents as processes."""

import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from fastfedpg.errors import InputError
from fastfedpg.experiment import Plan, run_folder
from fastfedpg.federation.deployment import message_limit
from fastfedpg.federation.localhost.processes import Processes
from fastfedpg.federation.roster import node_name
from fastfedpg.federation.terms import Address, Deployment, Keys
from fastfedpg.federation.transport import flower_commands, keys, unix_socket
from fastfedpg.federation.transport.superlink import unreachable
from fastfedpg.scratch import scratch_folder

LOOPBACK = "127.0.0.1"
START_SECONDS, AGENT_SECONDS = 120.0, 30.0
"""To start anything at all; and for each agent that compiles at the same time as the others."""


Wrap: TypeAlias = Callable[[int, list[str]], list[str]]
"""From an agent's number and its node's command to the command that is started."""


def unchanged(agent: int, words: list[str]) -> list[str]:
    """As it is."""
    return words


@contextmanager
def start_federation(
    out: Path, planned: Plan, how: Deployment, say: Callable[[str], None], host: str = LOOPBACK, node: Wrap = unchanged
) -> Iterator[Address]:
    """Everything that a run needs beside its server; ended when the context is left, however that happens.

    The SuperLink listens on loopback; nodes reach the proxy in front of it at `host`.
    """
    folder, agents, limit = out / run_folder.FEDERATION, planned.problem.N, message_limit(planned)
    certificates = None if how.address.insecure else folder / "keys"
    if certificates is not None and not (certificates / keys.KEY).exists():
        shutil.rmtree(certificates, ignore_errors=True)
        make_keys(certificates, agents, host)
    superlink_port, proxy_port, *node_ports = free_ports(2 + agents)
    home, ca = folder / "flower", None if certificates is None else certificates / keys.CA
    address = Address(f"{LOOPBACK}:{superlink_port}", ca, how.address.insecure)
    flower_commands.describe(home, address.superlink, ca)
    with scratch_folder() as sockets, Processes(folder / "logs", say) as processes:
        say("starting the SuperLink")
        words = flower_commands.superlink((LOOPBACK, superlink_port), folder / "superlink.db", certificates)
        processes.start("superlink", words, flower_commands.environment(home))
        for i in range(agents):
            words = agent_words(out / "config.toml", i, sockets / str(i), folder / "agents" / str(i), how.keys)
            processes.start(f"agent-{i}", words, flower_commands.environment(home))
        processes.wait("superlink", lambda: not unreachable(address), START_SECONDS, "the SuperLink")
        say(f"starting {agents} agents and their nodes")
        words = proxy_words(f"{host}:{proxy_port}", address, certificates, limit)
        processes.start("proxy", words, flower_commands.environment(home))
        processes.wait("proxy", lambda: listens(host, proxy_port), START_SECONDS, "the proxy")
        for i in range(agents):
            key = None if certificates is None else certificates / node_name(i)
            if key is not None:
                flower_commands.register(home, key.with_name(key.name + ".pub"), node_name(i))
            words = flower_commands.supernode(f"{host}:{proxy_port}", node_ports[i], sockets / str(i), limit, ca, key)
            processes.start(f"node-{i}", node(i, words), flower_commands.environment(folder / f"flower-{i}"), stage=1)
        for i in range(agents):
            ready = lambda i=i: (sockets / str(i)).is_socket() and unix_socket.secret_of(sockets / str(i)).exists()
            processes.wait(f"agent-{i}", ready, START_SECONDS + AGENT_SECONDS * agents, f"agent {i}")
        yield address


def agent_words(config: Path, agent: int, socket: Path, state: Path, keys: Keys) -> list[str]:
    """The command of an agent."""
    words = [flower_commands.program("fastfedpg"), "agent", "--config", str(config), "--agent", str(agent)]
    return [*words, "--socket", str(socket), "--state", str(state), "--keys", keys]


def make_keys(folder: Path, agents: int, host: str) -> None:
    """An authority, the server's certificate for this machine, and one key for each node."""
    folder.mkdir(mode=0o700)
    keys.make_authority(folder)
    for i in range(agents):
        keys.make_node_key(folder / node_name(i))
    keys.make_certificate(folder, folder, [*dict.fromkeys((LOOPBACK, "localhost", host))])


def proxy_words(listen: str, address: Address, certificates: Path | None, limit: int) -> list[str]:
    """The proxy's command: nodes reach the SuperLink through it alone."""
    words = [flower_commands.program("fastfedpg"), "proxy", "--listen", listen, "--superlink", address.superlink]
    words += ["--limit", str(limit)]
    if certificates is None:
        return [*words, "--insecure"]
    names = {"--ca": keys.CA, "--certificate": keys.CERTIFICATE, "--key": keys.KEY}
    return [*words, *(word for flag, name in names.items() for word in (flag, str(certificates / name)))]


def free_ports(number: int) -> list[int]:
    """Ports on loopback that nobody uses."""
    opened = []
    try:
        for _ in range(number):
            opened.append(socket.create_server((LOOPBACK, 0)))
        return [s.getsockname()[1] for s in opened]
    except OSError as error:
        raise InputError(f"no free port on {LOOPBACK}: {error.strerror}") from None
    finally:
        for s in opened:
            s.close()


def listens(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except (OSError, ssl.SSLError):
        return False
    return True
