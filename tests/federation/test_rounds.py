"""The server's rounds: who takes part, and what happens when an agent does it wrongly."""

from functools import cache

import numpy as np
import pytest

from fastfedpg import InputError, simulate
from fastfedpg.errors import Stopped
from fastfedpg.runtime import Schedule
from grid import Node, agents_of, engine_of, federated, grid_of
from sites import EVERYBODY, EXACT, FAST, ROUNDS, SCAFFOLD, ZERO, Faulty, N, by_hand, gone, one

# isort: split
from fastfedpg.federation import protocol, wire
from fastfedpg.federation.terms import Terms
from fastfedpg.federation.transport.engine import EngineLost


@cache
def theta_of(algorithm, rounds, participants=None):
    """What a simulation ends in."""
    return simulate(EXACT, algorithm, rounds, participants=participants).theta[0]


def spoilt(**change):
    """The reply with other arrays."""

    def spoil(reply, old):
        arrays = {name: x.copy() for name, x in reply.arrays.items()}
        for name, f in change.items():
            arrays[name] = f(arrays["up"])
        return wire.pack(reply.about, {name: x for name, x in arrays.items() if x is not None})

    return spoil


FINAL = {
    "nan": (spoilt(up=lambda x: np.append(x[1:], np.nan)), "up has 1 entries that are not finite"),
    "shape": (spoilt(up=lambda x: x[1:]), "up is float64[11]; it must be float64[12]"),
    "dtype": (spoilt(up=lambda x: x.astype(np.float32)), "up is float32[12]; it must be float64[12]"),
    "missing": (spoilt(up=lambda x: None), "it lacks 'up'"),
    "extra": (spoilt(drift=lambda x: x[0]), "it has 'drift'"),
    "norm": (spoilt(up=lambda x: x + 1e7), "the limit is 1e+06"),
    "old": (lambda reply, old: old, "an answer to another question, perhaps of an old round"),
    "other": (lambda reply, old: wire.pack({**reply.about, "agent": 0}, reply.arrays), "it answers as agent 0"),
    "junk": (lambda reply, old: b"junk", "4 bytes that are no message"),
    "refuses": (lambda reply, old: protocol.refusal(1, "I will not"), "refused: I will not"),
}
PASSING = {
    "raises": (lambda reply, old: protocol.refusal(1, "its environment raised Oops", again=True), "raised Oops"),
    "gone": (gone, "the site's agent does not answer"),
}
FAULTS = {**FINAL, **PASSING}
EXCHANGES = pytest.mark.parametrize("exchange", ["gradient", "local"])


@EXCHANGES
@pytest.mark.parametrize("fault", FAULTS)
def test_an_agent_that_misbehaves_in_either_exchange(fault, exchange, tmp_path):
    """abort: the run stops, and says who, why and when. wait: the same, unless asking again may help; then theta is as
    if nothing had been. reweight: the round is begun again with the others, here 0 and 2 in the second of 3 rounds;
    below the quorum it is as with wait."""
    spoil, words = FAULTS[fault]
    agents = agents_of(EXACT, FAST, tmp_path)
    agents[1] = faulty = Faulty(agents[1], spoil, exchange)
    with grid_of(agents) as grid:

        def run(on_missing, number, **other):
            log = []
            terms = Terms(on_missing, evaluate="server", **other)
            ended = federated(
                engine_of(grid), EXACT, FAST, Schedule(ROUNDS), terms=terms, log=log, run=f"{number:032x}"
            )
            return ended[-1].theta[0], log

        with pytest.raises(Stopped) as stopped:
            run("abort", 0)
        assert f"round 2, {exchange}: agent 1: " in str(stopped.value)
        assert words in str(stopped.value)

        theta, log = run("reweight", 1)
        np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY, [0, 2], EVERYBODY]))
        said = "\n".join(log)
        assert f"round 2, {exchange}: agent 1: " in said
        assert "round 1: agents 0, 1, 2 took part (3 of 3)\n" in said
        assert "round 2: begins again without agent 1" in said
        assert "round 2: agents 0, 2 took part (2 of 3), at attempt 2\n" in said
        assert log[-1] == "round 3: agents 0, 1, 2 took part (3 of 3)"

        if fault in FINAL:
            with pytest.raises(Stopped, match=r"round 2: 2 of 3 agents are left, and the quorum is 3.*agent 1: "):
                run("reweight", 2, quorum=3)
        else:  # below the quorum a round waits
            faulty.times = 1
            np.testing.assert_array_equal(run("reweight", 2, quorum=3)[0], by_hand(FAST, [EVERYBODY] * ROUNDS))

        faulty.times = 2
        if fault in FINAL:
            with pytest.raises(Stopped) as stopped:
                run("wait", 3)
            assert f"round 2, {exchange}: agent 1: " in str(stopped.value)
            assert words in str(stopped.value)
        else:
            np.testing.assert_array_equal(run("wait", 3)[0], by_hand(FAST, [EVERYBODY] * ROUNDS))
            assert faulty.times == 0


