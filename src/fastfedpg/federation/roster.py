"""Who is there: which node speaks for which agent, and questions to them by number, over an engine that may be lost."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fastfedpg.errors import InputError, Stopped
from fastfedpg.federation import protocol, wire
from fastfedpg.federation.transport.engine import Engine, EngineLost, Failure, Seen
from fastfedpg.federation.wire import Malformed, Message

PAUSE_SECONDS = 0.2
GREETING_SECONDS = 120.0
GRACE_SECONDS = 60.0
"""Where not all agents are needed, those that are late at the start are waited for so long."""
LOSSES = 5
"""So often in a row, without one answer between, an engine may be lost."""

Check: TypeAlias = Callable[[int, Message], None]
Count: TypeAlias = Callable[[int], None]
"""Hears how many answers have come."""
Open: TypeAlias = Callable[[int, bytes, bytes], bytes | None]
"""From an agent, a question and what came back to the answer, if the agent has signed it."""


class NotYet(Exception):
    """Why a node can't take part at this time."""


class Heard(NamedTuple):
    """What came from a node, and after how many seconds."""

    content: bytes | Failure
    seconds: float


class Lack(NamedTuple):
    """Why there is no answer, and whether asking again may help."""

    words: str
    again: bool


class Roster:
    """The agents of one run."""

    def __init__(
        self,
        connect: Callable[[float], Engine],
        run: str,
        declared: Mapping[str, Any],
        N: int,
        patience: float,
        log: Callable[[str], None],
        stage: Callable[[str], None] = lambda words: None,
        opened: Open = lambda agent, question, content: content,
    ) -> None:
        self.connect, self.run, self.declared, self.N = connect, run, dict(declared), N
        self.patience, self.log, self.stage, self.opened = patience, log, stage, opened
        self.nodes: dict[int, int] = {}  # agent -> node
        self.tells: dict[int, bool] = {}
        self.later: dict[int, tuple[float, float]] = {}  # nodes that are greeted again: when, and the pause before
        self.silent: dict[int, tuple[float, float]] = {}  # agents that held up the others: as above
        self.greeting = b""
        self.policy: Any = None  # that the agents have in common, where the server does not know it
        self.engine: Engine | None = None
        self.losses = 0

    def enlist(self, wanted: Iterable[int], fewest: int, theta: np.ndarray) -> None:
        """Wait until the agents are there, or enough of them. Who does not fit is left out, and named."""
        wanted = [*wanted]
        self.greeting = protocol.hello(self.run, self.declared, theta)
        began, said = time.monotonic(), 0.0
        refused: dict[int, str] = {}
        while True:
            self._greet(refused)
            missing = [i for i in wanted if i not in self.nodes]
            refused = {node: words for node, words in refused.items() if node not in self.nodes.values()}
            now = time.monotonic()
            if not missing or (len(wanted) - len(missing) >= fewest and (refused or now - began > GRACE_SECONDS)):
                return
            if refused:  # too few are left without them, and they will not change their minds
                raise InputError("; ".join(sorted(refused.values())))
            if now - began > self.patience:
                raise Stopped(f"{names(missing)} did not come within {self.patience:g} s")
            if now - said > 10:
                self.log(f"waiting for {names(missing)}")
                said = now
            time.sleep(PAUSE_SECONDS)

    def present(self, agents: Iterable[int]) -> list[int]:
        """Those of the agents whose nodes are connected."""
        online = self._greet({})
        return [i for i in agents if self.nodes.get(i) in online]

    def ready(self, agents: Iterable[int]) -> list[int]:
        """Those who are connected and held up nobody of late: who did is tried again after 1, 2, 4 … times as long."""
        now = time.monotonic()
        return [i for i in self.present(agents) if self.silent.get(i, (0.0, 0.0))[0] <= now]

    def ask(
        self, questions: Mapping[int, bytes], seconds: float, check: Check, count: Count = lambda answers: None
    ) -> tuple[dict[int, Message], dict[int, Lack]]:
        """Answers that passed the check, and for all others why there is none; `count` hears how many have come."""
        answers: dict[int, Message] = {}
        here = self.present(questions)
        lacks = {i: Lack("it is not connected", True) for i in questions if i not in here}
        asked = {self.nodes[i]: i for i in here}
        heard = self._carry({node: questions[i] for node, i in asked.items()}, seconds, count)
        for node, i in asked.items():
            try:
                if node not in heard:
                    lacks[i] = Lack(f"no answer within {seconds:g} s", True)
                    continue
                content = heard[node].content
                if isinstance(content, Failure):
                    lacks[i] = Lack(wire.plain(content), True)
                    continue
                message = self._unpack(i, questions[i], content)
                if message.about.get("agent") != i:
                    raise Malformed(f"it answers as agent {wire.plain(message.about.get('agent'))}")
                if "refused" in message.about:
                    words = f"refused: {wire.plain(message.about['refused'])}"
                    lacks[i] = Lack(words, bool(message.about.get("again")))
                    continue
                check(i, message)
                answers[i] = message
            except Malformed as error:
                lacks[i] = Lack(str(error), False)
        self._leave_alone(asked, heard, answers, seconds)
        return answers, lacks

    def _leave_alone(
        self, asked: Mapping[int, int], heard: Mapping[int, Heard], answers: Iterable[int], seconds: float
    ) -> None:
        """Note who held up the others, and for how long: by an answer that is none as much as by silence."""
        last = max((heard[self.nodes[i]].seconds for i in answers), default=0.0)
        for node, i in asked.items():
            if i in answers:
                self.silent.pop(i, None)
            elif node not in heard:
                self.silent[i] = _later(self.silent.get(i), seconds)
            elif heard[node].seconds > last:
                self.silent[i] = _later(self.silent.get(i), heard[node].seconds - last)

    def wait(self, agents: Iterable[int], seconds: float, fewest: int = 1) -> None:
        """A while, before agents are asked again: until so many of them are connected, and a moment in any case."""
        end, wanted = time.monotonic() + seconds, [*agents]
        while time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)
            if len(self.present(wanted)) >= fewest:
                return

    def close(self) -> None:
        """Let the engine go."""
        if self.engine is not None:
            self.engine.close()
        self.engine = None

    def _carry(self, questions: Mapping[int, bytes], seconds: float, count: Count) -> dict[int, Heard]:
        """What came in time, by node; over a new engine if one is lost, without asking again who has answered."""
        heard: dict[int, Heard] = {}
        began, came = time.monotonic(), 0
        count(came)
        while left := {node: q for node, q in questions.items() if node not in heard}:
            try:
                for answer in self._connected().ask(left, seconds):
                    heard[answer.node] = Heard(answer.content, time.monotonic() - began)
                    came += not isinstance(answer.content, Failure)
                    count(came)
                    self.losses = 0
                break
            except EngineLost as error:
                self._lost(error)
        return heard

    def _online(self) -> dict[int, Seen]:
        while True:
            try:
                return self._connected().nodes()
            except EngineLost as error:
                self._lost(error)

    def _connected(self) -> Engine:
        if self.engine is None:
            self.engine = self.connect(self.patience)
        return self.engine

    def _lost(self, error: EngineLost) -> None:
        self.close()
        self.losses += 1
        if self.losses > LOSSES:
            raise Stopped(f"the engine was lost {self.losses} times in a row: {error}")
        self.log(f"the engine was lost ({error}); connecting again")

    def _greet(self, refused: dict[int, str]) -> dict[int, Seen]:
        """Say hello to every node that is new; one that does not answer, or does not fit, is greeted again later."""
        online, now = self._online(), time.monotonic()
        known = {*self.nodes.values(), *(node for node, (at, _) in self.later.items() if now < at)}
        new = {node: seen for node, seen in online.items() if node not in known}
        heard = self._carry(dict.fromkeys(new, self.greeting), GREETING_SECONDS, lambda answers: None)
        for node, seen in new.items():
            content, took = heard.get(
                node, Heard(Failure(f"no answer within {GREETING_SECONDS:g} s"), GREETING_SECONDS)
            )
            who = f"node {node}" if seen.agent is None else f"agent {seen.agent}"
            try:
                if isinstance(content, Failure):
                    raise NotYet(content)
                message = (
                    wire.unpack(content) if seen.agent is None else self._unpack(seen.agent, self.greeting, content)
                )
                self._welcome(node, seen, message, online)
            except NotYet as error:
                self.later[node] = _later(self.later.get(node), max(1.0, took))
                self.log(f"{who} can't take part yet: {wire.plain(error)}")
            except Malformed as error:
                self.later[node] = _later(self.later.get(node), max(1.0, took))
                if refused.get(node) != f"{who}: {error}":
                    self.log(f"left out: {who}: {error}")
                refused[node] = f"{who}: {error}"
        return online

    def _unpack(self, agent: int, question: bytes, content: bytes) -> Message:
        answer = self.opened(agent, question, content)
        if answer is None:
            raise Malformed(f"it is not signed by agent {agent}'s key")
        return wire.unpack(answer)

    def _welcome(self, node: int, seen: Seen, message: Message, online: Mapping[int, Seen]) -> None:
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
        if seen.agent not in (None, agent):
            raise Malformed(f"it says that it is agent {agent}, but its key is agent {seen.agent}'s")
        if self.nodes.get(agent) in online:
            # Without keys one that was started again may have a new number; the old one counts as there for a while.
            kind = NotYet if seen.agent is None else Malformed
            raise kind(f"there is an agent {agent} already, at another node")
        self.nodes[agent], self.tells[agent] = node, bool(about.get("tells"))
        self.policy = self.policy or wire.plain(theirs.get("policy") or "") or None
        self.log(f"agent {agent} is here (node {node})")


def _later(before: tuple[float, float] | None, first: float) -> tuple[float, float]:
    """When to try again, and the pause until then: twice the last one, so that one that is silent holds up nobody."""
    # Nor does a short one shorten it: who holds up the others for long could fail at once in between.
    pause = first if before is None else max(first, min(2 * before[1], max(before[1], 64 * first)))
    return time.monotonic() + pause, pause


def names(agents: Iterable[int]) -> str:
    """Agents by their numbers, in words."""
    every = sorted(agents)
    return f"agent{'s' * (len(every) != 1)} {', '.join(str(i) for i in every)}"
