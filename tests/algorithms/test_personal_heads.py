"""Personal heads: the common methods without one, learning alone with nothing else, and what is between."""

from functools import cache

import numpy as np
import pytest

import fastfedpg as ff
import reference as ref
from fastfedpg import fast_fedpg, fedavg_pg, independent_pg, loop, simulate, with_oracle
from fastfedpg.policies import fourier, linear, mlp, table
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import message_sizes
from fastfedpg.spaces import Discrete, box

personal_heads = cache(ff.personal_heads)  # one is compiled once for all tests
H, ETA, TAU = 3, 0.3, 0.2
P = ref.small_problem(N=3, S=4, A=2, seed=86)
THETA0 = np.random.default_rng(87).normal(size=8)
EXACT, SAMPLED = with_oracle(P, "exact", TAU), with_oracle(P, "gpomdp", B=2, K=4)
BOTH = pytest.mark.parametrize("run", [loop, simulate])
ORACLES = pytest.mark.parametrize("problem", [EXACT, SAMPLED], ids=["exact", "sampled"])
g = lambda theta, i: tabular_exact.gradients(P, theta, TAU).reshape(P.N, -1)[i]


@BOTH
@ORACLES
@pytest.mark.parametrize(("correct", "common"), [(True, fast_fedpg(ETA, H)), (False, fedavg_pg(ETA, H))])
def test_without_a_head_it_is_the_common_method_to_the_bit(run, problem, correct, common):
    found = run(problem, personal_heads(ETA, H, 0.0, correct), 3, 2, theta0=THETA0)
    wanted = run(problem, common, 3, 2, theta0=THETA0)
    for i in range(P.N):
        np.testing.assert_array_equal(found.theta[:, i], wanted.theta)
    np.testing.assert_array_equal(found.metrics["bytes_up"], wanted.metrics["bytes_up"])
    np.testing.assert_array_equal(found.metrics["env_steps"], wanted.metrics["env_steps"])


@BOTH
@ORACLES
@pytest.mark.parametrize("correct", [True, False])
def test_with_nothing_but_a_head_each_learns_alone(run, problem, correct):
    """To the bit, with the same keys; there is nothing to send, and each policy is evaluated on its own task."""
    found = run(problem, personal_heads(ETA, H, 1.0, correct), 3, 2, theta0=THETA0)
    alone = run(problem, independent_pg(ETA, H), 3, 2, theta0=THETA0)
    np.testing.assert_array_equal(found.theta, alone.theta)
    np.testing.assert_array_equal(found.returns, alone.returns)
    np.testing.assert_array_equal(found.metrics["J"], alone.metrics["J"])
    assert found.final("bytes_up")[0] == 0


@BOTH
@pytest.mark.parametrize("correct", [True, False])
def test_half_of_theta_is_the_equation(run, correct):
    """Two rounds with a head of 4 of 8 numbers, written out; J is the mean of each agent's own."""
    u, v = THETA0[:4], np.tile(THETA0[4:], (P.N, 1))
    for _ in range(2):
        g_i = np.stack([g(np.concatenate([u, v[i]]), i)[:4] for i in range(P.N)]) * correct
        ends = []
        for i in range(P.N):
            x = np.concatenate([u, v[i]])
            for _ in range(H):
                x = x - ETA * (g(x, i) + np.concatenate([g_i.mean(axis=0) - g_i[i], np.zeros(4)]))
            ends.append(x)
        u, v = np.mean(ends, axis=0)[:4], np.array(ends)[:, 4:]
    found = run(EXACT, personal_heads(ETA, H, 0.5, correct), 2, theta0=THETA0)
    each = np.concatenate([np.tile(u, (P.N, 1)), v], axis=1)
    np.testing.assert_allclose(found.theta[0], each, atol=1e-13)
    own = [tabular_exact.J_i(P, x, TAU)[i] for i, x in enumerate(each)]
    assert found.final("J")[0] == pytest.approx(np.mean(own), abs=1e-12)


def test_where_it_settles_both_parts_are_stationary():
    """mean_i du J_i = 0 and dv J_i = 0; without the correction the common part stops elsewhere. On average agents are
    better off than with the best common policy, of which (u, v_i) is one choice."""
    at = lambda correct: simulate(EXACT, personal_heads(2.0, H, 0.5, correct), 1500, metrics_every=1500)
    ends = {correct: at(correct).theta[0] for correct in (True, False)}
    gradients = {c: np.stack([g(x, i) for i, x in enumerate(found)]) for c, found in ends.items()}
    assert np.abs(gradients[True][:, :4].mean(axis=0)).max() < 1e-10
    assert np.abs(gradients[True][:, 4:]).max() < 1e-10
    assert np.abs(gradients[False][:, :4].mean(axis=0)).max() > 1e-4
    own = np.mean([tabular_exact.J_i(P, x, TAU)[i] for i, x in enumerate(ends[True])])
    assert own < tabular_exact.optimum(P, TAU).J - 1e-3


def test_what_is_sent():
    """8 numbers less the head's, in one exchange or in two."""
    for head, n in ((0.0, 8), (0.25, 6), (0.5, 4), (0.6, 3), (1.0, 0)):
        assert message_sizes(EXACT, personal_heads(ETA, H, head), THETA0) == (2 * n, 2 * n, 16 * n, 16 * n, 2)
        assert message_sizes(EXACT, personal_heads(ETA, H, head, False), THETA0) == (n, n, 8 * n, 8 * n, 1)


def test_a_policy_knows_its_last_layer():
    """Of a network with layers 3 -> 5 -> 4 -> 2 the last has 4 * 2 + 2 numbers; a Gaussian's two log_std follow. What
    has one layer is all of it, but for what normalises observations."""
    sizes = {
        mlp(box(3), Discrete(2), hidden=(5, 4)): 10,
        mlp(box(3), box(2), hidden=(5, 4)): 12,
        mlp(box(3), box(2), hidden=(5, 4), learn_std=False): 10,
        mlp(box(3), Discrete(2), normalise=True, hidden=(5,)): 12,
        linear(box(3), Discrete(2), normalise=True): 8,
        table(Discrete(3), Discrete(2)): 6,
        fourier(box(3), Discrete(2), features=7): 14,
    }
    assert [policy.last_layer for policy in sizes] == list(sizes.values())


@pytest.mark.parametrize("head", [-0.1, 1.1, float("nan")])
def test_bad_arguments_are_refused(head):
    with pytest.raises(ValueError, match=r"it is a part of theta, and must lie in \[0, 1\]"):
        personal_heads(ETA, H, head)
