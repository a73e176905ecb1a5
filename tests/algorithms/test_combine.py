"""Combining rules: their equations on hand-made uploads, and algorithms that use them in every runtime."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import centralised_pg, fedavg_pg, independent_pg, loop, simulate, with_oracle
from fastfedpg.algorithms.combine import krum, median, mixing, weighted
from fastfedpg.core import Combine, pairwise_mean
from fastfedpg.errors import InputError
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import Schedule, message_sizes, samples_in_a_round

N, S, A, d = 5, 3, 2, 6
TABULAR = ref.small_problem(N=N, S=S, A=A, seed=40)
EXACT = with_oracle(TABULAR, "exact")
RING = np.array([[0.5 if i == j else 0.25 if (i - j) % N in (1, N - 1) else 0.0 for j in range(N)] for i in range(N)])
ALL = jnp.arange(N)


def combining(algorithm, combine):
    return algorithm._replace(exchanges=tuple(e._replace(combine=combine) for e in algorithm.exchanges))


GOSSIP = combining(independent_pg(0.3, 1), mixing(RING))
RULES = {
    "median": combining(centralised_pg(0.3), median),
    "krum": combining(centralised_pg(0.3), krum(1)),
    "weighted": combining(fedavg_pg(0.3, 2), weighted([1, 2, 3, 4, 5])),
    "mixing": GOSSIP,
}


def test_rules_by_hand():
    """Uploads 0, 1, 2, 3, 100 in one number: the median is 2. Krum with f = 1 looks at 5 - 1 - 2 = 2 neighbours: scores
    are 1+4, 1+1, 1+1, 1+4, and the first of the two least is 1. Weights 5, 4, 3, 2, 1 give (4+6+6+100)/15. Row 0 of the
    ring: 0/2 + 1/4 + 100/4 = 25.25, row 1: 0/4 + 1/2 + 2/4 = 1."""
    ups = {"x": jnp.array([0.0, 1, 2, 3, 100]), "y": jnp.zeros((N, 2))}
    key = jax.random.key(0)
    assert float(median.merge(ups)["x"]) == 2
    assert float(krum(1).merge(ups, ALL, key)["x"]) == 1
    assert krum(1).merge(ups, ALL, key)["y"].shape == (2,)
    np.testing.assert_allclose(weighted([5, 4, 3, 2, 1]).merge(ups, ALL, key)["x"], 116 / 15, rtol=1e-15)
    np.testing.assert_allclose(mixing(RING).merge(ups, ALL, key)["x"], [25.25, 1, 2, 27, 50.75], rtol=1e-15)


def test_krum_looks_at_the_whole_message():
    """One outlier in the second leaf alone is not chosen, though its first leaf is in the middle."""
    ups = (jnp.array([0.0, 1, 2, 3, 4]), jnp.array([[0.0], [0], [50], [0], [0]]))
    assert float(krum(1).merge(ups, ALL, None)[0]) != 2


def test_rules_where_some_answer():
    """Agents 3, 0 and 1, in that order, with uploads 1, 2, 4. Weights 4, 1, 2: (4+2+8)/7 = 2. The ring's rows among
    them are (1/2, 0, 0), (0, 1/2, 1/4), (0, 1/4, 1/2); each keeps what is missing, 1/2, 1/4, 1/4, itself: 1,
    (6+4)/4, (2+12)/4, whose mean is that of the uploads."""
    ups, who = jnp.array([1.0, 2, 4]), jnp.array([3, 0, 1])
    assert float(weighted([1, 2, 3, 4, 5]).merge(ups, who)) == 2
    np.testing.assert_allclose(mixing(RING).merge(ups, who), [1, 5 / 2, 7 / 2], rtol=1e-15)
    swap = mixing([[0.0, 1], [1, 0]])
    np.testing.assert_array_equal(swap.merge(jnp.array([7.0]), jnp.array([1])), [7])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mixing(np.eye(3)[:2]), r"W has shape \(2, 3\); it must be \(N, N\)"),
        (lambda: mixing([[0.5, 0.4], [0.5, 0.6]]), "row 0 of W sums to 0.9; each must sum to 1"),
        (lambda: mixing([[0.6, 0.4], [0.5, 0.5]]), "column 0 of W sums to 1.1; each must sum to 1"),
        (lambda: mixing([[1.5, -0.5], [-0.5, 1.5]]), r"W\[0, 1\] = -0.5; no entry may be negative"),
        (lambda: mixing([[np.nan, 1], [1, 0]]), r"W\[0, 0\] = nan"),
        (lambda: krum(-1), "f = -1"),
        (lambda: krum(2).merge(jnp.zeros((6, d))), "f = 2 needs at least 7 agents that answer, and there are 6"),
        (lambda: weighted([1, 0, 2]), "must be positive numbers, one for each agent"),
        (lambda: weighted([[1.0]]), "must be positive numbers, one for each agent"),
    ],
)
def test_bad_arguments_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("run", [loop, simulate])
def test_a_rule_for_another_number_of_agents_is_refused(run):
    with pytest.raises(InputError, match="'local' combines the uploads of 3 agents, and there are 5"):
        run(EXACT, combining(fedavg_pg(0.1, 1), weighted([1, 1, 1])), 1)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("participants", [None, 4])
def test_loop_equals_simulate(name, participants):
    if name == "krum" and participants == 4:
        participants = None  # f = 1 needs 5
    arguments = {"rounds": 3, "seeds": 2, "participants": participants}
    one, two = loop(EXACT, RULES[name], **arguments), simulate(EXACT, RULES[name], **arguments)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-13, rtol=0)
    mean = independent_pg(0.3, 1) if name == "mixing" else combining(RULES[name], Combine(pairwise_mean))
    plain = simulate(EXACT, mean, **arguments)
    assert np.abs(plain.theta - two.theta).max() > 1e-3, "the rule matters"


def test_gossip_is_the_equation():
    """Four rounds of Theta <- W (Theta - eta G(Theta)), row i of G agent i's own exact gradient at row i."""
    theta = np.zeros((N, d))
    for _ in range(4):
        g = np.stack([tabular_exact.gradient(TABULAR.only(i), theta[i].reshape(S, A)).ravel() for i in range(N)])
        theta = RING @ (theta - 0.3 * g)
    np.testing.assert_allclose(simulate(EXACT, GOSSIP, 4).theta[0], theta, atol=1e-13)


