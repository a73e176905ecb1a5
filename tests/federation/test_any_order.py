"""Rounds over a network that loses, repeats, delays and reorders, agents and a server that start again at any moment.

As Jepsen does it: a history is written down (who was asked what, who answered, what was combined), and looked at
afterwards. Each round must be the simulation's with the agents that took part, so theta is the simulation's after each.
"""

import itertools
import shutil
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastfedpg import files, simulate
from fastfedpg.core import key_for
from fastfedpg.errors import InputError, Stopped
from fastfedpg.runtime import Schedule
from fastfedpg.runtime.loop import answer, serve, stack
from grid import agents_of, rounds_of
from properties import few, many, until_time_is_up
from sites import FAST, SAMPLED, SCAFFOLD, N

# isort: split
from fastfedpg.federation import roster, rounds, wire
from fastfedpg.federation.agent_store import AgentStore
from fastfedpg.federation.terms import Terms
from fastfedpg.federation.transport.engine import Answer, EngineLost, Failure, Seen

ROUNDS = 3
METHODS = {"fast_fedpg": FAST, "scaffold_pg": SCAFFOLD}
RUNS = itertools.count(1)
SAID = {"rounds": ROUNDS}
"""Which tells an agent that a run is over, so that it may be forgotten."""

FATES = (
    "arrives",
    "last",  # of all that are on their way
    "question lost",
    "answer lost",
    "failure",
    "twice",
    "late",  # to an agent that nobody waits for any more
    "again later",  # answered, and the question comes once more when the next has been
    "old answer",
    "answer of another",
    "cut",
    "agent restarts",  # before it is asked
    "agent killed",  # after it has put its answer away
    "away",
    "engine lost",
    "server killed",
)
ENDS = ("kept", "killed before it is kept", "killed after")
"""What becomes of the server after a round."""


class Kill(BaseException):
    """The server's process is gone."""


