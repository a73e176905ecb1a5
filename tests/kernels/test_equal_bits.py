"""With and without the compiled loops: the same bits, in sums of weights, in estimates and after whole runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import fast_fedpg, kernels, problems, simulate, with_oracle
from fastfedpg.oracles import sampled

ORACLES = {
    "reinforce": ("reinforce", {}),
    "gpomdp": ("gpomdp", {}),
    "leave-one-out": ("gpomdp", {"baseline": "leave-one-out"}),
}


@pytest.fixture(scope="module", autouse=True)
def compiled():
    assert kernels.available(), "a C compiler is needed here (cc, gcc or clang)"


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("weights", sampled.COMPILED)
def test_sums_of_weights(weights, dtype):
    """Four sizes, one trajectory and one step among them; costs far apart, so that another order shows."""
    number = sampled.COMPILED.index(weights)
    for B, K in ((1, 7), (2, 1), (5, 40), (17, 7)):
        if B == 1 and weights is sampled.leave_one_out:
            continue
        rng = np.random.default_rng(100 * B + K)
        visited = jnp.asarray(rng.integers(0, 9, (3, B, K)), jnp.int32)
        r = jnp.asarray(rng.normal(size=(3, 10)) * 10.0 ** rng.integers(-6, 6, (3, 10)), dtype)
        discount = jnp.asarray(0.93, dtype) ** jnp.arange(K)
        fast = jax.jit(jax.vmap(lambda v, r, d=discount: kernels.weigh(number, v, r, d)))(visited, r)
        plain = jax.jit(jax.vmap(lambda v, r, d=discount: sampled.weigh(weights, v, r, d)))(visited, r)
        assert fast.dtype == plain.dtype == dtype
        np.testing.assert_array_equal(fast, plain, err_msg=f"B = {B}, K = {K}")


def test_another_order_would_show():
    """The control: the same weights in XLA's own order are other bits."""
    rng = np.random.default_rng(0)
    visited, r = jnp.asarray(rng.integers(0, 9, (17, 40)), jnp.int32), jnp.asarray(rng.normal(size=10))
    discount = jnp.asarray(0.93) ** jnp.arange(40)
    summed = lambda x: jnp.broadcast_to(x.sum(axis=1, keepdims=True), x.shape)
    other = jax.jit(lambda v, r: jnp.zeros_like(r).at[v].add(summed(discount * r[v])))(visited, r)
    ours = kernels.weigh(0, visited, r, discount)
    np.testing.assert_allclose(ours, other, rtol=1e-12)
    assert (np.asarray(ours) != np.asarray(other)).any()


@pytest.mark.parametrize(
    ("tau", "dtype"),
    [
        (0.0, jnp.float64),
        (0.05, jnp.float32),
        *(pytest.param(*given, marks=pytest.mark.long) for given in ((0.0, jnp.float32), (0.05, jnp.float64))),
    ],
)
@pytest.mark.parametrize("name", ORACLES)
def test_estimates(name, tau, dtype, monkeypatch):
    """Sampled and weighed for three agents in one program, as a round does it; with entropy r is computed too."""
    oracle, settings = ORACLES[name]
    problem = with_oracle(ref.small_problem(), oracle, B=5, K=9, tau=tau, **settings)
    theta = jnp.asarray(np.random.default_rng(1).normal(size=(3, 12)), dtype)
    keys = jax.random.split(jax.random.key(3), 3)

    def estimates():
        def one(task, theta, key):
            o = problem.oracle(task)
            batch, _ = o.sample(theta, (), key, None)
            return batch.visited, o.gradient(theta, (), batch)

        return jax.jit(jax.vmap(one))(jnp.asarray(problem.tasks), theta, keys)

    with_loops = estimates()
    monkeypatch.setattr(kernels, "available", lambda: False)
    for one, other in zip(with_loops, estimates(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert with_loops[1].dtype == dtype


@pytest.mark.parametrize(
    ("problem", "name", "B", "K"), [("random", "reinforce", 3, 7), ("compromise-grid", "leave-one-out", 4, 10)]
)
def test_after_a_run(problem, name, B, K, monkeypatch):
    """40 rounds of 5 local steps: a bit that differs anywhere would have grown by then."""
    oracle, settings = ORACLES[name]

    def theta():
        played = with_oracle(problems.make(problem), oracle, B=B, K=K, **settings)
        return simulate(played, fast_fedpg(0.5, H=5), 40, metrics_every=40).theta

    with_loops = theta()
    monkeypatch.setattr(kernels, "available", lambda: False)
    without = theta()
    np.testing.assert_array_equal(with_loops, without)
    assert np.abs(with_loops).max() > 0.1
