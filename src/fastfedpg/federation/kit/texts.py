"""The files of a kit that are text: units, scripts and nginx's configuration, from templates beside this module."""

import shlex
from importlib.resources import files
from pathlib import Path
from string import Template

from fastfedpg.federation.kit.machines import CACHE, ETC, LOOPBACK, RUN, STATE, SUPERLINK_PORT, KitPlan
from fastfedpg.federation.transport import flower_commands, keys
from fastfedpg.federation.transport.keys import node_name

SUPERLINK, NGINX, AGENT = (f"fastfedpg-{name}.service" for name in ("superlink", "nginx", "agent"))
INSTALL, AS_SERVER, NGINX_CONF = "install.sh", "as-server", "nginx.conf"
SYSLOG = "syslog:server=unix:/dev/log,nohostname,tag=fastfedpg_nginx"
ENVELOPE = 2**20
"""Bytes of Flower's own around a message, and more."""


class _Form(Template):
    """Names in double braces: the dollar is the shell's and nginx's, the per cent sign systemd's."""

    pattern = r"\{\{(?:(?P<named>[a-z_]+)\}\}|(?P<escaped>(?!))|(?P<braced>(?!))|(?P<invalid>))"  # type: ignore[assignment]


def fill(name: str, **values: object) -> str:
    """A template with everything filled in."""
    return _Form((files(__package__) / "templates" / name).read_text(encoding="utf-8")).substitute(values)


def server_files(plan: KitPlan) -> dict[str, str]:
    """What the server's machine has beside keys and settings."""
    home = STATE / "fastfedpg-server"
    pairs = _environment(plan, home) | {"FLWR_HOME": f"{home}/flower"}
    command = flower_commands.superlink((LOOPBACK, SUPERLINK_PORT), ETC / "server")
    unit = _unit(plan, pairs) | {"superlink_command": _exec(_installed(plan, command))}
    return {
        SUPERLINK: fill(SUPERLINK, **unit),
        NGINX: fill(NGINX, **unit),
        NGINX_CONF: nginx(plan),
        AS_SERVER: fill(AS_SERVER, user=plan.user, words=shlex.join(_pairs(pairs))),
        INSTALL: fill("install-server.sh", user=plan.user),
    }


def site_files(i: int, plan: KitPlan) -> dict[str, str]:
    """What a site has beside its key and its settings."""
    home = STATE / "fastfedpg-agent"
    unit = _unit(plan, _environment(plan, home)) | {"agent": i, "agent_command": _exec(agent_words(i, plan))}
    return {AGENT: fill(AGENT, **unit), INSTALL: fill("install-site.sh", user=plan.user, agent=i)}


def agent_words(i: int, plan: KitPlan) -> list[str]:
    """A site's one process."""
    there = ETC / "agent"
    words = ["fastfedpg", "agent", "--config", str(there / "agent.toml"), "--agent", str(i)]
    words += ["--state", str(STATE / "fastfedpg-agent"), "--keys", plan.keys, "--superlink", plan.front]
    return _installed(plan, [*words, "--key", str(there / node_name(i)), "--ca", str(there / keys.CA)])


def nginx(
    plan: KitPlan,
    superlink: str = f"{LOOPBACK}:{SUPERLINK_PORT}",
    folder: Path = ETC / "nginx",
    run: Path = RUN / "fastfedpg-nginx",
    cache: Path = CACHE / "fastfedpg-nginx",
    log: str = SYSLOG,
) -> str:
    """The door to a SuperLink on loopback.

    All sites may share one address, so an address may have what all of them need: a node has about three connections,
    and asks at most every 20 ms, with some ten requests around a message that is large.
    """
    listen = f"[{plan.listen}]:{plan.port}" if ":" in plan.listen else f"{plan.listen}:{plan.port}"
    rate = 100 * (1 + plan.agents)
    bounds = {"connections": 16 + 8 * plan.agents, "rate": rate, "burst": 2 * rate, "body": plan.limit + ENVELOPE}
    places = {"superlink": superlink, "folder": folder, "run": run, "cache": cache, "log": log}
    return fill(NGINX_CONF, listen=listen, **bounds, **places)


def _installed(plan: KitPlan, words: list[str]) -> list[str]:
    """The same command where the kit's machines have it."""
    return [f"{plan.prefix}/bin/{Path(words[0]).name}", *words[1:]]


def _environment(plan: KitPlan, home: Path) -> dict[str, str]:
    """Flower's programs start others, which they find on the path."""
    return {**flower_commands.QUIET, "PATH": f"{plan.prefix}/bin:/usr/bin:/bin", "HOME": str(home)}


def _unit(plan: KitPlan, environment: dict[str, str]) -> dict[str, str]:
    lines = (f"Environment={shlex.quote(pair)}".replace("%", "%%") for pair in _pairs(environment))
    return {"user": plan.user, "environment": "\n".join(lines), "hardening": fill("hardening").strip()}


def _pairs(environment: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def _exec(words: list[str]) -> str:
    return shlex.join(words).replace("%", "%%").replace("$", "$$")
