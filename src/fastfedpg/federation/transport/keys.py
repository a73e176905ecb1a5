"""Certificates and keys: an authority of one's own, the server's certificate, and a key for every site's node."""

import hashlib
import ipaddress
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fastfedpg.errors import InputError
from fastfedpg.files import read_bytes, write_secret

DAYS, AUTHORITY_DAYS = 365, 3650
SIGNATURE_BYTES = 96
PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey
CA, CA_KEY, CERTIFICATE, KEY, SECRET = "ca.crt", "ca.key", "server.pem", "server.key", "superlink.secret"
"""The last is what the server proves to its SuperLink that it knows; the others are in PEM."""


def node_name(agent: int) -> str:
    """The name of an agent's key: it speaks for one agent only."""
    return f"agent-{agent}"


def check_secret(path: Path) -> Path:
    """The path of a private key, if it is there and nobody else can read it."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if not path.is_file():
        raise InputError(f"{path}: not a file, and a private key is one")
    if mode & 0o077:
        raise InputError(f"{path}: a private key that others can read (mode {mode:o}); chmod 600 {path}")
    return path


def make_authority(folder: Path) -> None:
    """ca.crt, which every machine may have, and ca.key, which signs certificates and belongs in a safe."""
    key, name = _key(), _name("fastfedpg authority")
    built = _certificate(name, name, key.public_key(), AUTHORITY_DAYS)
    built = built.add_extension(x509.BasicConstraints(True, 0), critical=True)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    (folder / CA).write_bytes(_pem(built.add_extension(usage, critical=True).sign(key, hashes.SHA256())))
    write_secret(folder / CA_KEY, _private(key))


def make_certificate(folder: Path, authority: Path, hosts: Sequence[str]) -> None:
    """server.pem and server.key, for a server that is called by these names and addresses."""
    issuer = x509.load_pem_x509_certificate(read_bytes(authority / CA))
    signer = serialization.load_pem_private_key(read_bytes(authority / CA_KEY), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = _key()
    built = (
        _certificate(_name(hosts[0]), issuer.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName([_alternative(h) for h in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    (folder / CERTIFICATE).write_bytes(_pem(built.sign(signer, hashes.SHA256())))
    write_secret(folder / KEY, _private(key))


def make_node_key(path: Path) -> None:
    """A node's private key at `path`, and the public one beside it as `path`.pub."""
    key = _key()
    form, plain = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    write_secret(path, key.private_bytes(serialization.Encoding.PEM, form, plain))
    public = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    path.with_name(path.name + ".pub").write_bytes(key.public_key().public_bytes(*public) + b"\n")


def make_secret(folder: Path) -> None:
    """The SuperLink's secret."""
    write_secret(folder / SECRET, secrets.token_hex(32).encode())


def read_secret(folder: Path) -> bytes:
    """The SuperLink's secret."""
    return read_bytes(check_secret(folder / SECRET))


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A node's or an agent's key, which nobody else can read."""
    data = read_bytes(check_secret(path))
    try:
        key = serialization.load_ssh_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path}: not a private key as `fastfedpg kit` makes it ({error})") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{path}: a key of another kind; take one that `fastfedpg kit` made")
    return key


def public_keys(folder: Path, kind: str = "agent") -> dict[int, ec.EllipticCurvePublicKey]:
    """The agents' public keys in a server's folder, by number; no two may be the same."""
    found: dict[int, ec.EllipticCurvePublicKey] = {}
    for path in sorted(folder.glob(f"{kind}-*.pub")):
        number = path.stem.removeprefix(f"{kind}-")
        if not number.isdecimal():
            continue
        try:
            key = serialization.load_ssh_public_key(read_bytes(path))
        except (ValueError, UnsupportedAlgorithm) as error:
            raise InputError(f"{path}: not a public key ({error})") from None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise InputError(f"{path}: a key of another kind; take one that `fastfedpg kit` made")
        twin = [i for i, other in found.items() if other == key]
        if twin:
            raise InputError(f"{path}: the same key as {kind} {twin[0]}'s; each number needs a key of its own")
        found[int(number)] = key
    return found


def node_keys(folder: Path) -> dict[bytes, int]:
    """Which agent each node speaks for, by its key in PEM: the agent's own; where the two are apart, the node's."""
    both = {**public_keys(folder), **public_keys(folder, "node")}
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return {key.public_bytes(*form): i for i, key in both.items()}


def sign(key: ec.EllipticCurvePrivateKey, question: bytes, answer: bytes) -> bytes:
    """An answer with the signature of it and of what was asked, so that it is good for no other question."""
    r, s = decode_dss_signature(key.sign(_both(question, answer), ec.ECDSA(hashes.SHA256())))
    size = (key.key_size + 7) // 8
    return b"".join((answer, r.to_bytes(size, "big"), s.to_bytes(size, "big")))


def signed_by(key: ec.EllipticCurvePublicKey, question: bytes, content: bytes) -> bytes | None:
    """The answer, if this key has signed it as an answer to this question."""
    size = (key.key_size + 7) // 8
    if len(content) < 2 * size:
        return None
    answer, mark = content[: -2 * size], content[-2 * size :]
    signature = encode_dss_signature(int.from_bytes(mark[:size], "big"), int.from_bytes(mark[size:], "big"))
    try:
        key.verify(signature, _both(question, answer), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return None
    return answer


def check_certificate(path: Path, what: str) -> Path:
    """The path of a certificate, if it is one and its time has come and is not over."""
    try:
        found = x509.load_pem_x509_certificate(read_bytes(path))
    except OSError as error:
        raise InputError(f"{path}: {what} is needed here, but: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path}: not {what} in PEM") from None
    now = datetime.now(UTC)
    if not found.not_valid_before_utc <= now <= found.not_valid_after_utc:
        when = f"good from {found.not_valid_before_utc:%Y-%m-%d} to {found.not_valid_after_utc:%Y-%m-%d}"
        remedy = (
            "a new kit has one" if found.issuer == found.subject else "`fastfedpg kit … --add certificate` makes one"
        )
        raise InputError(f"{path}: {what} that is out of date ({when}); {remedy}")
    return path


def _both(question: bytes, answer: bytes) -> bytes:
    return b"fastfedpg answer" + hashlib.sha256(question).digest() + hashlib.sha256(answer).digest()


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int = DAYS
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain)
