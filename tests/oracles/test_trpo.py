"""TRPO's oracle: steps against linear algebra, halvings, what is left of fixed points, and what it refuses."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_ppo import GAMMA, KEY, LAM, POLICY, B, K, game_of, log_policy, scripted

from fastfedpg import InputError, fast_fedpg, fedavg_pg, simulate
from fastfedpg.core import Replay, local_steps, sgd
from fastfedpg.oracles.trpo import trpo, trusted
from quadratics import Quadratics

F = np.array([[2.0, 0.5], [0.5, 1.0]])


def on_a_quadratic(v, limit=0.02, curvature=0.0, damping=0.0, halvings=10):
    """KL is x'Fx / 2 around 0, and the loss v'x + curvature x'Fx / 2."""
    kl = lambda x: x @ F @ x / 2
    loss = lambda x: jnp.asarray(v) @ x + curvature * kl(x)
    go = lambda theta: trusted(kl, loss, theta, jnp.asarray(v), limit, damping, 10, halvings)
    return np.asarray(jax.jit(go)(jnp.zeros(2)))


def test_a_step_is_the_natural_one_as_long_as_the_limit_allows():
    """Of x'Fx / 2 <= limit the least v'x is at x = -sqrt(2 limit / v'F^-1 v) F^-1 v; rounding may halve it once."""
    v = np.array([0.3, -1.0])
    natural = np.linalg.solve(F, v)
    step = on_a_quadratic(v)
    whole = np.sqrt(2 * 0.02 / (v @ natural)) * natural
    np.testing.assert_allclose(step / whole, [step[0] / whole[0]] * 2, rtol=1e-9)
    assert min(abs(step[0] / whole[0] - share) for share in (1, 0.5)) < 1e-9
    damped = np.linalg.solve(F + 0.7 * np.eye(2), v)
    step = on_a_quadratic(v, damping=0.7)
    np.testing.assert_allclose(step, np.sqrt(2 * 0.02 / (v @ damped)) * damped, rtol=1e-9)


def test_steps_are_halved_until_the_loss_falls_and_theta_stays_where_none_will_do():
    """On the ray the loss is -s q + curvature s^2 q / 2 with q = v'F^-1 v: it falls for s < 2 / curvature.

    Whole is s = 1 where limit = q / 2. With curvature 9 the first of 1, 1/2, 1/4, 1/8 below 2/9 is 1/8.
    """
    v = np.array([0.3, -1.0])
    natural = np.linalg.solve(F, v)
    limit = v @ natural / 2 * (1 + 1e-9)
    np.testing.assert_allclose(on_a_quadratic(v, limit, curvature=9), natural / 8, rtol=1e-6)
    np.testing.assert_array_equal(on_a_quadratic(v, limit, curvature=9, halvings=2), [0, 0])
    np.testing.assert_array_equal(on_a_quadratic(np.zeros(2)), [0, 0])
    assert np.isnan(on_a_quadratic(np.array([np.nan, 1.0]))).any()


@cache
def made(**settings):
    """The oracle, what it keeps, and a batch; its steps are compiled once for both tests."""
    oracle = trpo(game_of(scripted()), B, LAM, **{"critic_hidden": (8,), "critic_steps": 2, "cg_steps": 6, **settings})
    theta = jnp.asarray(np.random.default_rng(1).normal(size=POLICY.size))
    batch, own = jax.jit(lambda key: oracle.sample(theta, oracle.init(key), key, None))(KEY)
    step = jax.jit(lambda c: local_steps(oracle, lambda x, g: g + c, sgd(1.0), theta, own, KEY, 1, batch=batch))
    return oracle, theta, own, batch, step


