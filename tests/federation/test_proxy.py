"""What the proxy before a SuperLink passes, to the byte, and that a SuperLink hears nothing of all else."""

import asyncio
import datetime
import errno
import http.client
import ipaddress
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from fastfedpg.errors import InputError
from fastfedpg.federation.transport import proxy
from fastfedpg.federation.transport.door import HEAD_BYTES, Door, _ended_by_signals, prepare, run_proxy

LARGEST = 100_000
BODY = random.Random(0).randbytes(LARGEST)
PATH = "/v1/fleet/pull-messages"
SIGNED = {"flwr-public-key": "a2V5", "flwr-timestamp": "2026-01-01T00:00:00+00:00", "flwr-signature": "c2lnbmVk"}


@contextmanager
def superlink(tls=None, status=200, headers=(), reply=b"reply", length=None, before=lambda: None):
    """A server that remembers what it was asked, and by what other ways than POST."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            seen.append(SimpleNamespace(path=self.path, headers=self.headers.items(), body=body))
            before()
            self.send_response_only(status)
            for name, value in (*headers, ("content-length", length or len(reply))):
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(reply)
            self.close_connection = length is not None

        do_GET = do_HEAD = do_PUT = do_OPTIONS = do_POST

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request, address):
            pass  # a handshake that the proxy has broken off

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield SimpleNamespace(seen=seen, url=f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def standing(url, certificate=None, key=None, ca=None):
    """The proxy as `run_proxy` runs it, in a thread."""
    log = []
    server, listener = prepare(Door(("127.0.0.1", 0), url, LARGEST, certificate, key, ca), log.append)
    port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield SimpleNamespace(port=port, log=log)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()


def ask(port, path=PATH, body=b"question", method="POST", headers=(), tls=None):
    """Status, headers and body of the reply; the path is sent as it stands, and an iterator in chunks."""
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=5)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    )
    with closing(connection):
        connection.request(method, path, body, dict(headers), encode_chunked=True)
        reply = connection.getresponse()
        return reply.status, reply.getheaders(), reply.read()


def talk(port, text):
    """All that comes back for raw bytes, until the proxy closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(text)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_a_nodes_request_and_its_reply_pass_unchanged():
    given = [("x-two", "first"), ("x-two", "second"), ("content-type", "application/x-protobuf")]
    with superlink(status=207, headers=given, reply=BODY[:50_000]) as link, standing(link.url) as door:
        headers = {**SIGNED, "content-type": "application/x-protobuf", "flwr-package-version": "1.41.0"}
        status, got, reply = ask(door.port, "/v1/fleet/push-object", BODY, headers=headers)
    (seen,) = link.seen
    assert seen.path == "/v1/fleet/push-object"
    assert seen.body == BODY
    added = {"accept-encoding": "identity", "content-length": str(LARGEST), "host": link.url.removeprefix("http://")}
    assert sorted((name.lower(), value) for name, value in seen.headers) == sorted({**headers, **added}.items())
    assert (status, got, reply) == (207, [*given, ("content-length", "50000")], BODY[:50_000])
    assert door.log == []


def test_a_body_in_chunks_arrives_whole_and_several_requests_share_a_connection():
    with superlink() as link, standing(link.url) as door:
        assert ask(door.port, body=iter([BODY[:60_000], BODY[60_000:]]))[0] == 200
        connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=5)
        with closing(connection):
            for number in range(3):
                connection.request("POST", PATH, b"%d" % number)
                assert connection.getresponse().read() == b"reply"
                opened = connection.sock.getsockname() if number == 0 else opened
                assert connection.sock.getsockname() == opened
    assert [seen.body for seen in link.seen] == [BODY, b"0", b"1", b"2"]


