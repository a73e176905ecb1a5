"""Adaptive anchor: heavy anchor at each q, the q that is least by its formula, and what is measured for it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import adaptive_anchor, fast_fedpg, heavy_anchor, loop, simulate, with_oracle
from fastfedpg.algorithms.adaptive_anchor import anchored, best
from fastfedpg.core import Evaluation, Oracle, Problem, estimate, key_for
from fastfedpg.runtime import Schedule, simulate_records
from fastfedpg.runtime.walk import samples_in_a_round

H, ETA = 4, 0.3
P = ref.small_problem(N=3, S=3, A=2, seed=88)
THETA0 = np.random.default_rng(89).normal(size=6)
EXACT, SAMPLED = with_oracle(P, "exact"), with_oracle(P, "gpomdp", B=5, K=4)
NOISELESS = EXACT._replace(oracle=lambda task: EXACT.oracle(task)._replace(B=2))
BOTH = pytest.mark.parametrize("run", [loop, simulate])
ADAPTIVE = adaptive_anchor(ETA, H)


def fixed(q):
    """Adaptive anchor whose server always says q, from the first round on."""
    gradient, local = ADAPTIVE.exchanges

    def init(theta, N):
        state, down, memory = ADAPTIVE.init(theta, N)
        return state._replace(q=jnp.full_like(down.q, q)), down._replace(q=jnp.full_like(down.q, q)), memory

    def server(*given):
        state, down = gradient.server(*given)
        return state._replace(q=jnp.full_like(state.q, q)), down

    return ADAPTIVE._replace(init=init, exchanges=(gradient._replace(server=server), local))


@BOTH
@pytest.mark.parametrize("q", [1, 3, 4])
def test_a_traced_q_is_the_static_one(run, q):
    """Gradients without noise that count as played: the same numbers to rounding, also without any local step."""
    found = run(NOISELESS, fixed(q), 3, theta0=THETA0)
    np.testing.assert_allclose(found.theta, run(EXACT, heavy_anchor(ETA, H, q), 3, theta0=THETA0).theta, atol=1e-14)
    np.testing.assert_array_equal(found.metrics["q"][0, 1:], q)


def test_a_round_with_noise_by_hand():
    """q = 2 estimates of 5 trajectories each, as 2 and 3: h_i is the mean of all ten's, and the noise measured is 6/25
    of ||difference||^2, averaged; local steps follow with their own keys. Agent 1, written out."""
    gradient, local = fixed(2).exchanges
    theta, oracle, i = jnp.asarray(THETA0), SAMPLED.oracle(jnp.asarray(SAMPLED.tasks[1])), 1
    _, down, memory = jax.tree.map(lambda x: x, fixed(2).init(theta, 3))
    one = jax.tree.map(lambda x: x[1], memory)
    key = key_for(0, 0, "gradient", i)
    kept, _, sent, info = gradient.agent(one, (), down, oracle, key)
    drawn = [estimate(oracle, theta, (), jax.random.fold_in(key, k), n)[0] for k, n in enumerate((2, 3, 2, 3))]
    np.testing.assert_allclose(sent.h_i, (2 * drawn[0] + 3 * drawn[1] + 2 * drawn[2] + 3 * drawn[3]) / 10, atol=1e-14)
    squares = [float(jnp.sum((a - b) ** 2)) for a, b in (drawn[:2], drawn[2:])]
    assert float(sent.noise) == pytest.approx(6 / 25 * np.mean(squares), rel=1e-12)
    assert int(info.steps) == 2 * 5 * 4
    h, x = sent.h_i + 0.1, theta - 2 * ETA * (sent.h_i + 0.1)
    _, _, change, info = local.agent(kept, (), h, oracle, key_for(0, 0, "local", i))
    for l in (1, 2):
        g = estimate(oracle, x, (), jax.random.fold_in(key_for(0, 0, "local", i), l))[0]
        x = x - ETA * (g - sent.h_i + h)
    np.testing.assert_allclose(change, x - theta, atol=1e-14)
    assert int(info.steps) == 2 * 5 * 4


@pytest.mark.parametrize("q", [1, 4])
def test_a_round_has_H_estimates_whatever_q(q):
    found = simulate(SAMPLED, fixed(q), 2, theta0=THETA0)
    np.testing.assert_array_equal(found.metrics["env_steps"][0], np.arange(3) * 3 * H * 5 * 4)


def test_q_is_where_the_sum_is_least():
    """The docstring's sum, term by term, for random measurements; and its ends: 1 without noise and for one agent, and
    100/4^(1/3) = 63 of 100 with nothing but noise and many agents."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, N, noise, signal = int(rng.integers(1, 12)), int(rng.integers(1, 9)), *np.exp(3 * rng.normal(size=2))
        sums = [
            sum(signal * k**2 + noise / N * k for k in range(q))
            + (1 - 1 / N) / N * noise * sum(l + l**2 / q for l in range(n - q))
            for q in range(1, n + 1)
        ]
        assert int(best(n, noise, signal, N)) == 1 + int(np.argmin(sums))
    assert [int(best(10, *given)) for given in ((0.0, 1.0, 4), (1.0, 1.0, 1), (1.0, 0.0, 1), (0.0, 0.0, 4))] == [1] * 4
    assert int(best(100, 1.0, 0.0, 10**6)) == 63
    chosen = [int(best(100, 10.0**k, 1.0, 4)) for k in range(-1, 8)]
    assert chosen == sorted(chosen)
    assert len({*chosen}) > 5