def test_a_node_sends_to_its_neighbours():
    """On the ring 2 neighbours, d numbers of 8 bytes each; on a path of 5 nodes (4 edges) 8/5 of them on average."""
    sizes = message_sizes(EXACT, GOSSIP, np.zeros(d))
    assert sizes == (2 * d, 2 * d, 16 * d, 16 * d, 1)
    path = np.eye(N) + sum(0.25 * _edge(i) for i in range(N - 1))
    assert message_sizes(EXACT, combining(GOSSIP, mixing(path)), np.zeros(d)).bytes_up == pytest.approx(8 * d * 8 / 5)
    assert message_sizes(EXACT, RULES["krum"], np.zeros(d)) == (d, d, 8 * d, 8 * d, 1)


def test_neighbours_that_are_absent_are_not_sent_to():
    """3 of the 5 on the ring. Of all 10 triples 5 are neighbours in a row, with 2 edges, and 5 have 1: 15 edges, 30
    ends among 30 agents, 1 each. In turn they are always in a row, 4 ends among 3. Of two who win almost every race and
    are neighbours each has 1, where chance would give 2 * 1/4."""
    of = lambda **how: message_sizes(EXACT, GOSSIP, np.zeros(d), Schedule(5, **how)).bytes_up / (8 * d)
    every = [mixing(RING).present(np.array(who)) for who in itertools.combinations(range(N), 3)]
    assert np.mean(every) == pytest.approx(1)
    assert of(participants=3) == of(participants=3, order="arrival") == pytest.approx(1)
    assert of(participants=3, order="cyclic") == pytest.approx(4 / 3)
    assert of(participants=5) == of() == 2
    assert of(participants=1) == 0
    assert 0.9 < of(participants=2, order="arrival", speeds=[1e3, 1e3, 1, 1, 1]) < 1
    for run in (loop, simulate):
        sent = run(EXACT, GOSSIP, 5, participants=3, order="cyclic").final("bytes_up")[0]
        assert sent == pytest.approx(3 * 4 / 3 * 8 * d), "each takes part in 3 rounds of 5"


def _edge(i):
    step = np.zeros(N)
    step[[i, i + 1]] = 1, -1
    return -np.outer(step, step)


def test_samples_are_counted_with_as_many_uploads_as_there_are_agents():
    assert samples_in_a_round(RULES["krum"], lambda B: 7, N) == 7
    assert samples_in_a_round(GOSSIP, lambda B: 7, N) == 7


def test_merge_hears_who_answered_and_a_key_of_its_own():
    """A rule that returns a random number times who answered: the loop and the program give it the same."""
    rule = Combine(lambda ups, who, key: ups.mean(axis=0) + who.sum() + jax.random.uniform(key))
    method = combining(centralised_pg(0.01), rule)
    one, two = loop(EXACT, method, 3, seeds=2, participants=2), simulate(EXACT, method, 3, seeds=2, participants=2)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-13)
    assert np.abs(one.theta[0] - one.theta[1]).min() > 1e-6
