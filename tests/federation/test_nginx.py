"""nginx as the kit sets it up: what it passes, what it refuses, and that slow or silent callers shut nobody else out.

A real nginx on loopback, with addresses of 127.0.0.0/8 as callers; the first tests stand before a server that only
remembers, the last before a real SuperLink. That the units say the same is in test_kit.py.
"""

import http.client
import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'fastfedpg[federation]'")

import httpx
from flwr.proto.control_pb2 import ListRunsRequest, RegisterNodeRequest, StartRunRequest
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, RegisterNodeFleetRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from commands import command
from fastfedpg.federation.kit import folders, texts
from fastfedpg.federation.kit.machines import KitPlan
from fastfedpg.federation.localhost.processes import Processes
from fastfedpg.federation.localhost.start_all import free_port
from fastfedpg.federation.terms import Address
from fastfedpg.federation.transport import flower_commands, flower_http, keys
from fastfedpg.federation.transport.flower_http import unreachable

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
STREAM = [*Path("/etc/nginx/modules-enabled").glob("*stream*")]
pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(not (NGINX and STREAM), reason="nginx is missing: apt-get install nginx libnginx-mod-stream"),
]
LIMIT = 100_000
HERE, OTHER, THIRD = "127.0.0.1", "127.0.0.2", "127.0.0.3"
PATH = "/v1/fleet/pull-messages"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    keys.make_authority(folder)
    keys.make_certificate(folder, folder, [HERE, "localhost"])
    keys.make_node_key(folder / "agent-0")
    return folder


@contextmanager
def remembering(certificates):
    """A SuperLink's place on loopback, with TLS; it remembers what reaches it."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(200)
            self.send_header("content-length", "5")
            self.end_headers()
            self.wfile.write(b"reply")

        do_GET = do_PUT = do_DELETE = do_OPTIONS = do_POST

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer((HERE, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / keys.CERTIFICATE, certificates / keys.KEY)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        server.server_close()


class Door:
    """A running nginx, and callers of it."""

    def __init__(self, port, certificates, folder):
        self.port, self.folder = port, folder
        self.trust = ssl.create_default_context(cafile=certificates / keys.CA)

    def call(self, method="POST", path=PATH, body=b"question", headers=None, source=HERE, seconds=10):
        connection = http.client.HTTPSConnection(
            HERE, self.port, timeout=seconds, context=self.trust, source_address=(source, 0)
        )
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def half(self, source):
        """TLS, and headers that have no end."""
        opened = socket.create_connection((HERE, self.port), timeout=2, source_address=(source, 0))
        try:
            inside = self.trust.wrap_socket(opened, server_hostname=HERE)
            inside.sendall(b"POST /v1/fleet/pull-messages HTTP/1.1\r\nhost: x\r\nx: ")
        except OSError:
            opened.close()
            raise
        return inside


def listens(port):
    try:
        socket.create_connection((HERE, port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def door(certificates, folder, superlink_port, change=lambda text: text, port=None):
    """nginx with the kit's configuration, in another folder; `change` makes another of it."""
    port = port or free_port(HERE)
    plan = KitPlan((HERE,), 1, port, HERE)
    places = {"folder": certificates, "run": folder, "cache": folder, "log": str(folder / "refused.txt")}
    text = texts.nginx(plan, f"{HERE}:{superlink_port}", **places)
    text = re.sub(r"client_max_body_size \d+;", f"client_max_body_size {LIMIT};", change(text))
    (folder / "nginx.conf").write_text(text)
    words = [NGINX, "-e", "stderr", "-c", str(folder / "nginx.conf"), "-g", "daemon off; user root;"]
    with (folder / "errors.txt").open("wb") as errors:
        process = subprocess.Popen(words, stderr=errors)
    try:
        end = time.monotonic() + 10
        while not listens(port):
            assert process.poll() is None, (folder / "errors.txt").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        yield Door(port, certificates, folder)
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="module")
def standing(certificates, tmp_path_factory):
    with (
        remembering(certificates) as (port, seen),
        door(certificates, tmp_path_factory.mktemp("nginx"), port) as front,
    ):
        front.seen = seen
        yield front


