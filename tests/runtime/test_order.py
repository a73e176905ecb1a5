"""Who takes part in a round: at random, in turn, or who arrives first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import fast_fedpg, loop, simulate, with_oracle
from fastfedpg.core import Algorithm, Combine, Exchange, Info
from fastfedpg.errors import InputError
from fastfedpg.runtime import Schedule, participants_of, simulate_records

N = 5
EXACT = with_oracle(ref.small_problem(N=N, S=3, A=2, seed=60), "exact")
FAST = fast_fedpg(0.3, 2)
SPEEDS = [1.0, 2, 4, 8, 16]
RANDOM = [[2, 4], [0, 2], [0, 3], [1, 4]]
HOW = {"cyclic": {"order": "cyclic"}, "arrival": {"order": "arrival", "speeds": SPEEDS}}


def test_cyclic_takes_them_in_turn():
    """m = 2 of 5 in rounds 0, 1, 2, 3: 0 1, 2 3, 4 0, 1 2; far along, 2 t mod 5 with t = 2^31 - 2: 2^32 - 4 = 2 mod 5
    (2^4 = 1 mod 5, hence 2^32 = 1)."""
    who = lambda t: participants_of(0, t, N, 2, "cyclic").tolist()
    assert [who(t) for t in range(4)] == [[0, 1], [2, 3], [4, 0], [1, 2]]
    assert who(2**31 - 2) == [2, 3]
    assert participants_of(0, 7, N, N, "cyclic").tolist() == [0, 1, 2, 3, 4]


def test_arrival_is_an_exponential_race():
    """P(i is first) = speed_i / sum: 1/31, 2/31, 4/31, 8/31, 16/31 over 3,000 rounds, within 4.5 standard errors; equal
    speeds give 1/5. All arrive in the end, and the first m are the beginning of the whole order."""
    drawn = lambda m, speeds: jax.vmap(lambda t: participants_of(0, t, N, m, "arrival", speeds))(np.arange(3000))
    order = np.asarray(drawn(N, SPEEDS))
    assert (np.sort(order, axis=1) == np.arange(N)).all()
    for speeds, p in ((SPEEDS, np.array(SPEEDS) / 31), (None, np.full(N, 0.2))):
        first = np.asarray(drawn(1, speeds))[:, 0]
        share = np.bincount(first, minlength=N) / 3000
        assert (np.abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / 3000)).all()
        if speeds is not None:
            np.testing.assert_array_equal(first, order[:, 0])


def test_random_is_as_it_was():
    """Seed 3, m = 2: positions that a version without orders drew."""
    assert [participants_of(3, t, N, 2).tolist() for t in range(4)] == RANDOM


def written_down():
    """An algorithm whose policy holds, digit by digit, who answered in which order: theta <- 10 theta + i."""
    digits = Combine(lambda ups, who, key: who.astype(ups.dtype))

    def agent(memory, own, theta, oracle, key):
        return memory, own, jnp.zeros(()), Info()

    def server(theta, who, share, key):
        for i in who:
            theta = 10 * theta + i + 1
        return theta, theta

    init = lambda theta, N: (theta, theta, ())
    return Algorithm(init, (Exchange("who", agent, server, digits),), lambda theta: theta)


@pytest.mark.parametrize("run", [loop, simulate])
def test_they_are_combined_in_that_order(run):
    """Two rounds of 2 in turn write 1, 2, 3, 4; by arrival, what the race says, of all agents too."""
    assert run(EXACT, written_down(), 2, participants=2, order="cyclic").theta[0, 0] == 1234
    for m in (2, N):
        raced = [int(i) + 1 for t in range(2) for i in participants_of(0, t, N, m, "arrival", SPEEDS)]
        found = run(EXACT, written_down(), 2, participants=m, order="arrival", speeds=SPEEDS).theta[0, 0]
        assert int(found) == int("".join(map(str, raced)))


@pytest.mark.parametrize(
    "how", [{"order": "cyclic"}, {"order": "arrival", "speeds": SPEEDS}], ids=["cyclic", "arrival"]
)
@pytest.mark.parametrize("m", [2, N])
def test_loop_equals_simulate(how, m):
    one, two = (run(EXACT, FAST, 5, 2, participants=m, **how) for run in (loop, simulate))
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-13, rtol=0)
    if m == 2:
        assert np.abs(two.theta - simulate(EXACT, FAST, 5, 2, participants=2).theta).max() > 1e-3
    np.testing.assert_array_equal(one.metrics["bytes_up"], two.metrics["bytes_up"])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"order": "queue"}, "order = 'queue'; it must be one of random, cyclic, arrival"),
        ({"speeds": SPEEDS}, "speeds are for order = 'arrival', and it is 'random'"),
        ({"order": "arrival", "speeds": [1, 2]}, "each of 5 agents"),
        ({"order": "arrival", "speeds": [1, 2, 3, 4, 0]}, "each of 5 agents"),
    ],
)
def test_bad_orders_are_refused(how, words):
    with pytest.raises(InputError, match=words):
        next(simulate_records(EXACT, FAST, Schedule(1, **how)))
