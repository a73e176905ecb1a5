"""Who is there: which node speaks for which agent, and questions to them by number."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError, Stopped
from fastfedpg.federation import protocol, wire
from fastfedpg.federation.transport.engine import Engine, Failure
from fastfedpg.federation.transport.reconnecting import Count, Reconnecting, uncounted
from fastfedpg.federation.wire import Malformed, Message

PAUSE_SECONDS = 1.0
GREETING_SECONDS = 120.0
GRACE_SECONDS = 60.0
"""Where not all agents are needed, those that are late at the start are waited for so long."""
Check = Callable[[int, Message], None]


class NotYet(Exception):
    """Why a node can't take part at this time."""


class Lack(NamedTuple):
    """Why there is no answer, and whether asking again may help."""

    words: str
    again: bool


def node_name(agent: int) -> str:
    """The name under which an agent's node is registered: a key speaks for one agent only."""
    return f"agent-{agent}"


class Roster:
    """The agents of one run, over an engine that may be lost and found again."""

    def __init__(
        self,
        connect: Callable[[float], Engine],
        run: str,
        declared: Mapping[str, Any],
        N: int,
        patience: float,
        log: Callable[[str], None],
        stage: Callable[[str], None] = lambda words: None,
    ) -> None:
        self.engine = Reconnecting(connect, patience, log)
        self.run, self.declared, self.N = run, dict(declared), N
        self.patience, self.log, self.stage = patience, log, stage
        self.nodes: dict[int, int] = {}  # agent -> node
        self.tells: dict[int, bool] = {}
        self.later: dict[int, tuple[float, float]] = {}  # nodes that are greeted again: when, and the pause before
        self.greeting = b""
        self.policy: Any = None  # that the agents have in common, where the server does not know it

    def enlist(self, wanted: Iterable[int], fewest: int, theta: np.ndarray) -> None:
        """Wait until the agents are there, or enough of them; who does not fit is refused, and the run with it."""
        wanted = [*wanted]
        self.greeting = protocol.hello(self.run, self.declared, theta)
        began, said = time.monotonic(), 0.0
        while True:
            refused: list[str] = []
            self.greet(refused.append)
            if refused:
                raise InputError("; ".join(sorted(refused)))
            missing = [i for i in wanted if i not in self.nodes]
            now = time.monotonic()
            if not missing or (len(wanted) - len(missing) >= fewest and now - began > GRACE_SECONDS):
                return
            if now - began > self.patience:
                raise Stopped(f"{names(missing)} did not come within {self.patience:g} s")
            if now - said > 10:
                self.log(f"waiting for {names(missing)}")
                said = now
            time.sleep(PAUSE_SECONDS)

    def greet(self, refuse: Callable[[str], None] = lambda words: None) -> dict[int, str]:
        """Say hello to every node that is new; one that does not answer, or does not fit, is greeted again later."""
        online, now = self.engine.nodes(), time.monotonic()
        known = {*self.nodes.values(), *(node for node, (at, _) in self.later.items() if now < at)}
        new = {node: name for node, name in online.items() if node not in known}
        heard = self.engine.ask(dict.fromkeys(new, self.greeting), GREETING_SECONDS)
        for node, name in new.items():
            content = heard.get(node, Failure(f"no answer within {GREETING_SECONDS:g} s"))
            who = name or f"node {node}"
            try:
                if isinstance(content, Failure):
                    raise NotYet(content)
                self._welcome(node, name, wire.unpack(content), online)
            except NotYet as error:
                self._later(node)
                self.log(f"{who} can't take part yet: {wire.plain(error)}")
            except Malformed as error:
                self._later(node)
                self.log(f"refused: {who}: {error}")
                refuse(f"{who}: {error}")
        return online

    def _later(self, node: int) -> None:
        """After 1, 2, 4 … seconds: a node without an agent must not hold up every question."""
        pause = min(2 * self.later.get(node, (0.0, 0.5))[1], GREETING_SECONDS)
        self.later[node] = time.monotonic() + pause, pause

    def present(self, agents: Iterable[int]) -> list[int]:
        """Those of the agents whose nodes are connected."""
        online = self.greet()
        return [i for i in agents if self.nodes.get(i) in online]

    def _welcome(self, node: int, name: str, message: Message, online: Mapping[int, str]) -> None:
        about = message.about
        agent, theirs = about.get("agent"), about.get("declared")
        if type(agent) is not int or not isinstance(theirs, dict):
            kind = NotYet if about.get("again") else Malformed
            raise kind(f"it answers: {wire.plain(about.get('refused') or 'without saying who it is')}")
        differs = protocol.differences(theirs, self.declared)
        if differs:
            raise Malformed(f"agent {agent} does not fit this server: {differs}")
        if self.policy is not None and theirs.get("policy") not in (None, self.policy):
            said = wire.plain(theirs["policy"])
            raise Malformed(
                f"agent {agent} does not fit the others: policy is {said} there and {self.policy} elsewhere"
            )
        if "refused" in about:
            kind = NotYet if about.get("again") else Malformed
            raise kind(f"agent {agent} refuses: {wire.plain(about['refused'])}")
        if not 0 <= agent < self.N:
            raise Malformed(f"agent {agent} of {self.N}: agents are numbered from 0 to {self.N - 1}")
        if name and name != node_name(agent):
            raise Malformed(f"it says that it is agent {agent}, but its key is registered as {name}")
        if self.nodes.get(agent) in online:
            # Without keys a node that was started again has a new number, and the old one counts as there for a while.
            kind = Malformed if name else NotYet
            raise kind(f"there is an agent {agent} already, at another node")
        self.nodes[agent], self.tells[agent] = node, bool(about.get("tells"))
        self.policy = self.policy or wire.plain(theirs.get("policy") or "") or None
        self.log(f"agent {agent} is here (node {node})")

    def ask(
        self, questions: Mapping[int, bytes], seconds: float, check: Check, count: Count = uncounted
    ) -> tuple[dict[int, Message], dict[int, Lack]]:
        """Answers that passed the check, and for all others why there is none; `count` hears how many have come."""
        answers: dict[int, Message] = {}
        here = self.present(questions)
        lacks = {i: Lack("it is not connected", True) for i in questions if i not in here}
        asked = {self.nodes[i]: i for i in here}
        heard = self.engine.ask({node: questions[i] for node, i in asked.items()}, seconds, count)
        for node, i in asked.items():
            content = heard.get(node, Failure(f"no answer within {seconds:g} s"))
            try:
                if isinstance(content, Failure):
                    lacks[i] = Lack(wire.plain(content), True)
                    continue
                message = wire.unpack(content)
                if message.about.get("agent") != i:
                    raise Malformed(f"it answers as agent {wire.plain(message.about.get('agent'))}")
                if "refused" in message.about:
                    lacks[i] = Lack(
                        f"refused: {wire.plain(message.about['refused'])}", bool(message.about.get("again"))
                    )
                    continue
                check(i, message)
                answers[i] = message
            except Malformed as error:
                lacks[i] = Lack(str(error), False)
        return answers, lacks

    def wait(self, agents: Iterable[int], seconds: float, fewest: int = 1) -> None:
        """A while, before agents are asked again: until so many of them are connected, and a moment in any case."""
        end, wanted = time.monotonic() + seconds, [*agents]
        while time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)
            if len(self.present(wanted)) >= fewest:
                return

    def close(self) -> None:
        """Let the engine go."""
        self.engine.close()


def names(agents: Iterable[int]) -> str:
    """Agents by their numbers, in words."""
    every = sorted(agents)
    return f"agent{'s' * (len(every) != 1)} {', '.join(str(i) for i in every)}"