def test_every_path_of_flowers_nodes_passes_with_body_and_headers(standing):
    from flwr.superlink.routers.fleet.router import router

    paths = [route.path for route in router.routes]
    assert PATH in paths
    assert len(paths) >= 12
    signed = {"flwr-public-key": "a2V5", "flwr-timestamp": "2026-01-01T00:00:00+00:00", "flwr-signature": "c2ln"}
    claims = {"X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.1", "X-Real-IP": "192.0.2.1"}
    for path in paths:
        standing.seen.clear()
        assert standing.call(path=path, body=path.encode(), headers=signed | claims) == (200, b"reply")
        ((method, asked, headers, body),) = standing.seen
        assert (method, asked, body) == ("POST", path, path.encode())
        assert headers.items() >= signed.items()
        assert not {name.lower() for name in claims} & {*headers}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/control/start-run"),
        ("POST", "/v1/control/register-node"),
        ("POST", "/v1/control/list-runs"),
        ("GET", "/health"),
        ("GET", PATH),
        ("PUT", PATH),
        ("POST", "/v1/fleet/../control/start-run"),
        ("POST", "/v1/fleet/%2e%2e/control/start-run"),
        ("POST", "/v1/fleet/pull-messages/../../control/x"),
        ("POST", "//v1/fleet/pull-messages"),
        ("POST", "/v1/fleet/"),
        ("POST", f"{PATH}?x=1"),
        ("POST", "/V1/fleet/pull-messages"),
        ("POST", "/v1/fleet/%1b[31m"),
        ("POST", "/"),
    ],
)
def test_all_else_is_refused_and_nobody_hears_of_it(standing, method, path):
    standing.seen.clear()
    assert standing.call(method, path)[0] == 403
    assert standing.seen == []
    assert f"{HERE} 403" in (standing.folder / "refused.txt").read_text().splitlines()[-1]


def test_a_body_that_is_too_large_is_not_passed_on(standing):
    standing.seen.clear()
    assert standing.call(body=b"x" * LIMIT)[0] == 200
    assert standing.call(body=b"x" * (LIMIT + 1), headers={"Expect": "100-continue"})[0] == 413
    assert [len(body) for *_, body in standing.seen] == [LIMIT]