def test_flowers_own_client_is_known_by_flowers_own_check():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at import, from a library of Flower's
        from flwr.proto.fleet_pb2 import RegisterNodeFleetRequest
        from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
        from flwr.superlink.routers.fleet.node_auth import authenticate_node
        from flwr.supernode.fleet_http_client import FleetHttpClient
        from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
    private, public = generate_key_pairs()
    with superlink(reply=b"") as link, standing(link.url) as door:
        signer = NodeAuthHttpInterceptor(private, public)
        with FleetHttpClient.from_server_address(f"127.0.0.1:{door.port}", True, None, [signer]) as client:
            client.RegisterNode(RegisterNodeFleetRequest(public_key=public_key_to_bytes(public)))
    (seen,) = link.seen
    message = RegisterNodeFleetRequest.FromString(seen.body)
    assert message.public_key == public_key_to_bytes(public)
    headers = {name.lower(): value for name, value in seen.headers}
    authenticate_node(SimpleNamespace(headers=headers, state=SimpleNamespace(protobuf_request=message)))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/control/start-run"),
        ("POST", "/v1/runtime/acquire-task"),
        ("GET", "/health"),
        ("POST", "/"),
        ("GET", PATH),
        ("HEAD", PATH),
        ("PUT", PATH),
        ("OPTIONS", PATH),
        ("post", PATH),
        ("POST", "/v1/fleet/../control/x"),
        ("POST", "/v1/fleet/%2e%2e/control/x"),
        ("POST", "/v1/fleet/%2e%2e%2fcontrol%2fx"),
        ("POST", "/v1/fleet/..%2fcontrol"),
        ("POST", "/v1/fleet/pull%2dmessages"),
        ("POST", "/v1/%66leet/x"),
        ("POST", "/v1/fleet/x%0a"),
        ("POST", "/v1/fleet/.."),
        ("POST", "/v1/fleet/"),
        ("POST", "/v1/fleet"),
        ("POST", "/v1/fleet/x/y"),
        ("POST", "/v1/fleet/x/"),
        ("POST", "/v1/fleet/x;y"),
        ("POST", "/v1/fleet//x"),
        ("POST", "//v1/fleet/x"),
        ("POST", "/./v1/fleet/x"),
        ("POST", "/V1/FLEET/x"),
        ("POST", "/v1/fleet/x?y=1"),
        ("POST", "/v1/fleet/x\\y"),
        ("POST", "http://127.0.0.1/v1/fleet/x"),
        ("POST", "v1/fleet/x"),
        ("OPTIONS", "*"),
    ],
)
def test_all_else_is_refused_and_the_superlink_hears_nothing_of_it(door, method, path):
    status, headers, reply = ask(door.port, path, method=method)
    assert (status, dict(headers)["connection"]) == (403, "close")
    assert reply == (b"" if method == "HEAD" else b"only Flower's nodes are served here\n")
    shown = path.partition("?")[0].replace("\\", "\\\\")
    assert door.log.pop() == f"403 to {method} {shown} from 127.0.0.1: only Flower's nodes are served here"
    assert door.seen == []


def test_a_large_body_where_none_belongs_is_answered_too(door):
    assert ask(door.port, "/v1/control/start-run", 50 * BODY)[0] == 403
    door.log.clear()
    assert door.seen == []


def test_who_hangs_up_before_the_refusal_is_in_the_log_too(door):
    with socket.create_connection(("127.0.0.1", door.port), timeout=5) as connection:
        connection.sendall(b"POST /v1/control/x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n1234")
    wait_until(lambda: door.log)
    assert door.log.pop().startswith("403 to POST /v1/control/x from 127.0.0.1")
    assert door.seen == []


@pytest.fixture(scope="module")
def door():
    """One proxy for many refusals, with a log without limit, before a SuperLink that must not be asked."""
    with superlink() as link:
        with ExitStack() as stack:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(proxy, "sparingly", lambda log: log)
                door = stack.enter_context(standing(link.url))
            door.seen = link.seen
            yield door
            assert ask(door.port)[0] == 200  # it could have been asked
        assert len(link.seen) == 1


