"""Everything that the machines of a federation need, one folder for each: keys, certificates, settings and units.

A kit holds secrets of all machines, so it is made where the authority's key is, and its folders part from there:

    OUT/authority    ca.key, ca.crt                       to a safe
    OUT/server       certificate, public keys, units      to the server's machine
    OUT/site-0 …     the node's key, units, agent.toml    to each site

On a site two Unix users share one group, for one socket: the node, which executes whatever app the server ships, and
the agent, which has the environment. Nothing else of the agent's is open to the node.
"""

import ipaddress
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from fastfedpg.config import Config, fit, read_toml
from fastfedpg.errors import InputError
from fastfedpg.federation import commands, keys, local, machine
from fastfedpg.federation.roster import node_name
from fastfedpg.federation.settings import Address, Deployment, Keys, Terms

KIT, AUTHORITY, SERVER = "kit.toml", "authority", "server"
LOOPBACK, LINK_PORT, NODE_PORT = "127.0.0.1", 8000, 9094
ETC, STATE, RUN = Path("/etc/fastfedpg"), Path("/var/lib"), Path("/run")
HERE = "fastfedpg-server"
"""The server's folders under /var/lib and /run."""

REGISTER, INSTALL, AS_SERVER = "register.sh", "install.sh", "as-server"
SUPERLINK_UNIT, PROXY_UNIT = "fastfedpg-superlink.service", "fastfedpg-proxy.service"
NODE_UNIT, AGENT_UNIT = "fastfedpg-node.service", "fastfedpg-agent.service"
LIMIT = 2**26
RESTART_SECONDS = 5

TRY = Config(problem="compromise-grid", oracle="gpomdp", baseline="leave-one-out", H=20, eta=2.0, B=32, K=50, rounds=3)
"""What a kit's settings say before they are filled in: a problem that every machine has, to see that all is well."""


@dataclass(frozen=True)
class Plan:
    """What a kit is made for; it stands in the kit, so that more can be added."""

    server: tuple[str, ...]
    agents: int
    port: int = 8443
    listen: str = "0.0.0.0"
    user: str = "fastfedpg"
    prefix: str = "/opt/fastfedpg"
    limit: int = LIMIT
    keys: Keys = "private"

    def check(self) -> None:
        """Everything that can be wrong before the first file."""
        if not self.server:
            raise InputError("give --server, the name or address by which the sites reach the server's machine")
        for host in self.server:
            check_host(host)
        if not 1 <= self.agents <= 1000:
            raise InputError(f"agents = {self.agents}; it must be between 1 and 1000")
        if not 1024 <= self.port <= 65535 or self.port == LINK_PORT:
            raise InputError(
                f"port = {self.port}; it must lie between 1024 and 65535 (the units are not root's), and not be the "
                f"SuperLink's own, {LINK_PORT}"
            )
        _address(self.listen, "listen", "an address of the server's machine, 0.0.0.0 for all")
        if not re.fullmatch(r"[a-z_][a-z0-9_-]{0,20}", self.user):
            raise InputError(f"user = {self.user}; a user's name has up to 21 small letters, digits, _ and -")
        if not re.fullmatch(r"(/[A-Za-z0-9._+-]+)+", self.prefix):
            raise InputError(f"prefix = {self.prefix}; it must be the full path of a folder, without spaces")
        if not 2**14 <= self.limit <= 2**31:
            raise InputError(f"limit = {self.limit}; the largest message must have between 2^14 and 2^31 bytes")

    @property
    def front(self) -> str:
        """Where nodes call: the first of the server's names."""
        host = self.server[0]
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def to_toml(self) -> str:
        """As a file."""
        return tomli_w.dumps({**asdict(self), "server": [*self.server]})


def check_host(host: str) -> None:
    """Refuse what is neither a name nor an address by which another machine can be called."""
    wanted = "a name such as fed.example.org, or an address such as 192.0.2.7"
    labels = host.split(".")
    if ":" in host or labels[-1].isdecimal():
        if _address(host, "server", wanted).is_unspecified:
            raise InputError(f"server = {host}; sites can't call that: give {wanted}")
        return
    label = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
    if len(host) > 253 or not all(label.fullmatch(part) for part in labels):
        raise InputError(f"server = {host}; it must be {wanted}")