def test_the_simulation_is_what_a_loop_by_hand_is():
    np.testing.assert_allclose(by_hand(FAST, [EVERYBODY] * ROUNDS), theta_of(FAST, ROUNDS), atol=1e-12)
    assert np.abs(by_hand(FAST, [EVERYBODY, [0, 2], EVERYBODY]) - theta_of(FAST, ROUNDS)).max() > 1e-3


def test_reweighting_shares_and_memories(tmp_path):
    """SCAFFOLD: c moves by |S|/N, and an agent that was left out goes on from the variate it had before."""
    agents = agents_of(EXACT, SCAFFOLD, tmp_path)
    agents[1] = Faulty(agents[1], gone)
    with grid_of(agents) as grid:
        terms = Terms("reweight", evaluate="server")
        ended = federated(engine_of(grid), EXACT, SCAFFOLD, Schedule(4), terms=terms)
    expected = by_hand(SCAFFOLD, [EVERYBODY, [0, 2], EVERYBODY, EVERYBODY])
    np.testing.assert_array_equal(ended[-1].theta[0], expected)
    np.testing.assert_allclose(ended[-1].rounds_taken, [11 / 3], rtol=1e-15)


def test_an_agent_that_never_answers(tmp_path):
    """After the timeout, once: then it is left alone as long, though it is connected. Patience ends in words.

    And nobody waits for one that is away.
    """
    expected = by_hand(FAST, [EVERYBODY, [0, 2], EVERYBODY])  # and all that is asked below is compiled
    agents = agents_of(EXACT, FAST, tmp_path)
    with grid_of(agents) as grid:
        quick = {"timeout": 1.0, "evaluate": "server"}  # of which three agents that answer need a tenth
        run = lambda terms, number, tick: federated(
            engine_of(grid), EXACT, FAST, Schedule(ROUNDS), tick, terms=terms, run=f"{number:032x}", log=log
        )
        mute = lambda done, standing: grid.mute.add(101) if done == 1 else grid.mute.discard(101)
        for number, terms, words in (
            (0, Terms("abort", **quick), "round 2, gradient: agent 1: no answer within 1 s"),
            (
                1,
                Terms("wait", patience=0.3, **quick),
                "round 2, gradient: waited 0.3 s for agent 1: agent 1: no answer",
            ),
        ):
            log = []
            with pytest.raises(Stopped) as stopped:
                run(terms, number, mute)
            assert words in str(stopped.value)
            grid.mute.clear()
        log = []
        grid.asked.clear()
        silent = lambda done, standing: grid.mute.add(101) if done == 1 else None
        theta = run(Terms("reweight", timeout=1000.0, evaluate="server"), 2, silent)[-1].theta[0]
        np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY, [0, 2], [0, 2]]))
        assert grid.asked.count(101) == 1 + 2 + 1, "a greeting, round 1, and once more"
        grid.mute.clear()
        node = grid.there[101]

        def away(done, standing):
            if done == 1:
                del grid.there[101]
            else:
                grid.there[101] = node

        log = []
        theta = run(Terms("reweight", **quick), 3, away)[-1].theta[0]
        np.testing.assert_array_equal(theta, expected)
        assert not any("attempt" in words for words in log)


def test_one_upload_far_beyond_the_others_does_not_count(tmp_path):
    """9e5 beside gradients of size .1, finite and of the right shape, in the first round: named, or left out."""
    large = lambda reply, old: wire.pack(reply.about, {"up": reply.arrays["up"] * 0 + 9e5 / np.sqrt(ZERO.size)})
    for number, on_missing in enumerate(("abort", "reweight")):
        agents = agents_of(EXACT, FAST, tmp_path / on_missing)
        agents[1], log = Faulty(agents[1], large, "gradient", 0), []
        with grid_of(agents) as grid:
            run = lambda: federated(
                engine_of(grid),
                EXACT,
                FAST,
                Schedule(1),
                terms=Terms(on_missing, evaluate="server"),
                run=f"{number:032x}",
                log=log,
            )
            if on_missing == "abort":
                with pytest.raises(
                    Stopped, match=r"round 1, gradient: agent 1: its upload has norm 9e\+05; the others'"
                ):
                    run()
            else:
                np.testing.assert_array_equal(run()[-1].theta[0], by_hand(FAST, [[0, 2]]))


def test_one_that_declares_something_else_is_left_out_where_it_can_be_missed(tmp_path):
    """reweight: agents 0 and 2 go on at once; with wait all are needed, and nothing starts."""
    agents = agents_of(EXACT, FAST, tmp_path)
    agents[1].site = agents[1].site._replace(declared={**agents[1].site.declared, "seed": 7})
    log = []
    with grid_of(agents) as grid:
        run = lambda terms: federated(engine_of(grid), EXACT, FAST, Schedule(ROUNDS), terms=terms, log=log)
        theta = run(Terms("reweight", evaluate="server"))[-1].theta[0]
        with pytest.raises(InputError, match="agent 1: agent 1 does not fit this server: seed is 7 there and 0 here"):
            run(Terms(evaluate="server"))
    np.testing.assert_array_equal(theta, by_hand(FAST, [[0, 2]] * ROUNDS))
    assert any(words.startswith("left out: agent 1: ") for words in log)


