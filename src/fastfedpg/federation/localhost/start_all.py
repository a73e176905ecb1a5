"""A whole federation on one machine, everything real: a SuperLink, and agents as processes that call it."""

import math
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from fastfedpg.errors import InputError
from fastfedpg.experiment import Plan, run_folder
from fastfedpg.federation.localhost.processes import Processes
from fastfedpg.federation.terms import Address, Deployment, Keys
from fastfedpg.federation.transport import flower_commands, keys
from fastfedpg.federation.transport.flower_http import unreachable
from fastfedpg.federation.transport.keys import node_name

LOOPBACK = "127.0.0.1"
START_SECONDS = 120.0
PROCESSES = 8
"""More agents than that share processes."""

Wrap: TypeAlias = Callable[[int, list[str]], list[str]]
"""From an agent's number and its command to the command that is started."""


def unchanged(agent: int, words: list[str]) -> list[str]:
    """As it is."""
    return words


@contextmanager
def start_federation(
    out: Path, planned: Plan, how: Deployment, say: Callable[[str], None], host: str = LOOPBACK, wrap: Wrap = unchanged
) -> Iterator[Address]:
    """Everything that a run needs beside its server; ended when the context is left, however that happens.

    Nothing stands in front of the SuperLink. Other users of this machine can reach it, and with the authority's
    certificate write to it; but a node counts only with an agent's key, an answer only with an agent's signature, and
    a task is given only to who knows the secret.
    """
    folder, N = out / run_folder.FEDERATION, planned.problem.N
    certificates = None if how.address.insecure else folder / "keys"
    if certificates is not None and not (certificates / keys.SECRET).exists():
        shutil.rmtree(certificates, ignore_errors=True)
        make_keys(certificates, N, host)
    if certificates is not None:
        keys.check_certificate(certificates / keys.CERTIFICATE, "the server's certificate")
    home, ca = folder / "flower", None if certificates is None else certificates / keys.CA
    address = Address(f"{host}:{free_port(host)}", ca, how.address.insecure)
    flower_commands.describe(home, address.superlink, ca)
    environment = flower_commands.environment(home)
    with Processes(folder / "logs", say) as processes:
        say("starting the SuperLink")
        words = flower_commands.superlink((host, int(address.superlink.rpartition(":")[2])), certificates)
        processes.start("superlink", words, environment)
        share = math.ceil(N / PROCESSES)
        say(f"starting {N} agents")
        for i in range(0, N, share):
            words = agent_words(out / "config.toml", i, min(share, N - i), folder, address, how.keys)
            processes.start(f"agent-{i}", wrap(i, words), environment, stage=1)
        processes.wait("superlink", lambda: not unreachable(address), START_SECONDS, "the SuperLink")
        yield address


def agent_words(config: Path, agent: int, share: int, folder: Path, address: Address, how: Keys) -> list[str]:
    """The command of an agent, or of several that share a process."""
    words = [flower_commands.program("fastfedpg"), "agent", "--config", str(config), "--agent", str(agent)]
    words += ["--state", str(folder / "agents" / str(agent)), "--keys", how, "--superlink", address.superlink]
    words += ["--share", str(share)] if share > 1 else []
    if address.ca is None:
        return [*words, "--insecure"]
    return [*words, "--ca", str(address.ca), "--key", str(address.ca.parent / node_name(agent))]


def make_keys(folder: Path, agents: int, host: str) -> None:
    """An authority, the server's certificate for this machine, and one key for each node."""
    folder.mkdir(mode=0o700)
    keys.make_authority(folder)
    keys.make_secret(folder)
    for i in range(agents):
        keys.make_node_key(folder / node_name(i))
    keys.make_certificate(folder, folder, [*dict.fromkeys((LOOPBACK, "localhost", host))])


def free_port(host: str) -> int:
    """A port that nobody uses."""
    try:
        with socket.create_server((host, 0)) as opened:
            return int(opened.getsockname()[1])
    except OSError as error:
        raise InputError(f"no free port on {host}: {error.strerror}") from None
