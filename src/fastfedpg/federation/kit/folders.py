"""Everything that the machines of a federation need, one folder for each: keys, certificates, settings and units.

A kit holds secrets of all machines, so it is made where the authority's key is, and its folders part from there:

    OUT/authority    ca.key, ca.crt                       to a safe
    OUT/server       certificate, public keys, units, nginx's configuration     to the server's machine
    OUT/site-0 …     the node's key, its unit, agent.toml                       to each site
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastfedpg.errors import InputError
from fastfedpg.experiment.config import Config
from fastfedpg.federation.kit import texts
from fastfedpg.federation.kit.machines import AUTHORITY, KIT, LOOPBACK, SERVER, KitPlan
from fastfedpg.federation.terms import Keys
from fastfedpg.federation.transport import keys
from fastfedpg.federation.transport.keys import node_name
from fastfedpg.files import write_atomically, write_text
from fastfedpg.parameters import fit
from fastfedpg.toml_files import read_toml

TRY = Config(problem="compromise-grid", oracle="gpomdp", baseline="leave-one-out", H=20, eta=2.0, B=32, K=50, rounds=3)
"""What a kit's settings say before they are filled in: a problem that every machine has, to see that all is well."""


def make(out: Path, plan: KitPlan, overwrite: bool = False) -> None:
    """A new kit, whole or not at all."""
    plan.check()
    found = _found(out)
    if found and not overwrite:
        raise InputError(f"{out} is not empty; give another folder, --add, or --overwrite (its keys are lost then)")
    foreign = [name for name in found if not re.fullmatch(rf"{KIT}|{AUTHORITY}|{SERVER}|site-\d+", name)]
    if foreign:
        raise InputError(f"{out} has what no kit has: {', '.join(foreign)}; give another folder")
    with _told(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(out) as new:
            _fill(_folder(new), plan)


def _fill(new: Path, plan: KitPlan) -> None:
    authority = _folder(new / AUTHORITY)
    keys.make_authority(authority)
    _server(_folder(new / SERVER), authority, plan)
    for i in range(plan.agents):
        site = _folder(new / f"site-{i}")
        _site(site, i, plan, authority / keys.CA)
        shutil.copy(site / _public(i), new / SERVER)
    (new / KIT).write_text(plan.to_toml())


def add_site(out: Path) -> tuple[KitPlan, Path]:
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
    with _told(out):
        with write_atomically(site) as new:
            _site(_folder(new), i, plan, ca)
            shutil.copy(new / _public(i), out / SERVER)
        write_text(out / KIT, plan.to_toml())
    return plan, site


def add_key(out: Path, i: int) -> tuple[KitPlan, Path]:
    """A new key for one site's node: a SuperLink that has struck a key off never takes it again."""
    plan, site, there = read(out), out / f"site-{i}", out / SERVER
    if not 0 <= i < plan.agents:
        raise InputError(f"agent = {i}; the kit's agents are numbered from 0 to {plan.agents - 1}")
    _check_there(site, there)
    with _told(out), tempfile.TemporaryDirectory(dir=out, prefix=".part-") as place:
        new = Path(place) / node_name(i)
        keys.make_node_key(new)
        shutil.copy(new.with_name(_public(i)), there)
        new.with_name(_public(i)).replace(site / _public(i))
        new.replace(site / new.name)
    return plan, site


def add_certificate(out: Path, server: tuple[str, ...] = ()) -> tuple[KitPlan, Path]:
    """A new certificate for the server, perhaps with other names; the sites need nothing, they trust the authority."""
    plan = read(out)
    plan = replace(plan, server=server or plan.server)
    plan.check()
    authority, there = out / AUTHORITY, out / SERVER
    if not (authority / keys.CA_KEY).is_file():
        raise InputError(f"{authority / keys.CA_KEY} is not there; bring the authority's folder back from its safe")
    keys.check_secret(authority / keys.CA_KEY)
    _check_there(there)
    with _told(out):
        with tempfile.TemporaryDirectory(dir=out, prefix=".part-") as place:
            keys.make_certificate(Path(place), authority, _names(plan))
            for name in (keys.KEY, keys.CERTIFICATE):
                (Path(place) / name).replace(there / name)
        write_text(out / KIT, plan.to_toml())
    return plan, there


def read(out: Path) -> KitPlan:
    """The plan of a kit that was made before."""
    table = read_toml(out / KIT)
    kinds = {"agents": int, "port": int, "listen": str, "user": str, "prefix": str, "limit": int, "keys": Keys}
    try:
        settings: dict[str, Any] = {k: fit(f"{out / KIT}: {k}", kind, table[k]) for k, kind in kinds.items()}
        hosts = tuple(fit(f"{out / KIT}: server", str, host) for host in table["server"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{out / KIT}: not as it was written ({error})") from None
    return KitPlan(hosts, **settings)


def _found(out: Path) -> list[str]:
    try:
        return sorted(p.name for p in out.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}") from None


def _check_there(*folders: Path) -> None:
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder} is not there; bring it back, its keys are not needed")


@contextmanager
def _told(out: Path) -> Iterator[None]:
    """A full disk, or one that can't be written, in words."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{out}: {error.strerror or error}") from None


def _folder(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


def _public(i: int) -> str:
    return f"{node_name(i)}.pub"


def _names(plan: KitPlan) -> tuple[str, ...]:
    """By which the server may be called; nginx and the run's server call the SuperLink by loopback."""
    return tuple(dict.fromkeys((*plan.server, LOOPBACK, "localhost")))


def _server(folder: Path, authority: Path, plan: KitPlan) -> None:
    shutil.copy(authority / keys.CA, folder / keys.CA)
    keys.make_certificate(folder, authority, _names(plan))
    keys.make_secret(folder)
    (folder / "server.toml").write_text(_settings(plan, "the server: all but `problem` and the oracle as at the sites"))
    _write(folder, texts.server_files(plan))


def _site(folder: Path, i: int, plan: KitPlan, ca: Path) -> None:
    shutil.copy(ca, folder / keys.CA)
    keys.make_node_key(folder / node_name(i))
    (folder / "agent.toml").write_text(
        _settings(plan, f'agent {i}: put this site\'s own problem here, for example\n# problem = "hospital:make"')
    )
    _write(folder, texts.site_files(i, plan))


def _settings(plan: KitPlan, what: str) -> str:
    about = "# The server and its agents compare these settings before the first round, and say what differs.\n"
    return f"# Settings of {what}\n{about}{replace(TRY, agents=plan.agents).to_toml()}"


def _write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o700 if text.startswith("#!") else 0o644)