def test_agents_that_do_not_come(tmp_path):
    agents = agents_of(EXACT, FAST, tmp_path)[:2]
    with grid_of(agents) as grid, pytest.raises(Stopped, match=r"^agent 2 did not come within 0.2 s$"):
        federated(engine_of(grid), EXACT, FAST, Schedule(1), terms=Terms(patience=0.2, evaluate="server"))


class Fragile:
    """An engine that is lost in the middle of a question, so many times."""

    left = 0

    def __init__(self, engine):
        self.engine, self.nodes, self.close = engine, engine.nodes, engine.close

    def ask(self, questions, seconds):
        for k, found in enumerate(self.engine.ask(questions, seconds)):
            if k == 1 and Fragile.left > 0:
                Fragile.left -= 1
                raise EngineLost("the process ended")
            yield found


def test_an_engine_that_is_lost_is_found_again(tmp_path):
    """After the first of three answers, twice: theta as without it, and who had answered is not asked again."""
    Fragile.left, made, log = 2, [], []
    with grid_of(agents_of(EXACT, FAST, tmp_path)) as grid:
        connect = lambda seconds: (made.append(seconds), Fragile(grid))[1]
        theta = federated(connect, EXACT, FAST, Schedule(ROUNDS), log=log)[-1].theta[0]
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))
    assert len(made) == 3
    assert log.count("the engine was lost (the process ended); connecting again") == 2
    # Of three greetings one was heard before the first loss, of the other two one before the second.
    assert len(grid.asked) == N * (1 + 2 * ROUNDS) + 2 + 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({102: Node(1, None)}, "agent 1: there is an agent 1 already, at another node"),
        ({101: Node(2, None)}, "agent 2: it says that it is agent 1, but its key is agent 2's"),
        ({101: Node(None, None), 102: Node(None, None)}, None),
    ],
    ids=["twice", "name", "no names"],
)
def test_who_is_who(tmp_path, change, words):
    """A key speaks for the agent of its name; where there are no names the agent's own word is enough."""
    agents = agents_of(EXACT, FAST, tmp_path)
    with grid_of(agents) as grid:
        for number, node in change.items():
            source = number if node.agent is None else 101
            grid.there[number] = node._replace(socket=grid.there[source].socket)
        run = lambda: federated(engine_of(grid), EXACT, FAST, Schedule(1))
        if words is None:
            np.testing.assert_array_equal(run()[-1].theta[0], by_hand(FAST, [EVERYBODY]))
            return
        with pytest.raises(InputError) as refused:
            run()
        assert str(refused.value) == words


def test_a_number_out_of_range(tmp_path):
    """Three agents are 0, 1 and 2."""
    agent = one(tmp_path)
    agent.site = agent.site._replace(number=3)
    with (
        grid_of([agent]) as grid,
        pytest.raises(InputError, match="agent 3 of 3: agents are numbered from 0 to 2"),
    ):
        federated(engine_of(grid), EXACT, FAST, Schedule(1))


def test_a_node_that_comes_back_under_another_number(tmp_path):
    """Without keys a node that is started again is a new one: it speaks for its agent when the old one has gone."""
    with grid_of(agents_of(EXACT, FAST, tmp_path)) as grid:

        def restarted(done, standing):
            if done == 1:
                grid.there[205] = grid.there.pop(101)

        terms = Terms(patience=1.0, evaluate="server")
        theta = federated(engine_of(grid), EXACT, FAST, Schedule(ROUNDS), restarted, terms=terms)[-1].theta[0]
    np.testing.assert_array_equal(theta, by_hand(FAST, [EVERYBODY] * ROUNDS))


@EXCHANGES
def test_a_round_that_stops_in_the_middle_changes_nothing(tmp_path, exchange):
    """Resumed from the standing after round 1 it ends as if nothing had been."""
    agents = agents_of(EXACT, FAST, tmp_path)
    agents[1] = faulty = Faulty(agents[1], gone, exchange)
    kept = []
    with grid_of(agents) as grid:
        run = lambda **other: federated(engine_of(grid), EXACT, FAST, Schedule(ROUNDS), **other)
        with pytest.raises(Stopped):
            run(terms=Terms("abort", evaluate="server"), tick=lambda done, standing: kept.append(standing()))
        assert [s.round for s in kept] == [1]
        faulty.times = 0
        ended = run(start=kept[0])
    np.testing.assert_array_equal(ended[-1].theta[0], by_hand(FAST, [EVERYBODY] * ROUNDS))
    assert [r.round for r in ended] == [1, 2, 3], "what was not recorded before"