def test_a_stranger_chooses_neither_address_nor_host_nor_what_the_log_looks_like():
    claims = {
        "X-Forwarded-For": "9.9.9.9",
        "X-Forwarded-Proto": "ftp",
        "Forwarded": "for=9.9.9.9",
        "X-Real-IP": "9.9.9.9",
    }
    hops = {"Connection": "keep-alive, X-Named", "X-Named": "1", "TE": "trailers", "Proxy-Authorization": "x"}
    with superlink() as link, standing(link.url) as door:
        assert ask(door.port, headers={**claims, **hops, **SIGNED, "Host": "elsewhere/v1/control?"})[0] == 200
        assert ask(door.port, "/" + "a" * 5000, headers=claims)[0] == 403
    headers = {name.lower(): value for name, value in link.seen[0].headers}
    assert headers.keys() == {*SIGNED, "host", "content-length", "accept-encoding"}
    assert headers["host"] == link.url.removeprefix("http://")
    assert door.log == [f"403 to POST /{'a' * 99}… from 127.0.0.1: only Flower's nodes are served here"]


def test_what_is_too_large_is_refused_however_it_is_sent(monkeypatch):
    monkeypatch.setattr(proxy, "LINGER_SECONDS", 0.2)  # so long it waits for all that was announced
    with superlink() as link, standing(link.url) as door:
        for body in (BODY + b"!", iter([BODY, b"!"]), iter([BODY, b"!" * 50_000, b"?"])):
            status, _, reply = ask(door.port, body=body)
            assert (status, reply) == (413, b"a message may have at most 100000 bytes\n")
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" % PATH.encode()
        announced = talk(door.port, head + BODY)
        assert announced.startswith(b"HTTP/1.1 413 ")
        assert link.seen == []
        assert len(door.log) == 4
        assert ask(door.port, body=iter([BODY[1:], b"!"]))[0] == 200


def test_strangers_together_can_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(proxy, "BODIES_TOGETHER", 1)
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (PATH.encode(), LARGEST)
    with superlink() as link, standing(link.url) as door:
        with socket.create_connection(("127.0.0.1", door.port), timeout=5) as slow:
            slow.sendall(head + BODY[1:])
            wait_until(lambda: ask(door.port, body=BODY)[0] == 503)
            slow.sendall(b"!")
            assert slow.recv(100).startswith(b"HTTP/1.1 200 ")
        assert ask(door.port, body=BODY)[0] == 200  # room again


def wait_until(true):
    end = time.monotonic() + 3
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_who_is_too_slow_is_sent_away(monkeypatch):
    monkeypatch.setattr("fastfedpg.federation.transport.door.HEAD_SECONDS", 0.15)
    monkeypatch.setattr(proxy, "BODY_SECONDS", 0.3)
    with superlink(before=lambda: time.sleep(0.5)) as link, standing(link.url) as door:
        assert talk(door.port, b"") == b""
        assert talk(door.port, b"POST /v1/fl") == b""
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n" % PATH.encode()
        assert talk(door.port, head + b"1234").startswith(b"HTTP/1.1 503 ")
        assert link.seen == []
        # Who waits for an answer is not: then the connection, idle, is closed.
        assert talk(door.port, head + b"12345").endswith(b"reply")


def test_headers_without_end_are_not_kept():
    with superlink() as link, standing(link.url) as door:
        reply = talk(door.port, b"POST %s HTTP/1.1\r\nX: %s" % (PATH.encode(), b"x" * (HEAD_BYTES + 1)))
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert link.seen == []


def test_more_connections_than_allowed_are_told_to_come_back(monkeypatch):
    monkeypatch.setattr("fastfedpg.federation.transport.door.CONNECTIONS", 2)
    with superlink() as link, standing(link.url) as door:
        assert ask(door.port)[0] == 200
        with socket.create_connection(("127.0.0.1", door.port)), socket.create_connection(("127.0.0.1", door.port)):
            wait_until(lambda: ask(door.port)[0] == 503)
        wait_until(lambda: ask(door.port)[0] == 200)


def test_a_superlink_that_is_down_or_slow_or_breaks_off(monkeypatch):
    with standing(f"http://127.0.0.1:{free_port()}") as door:
        status, _, reply = ask(door.port)
        assert (status, reply) == (502, b"the SuperLink can't be reached\n")
        assert door.log[0].startswith(f"502 to POST {PATH} from 127.0.0.1: ConnectError")
    timeout = proxy.httpx.Timeout(0.1)
    monkeypatch.setattr(proxy.httpx, "Timeout", lambda *_, **__: timeout)
    with superlink(before=lambda: time.sleep(0.4)) as link, standing(link.url) as door:
        status, _, reply = ask(door.port)
        assert (status, reply) == (504, b"the SuperLink does not answer in time\n")
    with superlink(length=10) as link, standing(link.url) as door:
        with pytest.raises(http.client.IncompleteRead):
            ask(door.port)
        assert door.log[0].startswith(f"broken off: POST {PATH} from 127.0.0.1: RemoteProtocolError")