@pytest.mark.parametrize("correction", [0.0, 0.3])
def test_a_step_on_a_batch_against_numpy(correction):
    """Scores are (x, 1) times (e_a - pi) for a linear policy; F is their second moment over steps and actions, by hand.

    With a correction c the direction is g + c, and what must fall is L + c'(new - old).
    """
    oracle, theta, own, batch, step = made()
    c = correction * np.random.default_rng(4).normal(size=POLICY.size)
    g, seen = np.asarray(oracle.gradient(theta, own, batch)), np.asarray(batch.episodes.observations)[:, :-1, 0]
    alive = np.asarray(batch.episodes.alive)
    log_pi = log_policy(np.asarray(theta), seen[..., None])
    fisher, n = np.zeros((6, 6)), alive.sum()
    for b, k in np.argwhere(alive):
        pi = np.exp(log_pi[b, k])
        for a in range(3):
            score = np.outer([seen[b, k], 1], np.eye(3)[a] - pi).ravel()
            fisher += pi[a] * np.outer(score, score) / n
    damped = fisher + 0.1 * np.eye(6)
    p = np.linalg.solve(damped, g + c)
    whole = np.sqrt(2 * 0.01 / (p @ damped @ p)) * p

    def kl_and_loss(x):
        new = log_policy(x, seen[..., None])
        kl = (np.exp(log_pi) * (log_pi - new)).sum(axis=2)[alive].sum() / n
        at = np.arange(B)[:, None], np.arange(K), np.asarray(batch.episodes.choices)[..., 0].astype(int)
        r = np.exp(new - log_pi)[at]
        loss = np.where(alive, r * np.asarray(batch.weights), 0).sum() / (B * K) / float(own.common)
        return kl, loss + c @ (x - np.asarray(theta))

    start = kl_and_loss(np.asarray(theta))[1]
    shares = [2.0**-j for j in range(11)]
    ok = [s for s in shares if (f := kl_and_loss(np.asarray(theta) - s * whole))[0] <= 0.01 and f[1] < start]
    found, _, info = step(jnp.asarray(c))
    np.testing.assert_allclose(np.asarray(theta) - found, ok[0] * whole, rtol=1e-5, atol=1e-9)
    assert info.extra["steps_taken"] == 1
    assert info.extra["kl"] > 0
    assert kl_and_loss(np.asarray(found))[0] > 0.001


def test_theta_stays_where_the_corrected_direction_is_zero():
    oracle, theta, own, batch, step = made()
    g = oracle.gradient(theta, own, batch)
    np.testing.assert_array_equal(step(-g)[0], theta)
    assert np.abs(np.asarray(step(0 * g)[0] - theta)).max() > 0.01


def agents(scale):
    """Three with costs scale_i |x - c_i|^2 / 2 on a line, whose KL is |new - old|^2 / 2."""
    q = Quadratics(N=3, d=1)
    q.A, q.c = np.reshape(scale, (3, 1, 1)).astype(float), np.array([[0.0], [0.1], [4.0]])
    plain = q.problem()

    def oracle(task):
        A, c = task
        inner = plain.oracle(task)
        loss = lambda x: (x - c) @ A @ (x - c) / 2

        def bounded(theta, own, part, g, v):
            kl = lambda x: (x - theta) @ (x - theta) / 2
            return trusted(kl, lambda x: loss(x) + (v - g) @ (x - theta), theta, v, 0.005, 0.0, 2, 10)

        one = Replay(lambda batch, key: jnp.zeros(1, jnp.int32), lambda batch, row: batch, bounded=bounded)
        return inner._replace(replay=one, anywhere=False)

    return q, plain._replace(oracle=oracle)


def test_what_corrected_and_plain_agents_come_to():
    """Steps are 0.1 long at most. The mean cost's least point is the mean of 0, 0.1 and 4 by their scales 1, 1, 5.

    Corrected agents go there, circle it by less than a step, and rest if they begin there: all 2^-10 steps lead up.
    Uncorrected ones each step equally far, whatever the scale: two pull to 0 and 0.1, one to 4, so theta stays near the
    second, the median.
    """
    q, problem = agents([1, 1, 5])
    assert abs(q.best[0] - 20.1 / 7) < 1e-12
    corrected = fast_fedpg(1.0, 1, reuse=True)
    go = lambda problem, method: simulate(problem, method, 60, metrics_every=60).theta
    np.testing.assert_allclose(go(problem, corrected), [q.best], atol=0.1)
    np.testing.assert_array_equal(go(problem._replace(theta0=q.best), corrected), [q.best])
    assert 0 <= go(problem, fedavg_pg(1.0, 1))[0, 0] <= 0.2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kl_limit": 0.0}, "kl_limit = 0; it must be positive: about 0.01"),
        ({"damping": -1.0}, "damping = -1; it must be finite"),
        ({"cg_steps": 0}, "cg_steps = 0; it must be at least 1"),
        ({"halvings": -1}, "halvings = -1; it must be at least 0"),
    ],
)
def test_what_it_refuses(settings, said):
    with pytest.raises(InputError, match=said):
        trpo(game_of(scripted()), B, **settings)


def test_a_policy_that_tells_no_kl_is_refused():
    with pytest.raises(InputError, match="oracle trpo limits KL, which this policy does not tell"):
        trpo(game_of(scripted())._replace(policy=POLICY._replace(kl=None)), B)
    assert GAMMA < 1
