"""An agent: one site's environment and the algorithm's agent half; it answers its algorithm's questions, no others."""

import hmac
import json
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Problem, key_for
from fastfedpg.errors import InputError
from fastfedpg.federation import protocol, wire
from fastfedpg.federation.agent_store import GOES_ON, OVER, AgentStore, Done, Kept, Page
from fastfedpg.federation.transport.keys import check_secret
from fastfedpg.federation.wire import Malformed, Message
from fastfedpg.files import read_bytes, write_secret
from fastfedpg.precision import precision_of
from fastfedpg.runtime.diagnosis import in_own_words
from fastfedpg.runtime.loop import answer as answer_exchange
from fastfedpg.runtime.pytrees import arrays_of, restored
from fastfedpg.runtime.round import begun
from fastfedpg.runtime.schedule import check_answers

R = TypeVar("R")
LOG = logging.getLogger("fastfedpg.agent")
SECRET_BYTES = 64
TRACEBACKS = 20
QUESTIONS = 10_000
"""So many are answered in all, unless a site's owner says otherwise."""
SPARE = 8
"""So many more attempts at a round than there are agents to lose are answered."""


class Site(NamedTuple):
    """Who an agent is, and what it has."""

    number: int
    algorithm: Algorithm
    problem: Problem  # with one task
    declared: dict[str, Any]
    tells: bool  # whether it says what a policy is worth to it
    questions: int = QUESTIONS  # that are answered in all, whatever runs they belong to
    own: str = ""  # what the site has settled for itself, as a hash that never leaves it

    @property
    def agents(self) -> int:
        """N."""
        return int(self.declared["agents"])


class Raised(Exception):
    """What a site's environment raised; its words stay at the site."""


@contextmanager
def _environment() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise Raised(type(error).__name__) from error


def _in_its_precision(method: Callable[..., R]) -> Callable[..., R]:
    """A method of an agent, in the mode that its theta asks for."""

    @wraps(method)
    def call(self: "Agent", *given: Any) -> R:
        with precision_of(self.theta):
            return method(self, *given)

    return call


