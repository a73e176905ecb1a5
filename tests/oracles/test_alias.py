"""Tables to draw from: what they draw is computed in integers and compared with what was asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg import problems
from fastfedpg.errors import InputError
from fastfedpg.oracles import alias, sampled

BIT = 2.0**-31


def with_holes(shape, seed=24):
    """Distributions of which about a third of the outcomes can't happen."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(shape[-1], 0.3), shape[:-1]) * (rng.uniform(size=shape) < 0.7)
    p[..., 0] += p.sum(axis=-1) == 0
    return p / p.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("shape", [(5, 3, 5), (2, 4, 2, 4), (7,), (100, 25), (3, 1), (4, 2), (2, 300)])
def test_tables_stand_for_the_given_probabilities(shape):
    """Each within 2^-31, exactly computed; outcomes that can't happen never do."""
    p = with_holes(shape)
    q = alias.implied(alias.tabulate(p), shape[-1])
    assert q.shape == p.shape
    np.testing.assert_allclose(q, p, rtol=0, atol=BIT)
    assert (q[p == 0] == 0).all()
    assert (q.sum(axis=-1) == 1).all()


def test_any_distribution():
    """Even ones and very uneven ones, of every width up to 40."""
    for width in range(1, 41):
        for concentration in (0.01, 1.0, 100.0):
            p = np.random.default_rng(width).dirichlet(np.full(width, concentration), 20)
            np.testing.assert_allclose(alias.implied(alias.tabulate(p), width), p, rtol=0, atol=BIT)


@pytest.mark.parametrize("W", [1, 2, 3, 64])
def test_equal_probabilities_and_certainty(W):
    """Where p is a multiple of 2^-31 nothing is rounded."""
    even, certain = np.full(W, 1 / W), np.eye(W)
    assert abs(alias.implied(alias.tabulate(even), W) - even).max() <= (0 if W in (1, 2, 64) else BIT)
    np.testing.assert_array_equal(alias.implied(alias.tabulate(certain), W), certain)


def test_named_outcomes_may_repeat():
    """A row of a sparse kernel: outcome 5 twice, and one that has no probability."""
    table = alias.tabulate(np.array([[0.25, 0.5, 0.25, 0.0]]), np.array([[5, 2, 5, 3]]))
    np.testing.assert_array_equal(alias.implied(table, 6), [[0, 0, 0.5, 0, 0, 0.5]])


def test_a_table_that_would_be_too_large_is_refused():
    p = np.broadcast_to(np.full(3, 1 / 3), (2**28, 3))
    with pytest.raises(InputError, match="would have 1,073,741,824 bins"):
        alias.tabulate(p, np.broadcast_to(np.arange(3), p.shape))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_thresholds_stand_for_the_policy(dtype, spread):
    """Against a softmax in float64, to 2^-23 from float32, and to its own 3 2^-31 (A = 5) from float64.

    An exp in float32 is good to 2^-23 of its size. In pi_a = e_a / sum that is 2 pi_a (1 - pi_a) 2^-23 <= 2^-24, and
    roundings of the quotient and of the masses stay below another 2^-24.
    """
    theta = spread * np.random.default_rng(3).normal(size=(2000, 5))
    theta = np.asarray(theta, np.float32).astype(np.float64)  # so that both see the same theta
    pi = jax.nn.softmax(jnp.asarray(theta, dtype))
    below = np.asarray(alias.thresholds(pi))
    assert below.dtype == np.int32
    edges = np.concatenate([np.zeros((2000, 1)), below, np.full((2000, 1), alias.UNIT)], axis=1)
    drawn = np.diff(edges, axis=1) / alias.UNIT
    exact = np.exp(theta - theta.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    assert (drawn >= 0).all()
    single = dtype == jnp.float32
    assert abs(drawn - exact).max() <= (2.0**-23 if single else 3 * BIT)


def test_one_action_needs_no_threshold():
    assert alias.thresholds(jnp.ones((3, 1))).shape == (3, 0)


def test_rho_and_rows_of_a_sparse_kernel_are_those_of_the_dense_one():
    """What is drawn from (s, a) has the same probabilities, whichever way P was written."""
    sparse = problems.garnet(agents=1, S=30, A=3, branching=4)
    rows = np.zeros((90, 30))
    np.add.at(rows, (np.arange(90)[:, None], sparse.P.next.reshape(90, -1)), sparse.P.p.reshape(90, -1))
    table = sampled.prepare(sparse.P, sparse.rho).next
    assert table.bins.shape == (90, 4, 4)
    np.testing.assert_allclose(alias.implied(table, 30), rows, rtol=0, atol=4 * BIT)
