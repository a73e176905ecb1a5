"""The server's way to its engine: the SuperLink, an app started there, and the socket at which that app calls back."""

import ssl
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from fastfedpg.errors import InputError, Stopped
from fastfedpg.federation.terms import Address
from fastfedpg.federation.transport import flower_commands, unix_socket
from fastfedpg.federation.transport.engine import RemoteEngine

CALL_SECONDS = 60.0
PAUSE_SECONDS = 2.0


def check(address: Address) -> None:
    """Refuse an address at which no SuperLink answers, or not the right one."""
    address.check()
    if address.ca is not None:
        try:
            ssl.create_default_context(cafile=str(address.ca))
        except OSError as error:
            raise InputError(f"--ca {address.ca}: not a certificate that can be read ({error})") from None
    why = unreachable(address)
    if why:
        raise InputError(f"no SuperLink at {address.superlink}: {why}; is it running? --superlink says where it is")


def unreachable(address: Address) -> str:
    """Why nobody answers there, in words; nothing if somebody does."""
    url = f"{'http' if address.insecure else 'https'}://{address.superlink}/health"
    try:
        trust = False if address.ca is None else ssl.create_default_context(cafile=str(address.ca))
        httpx.get(url, verify=trust, trust_env=False, timeout=5).raise_for_status()
    except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{address.ca}: {error}" if isinstance(error, OSError) else str(error) or type(error).__name__
    return ""


class SuperLinkConnector:
    """Connects to the engine, and again when it was lost."""

    def __init__(self, address: Address, home: Path, socket: Path, limit: int, say: Callable[[str], None]) -> None:
        self.address, self.home, self.limit, self.say = address, home, limit, say
        flower_commands.describe(home, address.superlink, address.ca)
        self.listener = unix_socket.Listener(socket)

    def connect(self, seconds: float) -> RemoteEngine:
        """An engine, waited for that long: the SuperLink may be on its way up again."""
        end, said = time.monotonic() + seconds, ""
        while True:
            try:
                run = flower_commands.submit(self.home, self.listener.path, self.limit)
                connection = self.listener.accept(CALL_SECONDS)
                if connection is not None:
                    self.say(f"connected to the SuperLink at {self.address.superlink} (Flower's run {run})")
                    return RemoteEngine(connection, self.limit)
                why = f"Flower's run {run} did not call within {CALL_SECONDS:g} s; `flwr log {run}` says more"
            except flower_commands.FlowerError as error:
                why = str(error).strip().replace("\n", " ")
            if why != said:
                self.say(f"no engine yet: {why}")
                said = why
            if time.monotonic() > end:
                raise Stopped(f"no engine at {self.address.superlink} within {seconds:g} s: {why}")
            time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        """Nobody can call any more."""
        self.listener.close()
