"""What a deployed run is asked beside its configuration: as flags, and as federation.toml in the run's folder."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import tomli_w

from fastfedpg.errors import InputError
from fastfedpg.experiment.run_settings import setting

Keys: TypeAlias = Literal["counter", "private"]
"""Random numbers from the run's seed, as in a simulation; or from a secret of each site's own."""


@dataclass(frozen=True)
class Terms:
    """How a server deals with its agents."""

    on_missing: Literal["wait", "abort", "reweight"] = setting(
        "wait",
        "run",
        "An agent that does not answer: wait for it, stop the run, or begin the round again with the others.",
    )
    quorum: int | None = setting(
        None, "run", "reweight: the fewest agents that a round may have; more than half of them unless given."
    )
    timeout: float = setting(600.0, "run", "Seconds for the answers to one question.")
    patience: float = setting(
        3600.0, "run", "Seconds to wait for agents, or for the engine, before the run stops; it can be resumed."
    )
    norm_limit: float | None = setting(
        None,
        "run",
        "The largest Euclidean norm of an array that an agent may send; unless given, 100 times what the others send.",
    )
    evaluate: Literal["server", "agents", "none"] | None = setting(
        None,
        "run",
        "Who says what a policy is worth: the server, if it knows the problem; else each agent for itself; or nobody.",
    )

    metrics_port: int | None = setting(
        None, "run", "Tell Prometheus how the run goes, at this port of loopback; 0 takes one that is free."
    )

    def check(self, N: int) -> None:
        """Everything that can be wrong before the first question."""
        if self.metrics_port is not None and not 0 <= self.metrics_port <= 65535:
            raise InputError(f"metrics_port = {self.metrics_port}; a port is a number from 0 to 65535")
        for name in ("timeout", "patience", "norm_limit"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise InputError(f"{name} = {getattr(self, name):g}; it must be positive")
        for name in ("timeout", "patience"):
            if getattr(self, name) > 1e6:
                raise InputError(f"{name} = {getattr(self, name):g}; it must be at most 1,000,000 seconds")
        if self.quorum is not None and not 1 <= self.quorum <= N:
            raise InputError(f"quorum = {self.quorum}; it must be between 1 and the number of agents, {N}")

    def fewest(self, wanted: int) -> int:
        """How many of the agents that should take part in a round are enough."""
        if self.on_missing != "reweight":
            return wanted
        return min(wanted, self.quorum or wanted // 2 + 1)


@dataclass(frozen=True)
class Address:
    """Where the SuperLink is, and what proves that it is the right one."""

    superlink: str = setting("127.0.0.1:8000", "run", "HOST:PORT of the SuperLink, as this machine reaches it.")
    ca: Path | None = setting(
        None,
        "run",
        "The authority's certificate, ca.crt. Beside a server's stand the agents' public keys, agent-I.pub, and "
        "superlink.secret.",
    )
    insecure: bool = setting(
        False, "run", "Talk without TLS and without asking who nodes are: for trying things out on one machine."
    )

    def check(self) -> None:
        """TLS, unless its absence was asked for in so many words."""
        if self.ca is None and not self.insecure:
            raise InputError("give --ca, the authority's certificate; without TLS only with --insecure")
        if self.ca is not None and self.insecure:
            raise InputError("--insecure and --ca exclude each other")
        host, _, port = self.superlink.rpartition(":")
        if not host or not port.isdecimal():
            raise InputError(f"superlink = {self.superlink}; it must be HOST:PORT")


@dataclass(frozen=True)
class Deployment:
    """What a deployed run needs beside its configuration; it stands in the run's folder, in federation.toml."""

    terms: Terms
    address: Address
    keys: Keys = "counter"
    run: str = ""
    local: bool = False  # whether everything runs on this machine, started by `fastfedpg federate`

    def to_toml(self) -> str:
        """As a file."""
        plain = lambda table: {k: str(v) if isinstance(v, Path) else v for k, v in table.items() if v is not None}
        return tomli_w.dumps(
            {**plain(asdict(self)), "terms": plain(asdict(self.terms)), "address": plain(asdict(self.address))}
        )
