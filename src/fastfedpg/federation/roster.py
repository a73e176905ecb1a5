"""Who is there: which node speaks for which agent, and questions to them by number."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError, Stopped
from fastfedpg.federation import protocol, wire
from fastfedpg.federation.bridge import Engine, EngineLost, Failure
from fastfedpg.federation.wire import Malformed, Message

PAUSE_SECONDS = 1.0
GREETING_SECONDS = 120.0
GRACE_SECONDS = 60.0
"""Where not all agents are needed, those that are late at the start are waited for so long."""
Check = Callable[[int, Message], None]


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
    ) -> None:
        self.connect, self.run, self.declared, self.N = connect, run, dict(declared), N
        self.patience, self.log = patience, log
        self.nodes: dict[int, int] = {}  # agent -> node
        self.tells: dict[int, bool] = {}
        self.refused: dict[int, float] = {}  # nodes that did not fit, and when
        self.greeting = b""
        self._engine: Engine | None = None

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
        """Say hello to every node that is new; a node that was refused is asked again after a while."""
        online, now = self._online(), time.monotonic()
        known = {*self.nodes.values(), *(n for n, at in self.refused.items() if now - at < GREETING_SECONDS)}
        new = {node: name for node, name in online.items() if node not in known}
        for node, content in self._carry(dict.fromkeys(new, self.greeting), GREETING_SECONDS).items():
            who = new[node] or f"node {node}"
            if isinstance(content, Failure):
                self.log(f"{who}: no answer to the first question: {content}")
                continue
            try:
                self._welcome(node, new[node], wire.unpack(content), online)
            except Malformed as error:
                self.refused[node] = now
                self.log(f"refused: {who}: {error}")
                refuse(f"{who}: {error}")
        return online

    def present(self, agents: Iterable[int]) -> list[int]:
        """Those of the agents whose nodes are connected."""
        online = self.greet()
        return [i for i in agents if self.nodes.get(i) in online]

    def _welcome(self, node: int, name: str, message: Message, online: Mapping[int, str]) -> None:
        about = message.about
        agent, theirs = about.get("agent"), about.get("declared")
        if not isinstance(agent, int) or not isinstance(theirs, dict):
            raise Malformed(f"it answers {about.get('refused') or 'without saying who it is'}")
        differs = protocol.differences(theirs, self.declared)
        if differs:
            raise Malformed(f"agent {agent} does not fit this server: {differs}")
        if "refused" in about:
            raise Malformed(f"agent {agent} refuses: {about['refused']}")
        if not 0 <= agent < self.N:
            raise Malformed(f"agent {agent} of {self.N}: agents are numbered from 0 to {self.N - 1}")
        if name and name != node_name(agent):
            raise Malformed(f"it says that it is agent {agent}, but its key is registered as {name}")
        if self.nodes.get(agent) in online:
            raise Malformed(f"there is an agent {agent} already, at another node")
        self.nodes[agent], self.tells[agent] = node, bool(about.get("tells"))
        self.log(f"agent {agent} is here (node {node})")

    def ask(
        self, questions: Mapping[int, bytes], seconds: float, check: Check
    ) -> tuple[dict[int, Message], dict[int, Lack]]:
        """Answers that passed the check, and for all others why there is none."""
        answers: dict[int, Message] = {}
        here = self.present(questions)
        lacks = {i: Lack("it is not connected", True) for i in questions if i not in here}
        asked = {self.nodes[i]: i for i in here}
        heard = self._carry({node: questions[i] for node, i in asked.items()}, seconds)
        for node, i in asked.items():
            content = heard.get(node, Failure(f"no answer within {seconds:g} s"))
            try:
                if isinstance(content, Failure):
                    lacks[i] = Lack(str(content), True)
                    continue
                message = wire.unpack(content)
                if message.about.get("agent") != i:
                    raise Malformed(f"it answers as agent {message.about.get('agent')}")
                if "refused" in message.about:
                    lacks[i] = Lack(f"refused: {message.about['refused']}", bool(message.about.get("again")))
                    continue
                check(i, message)
                answers[i] = message
            except Malformed as error:
                lacks[i] = Lack(str(error), False)
        return answers, lacks

    def wait(self, agents: Iterable[int], seconds: float) -> None:
        """A while, before agents are asked again: until a node of theirs is there, and a moment in any case."""
        end, wanted = time.monotonic() + seconds, [*agents]
        while time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)
            if self.present(wanted):
                return

    def _carry(self, questions: Mapping[int, bytes], seconds: float) -> dict[int, bytes | Failure]:
        """Over the engine, and over a new one if it is lost: what was answered already is not asked again."""
        heard: dict[int, bytes | Failure] = {}
        while True:
            left = {node: q for node, q in questions.items() if node not in heard}
            if not left:
                return heard
            try:
                for answer in self.engine().ask(left, seconds):
                    heard[answer.node] = answer.content
                return heard
            except EngineLost as error:
                self._lost(error)

    def _online(self) -> dict[int, str]:
        while True:
            try:
                return self.engine().nodes()
            except EngineLost as error:
                self._lost(error)

    def engine(self) -> Engine:
        """The engine, connected anew if it was lost."""
        if self._engine is None:
            self._engine = self.connect(self.patience)
        return self._engine

    def _lost(self, error: EngineLost) -> None:
        self.log(f"the engine was lost ({error}); connecting again")
        self._engine = None

    def close(self) -> None:
        """Let the engine go."""
        close = getattr(self._engine, "close", None)
        if close is not None:
            close()
        self._engine = None


def names(agents: Iterable[int]) -> str:
    """Agents by their numbers, in words."""
    every = sorted(agents)
    return f"agent{'s' * (len(every) != 1)} {', '.join(str(i) for i in every)}"
