"""A kit: who may read what, certificates that machines accept, and units in the very words of `fastfedpg federate`."""

import errno
import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from commands import command
from fastfedpg.errors import InputError
from fastfedpg.experiment.config import from_toml
from fastfedpg.federation import site
from fastfedpg.federation.kit import folders, texts
from fastfedpg.federation.kit.machines import KitPlan, check_host
from fastfedpg.federation.kit.texts import AGENT
from fastfedpg.federation.transport import flower_commands, keys

ROOT = Path(__file__).parents[2]
PLAN = KitPlan(("fed.example.org", "192.0.2.7"), agents=3)
SECRETS = {"ca.key", "server.key", "superlink.secret", "agent-0", "agent-1", "agent-2"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("kit") / "out"
    folders.make(out, PLAN)
    return out


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def mode(path):
    return path.stat().st_mode & 0o777


def section(text):
    """A unit's [Service]; the environment apart."""
    every = text.split("[Service]\n")[1].split("\n\n")[0].splitlines()
    lines = [line.split("=", 1) for line in every if not line.startswith("#")]
    environment = dict(shlex.split(value)[0].split("=", 1) for name, value in lines if name == "Environment")
    return {name: value for name, value in lines if name != "Environment"}, environment


def unit(path):
    service, environment = section(path.read_text())
    return service, environment, shlex.split(service["ExecStart"])


def units(out):
    return sorted(out.rglob("*.service"))


# ---- secrets


def test_secrets_are_their_owners_alone_and_so_are_all_folders(made):
    assert {p.name for p in made.rglob("*") if p.is_file() and mode(p) == 0o600} == SECRETS
    assert all(mode(p) == 0o700 for p in (made, *made.rglob("*")) if p.is_dir())
    assert [p.name for p in made.rglob("*") if p.is_file() and mode(p) & 0o022] == []


def test_every_machine_has_its_own_secrets_and_no_others(made):
    there = {p.name: {f.name for f in p.iterdir()} & SECRETS for p in made.iterdir() if p.is_dir()}
    assert there == {
        "authority": {"ca.key"},
        "server": {"server.key", "superlink.secret"},
        **{f"site-{i}": {f"agent-{i}"} for i in range(3)},
    }
    for i in range(3):
        assert (made / "server" / f"agent-{i}.pub").read_bytes() == (made / f"site-{i}" / f"agent-{i}.pub").read_bytes()


def test_the_certificate_is_for_the_servers_names_and_for_loopback(made):
    found = x509.load_pem_x509_certificate((made / "server" / keys.CERTIFICATE).read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fed.example.org", "localhost"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7", "127.0.0.1"]


def shaken(server, ca, name):
    """A TLS handshake in memory; who does not believe the certificate raises."""
    here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.load_cert_chain(server / keys.CERTIFICATE, server / keys.KEY)
    to, fro = ssl.MemoryBIO(), ssl.MemoryBIO()
    asked = ssl.create_default_context(cafile=ca).wrap_bio(fro, to, server_hostname=name)
    asking = here.wrap_bio(to, fro, server_side=True)
    for _ in range(3):
        for end in (asked, asking):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return asked.version()


@pytest.mark.parametrize("name", ["fed.example.org", "192.0.2.7", "127.0.0.1", "localhost"])
def test_sites_believe_the_server_by_its_names(made, name):
    assert shaken(made / "server", made / "site-2" / keys.CA, name) == "TLSv1.3"


def test_sites_do_not_believe_another_name_or_another_authority(made, tmp_path):
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(made / "server", made / "site-0" / keys.CA, "other.example.org")
    folders.make(tmp_path / "other", replace(PLAN, agents=1))
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(made / "server", tmp_path / "other" / "site-0" / keys.CA, "fed.example.org")


# ---- units


def test_the_superlinks_unit_says_what_federate_would_run_up_to_paths(made):
    words = flower_commands.superlink(("127.0.0.1", 8000), Path("/etc/fastfedpg/server"))
    _, _, found = unit(made / "server" / texts.SUPERLINK)
    assert found == [f"/opt/fastfedpg/bin/{Path(words[0]).name}", *words[1:]]


def verified(text, place):
    """What systemd says of a unit whose programs are all there."""
    place.write_text(re.sub(r"(?<=^ExecStart=)\S+", "/bin/true", text, flags=re.M))
    done = subprocess.run(["systemd-analyze", "verify", place], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_takes_the_units(made, tmp_path):
    for path in (made / "server" / texts.SUPERLINK, made / "server" / texts.NGINX, made / "site-1" / AGENT):
        assert verified(path.read_text(), tmp_path / path.name) == (0, "")
    _, said = verified(path.read_text().replace("TasksMax=1024", "TasksMax=many"), tmp_path / path.name)
    assert "many" in said


# In a process of its own: tests check types where the parser puts marks for what is missing.
PARSED = """
import json, sys
from fastfedpg.cli.agent import EXAMPLE, OWN, AgentFlags
from fastfedpg.cli.parse_flags import settings_for
for words in json.loads(sys.argv[1]):
    config, (given,) = settings_for((AgentFlags,), "fastfedpg agent", words, {"problem": OWN}, EXAMPLE)
    paths = str(given.state), str(given.key), str(given.ca)
    print(json.dumps([given.agent, given.keys, given.superlink, *paths, config.agents]))
"""


def test_our_own_commands_take_these_flags(made):
    every = []
    for i in range(3):
        _, _, words = unit(made / f"site-{i}" / "fastfedpg-agent.service")
        assert words[1] == "agent"
        config = str(made / f"site-{i}" / "agent.toml")
        every.append([config if w == "/etc/fastfedpg/agent/agent.toml" else w for w in words[2:]])
    asked = [sys.executable, "-c", PARSED, json.dumps(every)]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    there, state = "/etc/fastfedpg/agent", "/var/lib/fastfedpg-agent"
    assert [json.loads(line) for line in said.splitlines()] == [
        [i, "private", "fed.example.org:8443", state, f"{there}/agent-{i}", f"{there}/ca.crt", 3] for i in range(3)
    ]


def test_settings_are_the_same_everywhere_and_describe_a_run(made):
    wanted = from_toml(made / "server" / "server.toml")
    assert all(from_toml(made / f"site-{i}" / "agent.toml") == wanted for i in range(3))
    assert [site.build(wanted, i, "private").declared["agents"] for i in range(3)] == [3, 3, 3]


def test_units_keep_running_call_nobody_and_hold_little(made):
    for path in units(made):
        service, environment, _ = unit(path)
        assert (service["Restart"], service["RestartSec"]) == ("always", "5")
        assert "StartLimitIntervalSec=0" in path.read_text().split("[Service]")[0]
        for name in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictSUIDSGID"):
            assert service[name] == "yes"
        assert (service["ProtectSystem"], service["UMask"], service["CapabilityBoundingSet"]) == ("strict", "0077", "")
        if "nginx" not in path.stem:
            assert environment.items() >= flower_commands.QUIET.items()
            assert environment["PATH"].startswith("/opt/fastfedpg/bin:")
        assert {"LimitNOFILE", "MemoryMax", "TasksMax", "LogRateLimitBurst"} <= {*service}
        assert not {"--insecure", "--allow-runtime-dependency-installation"} & {*shlex.split(service["ExecStart"])}


def test_nginx_can_read_neither_runs_nor_the_superlinks_folder(made):
    service, _, words = unit(made / "server" / texts.NGINX)
    assert service["User"] == "fastfedpg-nginx"
    assert {"-/etc/fastfedpg/server", "-/var/lib/fastfedpg-server"} == {*service["InaccessiblePaths"].split()}
    assert words[words.index("-c") + 1] == "/etc/fastfedpg/nginx/nginx.conf"
    text = (made / "server" / "nginx.conf").read_text()
    for name in ("server.pem", "server.key", "ca.crt"):
        assert f" /etc/fastfedpg/nginx/{name};" in text
    assert f"listen {PLAN.listen}:{PLAN.port};" in text
    assert "server 127.0.0.1:8000;" in text
    assert f"client_max_body_size {PLAN.limit + texts.ENVELOPE};" in text
    assert f"pid /run/{service['RuntimeDirectory']}/pid;" in text
    assert f"client_body_temp_path /var/cache/{service['CacheDirectory']}/body;" in text
    assert "limit_conn connections 40;" in text  # 16 and 8 for each of the three agents


def test_settings_of_the_machines_are_the_kits(tmp_path):
    plan = KitPlan(("2001:db8::7",), 1, 9443, "::", "fed", "/srv/venv", 2**20, "counter")
    folders.make(tmp_path / "kit", plan)
    assert folders.read(tmp_path / "kit") == plan
    link, nginx = (unit(tmp_path / "kit" / "server" / name) for name in (texts.SUPERLINK, texts.NGINX))
    assert (link[0]["User"], nginx[0]["User"]) == ("fed", "fed-nginx")
    assert link[2][0] == "/srv/venv/bin/flower-superlink"
    assert "listen [::]:9443;" in (tmp_path / "kit" / "server" / "nginx.conf").read_text()
    service, _, words = unit(tmp_path / "kit" / "site-0" / AGENT)
    assert service["User"] == "fed-agent"
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert words[:2] == ["/srv/venv/bin/fastfedpg", "agent"]
    assert (given["--superlink"], given["--keys"]) == ("[2001:db8::7]:9443", "counter")


def test_scripts_are_shell_and_root_runs_only_what_root_owns(made):
    scripts = [p for p in made.rglob("*") if p.is_file() and p.read_bytes().startswith(b"#!/bin/sh")]
    assert {p.name for p in scripts} == {"install.sh", "as-server"}
    for path in scripts:
        assert mode(path) == 0o700
        subprocess.run(["sh", "-n", path], check=True)
    install = (made / "server" / "install.sh").read_text()
    assert "install -d -o root -g fastfedpg -m 750 /etc/fastfedpg/server\n" in install
    assert "install -o fastfedpg -g fastfedpg -m 600 server.key superlink.secret /etc/fastfedpg/server\n" in install


def test_every_file_that_is_installed_is_in_the_folder(made):
    for script in made.rglob("install.sh"):
        for line in script.read_text().splitlines():
            words = line.split("|| ")[-1].split()
            if words[:1] == ["install"] and "-d" not in words:
                names = [w for w in words[1:-1] if "." in w or w.startswith("agent-") or w == "as-server"]
                assert names
                for name in names:
                    assert [*script.parent.glob(name)], f"{script.parent.name} has no {name}"


# ---- adding


def test_one_more_site_touches_no_other(tmp_path):
    out = tmp_path / "kit"
    folders.make(out, replace(PLAN, agents=2))
    before = files(out)
    plan, folder = folders.add_site(out)
    after = files(out)
    assert (plan.agents, folder) == (3, out / "site-2")
    assert {name for name in after if after[name] != before.get(name)} == {
        "kit.toml",
        "server/agent-2.pub",
        *(f"site-2/{name}" for name in files(folder)),
    }
    assert mode(folder) == 0o700
    assert mode(folder / "agent-2") == 0o600
    assert from_toml(folder / "agent.toml").agents == 3
    assert shaken(out / "server", folder / keys.CA, "fed.example.org")
    assert folders.add_site(out)[1] == out / "site-3"


def test_a_new_key_for_a_node_touches_nothing_else(tmp_path):
    out = tmp_path / "kit"
    folders.make(out, replace(PLAN, agents=2))
    before = files(out)
    folders.add_key(out, 1)
    after = files(out)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"site-1/agent-1", "site-1/agent-1.pub", "server/agent-1.pub"}
    assert after["site-1/agent-1.pub"] == after["server/agent-1.pub"]
    assert mode(out / "site-1" / "agent-1") == 0o600
    with pytest.raises(InputError, match="agent = 2"):
        folders.add_key(out, 2)


def test_a_site_can_be_added_while_the_authority_is_in_its_safe(tmp_path):
    out = tmp_path / "kit"
    folders.make(out, replace(PLAN, agents=1))
    (out / "authority").rename(tmp_path / "safe")
    folders.add_site(out)
    with pytest.raises(InputError, match="back from its safe"):
        folders.add_certificate(out)


def test_a_new_certificate_touches_nothing_else(tmp_path):
    out = tmp_path / "kit"
    folders.make(out, replace(PLAN, agents=1))
    before = files(out)
    folders.add_certificate(out, ("new.example.org",))
    after = files(out)
    assert {n for n in after if after[n] != before.get(n)} == {"kit.toml", "server/server.pem", "server/server.key"}
    assert mode(out / "server" / "server.key") == 0o600
    assert shaken(out / "server", out / "site-0" / keys.CA, "new.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(out / "server", out / "site-0" / keys.CA, "fed.example.org")


def test_a_servers_folder_that_was_moved_away_is_asked_for(tmp_path):
    out = tmp_path / "kit"
    folders.make(out, replace(PLAN, agents=1))
    (out / "server").rename(tmp_path / "server")
    before = files(out)
    for add in (folders.add_certificate, folders.add_site, lambda out: folders.add_key(out, 0)):
        with pytest.raises(InputError, match=r"server.* is not there; bring .* back"):
            add(out)
    assert files(out) == before


@pytest.mark.parametrize(
    "add",
    [
        folders.add_site,
        lambda out: folders.add_key(out, 0),
        folders.add_certificate,
        lambda out: folders.make(out, PLAN, overwrite=True),
        lambda out: folders.make(out.with_name("new"), PLAN),
    ],
    ids=["site", "key", "certificate", "overwrite", "new"],
)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_takes_no_more_is_told_in_words_and_leaves_the_kit_as_it_was(tmp_path, monkeypatch, add, number):
    out = tmp_path / "kit"
    folders.make(out, replace(PLAN, agents=1))
    before = files(tmp_path)

    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(keys, "write_secret", full)
    with pytest.raises(InputError, match=f"^{tmp_path}/(kit|new): {os.strerror(number)}$"):
        add(out)
    assert files(tmp_path) == before


# ---- what is refused


@pytest.mark.parametrize(
    "host",
    [
        "fed example",
        "-fed.org",
        "fed_.org",
        "",
        "1.2.3.400",
        "0.0.0.0",
        "::",
        "a" * 64,
        "fed.org:1",
        "ü.org",
        "fed.org/x",
    ],
)
def test_hosts_that_are_no_names_or_addresses_are_refused(tmp_path, host):
    with pytest.raises(InputError, match="server = "):
        folders.make(tmp_path / "kit", replace(PLAN, server=(host,)))
    assert not (tmp_path / "kit").exists()


@pytest.mark.parametrize("host", ["fed", "fed.example.org", "10.0.0.1", "2001:db8::1", "4ever.org", "a-b.c"])
def test_names_and_addresses_are_taken(host):
    check_host(host)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"server": ()}, "give --server"),
        ({"agents": 0}, "agents = 0"),
        ({"port": 443}, "port = 443"),
        ({"port": 8000}, "the SuperLink's own"),
        ({"listen": "fed.example.org"}, "listen = "),
        ({"user": "Root"}, "user = Root"),
        ({"user": "a b"}, "user = a b"),
        ({"prefix": "venv"}, "prefix = venv"),
        ({"prefix": "/my venv"}, "prefix = "),
        ({"prefix": "/venv%h"}, "prefix = "),
        ({"limit": 10}, "limit = 10"),
    ],
)
def test_what_can_not_be_is_refused_before_the_first_file(tmp_path, wrong, words):
    with pytest.raises(InputError, match=words):
        folders.make(tmp_path / "kit", replace(PLAN, **wrong))
    assert [*tmp_path.iterdir()] == []


