"""Certificates and keys: an authority of one's own, the server's certificate, and a key for every site's node."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fastfedpg.errors import InputError
from fastfedpg.files import read_bytes, write_secret

DAYS, AUTHORITY_DAYS = 365, 3650
CA, CA_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "server.pem", "server.key"


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
