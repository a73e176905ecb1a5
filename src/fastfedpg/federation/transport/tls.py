"""TLS on both sides of the proxy, from files in PEM; those that can't be used are told by name."""

import ssl
from pathlib import Path

from fastfedpg.errors import InputError
from fastfedpg.files import read_bytes


def server_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """TLS towards the nodes."""
    if key is None:
        raise InputError(f"{certificate}: a certificate needs its private key; give both, or neither")
    _check_pem(certificate, "BEGIN CERTIFICATE", "a certificate")
    _check_pem(key, "PRIVATE KEY", "a private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")  # without one, OpenSSL asks on the terminal
    except ssl.SSLError as error:
        # The last is the word for a key of another kind than the certificate's.
        if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
            raise InputError(
                f"{key}: not the key of the certificate {certificate}; give the one it was made with"
            ) from None
        raise InputError(
            f"{certificate} and {key} can't be used: {error.reason or error}; "
            "a certificate and its key without password are right, both in PEM"
        ) from None
    return context


def client_context(ca: Path) -> ssl.SSLContext:
    """TLS towards the SuperLink: this CA is trusted, and no other."""
    _check_pem(ca, "BEGIN CERTIFICATE", "a CA's certificate")
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise InputError(f"{ca}: not a certificate in PEM: {error.reason or error}") from None


def _check_pem(path: Path, mark: str, what: str) -> None:
    try:
        content = read_bytes(path)
    except OSError as error:
        raise InputError(f"{path}: {what} in PEM is needed here, but: {error.strerror}") from None
    if mark.encode() not in content:
        raise InputError(f"{path}: not {what} in PEM, which has a line with '{mark}'")