def test_an_earlier_kit_is_replaced_only_when_asked(tmp_path, capsys):
    out = tmp_path / "kit"
    words = ("kit", out, "--server", "fed.example.org", "--agents", "1")
    assert command(*words) == 0
    said = capsys.readouterr().out
    assert "authority  to a safe" in said
    before = files(out)
    assert command(*words) == 2
    assert "not empty" in capsys.readouterr().err
    assert files(out) == before
    assert command(*words, "--overwrite") == 0
    assert files(out)["authority/ca.key"] != before["authority/ca.key"]
    assert [p.name for p in tmp_path.iterdir()] == ["kit"]
    (out / "mine.txt").write_text("keep")
    assert command(*words, "--overwrite") == 2
    assert "mine.txt" in capsys.readouterr().err
    assert (out / "mine.txt").exists()


def test_adding_from_the_command_line(tmp_path, capsys):
    out = tmp_path / "kit"
    assert command("kit", out, "--add", "site") == 2
    assert "kit.toml" in capsys.readouterr().err
    assert command("kit", out, "--server", "fed.example.org", "10.0.0.1") == 2
    assert "--agents" in capsys.readouterr().err
    assert command("kit", out, "--server", "fed.example.org", "10.0.0.1", "--agents", "1") == 0
    assert command("kit", out, "--add", "site", "--agents", "5") == 2
    assert "without others" in capsys.readouterr().err
    assert command("kit", out, "--add", "site") == 0
    assert "agent-1.pub" in capsys.readouterr().out
    assert command("kit", out, "--add", "key") == 2
    assert command("kit", out, "--agent", "0") == 2
    assert command("kit", out, "--add", "site", "--agent", "0") == 2
    assert "--agent goes with --add key" in capsys.readouterr().err
    assert command("kit", out, "--add", "key", "--agent", "0") == 0
    assert command("kit", out, "--add", "certificate", "--server", "new.example.org") == 0
    assert folders.read(out).server == ("new.example.org",)
    assert folders.read(out).agents == 2


