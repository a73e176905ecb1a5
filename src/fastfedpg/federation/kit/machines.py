"""What a kit is made for, and where its machines have what is in it."""

import ipaddress
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import tomli_w

from fastfedpg.errors import InputError
from fastfedpg.federation.terms import Keys

KIT, AUTHORITY, SERVER = "kit.toml", "authority", "server"
LOOPBACK, SUPERLINK_PORT = "127.0.0.1", 8000
ETC, STATE, RUN, CACHE = Path("/etc/fastfedpg"), Path("/var/lib"), Path("/run"), Path("/var/cache")
LIMIT = 2**26


@dataclass(frozen=True)
class KitPlan:
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
        if not 1024 <= self.port <= 65535 or self.port == SUPERLINK_PORT:
            raise InputError(
                f"port = {self.port}; it must lie between 1024 and 65535 (the units are not root's), and not be the "
                f"SuperLink's own, {SUPERLINK_PORT}"
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