def test_neither_redirects_nor_proxies_of_the_environment_are_followed(monkeypatch):
    with superlink() as other, superlink(status=307, headers=[("location", f"{other.url}{PATH}")]) as link:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, other.url)
        with standing(link.url) as door:
            status, headers, _ = ask(door.port)
        assert (status, dict(headers)["location"]) == (307, f"{other.url}{PATH}")
        assert len(link.seen) == 1
        assert other.seen == []


def test_the_log_takes_only_so_many_lines_a_minute():
    now, lines = [0.0], []
    log = proxy.sparingly(lines.append, lines=2, seconds=60, clock=lambda: now[0])
    for second in (0, 1, 2, 59, 60, 61, 62, 500, 501):
        now[0] = float(second)
        log(f"at {second}")
    more = lambda n: f"{n} more like these were not written"
    assert lines == ["at 0", "at 1", more(2), "at 60", "at 61", more(1), "at 500", "at 501"]
    with standing(f"http://127.0.0.1:{free_port()}") as door:
        for _ in range(proxy.LOG_LINES + 5):
            assert ask(door.port, "/health", body=None, method="GET")[0] == 403
    assert len(door.log) == proxy.LOG_LINES


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """Two authorities, a certificate of the first for 127.0.0.1, and keys that fit and don't."""
    folder = tmp_path_factory.mktemp("papers")
    path = SimpleNamespace(
        **{
            name: folder / f"{name}.pem"
            for name in ("ca", "other", "certificate", "key", "strange", "rsa", "locked", "junk")
        }
    )
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "other", "key", "strange")}
    path.ca.write_bytes(_certificate("ca", keys["ca"], "ca", keys["ca"]))
    path.other.write_bytes(_certificate("other", keys["other"], "other", keys["other"]))
    path.certificate.write_bytes(_certificate("server", keys["key"], "ca", keys["ca"]))
    plain = serialization.NoEncryption()
    path.key.write_bytes(_pem(keys["key"], plain))
    path.strange.write_bytes(_pem(keys["strange"], plain))
    path.rsa.write_bytes(_pem(rsa.generate_private_key(65537, 2048), plain))
    path.locked.write_bytes(_pem(keys["key"], serialization.BestAvailableEncryption(b"word")))
    path.junk.write_text("-----BEGIN CERTIFICATE-----\nPRIVATE KEY\n")
    return path