def test_without_noise_it_is_fast_fedpg_with_reuse():
    """From the first round on where nothing is played, so that the first, which a budget is counted by, costs as all
    others do: 1 estimate and H - 1 local ones. From the second on where there is no noise in what is played."""
    found = simulate(EXACT, ADAPTIVE, 4, theta0=THETA0)
    assert found.metrics["q"][0, 1:].tolist() == [1, 1, 1, 1]
    fast = simulate(EXACT, fast_fedpg(ETA, H, reuse=True), 4, theta0=THETA0)
    np.testing.assert_allclose(found.theta, fast.theta, atol=1e-14)
    assert samples_in_a_round(ADAPTIVE, lambda n: 1, 3, 6, B=0) == H
    assert simulate(NOISELESS, ADAPTIVE, 4, theta0=THETA0).metrics["q"][0, 1:].tolist() == [2, 1, 1, 1]


def noisy(N, d, b):
    """Gradients b + noise of variance 1/B in each of d numbers; an estimate has 4 trajectories by itself."""

    def oracle(task):
        sample = lambda theta, own, key, B: (jax.random.normal(key, (d,)) / np.sqrt(B or 4), own)
        return Oracle(lambda key: (), sample, lambda theta, own, noise: b + noise, lambda batch: 1, B=4)

    none = lambda thetas, seeds=None: Evaluation(*(np.zeros(len(thetas)),) * 3, np.zeros((len(thetas), N)))
    return Problem(np.zeros(N), np.arange(N, dtype=np.int32), oracle, none, np.zeros(d))


def test_what_is_measured_is_what_there_is():
    """sigma^2/B = d/4 and ||grad J||^2 = d b^2 without bias: after one round with forget = 1, in 2000 seeds, within 4.5
    standard errors. A norm that is not freed of its noise, by d/(4 q N) = 0.125, would be off by 10 of them."""
    N, d, b, seeds, stood = 4, 8, 0.3, 2000, []
    algorithm = adaptive_anchor(ETA, 2, forget=1.0)
    hear = lambda t, now: stood.append(now())
    list(simulate_records(noisy(N, d, b), algorithm, Schedule(1, seeds), hear, pause=1))
    for found, wanted in ((stood[0].state.noise, d / 4), (stood[0].state.signal, d * b**2)):
        error = np.std(found) / np.sqrt(seeds)
        assert abs(np.mean(found) - wanted) < 4.5 * error
        assert error < 0.125 / 10


def test_what_is_measured_with_leave_one_out_is_the_anchors_noise():
    """B = 4 on a table. Of b trajectories the variance is v/b + w/(b (b-1)): those of 2 and 3 tell v and w, and with
    them that of 4, within 3% in 20,000 draws. Halves have (v + w)/2 each, so that their mean has (v + w)/4: that is
    what is measured, of the anchor, and more than an estimate's v/4 + w/12 by a factor of 1.74 here."""
    oracle = with_oracle(P, "gpomdp", B=4, K=4, baseline="leave-one-out").oracle(jnp.asarray(P.cost[0]))
    keys, theta, q = jax.random.split(jax.random.key(0), 20_000), jnp.zeros(6), jnp.ones(())
    noise = jax.jit(jax.vmap(lambda key: anchored(oracle, theta, (), key, q)[1]))(keys).mean()
    drawn = lambda b: jax.jit(jax.vmap(lambda key: estimate(oracle, theta, (), key, b)[0]))(keys)
    two, three, four = (float(drawn(b).var(axis=0).sum()) for b in (2, 3, 4))
    v, w = 6 * three - 2 * two, 4 * two - 6 * three
    assert four == pytest.approx(v / 4 + w / 12, rel=0.03)
    assert float(noise) == pytest.approx((v + w) / 4, rel=0.03)
    assert float(noise) / four == pytest.approx(1.74, rel=0.03)


def test_noise_alone_asks_for_more_than_half_at_the_start():
    """||grad J||^2 is then measured as 0, but for a little: in the mean of 20 seeds q is near 10/4^(1/3) = 6.3. Where
    the gradient is 25 times its noise, it is 1 or 2."""
    found = simulate(noisy(8, 16, 0.0), adaptive_anchor(ETA, 10), 20, 20, metrics_every=20).final("q")
    assert found.mean() == pytest.approx(6, abs=0.7)
    assert (simulate(noisy(8, 16, 3.0), adaptive_anchor(ETA, 10), 20, 20, metrics_every=20).final("q") <= 2).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: adaptive_anchor(ETA, 0), "H = 0; there must be at least 1 estimate"),
        (lambda: adaptive_anchor(ETA, H, 0.0), r"forget = 0; it must lie in \(0, 1\]"),
        (
            lambda: loop(with_oracle(P, "reinforce", B=1, K=2), ADAPTIVE, 1),
            "two halves of an estimate: B must be at least",
        ),
    ],
)
def test_bad_arguments_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