class Clock:
    """Time passes when somebody waits."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Combined(NamedTuple):
    """One exchange, as the server made it."""

    round: int
    exchange: str
    who: tuple[int, ...]
    ups: object


class Network:
    """An engine with the agents behind it; each message has the next fate, and when none is left all is well."""

    def __init__(self, agents, fates, clock):
        self.agents, self.fates, self.clock = agents, iter(fates), clock
        self.away, self.waiting, self.replies = {}, [], {i: [] for i in range(N)}
        self.asked, self.answered = [], {}

    def fate(self, usual="arrives", known=FATES):
        found = next(self.fates, usual)
        return found if found in known else usual

    def nodes(self):
        self.away = {i: left - 1 for i, left in self.away.items() if left > 1}
        return {100 + i: Seen(i) for i in range(N) if i not in self.away}

    def close(self):
        """Nothing is held."""

    def restart(self, i):
        """All that an agent has in memory and not on the disk is its open page."""
        agent = self.agents[i]
        agent.store = AgentStore(agent.store.folder, agent.store.form)

    def tell(self, i, question):
        """An agent's answer; to the same question it is the same, whatever has happened in between."""
        about = wire.unpack(question).about
        reply = self.agents[i].answer(question)
        said = wire.unpack(reply).about
        if about["ask"] == "exchange":
            self.asked.append((i, about["round"], about["exchange"]))
            if "refused" not in said:
                before = self.answered.setdefault((i, question), reply)
                assert before == reply, "one question, two answers"
        self.replies[i].append(reply)
        return reply

    def late(self):
        """What was on its way arrives, and nobody hears the answer."""
        for i, question in self.waiting:
            self.tell(i, question)
        self.waiting = []

    def ask(self, questions, seconds):
        order = []
        for node, question in questions.items():
            fate = self.fate()
            order.append((fate == "last", len(order), node - 100, question, fate))
        for _, _, i, question, fate in sorted(order, key=lambda x: x[:2]):
            if fate == "engine lost":
                raise EngineLost("the process ended")
            if fate == "server killed":
                raise Kill
            content = self.delivered(i, question, fate)
            if content is not None:
                yield Answer(100 + i, content)
        if any(self.silent(fate) for *_, fate in order):
            self.clock.now += seconds
        self.late()

    def silent(self, fate):
        return fate in ("question lost", "answer lost", "late", "agent killed")

    def delivered(self, i, question, fate):
        if fate in ("question lost", "late", "away"):
            if fate == "late":
                self.waiting.append((i, question))
            if fate == "away":
                self.away[i] = 3
            return None
        if fate == "failure":
            return Failure("the node is gone")
        if fate == "agent restarts":
            self.restart(i)
        old = self.replies[i][-1:]
        reply = self.tell(i, question)
        if fate == "twice":
            reply = self.tell(i, question)
        if fate == "again later":
            self.waiting.append((i, question))
        if fate == "agent killed":
            self.restart(i)
        if fate in ("answer lost", "agent killed"):
            return None
        other = self.replies[(i + 1) % N][-1:]
        instead = {"old answer": old, "answer of another": other, "cut": [reply[: len(reply) // 2]]}
        return (instead.get(fate) or [reply])[0]


@contextmanager
def noted(clock, history):
    """The server's clock is ours, its combinations are written down, and the disk is not waited for."""
    merge, current = rounds.combined, [0]

    def combined(e, N, ups, who, key):
        history.append(Combined(current[0], e.name, tuple(map(int, who)), jax.tree.map(np.asarray, ups)))
        return merge(e, N, ups, who, key)

    attempt = rounds.Rounds._attempt

    def noted_attempt(self, run, t, seed, who):
        current[0] = t
        return attempt(self, run, t, seed, who)

    time = SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep)
    with ExitStack() as stack_of:
        for module, name, new in (
            (rounds, "time", time),
            (roster, "time", time),
            (rounds, "combined", combined),
            (rounds.Rounds, "_attempt", noted_attempt),
            (files, "sync", lambda path: None),
        ):
            stack_of.enter_context(patch.object(module, name, new))
        yield


def deployed(agents, algorithm, terms, fates):
    """A run until its end, however often its server stops or is killed; theta after each round, and the history."""
    clock, history, kept, thetas, run = Clock(), [], [], {}, f"{next(RUNS):032x}"
    network, counted = Network(agents, fates, clock), {}

    def tick(done, standing):
        end = network.fate("kept", ENDS)
        if end == "killed before it is kept":
            raise Kill
        now = standing()
        kept.append(now)
        last = {}
        for each in history:
            if each.round == done - 1:
                last[each.exchange] = each
        counted[done - 1] = [last[e.name] for e in algorithm.in_round(done - 1)]
        thetas[done - 1] = np.asarray(algorithm.policy(jax.tree.map(lambda x: x[0], now.state)))
        if end == "killed after":
            raise Kill

    with noted(clock, history):
        for _ in range(200):
            try:
                whole = rounds_of(lambda seconds: network, SAMPLED, algorithm, terms, run=run, said=SAID)
                for _ in whole.records(Schedule(ROUNDS), tick, kept[-1] if kept else None):
                    pass
                return thetas, counted, network
            except (Stopped, InputError, Kill):
                clock.now += 1000.0
    raise AssertionError("when nothing is lost any more a run comes to its end")


def check(algorithm, thetas, counted, terms):
    """The history against the simulation with those who took part."""
    state, down, every = algorithm.init(jnp.asarray(SAMPLED.theta0), N)
    memories = [jax.tree.map(lambda x: x[i], every) for i in range(N)]
    for t in range(ROUNDS):
        who = counted[t][0].who
        assert len({*who}) == len(who) >= terms.fewest(N), "nobody counts twice"
        for e, made in zip(algorithm.in_round(t), counted[t], strict=True):
            assert made.who == who, "who takes part does so from beginning to end"
            ups = []
            for i in who:
                key, task = key_for(0, t, e.name, i), jnp.asarray(SAMPLED.tasks[i])
                memories[i], _, up, _ = answer(e, SAMPLED.oracle, task, memories[i], (), down, key)
                ups.append(up)
            close(made.ups, stack(ups))
            state, down = serve(e, len(who) / N, state, e.combine.merge(stack(ups)), key_for(0, t, e.name))
        close(thetas[t], algorithm.policy(state))
    if all(len(counted[t][0].who) == N for t in range(ROUNDS)):
        close(thetas[ROUNDS - 1], simulated(algorithm))


def close(here, there):
    for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@cache
def simulated(algorithm):
    return simulate(SAMPLED, algorithm, ROUNDS).theta[0]


@cache
def agents_in(folder: Path, name: str):
    agents = agents_of(SAMPLED, METHODS[name], folder / name, said=SAID)
    for agent in agents:
        agent.site = agent.site._replace(questions=10**9)  # all histories together
    return agents


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("agents")
    yield where
    shutil.rmtree(where)


TERMS = st.sampled_from(
    [Terms(how, timeout=10.0, patience=100.0, evaluate="none") for how in ("wait", "reweight", "abort")]
)
GIVEN = {
    "name": st.sampled_from([*METHODS]),
    "terms": TERMS,
    "fates": st.lists(st.sampled_from(FATES + ENDS[1:]), max_size=40),
}
TRIED = [0, 0]


def one_history(folder, name, terms, fates):
    thetas, counted, network = deployed(agents_in(folder, name), METHODS[name], terms, fates)
    check(METHODS[name], thetas, counted, terms)
    for kept in (folder / name).glob("*/*.safetensors"):
        kept.unlink()  # as a site's owner does: who was not there in the last round keeps its run, and 8 are the most
    TRIED[0] += 1
    TRIED[1] += len(network.asked)


OLD = {"fates": ["arrives"] * (2 * N + 1) + ["old answer"] * N}
"""After the greetings and the first round, everybody's answer is that of the round before."""


def test_any_order(folder):
    test = few(14)(lambda name, terms, fates: one_history(folder, name, terms, fates))
    for name in METHODS:
        test = example(name=name, terms=Terms("wait", timeout=10.0, patience=100.0, evaluate="none"), **OLD)(test)
    given(**GIVEN)(test)()


@pytest.mark.properties
def test_many_orders(folder, record_property):
    """As above, as long as there is time."""
    test = lambda name, terms, fates: one_history(folder, name, terms, fates)
    until_time_is_up(lambda seeded: seeded(many(300)(given(**GIVEN)(test)))(), record_property)
    record_property("examples", f"{TRIED[0]} histories, {TRIED[1]} questions answered")
