"""The shell scripts of a kit: what root does once on each machine, and how the server's user is called."""

import shlex
from pathlib import Path

from fastfedpg.federation.kit import units
from fastfedpg.federation.kit.machines import ETC, HERE, RUN, SERVER, STATE, KitPlan
from fastfedpg.federation.roster import node_name
from fastfedpg.federation.transport import keys
from fastfedpg.federation.transport.flower_commands import SUPERLINK_NAME

REGISTER, INSTALL, AS_SERVER = "register.sh", "install.sh", "as-server"


def as_server(plan: KitPlan) -> str:
    """Runs a command as the SuperLink's user: the SuperLink starts an app that calls the run's server at a socket."""
    home = STATE / HERE
    pairs = {**units.environment_of(plan, home), "TMPDIR": str(RUN / HERE)}
    words = ["env", *(f"{name}={value}" for name, value in pairs.items())]
    return f"""#!/bin/sh
# A command as the SuperLink's user, in its folder: {ETC / SERVER / AS_SERVER} fastfedpg server …
cd {home} && exec runuser -u {plan.user} -- {shlex.join(words)} "$@"
"""


def register(plan: KitPlan) -> str:
    """Admits the nodes whose public keys stand in the server's folder; who is admitted already stays so."""
    return f"""#!/bin/sh
# Admit every node whose public key is here, under the name of its file; or only those whose keys are given.
cd {ETC / SERVER} || exit 1
[ $# -gt 0 ] || set -- agent-*.pub
for key in "$@"; do
    name=$(basename "$key" .pub)
    {ETC / SERVER / AS_SERVER} flwr supernode register "$(realpath "$key")" {SUPERLINK_NAME} --name "$name"
done
{ETC / SERVER / AS_SERVER} flwr supernode list {SUPERLINK_NAME}
"""


def _begun(what: str) -> str:
    return f'#!/bin/sh\n# As root, in this folder: {what}\nset -e\ncd "$(dirname "$0")"\n'


def _user(name: str, home: Path) -> str:
    made = f"useradd --system --user-group --home-dir {home} --no-create-home --shell /usr/sbin/nologin {name}"
    return f"id -u {name} > /dev/null 2>&1 || {made}\n"


def _units(*names: str) -> str:
    return f"install -m 644 {' '.join(names)} /etc/systemd/system/\n"


def install_server(plan: KitPlan) -> str:
    """Users, folders and files of the server's machine. Root owns the folder: what is in it is run by root."""
    user, there, home = plan.user, ETC / SERVER, STATE / HERE
    return (
        _begun("the server's user, its folders, keys and units.")
        + _user(user, home)
        + f"install -d -m 755 {ETC}\n"
        + f"install -d -o root -g {user} -m 750 {there}\n"
        + f"install -m 644 {keys.CA} {keys.CERTIFICATE} agent-*.pub {there}\n"
        + f"install -o {user} -g {user} -m 600 {keys.KEY} {there}\n"
        + f"install -m 755 {AS_SERVER} {REGISTER} {there}\n"
        + f"[ -e {there}/server.toml ] || install -m 644 server.toml {there}\n"
        + f"install -d -o {user} -g {user} -m 700 {home} {home}/flower {home}/runs\n"
        + f"install -o {user} -g {user} -m 600 flower.toml {home}/flower/config.toml\n"
        + _units(units.SUPERLINK, units.PROXY)
    )


def install_site(i: int, plan: KitPlan) -> str:
    """Users, folders and files of a site: what is the node's, and what is the agent's."""
    node, agent = f"{plan.user}-node", f"{plan.user}-agent"
    return (
        _begun(f"the users, folders, keys and units of agent {i}'s site.")
        + f"getent group {plan.group} > /dev/null || groupadd --system {plan.group}\n"
        + _user(node, STATE / "fastfedpg-node")
        + _user(agent, STATE / "fastfedpg-agent")
        + f"install -d -m 755 {ETC}\n"
        + f"install -d -o {node} -g {node} -m 700 {ETC / 'node'}\n"
        + f"install -o {node} -g {node} -m 644 {keys.CA} {ETC / 'node'}\n"
        + f"install -o {node} -g {node} -m 600 {node_name(i)} {ETC / 'node'}\n"
        + f"install -d -o {agent} -g {agent} -m 700 {ETC / 'agent'}\n"
        + f"[ -e {ETC / 'agent'}/agent.toml ] || install -o {agent} -g {agent} -m 600 agent.toml {ETC / 'agent'}\n"
        + _units(units.NODE, units.AGENT)
    )
