"""Agents of small problems, one that misbehaves, and a server that asks them by hand."""

import socket
import stat
import threading
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np

import reference as ref
from fastfedpg import centralised_pg, fast_fedpg, fedavg_pg, scaffold_pg, with_oracle
from fastfedpg.core import key_for
from fastfedpg.runtime.loop import answer, serve, stack
from grid import RUN, site_of

# isort: split
from fastfedpg.federation import protocol, wire
from fastfedpg.federation.agent import Agent
from fastfedpg.federation.transport import unix_socket as local

N, S, A, H = 3, 4, 3, 3
d = S * A
TABULAR = ref.small_problem(N=N, S=S, A=A, seed=30)
EXACT = with_oracle(TABULAR, "exact")
SAMPLED = with_oracle(TABULAR, "gpomdp", B=2, K=4)
FAST, SCAFFOLD = fast_fedpg(0.3, H), scaffold_pg(0.3, H, everybody=False)
ALL = {
    "fast_fedpg": FAST,
    "fedavg_pg": fedavg_pg(0.3, H),
    "scaffold_pg": SCAFFOLD,
    "centralised_pg": centralised_pg(0.3),
}
ZERO = np.zeros(d)
OTHER = "6" * 32


@contextmanager
def listening(path, group=None):
    listener = local.Listener(path, group)
    try:
        yield listener
    finally:
        listener.close()


@contextmanager
def accepting(accept, take):
    """Hand every caller to `take`, on another thread; `accept` gives the next one, or None after a moment."""
    stop = threading.Event()

    def run():
        while not stop.is_set():
            caller = accept()
            if caller is not None:
                take(caller)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def raw(path):
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.connect(str(path))
    return opened


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def asked(agent, question):
    """An agent's answer as it says it: about, and arrays."""
    return wire.unpack(agent.answer(question))


def hello(agent, run=RUN, theta=ZERO, **other):
    return asked(agent, protocol.hello(run, {**agent.site.declared, **other}, theta))


class Server:
    """Asks one agent the questions of fast_fedpg, as the server would."""

    def __init__(self, agent, run=RUN):
        self.agent, self.run = agent, run
        self.base = self.previous = hello(agent, run).about["link"]

    def gradient(self, t, down=ZERO, **other):
        self.previous = self.base
        return self._ask(t, "gradient", down, **other)

    def local(self, t, down=ZERO, **other):
        return self._ask(t, "local", down, **other)

    def question(self, t, name, down, base=None, previous=None):
        return protocol.question(self.run, t, name, base or self.base, previous or self.previous, {"down": down})

    def _ask(self, t, name, down, **other):
        said = asked(self.agent, self.question(t, name, down, **other))
        self.previous = said.about.get("link", self.previous)
        return said

    def counts(self):
        """The round counts: the next one starts from what it made."""
        self.base = self.previous


def one(folder, algorithm=FAST, problem=EXACT, i=1, **other):
    return Agent(site_of(problem, algorithm, i, TABULAR, **other), folder)


class Faulty:
    """An agent whose answer to one exchange of one round is spoilt, so many times."""

    def __init__(self, agent, spoil, exchange="local", round=1, times=10**6):
        self.agent, self.limit, self.spoil = agent, agent.limit, spoil
        self.where, self.times, self.last = ("exchange", exchange, round), times, {}

    def answer(self, data):
        about, reply = wire.unpack(data).about, self.agent.answer(data)
        old, self.last[about["run"], about.get("exchange")] = (
            self.last.get((about["run"], about.get("exchange"))),
            reply,
        )
        if (about["ask"], about.get("exchange"), about.get("round")) != self.where or self.times <= 0:
            return reply
        self.times -= 1
        return self.spoil(wire.unpack(reply), old)


def gone(reply, old):
    raise local.Closed("the agent ends")


def by_hand(algorithm, who, problem=EXACT):
    """Rounds with these agents, one after the other; `who[t]` take part in round t from beginning to end."""
    state, down, every = algorithm.init(jnp.asarray(problem.theta0), N)
    memories = [jax.tree.map(lambda x: x[i], every) for i in range(N)]
    for t, some in enumerate(who):
        for e in algorithm.exchanges:
            ups = []
            for i in some:
                key = key_for(0, t, e.name, i)
                task = jnp.asarray(problem.tasks[i])
                memories[i], _, up, _ = answer(e, problem.oracle, task, memories[i], (), down, key)
                ups.append(up)
            state, down = serve(e, len(some) / N, state, e.combine.merge(stack(ups)), key_for(0, t, e.name))
    return np.asarray(algorithm.policy(state))


ROUNDS = 3
EVERYBODY = [0, 1, 2]
