"""`fastfedpg proxy`: the only door to a SuperLink."""

import sys
from dataclasses import dataclass

from rich.console import Console

from fastfedpg.cli.extras import need_flower
from fastfedpg.cli.parse_flags import OptionalPath, own_flags
from fastfedpg.errors import InputError, printable

EXAMPLE = "fastfedpg proxy --listen 0.0.0.0:8443 --certificate server.pem --key server.key --ca ca.crt"


@dataclass(frozen=True)
class ProxyFlags:
    """Stand in front of a SuperLink: pass what nodes ask, and nothing else."""

    listen: str
    """HOST:PORT for the nodes."""
    superlink: str = "127.0.0.1:8000"
    """HOST:PORT of the SuperLink, on loopback."""
    certificate: OptionalPath = None
    """The server's certificate, server.pem."""
    key: OptionalPath = None
    """Its private key, server.key."""
    ca: OptionalPath = None
    """The authority's certificate, ca.crt."""
    limit: int = 2**28
    """The largest message, in bytes."""
    insecure: bool = False
    """Without TLS."""


def proxy(arguments: list[str], console: Console, errors: Console) -> int:
    """Stand in front of a SuperLink: pass what nodes ask, and nothing else."""
    given = own_flags(ProxyFlags, "fastfedpg proxy", arguments, EXAMPLE)
    need_flower()
    from fastfedpg.federation.transport.door import Door, run_proxy
    from fastfedpg.federation.transport.keys import check_secret

    names = ("certificate", "key", "ca")
    missing = [name for name in names if getattr(given, name) is None]
    if missing and not given.insecure:
        raise InputError(f"give {', '.join('--' + name for name in missing)}; without TLS only with --insecure")
    if given.insecure and len(missing) < len(names):
        raise InputError("--insecure excludes --certificate, --key and --ca")
    if given.key is not None:
        check_secret(given.key)
    host, _, port = given.listen.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"listen = {given.listen}; it must be HOST:PORT")
    upstream = f"{'http' if given.insecure else 'https'}://{given.superlink}"
    say = lambda words: print(printable(words), file=sys.stderr, flush=True)
    listen = (host.strip("[]"), int(port))
    run_proxy(Door(listen, upstream, given.limit, given.certificate, given.key, given.ca), say)
    return 0
