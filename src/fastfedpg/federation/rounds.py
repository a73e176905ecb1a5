"""The server's rounds: every exchange of the algorithm over an engine, checked, combined, and counted as a whole.

A round is a transaction. Its state is a new value that takes the old one's place after the last exchange; until then
the agents keep both of their memories, and the first question of the next round says which one counts.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fastfedpg.core import Algorithm, Evaluation, Exchange, Problem, key_for
from fastfedpg.errors import InputError, Stopped
from fastfedpg.federation import protocol, wire
from fastfedpg.federation.roster import Check, Lack, Roster, names
from fastfedpg.federation.terms import Terms
from fastfedpg.runtime import Diverged, Record, Schedule, Standing, shapes
from fastfedpg.runtime.diagnosis import in_own_words
from fastfedpg.runtime.loop import at, finite, moved, stack
from fastfedpg.runtime.pytrees import arrays_of, restored
from fastfedpg.runtime.round import combined, heard
from fastfedpg.runtime.run_state import Tick, unheard

HASH_BYTES = 32
LARGEST, FAR = 1e6, 100.0
"""No upload may have a larger norm, unless a limit is given; nor so many times the others'."""


class Lost(Exception):
    """Agents that did not answer, or not as they should, and why."""

    def __init__(self, lacks: Mapping[int, Lack]) -> None:
        self.agents = {*lacks}
        self.final = any(not lack.again for lack in lacks.values())
        super().__init__("; ".join(f"agent {i}: {lack.words}" for i, lack in sorted(lacks.items())))


class ServerState(NamedTuple):
    """The server between two rounds; `memory_hashes` names every agent's memory that counts."""

    state: Any
    down: Any
    memory_hashes: tuple[str, ...]
    taken: int = 0


def form(problem: Problem, algorithm: Algorithm, schedule: Schedule) -> Standing:
    """The form of a deployed run's standing: the agents keep their memories themselves, and here are their names."""
    hashes = jax.ShapeDtypeStruct((1, problem.N, HASH_BYTES), np.uint8)
    return shapes(problem, algorithm, schedule)._replace(memory=hashes, own=(), extra={})


