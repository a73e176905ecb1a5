"""Coded uploads: what is heard, what is counted, what is fed back, and the same in every runtime."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import Config, fast_fedpg, fedavg_pg, loop, scaffold_pg, simulate, with_oracle
from fastfedpg.algorithms.wrappers.compressed import compressed, float32, half, top_k
from fastfedpg.core import Algorithm, Codec, Combine, Exchange, Info
from fastfedpg.experiment import plan
from fastfedpg.runtime import Schedule, message_sizes

N, S, A, d = 3, 4, 3, 12
TABULAR = ref.small_problem(N=N, S=S, A=A, seed=30)
EXACT = with_oracle(TABULAR, "exact")
SAMPLED = with_oracle(TABULAR, "gpomdp", B=2, K=4)
IDENTITY = Codec(lambda up, key: up, lambda coded: coded)
NOISY = Codec(lambda up, key: jax.tree.map(lambda x: x + jax.random.normal(key, x.shape), up), lambda coded: coded)
FAST = fast_fedpg(0.3, 2)
METHODS = {
    "half": compressed(FAST, half),
    "top_k": compressed(FAST, top_k(3)),
    "top_k, without feedback": compressed(FAST, top_k(3), feedback=False),
    "two vectors": compressed(scaffold_pg(0.3, 2, option="I"), top_k(2)),
    "noise": compressed(FAST, NOISY),
}


def test_codecs_by_hand():
    """1/3 in float32 is off by less than 2^-26, in float16 by less than 2^-13. Of (1, -5, 0, 4), as (2, 2), the two
    largest are -5 and 4, at 1 and 3; asked for more entries than there are, all are sent."""
    key, up = jax.random.key(0), {"a": jnp.array([[1.0, -5], [0, 4]]), "b": jnp.full(3, 1 / 3)}
    for codec, dtype, bound in ((float32, "float32", 2**-26), (half, "float16", 2**-13)):
        coded = codec.encode(up, key)
        assert coded["b"].x.dtype == dtype
        back = codec.decode(coded)
        assert back["b"].dtype == np.float64
        assert 0 < np.abs(back["b"] - 1 / 3).max() < bound
    coded = top_k(2).encode(up, key)
    assert (coded["a"].values.tolist(), coded["a"].at.tolist(), coded["a"].at.dtype) == ([-5, 4], [1, 3], np.int32)
    np.testing.assert_array_equal(top_k(2).decode(coded)["a"], [[0, -5], [0, 4]])
    np.testing.assert_array_equal(top_k(9).decode(top_k(9).encode(up, key))["a"], up["a"])


def test_bytes_are_those_of_what_travels():
    """Two exchanges up, d numbers each: of 8 bytes; of 2; or 3 values of 8 and 3 places of 4. Down all d of 8."""
    of = lambda algorithm: message_sizes(EXACT, algorithm, np.zeros(d))
    down = (2 * d, 16 * d, 2)
    pick = lambda sizes: (sizes.floats_down, sizes.bytes_down, sizes.syncs)
    assert (of(FAST).bytes_up, of(compressed(FAST, half)).bytes_up) == (2 * 8 * d, 2 * 2 * d)
    assert (of(METHODS["top_k"]).floats_up, of(METHODS["top_k"]).bytes_up) == (2 * 3, 2 * 3 * 12), (
        "places are no floats"
    )
    assert {pick(of(a)) for a in (FAST, METHODS["half"], METHODS["top_k"])} == {down}
    result = simulate(EXACT, METHODS["top_k"], 5)
    assert result.final("bytes_up")[0] == 5 * 72


@pytest.mark.parametrize("make", [lambda: FAST, lambda: scaffold_pg(0.3, 2)])
@pytest.mark.parametrize("feedback", [True, False])
def test_the_identity_changes_nothing_to_the_bit(make, feedback):
    """e + u - u = 0 exactly, and 0 + u = u."""
    plain = make()
    for run in (loop, simulate):
        one, two = run(SAMPLED, plain, 2, 2), run(SAMPLED, compressed(plain, IDENTITY, feedback), 2, 2)
        np.testing.assert_array_equal(one.theta, two.theta)
        assert one.final("bytes_up")[0] == two.final("bytes_up")[0]


def counting(numbers):
    """An algorithm whose agents send numbers[t] in round t; the server adds up what the first says."""

    def agent(t, own, down, oracle, key):
        return t + 1, own, jnp.asarray(numbers)[t], Info()

    first = Combine(lambda ups, who, key: ups[0])
    add = lambda total, up, share, key: (total + up, total + up)
    init = lambda theta, N: (theta, theta, jnp.zeros(N, jnp.int32))
    return Algorithm(init, (Exchange("numbers", agent, add, first),), lambda total: total)


@pytest.mark.parametrize("run", [loop, simulate])
def test_feedback_telescopes(run):
    """What was heard in T rounds is what was meant but for the last e: exactly, in whole numbers. By hand, with the one
    largest entry of (3, 2), (0, 2), (0, 0): heard are 3 at 0; of e = (0, 2) + (0, 2), 4 at 1; then 0. Without feedback
    3, 2 and 0."""
    numbers = np.zeros((3, d))
    numbers[:2, :2] = (3, 2), (0, 2)
    total = run(EXACT, compressed(counting(numbers), top_k(1)), 3).theta[0]
    np.testing.assert_array_equal(total, numbers.sum(axis=0))
    lossy = run(EXACT, compressed(counting(numbers), top_k(1), feedback=False), 3).theta[0]
    assert lossy[:2].tolist() == [3, 2]
    # Many random whole numbers: what is still missing after 40 rounds of which the last 30 say nothing is nothing.
    numbers = np.zeros((40, d))
    numbers[:10] = np.random.default_rng(0).integers(-9, 10, (10, d))
    np.testing.assert_array_equal(
        run(EXACT, compressed(counting(numbers), top_k(1)), 40, metrics_every=40).theta[0], numbers.sum(axis=0)
    )


@pytest.mark.parametrize("name", METHODS)
def test_loop_equals_simulate(name):
    """To rounding, with noise in the codec too: agent and wrapper encode with one key."""
    arguments = (SAMPLED, METHODS[name], 3, 2)
    one, two = loop(*arguments, participants=2), simulate(*arguments, participants=2)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-9)
    assert np.abs(one.theta - simulate(SAMPLED, FAST, 3, 2, participants=2).theta).max() > 1e-6


def test_the_wrapper_knows_what_noise_was_sent():
    """heard = u + e + noise, so e <- -noise: after T rounds the server's sum is off by the last noise alone. With
    standard normal noise the sum of 10 rounds without feedback has a standard deviation of sqrt(10)."""
    numbers = np.zeros((10, d))
    offs = lambda feedback: simulate(EXACT, compressed(counting(numbers), NOISY, feedback), 10, 40).theta.std()
    # 480 numbers know a standard deviation to 1/sqrt(960) = 3.2%; here 5 times that.
    assert offs(True) == pytest.approx(1, rel=0.16)
    assert offs(False) == pytest.approx(10**0.5, rel=0.16)


def test_over_flower_the_coded_form_travels(tmp_path):
    """Equal to the simulation; an answer whose decoded norm is beyond the limit is refused by that norm."""
    grid = pytest.importorskip("grid", exc_type=ImportError)
    algorithm = METHODS["top_k"]
    agents = grid.agents_of(EXACT, algorithm, tmp_path)
    assert {name: shape for name, (shape, _) in agents[0].talks["gradient"].up_form.items()} == {
        "up.values": (3,),
        "up.at": (3,),
        "up.like": (0, d),
    }
    with grid.grid_of(agents) as nodes:
        there = grid.federated(grid.engine_of(nodes), EXACT, algorithm, Schedule(4))
    np.testing.assert_allclose(there[-1].theta, simulate(EXACT, algorithm, 4).theta, atol=1e-13, rtol=0)


def test_what_is_decoded_is_what_is_checked(tmp_path):
    """The code is a third of the upload, and so within a limit that the upload itself is beyond."""
    grid = pytest.importorskip("grid", exc_type=ImportError)
    from fastfedpg.errors import Stopped
    from fastfedpg.federation.terms import Terms

    third = Codec(lambda up, key: up / 3, lambda coded: 3 * coded)
    numbers = np.full((2, d), 2.0)  # of norm 2 sqrt(12) = 6.93
    algorithm = compressed(counting(numbers), third, feedback=False)
    with grid.grid_of(grid.agents_of(EXACT, algorithm, tmp_path)) as nodes:
        run = lambda limit, name: grid.federated(
            grid.engine_of(nodes),
            EXACT,
            algorithm,
            Schedule(1),
            terms=Terms("abort", evaluate="server", norm_limit=limit),
            run=name * 32,
        )
        assert run(7.0, "1")[-1].theta[0, 0] == pytest.approx(2)
        with pytest.raises(Stopped, match=r"up has norm 6.928; the limit is 5"):
            run(5.0, "2")


@pytest.mark.parametrize("run", [loop, simulate])
def test_a_code_that_overflows_is_a_message_that_is_not_finite(run):
    from fastfedpg.runtime import Diverged

    with pytest.raises(Diverged, match=r"round 1 .*sent a non-finite 'numbers' message"):
        run(EXACT, compressed(counting(np.full((2, d), 1e6)), half, feedback=False), 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: top_k(0), "k = 0; at least 1 entry must be sent"),
        (lambda: compressed(METHODS["half"], half), "has a codec already"),
    ],
)
def test_bad_arguments_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_float32_theta_stays_float32():
    for method in (METHODS["half"], compressed(fedavg_pg(0.1, 1), top_k(2))):
        assert simulate(EXACT, method, 2, theta0=np.zeros(d, np.float32)).theta.dtype == np.float32


def test_a_code_is_reached_from_a_file_of_ones_own(tmp_path):
    """The page's example: of both uploads k values of 8 bytes and k places of 4, where whole ones have 8 d."""
    page = (Path(__file__).parents[2] / "docs" / "rivals.md").read_text(encoding="utf-8")
    (tmp_path / "thin.py").write_text(re.search(r'```python\n("""thin.py.*?)```', page, flags=re.S)[1])
    of = lambda algorithm, **given: plan(Config("compromise", algorithm=algorithm, **given)).sizes.bytes_up
    assert of(f"{tmp_path / 'thin.py'}:thin", k=1) == 2 * (8 + 4)
    assert of("fast_fedpg") == 2 * 8 * plan(Config("compromise")).problem.theta0.size
