"""Flower's commands as they are used here: their words and their environment."""

import os
import shutil
import sys
from pathlib import Path

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


def superlink(address: tuple[str, int], certificates: Path | None) -> list[str]:
    """The SuperLink, on loopback; with certificates it asks every node for a registered key.

    It starts no process, and keeps its state in memory: nothing of it is needed after it was started again.
    """
    host, port = address
    words = [program("flower-superlink"), "--host", host, "--port", str(port), "--isolation", "process"]
    if certificates is None:
        return [*words, "--insecure"]
    words += ["--superexec-auth-secret-file", str(certificates / keys.SECRET), "--enable-supernode-auth"]
    words += ["--ssl-ca-certfile", str(certificates / keys.CA), "--ssl-certfile", str(certificates / keys.CERTIFICATE)]
    return [*words, "--ssl-keyfile", str(certificates / keys.KEY)]


def describe(home: Path, superlink: str, ca: Path | None) -> None:
    """Flower's own configuration: where the SuperLink is."""
    trust = {"insecure": True} if ca is None else {"root-certificates": str(ca.absolute())}
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    table = {"superlink": {"default": SUPERLINK_NAME, SUPERLINK_NAME: {"address": superlink, **trust}}}
    (home / "config.toml").write_text(tomli_w.dumps(table))
