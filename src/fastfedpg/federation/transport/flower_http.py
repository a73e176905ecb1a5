"""Flower's clients over HTTP, as they are used here: they raise what went wrong, and end no process."""

import ssl
from importlib.metadata import version
from typing import Any, TypeVar

import httpx
from flwr.supercore.error import FlowerError
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata

from fastfedpg.errors import InputError
from fastfedpg.federation.terms import Address
from fastfedpg.federation.transport import keys

Client = TypeVar("Client", bound=ProtobufClient)
SECONDS = 30.0
"""For one request, unless its bytes are still on their way."""


class Versioned:
    """Says which version of Flower this is."""

    def __init__(self, name: str) -> None:
        self.headers = dict(RuntimeVersionMetadata.from_local_component(name).as_metadata())

    def intercept(self, context: Any, call_next: Any) -> httpx.Response:
        """Flower's own ends the process when the other end is of another version."""
        context.request.headers.update(self.headers)
        return call_next(context)


def client(kind: type[Client], address: Address, interceptors: list[Any] | None = None) -> Client:
    """A client that keeps its connections open."""
    every = [Versioned("fastfedpg"), *(interceptors or [])]
    return kind(_url(address), interceptors=every, verify=_trust(address), timeout=SECONDS)


def check(address: Address, N: int) -> None:
    """Refuse an address at which no SuperLink answers, or not the right one, or a folder that lacks keys."""
    address.check()
    if address.ca is not None:
        folder = keys.check_certificate(address.ca, "the authority's certificate").parent
        if (folder / keys.CERTIFICATE).exists():
            keys.check_certificate(folder / keys.CERTIFICATE, "the server's certificate")
        keys.read_secret(folder)
        missing = {*range(N)} - keys.public_keys(folder).keys()
        if missing:
            raise InputError(f"{folder / keys.node_name(min(missing))}.pub: agent {min(missing)}'s key is not there")
    why = unreachable(address)
    if why:
        raise InputError(f"no SuperLink at {address.superlink}: {why}; is it running? --superlink says where it is")
    mine, theirs = version("flwr"), flower_version(address)
    if theirs.split(".")[:2] != mine.split(".")[:2]:
        raise InputError(
            f"the SuperLink at {address.superlink} is Flower {theirs}, and here is {mine}; install the same"
        )


def unreachable(address: Address) -> str:
    """Why nobody answers there, in words; nothing if somebody does."""
    try:
        _get(address, "/health").raise_for_status()
    except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
        return said(error)
    return ""


def flower_version(address: Address) -> str:
    """Which version of Flower the SuperLink is."""
    try:
        return str(_get(address, "/openapi.json").json()["info"]["version"])
    except (OSError, httpx.HTTPError, ValueError, KeyError, TypeError):
        return "of an unknown version"


def _get(address: Address, path: str) -> httpx.Response:
    return httpx.get(_url(address) + path, verify=_trust(address), trust_env=False, timeout=5)


def _url(address: Address) -> str:
    return f"{'http' if address.insecure else 'https'}://{address.superlink}"


def _trust(address: Address) -> ssl.SSLContext | bool:
    return False if address.ca is None else ssl.create_default_context(cafile=str(address.ca))


def said(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, httpx.HTTPStatusError):
        told = FlowerError.from_json(error.response.text)
        words = f"{told.message} {told.public_details or ''}" if told else error.response.text[:200]
        return f"{error.response.status_code}: {' '.join(words.split())}".strip(": ")
    return " ".join(str(error).split()) or type(error).__name__