def _address(text: str, name: str, wanted: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise InputError(f"{name} = {text}; it must be {wanted}") from None


# ---- making


def make(out: Path, plan: Plan, overwrite: bool = False) -> None:
    """A new kit, whole or not at all."""
    plan.check()
    found = _found(out)
    if found and not overwrite:
        raise InputError(f"{out} is not empty; give another folder, --add, or --overwrite (its keys are lost then)")
    foreign = [name for name in found if not re.fullmatch(rf"{KIT}|{AUTHORITY}|{SERVER}|site-\d+", name)]
    if foreign:
        raise InputError(f"{out} has what no kit has: {', '.join(foreign)}; give another folder")
    with _made(out) as new:
        authority = _folder(new / AUTHORITY)
        keys.make_authority(authority)
        _server(_folder(new / SERVER), authority, plan)
        for i in range(plan.agents):
            site = _folder(new / f"site-{i}")
            _site(site, i, plan, authority / keys.CA)
            shutil.copy(site / _public(i), new / SERVER)
        (new / KIT).write_text(plan.to_toml())
        if found:
            shutil.rmtree(out)


def add_site(out: Path) -> tuple[Plan, Path]:
    """One more site, with the next number; the folders of the others stay as they are."""
    plan = read(out)
    i, plan = plan.agents, replace(plan, agents=plan.agents + 1)
    plan.check()
    ca = out / SERVER / keys.CA
    if not ca.is_file():
        raise InputError(f"{ca} is not there; bring the server's folder back, its keys are not needed")
    site = out / f"site-{i}"
    if site.exists():
        raise InputError(f"{site} is there already, but {out / KIT} speaks of sites up to {i - 1} only; move it away")
    with _made(site) as new:
        _site(new, i, plan, ca)
        shutil.copy(new / _public(i), out / SERVER)
    _rewrite(out / KIT, plan.to_toml())
    return plan, site


def add_key(out: Path, i: int) -> tuple[Plan, Path]:
    """A new key for one site's node: a SuperLink that has struck a key off never takes it again."""
    plan, site, there = read(out), out / f"site-{i}", out / SERVER
    if not 0 <= i < plan.agents:
        raise InputError(f"agent = {i}; the kit's agents are numbered from 0 to {plan.agents - 1}")
    for folder in (site, there):
        if not folder.is_dir():
            raise InputError(f"{folder} is not there; bring it back, its keys are not needed")
    with tempfile.TemporaryDirectory(dir=out, prefix=".part-") as place:
        new = Path(place) / node_name(i)
        keys.make_node_key(new)
        shutil.copy(new.with_name(_public(i)), there)
        new.with_name(_public(i)).replace(site / _public(i))
        new.replace(site / new.name)
    return plan, site


def add_certificate(out: Path, server: tuple[str, ...] = ()) -> tuple[Plan, Path]:
    """A new certificate for the server, perhaps with other names; the sites need nothing, they trust the authority."""
    plan = read(out)
    plan = replace(plan, server=server or plan.server)
    plan.check()
    authority, there = out / AUTHORITY, out / SERVER
    if not (authority / keys.CA_KEY).is_file():
        raise InputError(f"{authority / keys.CA_KEY} is not there; bring the authority's folder back from its safe")
    keys.check_secret(authority / keys.CA_KEY)
    with tempfile.TemporaryDirectory(dir=out, prefix=".part-") as place:
        keys.make_certificate(Path(place), authority, _names(plan))
        for name in (keys.KEY, keys.CERTIFICATE):
            (Path(place) / name).replace(there / name)
    _rewrite(out / KIT, plan.to_toml())
    return plan, there


def read(out: Path) -> Plan:
    """The plan of a kit that was made before."""
    table = read_toml(out / KIT)
    kinds = {"agents": int, "port": int, "listen": str, "user": str, "prefix": str, "limit": int, "keys": Keys}
    try:
        settings: dict[str, Any] = {k: fit(f"{out / KIT}: {k}", kind, table[k]) for k, kind in kinds.items()}
        hosts = tuple(fit(f"{out / KIT}: server", str, host) for host in table["server"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{out / KIT}: not as it was written ({error})") from None
    return Plan(hosts, **settings)


def _found(out: Path) -> list[str]:
    try:
        return sorted(p.name for p in out.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}") from None


@contextmanager
def _made(out: Path) -> Iterator[Path]:
    """A folder that appears under its name when it is complete; only its owner can look inside."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=out.parent, prefix=".part-"))  # with mode 0700
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}") from None
    try:
        yield new
        new.rename(out)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _rewrite(path: Path, text: str) -> None:
    part = path.with_name(f".part-{path.name}")
    part.write_text(text)
    part.replace(path)


def _folder(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


def _public(i: int) -> str:
    return f"{node_name(i)}.pub"


def _names(plan: Plan) -> tuple[str, ...]:
    """By which the server may be called; the SuperLink and the proxy call each other by loopback."""
    return tuple(dict.fromkeys((*plan.server, LOOPBACK, "localhost")))


def _server(folder: Path, authority: Path, plan: Plan) -> None:
    shutil.copy(authority / keys.CA, folder / keys.CA)
    keys.make_certificate(folder, authority, _names(plan))
    # Flower's own configuration names files on the server's machine.
    with tempfile.TemporaryDirectory() as home:
        commands.describe(Path(home), f"{LOOPBACK}:{LINK_PORT}", ETC / SERVER / keys.CA)
        shutil.copy(Path(home) / "config.toml", folder / "flower.toml")
    (folder / "server.toml").write_text(_settings(plan, "the server: all but `problem` and the oracle as at the sites"))
    (folder / SUPERLINK_UNIT).write_text(superlink_unit(plan))
    (folder / PROXY_UNIT).write_text(proxy_unit(plan))
    _script(folder / AS_SERVER, as_server(plan))
    _script(folder / REGISTER, register(plan))
    _script(folder / INSTALL, install_server(plan))


def _site(folder: Path, i: int, plan: Plan, ca: Path) -> None:
    shutil.copy(ca, folder / keys.CA)
    keys.make_node_key(folder / node_name(i))
    (folder / "agent.toml").write_text(
        _settings(plan, f'agent {i}: put this site\'s own problem here, for example\n# problem = "hospital:make"')
    )
    (folder / NODE_UNIT).write_text(node_unit(i, plan))
    (folder / AGENT_UNIT).write_text(agent_unit(i, plan))
    _script(folder / INSTALL, install_site(i, plan))


def _settings(plan: Plan, what: str) -> str:
    about = "# The server and its agents compare these settings before the first round, and say what differs.\n"
    return f"# Settings of {what}\n{about}{replace(TRY, agents=plan.agents).to_toml()}"


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o700)


# ---- the commands, in the words of `fastfedpg federate`


def superlink_words(plan: Plan) -> list[str]:
    """The SuperLink on loopback."""
    database = STATE / HERE / "superlink.db"
    return _installed(plan, commands.superlink((LOOPBACK, LINK_PORT), database, ETC / SERVER))


def proxy_words(plan: Plan) -> list[str]:
    """The proxy in front of it."""
    listen = f"[{plan.listen}]:{plan.port}" if ":" in plan.listen else f"{plan.listen}:{plan.port}"
    address = Address(f"{LOOPBACK}:{LINK_PORT}", ETC / SERVER / keys.CA)
    return _installed(plan, machine.proxy_words(listen, address, ETC / SERVER, plan.limit))


def node_words(i: int, plan: Plan) -> list[str]:
    """A site's node."""
    folder = ETC / "node"
    return _installed(
        plan,
        commands.supernode(plan.front, NODE_PORT, socket(), plan.limit, folder / keys.CA, folder / node_name(i)),
    )


def agent_words(i: int, plan: Plan) -> list[str]:
    """A site's agent."""
    how = Deployment(Terms(), Address(), plan.keys)
    words = _installed(plan, machine.agent_words(ETC / "agent", i, socket(), how))
    places = {"--config": ETC / "agent" / "agent.toml", "--state": STATE / "fastfedpg-agent"}
    for flag, place in places.items():
        words[words.index(flag) + 1] = str(place)
    return [*words, "--group", _group(plan)]


def socket() -> Path:
    """Where a site's node reaches its agent."""
    path = RUN / "fastfedpg-agent" / "socket"
    assert len(str(path)) <= local.LONGEST
    return path


def _installed(plan: Plan, words: list[str]) -> list[str]:
    """The same command where the kit's machines have it."""
    return [f"{plan.prefix}/bin/{Path(words[0]).name}", *words[1:]]


def _group(plan: Plan) -> str:
    return f"{plan.user}-socket"


def _environment(plan: Plan, home: Path) -> dict[str, str]:
    """Flower's programs start others, which they find on the path."""
    path = f"{plan.prefix}/bin:/usr/bin:/bin"
    return {**commands.QUIET, "PATH": path, "HOME": str(home), "FLWR_HOME": f"{home}/flower"}


# ---- units

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


def superlink_unit(plan: Plan) -> str:
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
    environment = _environment(plan, STATE / HERE)
    return unit("fastfedpg: Flower's SuperLink", superlink_words(plan), environment, service, "network.target")


def proxy_unit(plan: Plan) -> str:
    """The proxy's unit."""
    service = {**_user_and_group(plan.user), **NETWORK}
    environment, after = _environment(plan, STATE / HERE), "network-online.target"
    return unit("fastfedpg: the door to the SuperLink", proxy_words(plan), environment, service, after)


def node_unit(i: int, plan: Plan) -> str:
    """A node's unit: it executes what the server ships, so it has its own user, and one group more for the socket."""
    service = {
        **_user_and_group(f"{plan.user}-node"),
        "SupplementaryGroups": _group(plan),
        "StateDirectory": "fastfedpg-node",
        "StateDirectoryMode": "0700",
        "WorkingDirectory": str(STATE / "fastfedpg-node"),
        "InaccessiblePaths": f"-{ETC / 'agent'} -{STATE / 'fastfedpg-agent'}",
        **NETWORK,
    }
    home = STATE / "fastfedpg-node"
    what = f"fastfedpg: the Flower node of agent {i}"
    return unit(what, node_words(i, plan), _environment(plan, home), service, "network-online.target")


def agent_unit(i: int, plan: Plan) -> str:
    """An agent's unit: no network at all, only the socket."""
    service = {
        "User": f"{plan.user}-agent",
        "Group": _group(plan),
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
    environment = {name: value for name, value in _environment(plan, home).items() if not name.startswith("FLWR_")}
    return unit(f"fastfedpg: agent {i}", agent_words(i, plan), environment, service, "local-fs.target")


# ---- scripts


def as_server(plan: Plan) -> str:
    """Runs a command as the SuperLink's user: the SuperLink starts an app that calls the run's server at a socket."""
    home = STATE / HERE
    pairs = {**_environment(plan, home), "TMPDIR": str(RUN / HERE)}
    words = ["env", *(f"{name}={value}" for name, value in pairs.items())]
    return f"""#!/bin/sh
# A command as the SuperLink's user, in its folder: {ETC / SERVER / AS_SERVER} fastfedpg server …
cd {home} && exec runuser -u {plan.user} -- {shlex.join(words)} "$@"
"""


def register(plan: Plan) -> str:
    """Admits the nodes whose public keys stand in the server's folder; who is admitted already stays so."""
    return f"""#!/bin/sh
# Admit every node whose public key is here, under the name of its file; or only those whose keys are given.
cd {ETC / SERVER} || exit 1
[ $# -gt 0 ] || set -- agent-*.pub
for key in "$@"; do
    name=$(basename "$key" .pub)
    {ETC / SERVER / AS_SERVER} flwr supernode register "$(realpath "$key")" {commands.LINK} --name "$name"
done
{ETC / SERVER / AS_SERVER} flwr supernode list {commands.LINK}
"""


def _begun(what: str) -> str:
    return f'#!/bin/sh\n# As root, in this folder: {what}\nset -e\ncd "$(dirname "$0")"\n'


def _user(name: str, home: Path) -> str:
    made = f"useradd --system --user-group --home-dir {home} --no-create-home --shell /usr/sbin/nologin {name}"
    return f"id -u {name} > /dev/null 2>&1 || {made}\n"


def _units(*names: str) -> str:
    return f"install -m 644 {' '.join(names)} /etc/systemd/system/\n"


def install_server(plan: Plan) -> str:
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
        + _units(SUPERLINK_UNIT, PROXY_UNIT)
    )


def install_site(i: int, plan: Plan) -> str:
    """Users, folders and files of a site: what is the node's, and what is the agent's."""
    node, agent = f"{plan.user}-node", f"{plan.user}-agent"
    return (
        _begun(f"the users, folders, keys and units of agent {i}'s site.")
        + f"getent group {_group(plan)} > /dev/null || groupadd --system {_group(plan)}\n"
        + _user(node, STATE / "fastfedpg-node")
        + _user(agent, STATE / "fastfedpg-agent")
        + f"install -d -m 755 {ETC}\n"
        + f"install -d -o {node} -g {node} -m 700 {ETC / 'node'}\n"
        + f"install -o {node} -g {node} -m 644 {keys.CA} {ETC / 'node'}\n"
        + f"install -o {node} -g {node} -m 600 {node_name(i)} {ETC / 'node'}\n"
        + f"install -d -o {agent} -g {agent} -m 700 {ETC / 'agent'}\n"
        + f"[ -e {ETC / 'agent'}/agent.toml ] || install -o {agent} -g {agent} -m 600 agent.toml {ETC / 'agent'}\n"
        + _units(NODE_UNIT, AGENT_UNIT)
    )
