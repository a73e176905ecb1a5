"""`fastfedpg kit`: keys, certificates, settings and units for the machines of a federation."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from fastfedpg.cli.extras import need_flower
from fastfedpg.cli.parse_flags import OptionalInt, OptionalText, own_flags
from fastfedpg.errors import InputError
from fastfedpg.federation.terms import Keys

EXAMPLE = "fastfedpg kit my-federation --server lab.example --agents 3"


@dataclass(frozen=True)
class KitFlags:
    """Make everything that a server and its sites need, one folder for each machine; docs/federation.md says more."""

    out: tyro.conf.Positional[Path]
    """The folder for it; it holds secrets, so make it where the authority's key may be."""
    server: tuple[str, ...] = ()
    """Names or addresses of the server's machine; sites call it by the first."""
    agents: OptionalInt = None
    """The number of sites N."""
    port: OptionalInt = None
    """Where nginx listens for nodes; 8443 unless given."""
    listen: OptionalText = None
    """The address at which it does; all of the machine's (0.0.0.0) unless given."""
    user: OptionalText = None
    """The Unix users: fastfedpg and fastfedpg-nginx on the server, fastfedpg-agent on sites, unless given."""
    prefix: OptionalText = None
    """The virtual environment with fastfedpg on all machines; /opt/fastfedpg unless given."""
    limit: OptionalInt = None
    """The largest message, in bytes; 2^26 unless given, enough for 8 million parameters."""
    keys: Annotated[Keys | None, tyro.conf.arg(metavar="{counter,private}", help_behavior_hint="")] = None
    """Random numbers from the run's seed, as in a simulation; or from a secret of each site's own, unless given."""
    add: Annotated[
        Literal["site", "key", "certificate"] | None,
        tyro.conf.arg(metavar="{site,key,certificate}", help_behavior_hint=""),
    ] = None
    """Add to a kit: one more site, a new key for a site's node, or a new certificate; nothing else is touched."""
    agent: OptionalInt = None
    """--add key: the number of the agent whose node gets it."""
    overwrite: bool = False
    """Replace an earlier kit in that folder; its keys are lost."""


OURS = ("agents", "port", "listen", "user", "prefix", "limit", "keys")


def kit(arguments: list[str], console: Console, errors: Console) -> int:
    """Make keys, certificates and systemd units for a server and its sites, one folder for each machine."""
    given = own_flags(KitFlags, "fastfedpg kit", arguments, EXAMPLE)
    need_flower()
    from fastfedpg.federation.kit import folders as making
    from fastfedpg.federation.kit.machines import AUTHORITY, KIT, SERVER, KitPlan
    from fastfedpg.federation.kit.texts import INSTALL

    say = lambda words: console.print(words, soft_wrap=True, highlight=False, markup=False)
    settings = {name: getattr(given, name) for name in OURS if getattr(given, name) is not None}
    if given.add is None:
        if given.agent is not None:
            raise InputError("--agent goes with --add key; the number of sites is --agents")
        if given.agents is None:
            raise InputError("give --agents, the number of sites")
        making.make(given.out, KitPlan(given.server, **settings), given.overwrite)
        say(f"{AUTHORITY}  to a safe: who has it can pass for the server at every site")
        say(f"{SERVER}     to {given.server[0]}; there, as root: sh {INSTALL}")
        for i in range(given.agents):
            say(f"{f'site-{i}':<10} to the site of agent {i}, and nowhere else; there, as root: sh {INSTALL}")
    elif settings or given.overwrite or (given.add != "certificate" and given.server):
        raise InputError(f"--add {given.add} takes its settings from {given.out / KIT}; give it without others")
    elif (given.add == "key") != (given.agent is not None):
        raise InputError("--agent goes with --add key: give both, or neither")
    elif given.agent is not None:
        plan, folder = making.add_key(given.out, given.agent)
        public = f"agent-{given.agent}.pub"
        say(f"{folder.name} to its site, again; {SERVER}/{public} to /etc/fastfedpg/server on the server")
    elif given.add == "site":
        plan, folder = making.add_site(given.out)
        public = f"agent-{plan.agents - 1}.pub"
        say(f"{folder.name} to its site; {SERVER}/{public} to /etc/fastfedpg/server on the server")
        say(f"a run with it is a new one: agents = {plan.agents} at the server and at every site")
    else:
        plan, folder = making.add_certificate(given.out, given.server)
        say(f"{folder.name} to the server, for {', '.join(plan.server)}; there, as root: sh {INSTALL}")
    say(f"written: {given.out}")
    return 0
