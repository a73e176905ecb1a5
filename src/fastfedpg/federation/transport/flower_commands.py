"""Flower's commands as they are used here: their words, their environment, and what they answer."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import tomli_w

from fastfedpg.errors import InputError
from fastfedpg.federation.transport import keys

SUPERLINK_NAME = "link"
"""The name of the SuperLink in Flower's own configuration file."""

# Without the first two every command, even --help, calls out to the internet.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
    "PYTHONUNBUFFERED": "1",
}
APP = Path(__file__).parent / "app"


def program(name: str) -> str:
    """A command that was installed together with this one, or that is on the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise InputError(f"{name} is not installed; federation needs Flower: pip install 'fastfedpg[federation]'")
    return found


def environment(home: Path) -> dict[str, str]:
    """What every one of Flower's processes must have; their own commands start others, found on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, **QUIET, "PATH": path, "FLWR_HOME": str(home.absolute())}


def superlink(address: tuple[str, int], database: Path, certificates: Path | None) -> list[str]:
    """The SuperLink, on loopback; with certificates it asks every node for a registered key."""
    host, port = address
    words = [program("flower-superlink"), "--host", host, "--port", str(port), "--database", str(database)]
    words += ["--disable-runtime-dependency-installation"]
    if certificates is None:
        return [*words, "--insecure"]
    words += ["--ssl-ca-certfile", str(certificates / keys.CA), "--ssl-certfile", str(certificates / keys.CERTIFICATE)]
    return [*words, "--ssl-keyfile", str(certificates / keys.KEY), "--enable-supernode-auth"]


def supernode(
    superlink: str, port: int, socket: Path, limit: int, ca: Path | None = None, key: Path | None = None
) -> list[str]:
    """A site's node; its configuration, which the server can't change, names the agent's socket."""
    words = [program("flower-supernode"), "--superlink", superlink, "--host", "127.0.0.1", "--port", str(port)]
    words += ["--node-config", f'socket="{socket}" limit={limit}']
    if ca is None or key is None:
        return [*words, "--insecure"]
    return [*words, "--root-certificates", str(ca), "--auth-supernode-private-key", str(key)]


def describe(home: Path, superlink: str, ca: Path | None) -> None:
    """Flower's own configuration: where the SuperLink is."""
    trust = {"insecure": True} if ca is None else {"root-certificates": str(ca.absolute())}
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    table = {"superlink": {"default": SUPERLINK_NAME, SUPERLINK_NAME: {"address": superlink, **trust}}}
    (home / "config.toml").write_text(tomli_w.dumps(table))


def flwr(home: Path, *words: str, seconds: float = 60.0) -> dict[str, Any]:
    """One of the `flwr` command's answers."""
    command = [program("flwr"), *words, "--format", "json"]
    try:
        done = subprocess.run(
            command, env=environment(home), capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise FlowerError(f"no answer within {seconds:g} s") from None
    try:
        said = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        said = {"success": False, "error-message": (done.stdout + done.stderr).strip()[-500:]}
    if not said.get("success"):
        raise FlowerError(str(said.get("error-message") or said))
    return said


class FlowerError(OSError):
    """A command of Flower that did not do what it was asked."""


def submit(home: Path, socket: Path, limit: int) -> str:
    """Start the app that carries bytes; its ServerApp calls at the socket."""
    copy = home / "app"
    shutil.copytree(APP, copy, dirs_exist_ok=True)
    said = flwr(home, "run", str(copy), SUPERLINK_NAME, "-c", f'socket="{socket}" limit={limit}')
    return str(said["run-id"])


def register(home: Path, public_key: Path, name: str) -> str:
    """Let a node take part; the same key again is no error, nor is an expelled one's: Flower says the same of both."""
    try:
        return str(flwr(home, "supernode", "register", str(public_key), SUPERLINK_NAME, "--name", name)["node-id"])
    except FlowerError as error:
        if "already" not in str(error):
            raise
        return ""