def test_a_superlink_with_another_certificate_is_not_believed(certificates, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    keys.make_authority(other)
    keys.make_certificate(other, other, [HERE, "localhost"])
    (tmp_path / "nginx").mkdir()
    with remembering(other) as (port, seen), door(certificates, tmp_path / "nginx", port) as front:
        assert front.call()[0] == 502
        assert seen == []


SMALL = 64


def small(text):
    """A machine with few connections, so that few callers could fill it."""
    text = text.replace("worker_processes 2;", "worker_processes 1;")
    return text.replace("worker_connections 8192;", f"worker_connections {SMALL};").replace(
        "limit_conn connections 24;", "limit_conn connections 8;"
    )


def unlimited(text):
    return re.sub(r"\n *limit_conn connections \d+;", "", small(text))


def answered(front, source):
    try:
        return front.call(source=source, seconds=4)[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize(("change", "others_served"), [(small, True), (unlimited, False)])
def test_silent_connections_of_one_address_do_not_shut_out_another(certificates, tmp_path, change, others_served):
    """60 callers that begin a request and fall silent. A machine of 64 connections, three to a caller, is full with 21
    of them; with the limit they have 8, that is 24, and the others' are free. The second row is the same without the
    limit, so that the first can fail."""
    with remembering(certificates) as (port, _), ExitStack() as stack:
        front = stack.enter_context(door(certificates, tmp_path, port, change))
        assert answered(front, OTHER)
        for _ in range(60):
            with suppress(OSError):  # refused, as it should be
                stack.enter_context(front.half(OTHER))
        assert answered(front, THIRD) is others_served
        if others_served:
            assert not answered(front, OTHER), "the address with 60 connections has no more"


def test_headers_that_never_end_are_given_up(certificates, tmp_path):
    quick = lambda text: text.replace("client_header_timeout 10s;", "client_header_timeout 1s;")
    with remembering(certificates) as (port, seen), door(certificates, tmp_path, port, quick) as front:
        began = time.monotonic()
        with front.half(OTHER) as half, suppress(ConnectionResetError, ssl.SSLError):
            half.settimeout(5)
            assert half.recv(1000) == b""
        assert 0.5 < time.monotonic() - began < 4
        assert seen == []


def test_one_address_that_asks_too_often_does_not_shut_out_another(certificates, tmp_path):
    slow = lambda text: re.sub(r"rate=\d+r/s", "rate=1r/s", re.sub(r"burst=\d+", "burst=5", text))
    with remembering(certificates) as (port, _), door(certificates, tmp_path, port, slow) as front:
        found = [front.call(source=OTHER)[0] for _ in range(12)]
        assert found[:6] == [200] * 6
        assert found.count(503) >= 4
        assert front.call(source=THIRD)[0] == 200


# ---- a whole federation, with the kit's own units behind the kit's own nginx


def words_of(unit, places):
    """A unit's command, with this test's folders in the place of a machine's."""
    (command,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), flags=re.M)
    return shlex.split(moved(command, places))


def moved(text, places):
    for there, here in places.items():
        text = text.replace(there, str(here))
    return text


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """`fastfedpg kit`, its SuperLink, nginx and two sites started as their units say, and one run to its end."""
    folder = tmp_path_factory.mktemp("deployed")
    front, link = free_port(HERE), free_port(HERE)
    folders.make(folder / "kit", KitPlan((HERE,), 2, front, HERE, prefix=str(Path(sys.executable).parents[1])))
    server = folder / "kit" / "server"
    text = moved((server / "nginx.conf").read_text(), {texts.SYSLOG: folder / "refused.txt", ":8000;": f":{link};"})
    text = moved(text, {"/etc/fastfedpg/nginx": server})
    change = lambda _: moved(text, {"/run/fastfedpg-nginx": folder, "/var/cache/fastfedpg-nginx": folder})
    environment = flower_commands.environment(folder / "flower")
    address = Address(f"{HERE}:{link}", server / keys.CA)
    with Processes(folder / "logs", print) as processes, door(server, folder, link, change, front) as nginx:
        words = words_of(server / texts.SUPERLINK, {"/etc/fastfedpg/server": server, " 8000 ": f" {link} "})
        processes.start("superlink", words, environment)
        for i in range(2):
            site = folder / "kit" / f"site-{i}"
            places = {"/etc/fastfedpg/agent": site, "/var/lib/fastfedpg-agent": folder / f"state-{i}"}
            processes.start(f"agent-{i}", words_of(site / texts.AGENT, places), environment, stage=1)
        processes.wait("superlink", lambda: not unreachable(address), 120, "the SuperLink")
        asked = ["server", "--config", server / "server.toml", "--ca", server / keys.CA, "--superlink"]
        asked += [address.superlink, "--keys", "private", "--out", folder / "run", "--metrics-port", "0"]
        done = subprocess.run([*map(str, [flower_commands.program("fastfedpg"), *asked])], env=environment, timeout=300)
        yield nginx, folder, done.returncode


def test_a_kit_as_it_is_runs_to_its_end_through_nginx(deployed, capsys):
    _, folder, code = deployed
    assert code == 0, (folder / "logs" / "agent-0.log").read_text()[-3000:]
    assert "finished after round 3" in (folder / "run" / "federation" / "log.txt").read_text()
    assert command("status", folder / "run") == 0
    shown = capsys.readouterr().out
    assert "finished; 3 of 3 rounds are done" in shown
    assert re.search(r"gradient +3 ", shown)
    assert re.search(r"agent-1 +no +7 +7 +0 ", shown)  # a greeting, and two exchanges in each of three rounds


def test_server_and_sites_have_the_same_messages_in_their_logs(deployed):
    _, folder, _ = deployed
    lines = lambda path: [json.loads(line) for line in path.read_text().splitlines()]
    every = lines(folder / "run" / "federation" / "audit.jsonl")
    for i in range(2):
        server = sorted(x["sha256"] for x in every if x["who"] == f"agent-{i}")
        assert len(server) == 14
        assert sorted(x["sha256"] for x in lines(folder / f"state-{i}" / "audit.jsonl")) == server


def test_with_the_authoritys_certificate_alone_nobody_registers_runs_lists_or_reads(deployed, tmp_path):
    nginx, folder, _ = deployed
    keys.make_node_key(tmp_path / "mine")
    mine = keys.private_key(tmp_path / "mine")
    public = public_key_to_bytes(mine.public_key())
    outside = Address(f"{HERE}:{nginx.port}", folder / "kit" / "site-0" / keys.CA)
    before = (folder / "refused.txt").read_text().count(" 403 ")
    with flower_http.client(ControlHttpClient, outside) as control:
        for ask, request in (
            (control.RegisterNode, RegisterNodeRequest(public_key=public, name="agent-0")),
            (control.ListRuns, ListRunsRequest()),
            (control.StartRun, StartRunRequest()),
        ):
            with pytest.raises(httpx.HTTPStatusError) as refused:
                ask(request)
            assert refused.value.response.status_code == 403
    assert (folder / "refused.txt").read_text().count(" 403 ") == before + 3
    signing = NodeAuthHttpInterceptor(mine, mine.public_key())
    with flower_http.client(FleetHttpClient, outside, [signing]) as fleet:  # passed on, and turned away there
        for ask, request in (
            (fleet.RegisterNode, RegisterNodeFleetRequest(public_key=public)),
            (fleet.ActivateNode, ActivateNodeRequest(public_key=public, heartbeat_interval=30)),
            (fleet.PullMessages, PullMessagesRequest(node=Node(node_id=1))),
        ):
            with pytest.raises(httpx.HTTPStatusError) as refused:
                ask(request)
            assert 400 <= refused.value.response.status_code < 500