class Agent:
    """Answers questions as bytes with bytes; what it keeps between them is on disk before it answers."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        theta = protocol.theta_of(site.problem)
        self.theta = jax.ShapeDtypeStruct(theta.shape, theta.dtype)
        self._open(theta, folder)

    @_in_its_precision
    def _open(self, theta: np.ndarray, folder: Path) -> None:
        site = self.site
        self.talks = {talk.name: talk for talk in protocol.talks(site.algorithm, theta, site.agents)}
        self.exchanges = {e.name: e for e in site.algorithm.exchanges}
        self.order = [e.name for e in site.algorithm.exchanges]
        self.limit = protocol.largest((*self.talks.values(),), theta)
        self.task = jax.tree.map(lambda x: jnp.asarray(x[0]), site.problem.tasks)
        check_answers(site.algorithm, site.problem.oracle(self.task))
        self.secret = _secret(folder) if site.declared["keys"] == "private" else None
        form = jax.eval_shape(lambda theta: self._begin(theta, ""), self.theta)
        self.store = AgentStore(folder, form)
        self.raised: set[str] = set()
        self.asks = {"hello": self._hello, "exchange": self._exchange, "evaluate": self._evaluate}

    @_in_its_precision
    def compile(self) -> None:
        """One round with zeros for messages, so that the first question does not wait for the compiler.

        An environment that raises here may do so at these messages alone; if not, whoever asks will be told.
        """
        zeros = lambda tree: jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), tree)
        try:
            memory, own = self._begin(jnp.zeros(self.theta.shape, self.theta.dtype), "")
            for name, talk in self.talks.items():
                memory, own, _, _ = self._answer(name, memory, own, zeros(talk.down), self._key(0, name, ""))
            if self.site.tells:
                self.site.problem.evaluate(zeros(self.theta)[None])
        except Raised:
            LOG.exception("agent %d: its environment raised in a rehearsal; it answers all the same", self.site.number)

    @_in_its_precision
    def answer(self, data: bytes) -> bytes:
        """The answer to one question. Whatever goes wrong is told in words, without a word about the environment."""
        number = self.site.number
        try:
            message = wire.unpack(data)
            ask = self.asks.get(str(message.about.get("ask")))
            if ask is None:
                raise Malformed(
                    f"asked '{wire.plain(message.about.get('ask'))}'; an agent answers {', '.join(self.asks)}"
                )
            return ask(message)
        except Malformed as error:
            LOG.warning("refused: %s", error)
            return protocol.refusal(number, str(error))
        except Exception as error:
            known = f"{type(error).__name__} {error.__cause__!r}"
            if known in self.raised or len(self.raised) > TRACEBACKS:  # a server that asks again must not fill the disk
                LOG.error("agent %d could not answer: %s, as before", number, type(error).__name__)
            else:
                LOG.exception("agent %d could not answer", number)
            self.raised.add(known)
            what = f"its environment raised {error}" if isinstance(error, Raised) else type(error).__name__
            return protocol.refusal(number, f"{what}; the site's own log says more", again=True)

    def _hello(self, message: Message) -> bytes:
        declared, run = message.about.get("declared"), message.about.get("run")
        if not isinstance(declared, dict) or not protocol.is_run(run):
            raise Malformed("a hello without a declaration and a run")
        about = {"agent": self.site.number, "declared": self.site.declared, "tells": self.site.tells}
        differs = protocol.differences(declared, self.site.declared)
        if differs:
            LOG.warning("refused the server of run %s: %s", run, differs)
            return wire.pack({**about, "refused": differs})
        wire.check(message.arrays, {"theta": (self.theta.shape, str(self.theta.dtype))})
        theta = message.arrays["theta"]
        page = self.store.open(str(run), declared, self.site.own)
        if page is None:
            base = protocol.beginning(str(run), self.site.number, theta)
            before = Kept(base, *self._begin(jnp.asarray(theta), protocol.memory_hash("", 0, "own", {"theta": theta})))
            page = self.store.begin(str(run), declared, self.site.own, before)
            LOG.info("run %s begins", run)
        return wire.pack({**about, "link": page.before.memory_hash, "round": page.round})

    def _exchange(self, message: Message) -> bytes:
        about = message.about
        t, name, base, previous = (about.get(k) for k in ("round", "exchange", "base", "previous"))
        if not isinstance(name, str) or name not in self.talks or type(t) is not int or not 0 <= t < 2**31:
            raise Malformed(f"exchange '{name}' of round {t}; this algorithm has {', '.join(self.talks)}")
        rounds = self.site.declared.get("rounds")
        if rounds is not None and t >= rounds:
            raise Malformed(f"round {t}, counted from 0: {rounds} rounds were declared")
        wire.check(message.arrays, self.talks[name].down_form)
        page = self._page(about)
        before, after = self._standing(page, str(base), t)
        order = [e.name for e in self.site.algorithm.in_round(t)]
        if name not in order:
            raise Malformed(f"exchange '{name}' belongs to the first round alone, and this is round {t}")
        k = order.index(name)
        at = after.get(str(previous))
        if previous != base if k == 0 else at is None or at.exchange != order[k - 1]:
            raise Malformed(f"exchange '{name}' of round {t} does not follow what this agent has heard of the round")
        made = protocol.memory_hash(str(previous), t, name, message.arrays)
        if made in after:
            LOG.info("round %d, %s: asked again, the stored reply", t + 1, name)
            return after[made].reply
        if len(after) >= len(self.order) * (self.site.agents + SPARE):
            raise Malformed(f"round {t}: asked too many different questions in one round")
        self._spend()
        start = before if at is None or k == 0 else at.kept
        said = protocol.memory_hash(at.said if at is not None and k else "", 0, name, message.arrays)
        down = restored("down", self.talks[name].down, message.arrays)
        memory, own, up, info = self._answer(name, start.memory, start.own, down, self._key(t, name, said))
        arrays = arrays_of("up", up)
        # Before it is kept: a stored reply is never made again, and a repaired environment should have its chance.
        wire.check(arrays, self.talks[name].up_form)
        reply = protocol.reply(self.site.number, made, arrays)
        done = Done(name, Kept(made, memory, own), reply, said)
        last = t + 1 == rounds and k + 1 == len(order)
        self.store.note(page.run, OVER if last else GOES_ON, 1)
        self.store.write(page._replace(round=t, before=before, after={**after, made: done}))
        LOG.info("round %d, %s: %d environment steps, drift %.4g", t + 1, name, int(info.steps), float(info.drift))
        return reply

    def _spend(self) -> None:
        """Refuse what is beyond this site's budget: who may ask at policies of its choice learns with every answer."""
        if self.store.answered >= self.site.questions:
            raise Malformed(f"this site has answered {self.site.questions} questions, and its owner allowed no more")

    def _standing(self, page: Page, base: str, t: int) -> tuple[Kept, dict[str, Done]]:
        """The memory that a round starts from, by the server's word, and what this agent has answered from there."""
        last = page.after.get(base)
        if last is not None and last.exchange == self.order[-1]:
            return last.kept, {}  # the round before counts
        if base != page.before.memory_hash or t < page.round:
            raise Malformed(
                f"round {t} starts from a memory that is not here: this agent stands after round {page.round}, or an "
                "old checkpoint or an old state folder is being used"
            )
        return page.before, page.after if t == page.round else {}

    def _evaluate(self, message: Message) -> bytes:
        if not self.site.tells:
            raise Malformed("this agent does not say what a policy is worth to it (it was started without --tell)")
        page = self._page(message.about)
        self._spend()
        self.store.note(page.run, self.store.runs.get(page.run, GOES_ON), 1)
        wire.check(message.arrays, {"theta": (self.theta.shape, str(self.theta.dtype))})
        theta = message.arrays["theta"]
        if self.site.algorithm.personalise is not None:
            name = str(message.about.get("link"))
            there = {page.before.memory_hash: page.before, **{made: done.kept for made, done in page.after.items()}}
            if name not in there:
                raise Malformed("a policy is to be evaluated with a memory that is not here")
            theta = np.asarray(self.site.algorithm.personalise(jnp.asarray(theta), there[name].memory))
        with _environment(), in_own_words(self.site.problem):
            found = self.site.problem.evaluate(theta[None], [self.site.declared["seed"] or 0])  # no seed: own secrets
        value = {"J": np.float64(np.ravel(found.J)[0]), "return": np.float64(np.ravel(found.returns)[0])}
        return wire.pack({"agent": self.site.number}, value)

    def _page(self, about: dict[str, Any]) -> Page:
        run = about.get("run")
        page = self.store.open(str(run), self.site.declared, self.site.own) if protocol.is_run(run) else None
        if page is None:
            raise Malformed(f"run {about.get('run')} is not known here: it was begun elsewhere, or its memory is lost")
        return page

    def _begin(self, theta: Any, said: str) -> tuple[Any, Any]:
        """What the agent has in memory before the first round: the algorithm's part, and its oracle's."""
        i = self.site.number
        memory = jax.tree.map(lambda x: x[i], self.site.algorithm.init(theta, self.site.agents)[2])
        with _environment():
            oracle = self.site.problem.oracle(self.task)
            return begun(self.site.algorithm, oracle, theta, memory, self._key(0, "own", said))

    def _key(self, t: int, name: str, said: str) -> Any:
        """The key of one exchange: the simulation's, or one that follows from this site's secret and what was said.

        So with a secret another policy is played with other random numbers, and the same one with the same, in whatever
        run and round: who asks at policies of its choice can neither compare two on the same numbers, nor ask at one
        again and again and average the noise away.
        """
        if self.secret is None:
            return key_for(int(self.site.declared["seed"]), t, name, self.site.number)
        drawn = hmac.digest(self.secret, json.dumps([self.site.number, name, said]).encode(), "sha256")
        return jax.random.wrap_key_data(jnp.asarray(np.frombuffer(drawn[:8], np.uint32)), impl="threefry2x32")

    def _answer(self, name: str, memory: Any, own: Any, down: Any, key: Any) -> tuple[Any, Any, Any, Any]:
        with _environment(), in_own_words(self.site.problem):
            return jax.block_until_ready(
                answer_exchange(self.exchanges[name], self.site.problem.oracle, self.task, memory, own, down, key)
            )


def _secret(folder: Path) -> bytes:
    """What only this site knows; it is made once, so that an answer that is asked for again is the same."""
    path = folder / "secret"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_secret(path, secrets.token_hex(SECRET_BYTES // 2).encode())
    secret = read_bytes(check_secret(path))
    if len(secret) != SECRET_BYTES:
        raise InputError(f"{path}: not a whole secret; remove it, and begin new runs")
    return secret