def test_a_damaged_kit_is_told_by_name(tmp_path):
    out = tmp_path / "kit"
    folders.make(out, replace(PLAN, agents=1))
    text = (out / "kit.toml").read_text()
    for damaged in (text.replace("port = 8443", 'port = "x"'), text.replace("port = 8443\n", ""), "x ="):
        (out / "kit.toml").write_text(damaged)
        with pytest.raises(InputError, match=r"kit\.toml"):
            folders.add_site(out)
    (out / "kit.toml").write_text(text)
    (out / "site-1").mkdir()
    with pytest.raises(InputError, match="site-1 is there already"):
        folders.add_site(out)


# ---- the page


def page():
    return (ROOT / "docs" / "federation.md").read_text()


def operating():
    return (ROOT / "docs" / "operating.md").read_text()


def test_the_pages_example_prints_what_the_page_says():
    code, printed = re.search(
        r"<!-- example: python -->\n```python\n(.*?)```\n\n<!-- printed -->\n```\n(.*?)```", page(), flags=re.S
    ).groups()
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == printed
    assert printed.splitlines()[1].split("visited")[1].split() == printed.splitlines()[2].split("told")[1].split()


def test_the_page_names_the_files_and_units_of_a_kit(made):
    text = operating()
    for path in made.rglob("*"):
        if path.is_file() and "site-" not in str(path) and not path.name.startswith("agent-") and path.suffix != ".sh":
            shown = path.name if path.suffix != ".service" else path.stem
            assert shown in text, f"the page says nothing of {path.name}"