def _pem(key, encryption):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _certificate(name, key, issuer, signer):
    call = lambda name: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(call(name))
        .issuer_name(call(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(name == issuer, None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(signer, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def test_tls_on_both_sides(papers):
    pair = (papers.certificate, papers.key)
    with superlink(pair) as link, standing(link.url, *pair, papers.ca) as door:
        trusting = ssl.create_default_context(cafile=papers.ca)
        assert ask(door.port, body=BODY, headers=SIGNED, tls=trusting)[::2] == (200, b"reply")
        assert link.seen[0].body == BODY
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(door.port, tls=ssl.create_default_context(cafile=papers.other))
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(door.port)  # without TLS
        assert len(link.seen) == 1


def test_a_superlink_of_another_authority_is_told_nothing(papers):
    pair = (papers.certificate, papers.key)
    with superlink(pair) as link, standing(link.url, *pair, papers.other) as door:
        status, _, reply = ask(door.port, tls=ssl.create_default_context(cafile=papers.ca))
    assert (status, reply) == (502, b"the SuperLink can't be reached\n")
    assert "CERTIFICATE_VERIFY_FAILED" in door.log[0]
    assert link.seen == []


def test_the_application_trusts_the_authority_it_is_given(papers):
    async def status(ca):
        application = proxy.app(link.url, ssl.create_default_context(cafile=ca), LARGEST)
        transport = httpx.ASGITransport(application)
        async with application.lifespan_context(application), httpx.AsyncClient(transport=transport) as client:
            return (await client.post(f"http://proxy{PATH}")).status_code

    with superlink((papers.certificate, papers.key)) as link:
        assert [asyncio.run(status(ca)) for ca in (papers.ca, papers.other)] == [200, 502]


def refusal(listen=("127.0.0.1", 0), upstream="https://127.0.0.1:1", certificate=None, key=None, ca=None):
    with pytest.raises(InputError) as caught:
        run_proxy(Door(listen, upstream, LARGEST, certificate, key, ca), print)
    return str(caught.value)


def test_certificates_and_keys_that_can_not_be_used(papers, tmp_path):
    certificate, key = papers.certificate, papers.key
    for wrong in (papers.strange, papers.rsa):
        assert refusal(certificate=certificate, key=wrong).startswith(f"{wrong}: not the key of the certificate")
    assert "a certificate needs its private key" in refusal(certificate=certificate)
    assert "not a certificate in PEM" in refusal(certificate=key, key=certificate)
    assert "not a private key in PEM" in refusal(certificate=certificate, key=certificate)
    missing = tmp_path / "missing.pem"
    assert refusal(certificate=missing, key=key).startswith(f"{missing}: a certificate in PEM is needed")
    assert "No such file" in refusal(certificate=certificate, key=missing)
    assert "Is a directory" in refusal(certificate=certificate, key=tmp_path)
    assert "without password" in refusal(certificate=certificate, key=papers.locked)
    assert "can't be used" in refusal(certificate=papers.junk, key=key)
    assert "can't be used" in refusal(certificate=certificate, key=papers.junk)
    assert "No such file" in refusal(certificate=certificate, key=key, ca=missing)
    assert refusal(certificate=certificate, key=key, ca=papers.junk).startswith(f"{papers.junk}: not a certificate")


@pytest.mark.parametrize(
    "upstream", ["127.0.0.1:9092", "https://127.0.0.1:9092", "http://127.0.0.1", "http://x:y", "http://x:1/z"]
)
def test_an_address_of_the_superlink_that_is_none(upstream):
    assert f"'{upstream}', where http://host:port is right without a certificate" in refusal(upstream=upstream)


def test_an_upstream_without_tls_is_not_asked_when_there_is_a_certificate(papers):
    wrong = refusal(upstream="http://127.0.0.1:9092", certificate=papers.certificate, key=papers.key)
    assert "https://host:port is right with a certificate" in wrong


def test_an_address_that_can_not_be_listened_on(monkeypatch):
    plain = "http://127.0.0.1:1"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refusal(("127.0.0.1", port), plain).startswith(f"127.0.0.1:{port}: another program listens on this port")
    assert "from 0 to 65535" in refusal(("127.0.0.1", 65536), plain)
    assert "this machine has no such address" in refusal(("192.0.2.1", 9092), plain)
    assert "the host is unknown" in refusal(("no such host", 9092), plain)

    def forbidden(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", forbidden)
    assert "choose one from 1024 to 65535" in refusal(("127.0.0.1", 443), plain)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(number):
    port = free_port()
    call = f"run_proxy(Door(('127.0.0.1', {port}), 'http://127.0.0.1:1', 9), print)"
    code = f"from fastfedpg.federation.transport.door import Door, run_proxy; {call}; print('end')"
    process = subprocess.Popen(
        [sys.executable, "-u", "-W", "error", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process:
        try:
            wait_until(lambda: listens(port))
            assert ask(port, "/health", body=None, method="GET")[0] == 403
            process.send_signal(number)
            printed, _ = process.communicate(timeout=5)
        finally:
            process.kill()
    assert printed == "403 to GET /health from 127.0.0.1: only Flower's nodes are served here\nend\n"
    assert process.returncode == 0


def test_a_signal_before_the_server_runs_is_not_lost():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    server, listener = prepare(Door(("127.0.0.1", 0), "http://127.0.0.1:1", LARGEST), print)
    with listener, _ended_by_signals(server):
        signal.raise_signal(signal.SIGTERM)
        assert server.should_exit
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_the_proxy_needs_no_jax():
    code = "import sys, fastfedpg.federation.transport.door; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONWARNINGS": "error"})
