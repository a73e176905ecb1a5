"""The systemd units of a kit, whose commands are those of `fastfedpg federate`."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from fastfedpg.federation.kit.machines import (
    ETC,
    HERE,
    LOOPBACK,
    NODE_PORT,
    SERVER,
    STATE,
    SUPERLINK_PORT,
    KitPlan,
    socket,
)
from fastfedpg.federation.localhost import start_all
from fastfedpg.federation.roster import node_name
from fastfedpg.federation.terms import Address
from fastfedpg.federation.transport import flower_commands, keys

SUPERLINK, PROXY = "fastfedpg-superlink.service", "fastfedpg-proxy.service"
NODE, AGENT = "fastfedpg-node.service", "fastfedpg-agent.service"
RESTART_SECONDS = 5

HARDENING = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "ProtectProc": "invisible",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
}
NETWORK = {"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX"}


def superlink_words(plan: KitPlan) -> list[str]:
    """The SuperLink on loopback."""
    database = STATE / HERE / "superlink.db"
    return _installed(plan, flower_commands.superlink((LOOPBACK, SUPERLINK_PORT), database, ETC / SERVER))


def proxy_words(plan: KitPlan) -> list[str]:
    """The proxy in front of it."""
    listen = f"[{plan.listen}]:{plan.port}" if ":" in plan.listen else f"{plan.listen}:{plan.port}"
    address = Address(f"{LOOPBACK}:{SUPERLINK_PORT}", ETC / SERVER / keys.CA)
    return _installed(plan, start_all.proxy_words(listen, address, ETC / SERVER, plan.limit))


def node_words(i: int, plan: KitPlan) -> list[str]:
    """A site's node."""
    folder = ETC / "node"
    return _installed(
        plan,
        flower_commands.supernode(plan.front, NODE_PORT, socket(), plan.limit, folder / keys.CA, folder / node_name(i)),
    )


def agent_words(i: int, plan: KitPlan) -> list[str]:
    """A site's agent."""
    config, state = ETC / "agent" / "agent.toml", STATE / "fastfedpg-agent"
    words = start_all.agent_words(config, i, socket(), state, plan.keys)
    return [*_installed(plan, words), "--group", plan.group]


def _installed(plan: KitPlan, words: list[str]) -> list[str]:
    """The same command where the kit's machines have it."""
    return [f"{plan.prefix}/bin/{Path(words[0]).name}", *words[1:]]


def environment_of(plan: KitPlan, home: Path) -> dict[str, str]:
    """Flower's programs start others, which they find on the path."""
    path = f"{plan.prefix}/bin:/usr/bin:/bin"
    return {**flower_commands.QUIET, "PATH": path, "HOME": str(home), "FLWR_HOME": f"{home}/flower"}


def unit(
    description: str, words: list[str], environment: Mapping[str, str], service: Mapping[str, str], after: str
) -> str:
    """A systemd unit whose program is kept running, whatever ends it."""
    rest = {
        # A node that was killed is refused for about a minute after, so systemd must never give up.
        "Restart": "always",
        "RestartSec": str(RESTART_SECONDS),
        # Flower's processes may not listen when they are asked to end.
        "TimeoutStopSec": "15",
    }
    lines = ["[Unit]", f"Description={description}", f"After={after}", f"Wants={after}", "StartLimitIntervalSec=0", ""]
    lines += ["[Service]", f"ExecStart={_exec(words)}"]
    lines += [f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()]
    lines += [f"{name}={value}" for name, value in {**service, **rest, **HARDENING}.items()]
    return "\n".join([*lines, "", "[Install]", "WantedBy=multi-user.target", ""])


def _user_and_group(name: str) -> dict[str, str]:
    return {"User": name, "Group": name}


def _exec(words: list[str]) -> str:
    return shlex.join(words).replace("%", "%%").replace("$", "$$")


def _quoted(text: str) -> str:
    return shlex.quote(text).replace("%", "%%")


def superlink_unit(plan: KitPlan) -> str:
    """The SuperLink's unit."""
    service = {
        **_user_and_group(plan.user),
        "StateDirectory": HERE,
        "StateDirectoryMode": "0700",
        # A run's server has its socket there, and outlives a SuperLink that is started again.
        "RuntimeDirectory": HERE,
        "RuntimeDirectoryMode": "0700",
        "RuntimeDirectoryPreserve": "yes",
        "WorkingDirectory": str(STATE / HERE),
        **NETWORK,
    }
    environment = environment_of(plan, STATE / HERE)
    return unit("fastfedpg: Flower's SuperLink", superlink_words(plan), environment, service, "network.target")


def proxy_unit(plan: KitPlan) -> str:
    """The proxy's unit."""
    service = {**_user_and_group(plan.user), **NETWORK}
    environment, after = environment_of(plan, STATE / HERE), "network-online.target"
    return unit("fastfedpg: the door to the SuperLink", proxy_words(plan), environment, service, after)


def node_unit(i: int, plan: KitPlan) -> str:
    """A node's unit: it executes what the server ships, so it has its own user, and one group more for the socket."""
    service = {
        **_user_and_group(f"{plan.user}-node"),
        "SupplementaryGroups": plan.group,
        "StateDirectory": "fastfedpg-node",
        "StateDirectoryMode": "0700",
        "WorkingDirectory": str(STATE / "fastfedpg-node"),
        "InaccessiblePaths": f"-{ETC / 'agent'} -{STATE / 'fastfedpg-agent'}",
        **NETWORK,
    }
    home = STATE / "fastfedpg-node"
    what = f"fastfedpg: the Flower node of agent {i}"
    return unit(what, node_words(i, plan), environment_of(plan, home), service, "network-online.target")


def agent_unit(i: int, plan: KitPlan) -> str:
    """An agent's unit: no network at all, only the socket."""
    service = {
        "User": f"{plan.user}-agent",
        "Group": plan.group,
        "StateDirectory": "fastfedpg-agent",
        "StateDirectoryMode": "0700",
        "RuntimeDirectory": "fastfedpg-agent",
        "RuntimeDirectoryMode": "0750",
        # A problem that is a module:function is looked for here.
        "WorkingDirectory": str(ETC / "agent"),
        "PrivateNetwork": "yes",
        "RestrictAddressFamilies": "AF_UNIX",
    }
    home = STATE / "fastfedpg-agent"
    environment = {name: value for name, value in environment_of(plan, home).items() if not name.startswith("FLWR_")}
    return unit(f"fastfedpg: agent {i}", agent_words(i, plan), environment, service, "local-fs.target")