class Rounds:
    """One run's rounds, over a roster of agents."""

    def __init__(
        self, roster: Roster, problem: Problem, algorithm: Algorithm, terms: Terms, steps_in_a_round: float
    ) -> None:
        self.roster, self.problem, self.algorithm, self.terms = roster, problem, algorithm, terms
        self.steps = steps_in_a_round
        self.talks = protocol.talks(algorithm, protocol.theta_of(problem), problem.N)
        self.log = roster.log
        self.heard: dict[tuple[int, str], Any] = {}  # this round's uploads, by agent and memory
        self.usual: dict[str, float] = {}  # the second largest norm of each exchange so far
        terms.check(problem.N)
        if algorithm.everybody and terms.on_missing == "reweight":
            raise InputError(f"on_missing = reweight goes on without those that are missing: {algorithm.everybody}")
        if algorithm.personalise is not None and terms.evaluate == "server":
            raise InputError(
                "evaluate = server: each agent makes its own policy with a memory that never leaves it, so only the "
                "agents can say what it is worth; take evaluate = agents, or none"
            )

    def records(
        self, schedule: Schedule, tick: Tick = unheard, start: Standing | None = None, pause: int | None = None
    ) -> Iterator[Record]:
        """The run as it goes, record by record, as from the other runtimes."""
        problem, algorithm = self.problem, self.algorithm
        schedule = schedule.settled(algorithm)
        schedule.check(problem, algorithm)
        if schedule.seeds != 1:
            raise InputError(f"seeds = {schedule.seeds}; a deployed run has one")
        seed = schedule.first_seed
        theta = schedule.starts(problem)[0]
        if start is None:
            state, down, _ = algorithm.init(theta, problem.N)
            hashes = (protocol.beginning(self.roster.run, i, np.asarray(theta)) for i in range(problem.N))
            done, recorded, run = 0, -1, ServerState(state, down, tuple(hashes))
        else:
            done, recorded, run = start.round, start.recorded, _continued(start)
        if recorded < schedule.rounds:
            self.roster.enlist(range(problem.N), self.terms.fewest(problem.N), np.asarray(theta))

        def standing() -> Standing:
            one = lambda tree: jax.tree.map(lambda x: np.asarray(x)[None], tree)
            hashes = np.stack([np.frombuffer(bytes.fromhex(name), np.uint8) for name in run.memory_hashes])
            none, taken = np.zeros(1, np.int64), np.array([run.taken], np.int64)
            drift = np.full(1, np.nan, theta.dtype)  # the agents' own affair, as are the steps they take
            return Standing(done, recorded, one(run.state), one(run.down), hashes[None], (), drift, none, taken)

        def record() -> Record:
            current = np.asarray(algorithm.policy(run.state))[None]
            steps = np.array([run.taken * self.steps])
            value = self._evaluated(current, seed, run.memory_hashes, recorded == -1)
            return Record(done, current, value, np.full(1, np.nan), steps, np.array([run.taken / problem.N]))

        for stop in schedule.recorded():
            if stop <= recorded:
                continue
            while done < stop:
                who = [int(i) for i in schedule.who(problem, seed, done)]
                run, took = self.one_round(run, done, seed, who)
                done += 1
                tick(done, standing)
                self.log(took)  # now that it is on disk: a round that is done again is not done twice
            noted, recorded = record(), done
            yield noted

    def one_round(self, run: ServerState, t: int, seed: int, wanted: list[int]) -> tuple[ServerState, str]:
        """A round, and who took part in it; begun as often as it takes, with the agents that are left.

        What is lost on the way never counts. Below the quorum the round waits, as long as the server has patience.
        """
        fewest, end, attempt = self.terms.fewest(len(wanted)), time.monotonic() + self.terms.patience, 1
        self.heard.clear()
        # Nobody waits for an agent that is known to be away, or to be silent, where it can be missed.
        who = wanted if fewest == len(wanted) else self._here(wanted, fewest)
        while True:
            try:
                new = self._attempt(run, t, seed, who)
                break
            except Lost as lost:
                left = [i for i in who if i not in lost.agents]
                self.log(f"round {t + 1}: begins again without {names(lost.agents)}: {lost}")
                attempt += 1
                if len(left) < fewest and (lost.final or time.monotonic() > end):
                    few = f"{len(left)} of {len(wanted)} agents are left, and the quorum is {fewest}"
                    raise Stopped(f"round {t + 1}: {few}: {lost}") from None
                if len(left) < fewest:
                    self.roster.wait(wanted, end - time.monotonic(), fewest)
                    left = self._here(wanted, fewest)
                who = left
        took = f"round {t + 1}: {names(who)} took part ({len(who)} of {self.problem.N})"
        return new, took + (f", at attempt {attempt}" if attempt > 1 else "")

    def _here(self, wanted: list[int], fewest: int) -> list[int]:
        here = self.roster.ready(wanted)
        return here if len(here) >= fewest else wanted

    def _attempt(self, run: ServerState, t: int, seed: int, who: list[int]) -> ServerState:
        state, down, hashes = run.state, run.down, list(run.memory_hashes)
        share = len(who) / self.problem.N
        own_servers = self.algorithm.per_agent
        ids = self.problem.ids[np.array(who)] if own_servers else None
        exchanges = self.algorithm.in_round(t)
        for e, talk in zip(exchanges, self.talks[-len(exchanges) :], strict=True):
            said = (arrays_of("down", at(down, i) if own_servers else down) for i in who)
            questions, made = {}, {}
            for i, arrays in zip(who, said, strict=True):
                questions[i] = protocol.question(self.roster.run, t, e.name, run.memory_hashes[i], hashes[i], arrays)
                made[i] = protocol.memory_hash(hashes[i], t, e.name, arrays)
            ups = self._ask(t, e, talk, questions, made)
            for i in who:
                hashes[i] = made[i]
            key = key_for(seed, t, e.name)
            with in_own_words(self.problem):
                up = combined(e, self.problem.N, stack(ups), np.array(who), key)
                state, down = jax.block_until_ready(moved(e, share, state, down, up, key, who, ids))
        if not finite(self.algorithm.policy(state)):
            raise Diverged(t + 1, None, None, seed)
        return ServerState(state, down, tuple(hashes), run.taken + len(who))

    def _ask(
        self, t: int, e: Exchange, talk: protocol.Talk, questions: dict[int, bytes], made: dict[int, str]
    ) -> list[Any]:
        """Every agent's upload, waited for as the terms say; a round that begins again asks only what is new in it.

        `made` names the memory that each answer leaves behind.
        """

        def check(i: int, message: wire.Message) -> None:
            if message.about.get("link") != made[i]:
                raise wire.Malformed("an answer to another question, perhaps of an old round")
            wire.check(message.arrays, talk.up_form)
            up = heard(e, restored("up", talk.up, message.arrays))
            arrays = arrays_of("up", up)
            wire.check(arrays, wire.form_of(arrays), self.terms.norm_limit or LARGEST)
            self.heard[i, made[i]] = up

        new = {i: q for i, q in questions.items() if (i, made[i]) not in self.heard}
        what = f"round {t + 1}, {e.name}"
        if new:
            self._waited(new, check, what)
        ups = {i: self.heard[i, made[i]] for i in questions}
        self._compared(e.name, ups, what)
        return [*ups.values()]

    def _compared(self, exchange: str, ups: dict[int, Any], what: str) -> None:
        """Refuse an upload far beyond what the others send now and have sent: one site alone must not decide.

        The limit is FAR times the second largest norm of any exchange so far, and at least FAR itself.
        """
        norms = {i: max((_norm(x) for x in arrays_of("up", up).values()), default=0.0) for i, up in ups.items()}
        if self.terms.norm_limit is not None or len(norms) < 2:
            return
        usual = max(sorted(norms.values())[-2], self.usual.get(exchange, 0.0))
        limit = FAR * max(1.0, usual)
        far = {i: norm for i, norm in norms.items() if norm > limit}
        if not far:
            self.usual[exchange] = usual
            return
        words = f"the others' is at most {usual:.4g}, which allows {limit:.4g}; if it is right, set --norm-limit"
        lacks = {i: Lack(f"its upload has norm {norm:.4g}; {words}", False) for i, norm in far.items()}
        for i, lack in lacks.items():
            self.log(f"{what}: agent {i}: {lack.words}")
        if self.terms.on_missing == "reweight":
            raise Lost(lacks)
        raise Stopped(f"{what}: {Lost(lacks)}")

    def _waited(self, questions: dict[int, bytes], check: Check, what: str) -> None:
        """Ask, and ask those again who did not answer, as long as the terms allow it; `check` keeps what is good."""
        answered: set[int] = set()
        said: dict[int, str] = {}
        end = time.monotonic() + self.terms.patience
        count = lambda k: self.roster.stage(f"{what}: {len(answered) + k} of {len(questions)} answers")
        while True:
            left = {i: q for i, q in questions.items() if i not in answered}
            heard, lacks = self.roster.ask(left, self.terms.timeout, check, count)
            answered |= heard.keys()
            if not lacks:
                return
            for i, lack in lacks.items():
                if said.get(i) != lack.words:
                    self.log(f"{what}: agent {i}: {lack.words}")
                said[i] = lack.words
            if self.terms.on_missing == "reweight":
                raise Lost(lacks)
            final = {i: lack for i, lack in lacks.items() if not lack.again}
            if self.terms.on_missing == "abort" or final:
                raise Stopped(f"{what}: {Lost(final or lacks)}")
            if time.monotonic() > end:
                raise Stopped(f"{what}: waited {self.terms.patience:g} s for {names(lacks)}: {Lost(lacks)}")
            self.roster.wait(lacks, end - time.monotonic())

    def _evaluated(self, theta: np.ndarray, seed: int, hashes: Sequence[str], first: bool) -> Evaluation:
        """What the policy is worth, by whoever may say it; what nobody says is NaN."""
        N, unknown = self.problem.N, np.full(1, np.nan)
        if self.terms.evaluate == "server":
            return self.problem.evaluate(theta, [seed])
        values = np.full((2, N), np.nan)
        if self.terms.evaluate == "agents":
            silent = [i for i in range(N) if i in self.roster.nodes and not self.roster.tells[i]]
            if silent and first:
                self.log(f"{names(silent)} will not say what a policy is worth; J is not known")
            own = self.algorithm.personalise is not None
            asked = {
                i: protocol.evaluation(
                    self.roster.run, theta[0] if theta.ndim == 2 else theta[0, i], hashes[i] if own else None
                )
                for i in range(N)
                if i not in silent
            }

            def check(i: int, message: wire.Message) -> None:
                wire.check(message.arrays, protocol.EVALUATION)
                values[:, i] = message.arrays["J"], message.arrays["return"]

            try:
                self._waited(asked, check, "evaluation")
            except (Lost, Stopped) as error:  # a number for people is no reason to stop; what is not known is empty
                self.log(f"J is not known: {error}")
        return Evaluation(values[0].mean()[None], unknown, unknown, values[1][None])


def _norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(x, np.float64)))


def _continued(start: Standing) -> ServerState:
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)
    hashes = tuple(np.asarray(row).tobytes().hex() for row in start.memory[0])
    return ServerState(first(start.state), first(start.down), hashes, int(start.taken[0]))
