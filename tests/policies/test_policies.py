"""Policies: their distributions against closed forms, their scores against differences, NumPy against JAX."""

import math
import pickle
import subprocess
import sys
from functools import cache
from itertools import pairwise

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from fastfedpg import InputError
from fastfedpg.envs.catalogue.cart_pole import cart_pole
from fastfedpg.mdp import finite
from fastfedpg.policies import POLICIES, log_linear, make, takes
from fastfedpg.spaces import Box, Discrete, MultiDiscrete, box

BOX, SIDES = box(3), Box((-1.0, 0.0), (3.0, 0.5))
HALF = Box((2.0, -math.inf), (math.inf, math.inf))
SMALL = {"mlp": {"hidden": (4, 3)}, "fourier": {"features": 5}, "linear": {}, "table": {}}
HEADS = {
    "softmax": (Discrete(4), {}),
    "softmaxes": (MultiDiscrete((2, 4, 1)), {}),
    "equal": (MultiDiscrete((3, 3)), {}),
    "normal": (SIDES, {"log_std": -0.5}),
    "unbounded": (HALF, {"log_std": 0.3}),
    "fixed": (SIDES, {"log_std": -0.7, "learn_std": False}),
    "squashed": (SIDES, {"squash": True}),
}
SEEN = {"numbers": (BOX, False), "normalised": (BOX, True), "one": (Discrete(5), False)}
SEEN["several"] = (MultiDiscrete((2, 3)), False)
CROSSED = ("softmax", "softmaxes", "normal", "squashed")
NETWORKS = tuple(SMALL)  # `bits` has heads of its own: test_bits.py
# Every network with these, one with the variants of them, and all kinds of observations.
CASES = [(network, "one" if network == "table" else "normalised", head) for network in NETWORKS for head in CROSSED]
CASES += [("table", "one", head) for head in HEADS if head not in CROSSED]
CASES += [(network, "several", "softmax") for network in NETWORKS] + [("fourier", "one", "softmax")]
ALIKE = {("mlp", "normalised", "softmaxes"), ("mlp", "normalised", "squashed"), ("mlp", "several", "softmax")}
EVERY_CASE = pytest.mark.parametrize(("network", "seen", "head"), CASES, ids=map("-".join, CASES))


def quick(f):
    """f as a program that is run once: compiled in half the time."""
    return jax.jit(f, compiler_options={"xla_backend_optimization_level": 0})


def made(network, seen, head):
    """A small policy, a theta of it that is not special, and its observation and action spaces."""
    (observations, normalise), (actions, settings) = SEEN[seen], HEADS[head]
    policy = POLICIES[network](observations, actions, normalise, **SMALL[network], **settings)
    return policy, np.random.default_rng(7).normal(size=policy.size) * 0.7, observations, actions


def drawn(space, shape, seed=0):
    """Elements of a space, as rows of numbers."""
    rng = np.random.default_rng(seed)
    if isinstance(space, Box):
        return rng.normal(size=(*shape, space.width))
    return rng.integers((space.n,) if isinstance(space, Discrete) else space.n, size=(*shape, space.width)) * 1.0


def every(space):
    """All elements of a discrete space."""
    n = (space.n,) if isinstance(space, Discrete) else space.n
    return np.stack(np.meshgrid(*map(np.arange, n), indexing="ij"), -1).reshape(-1, len(n)) * 1.0


@cache
def answers(network, seen, head):
    """Observations, choices, noise, and what one program makes of them: choice, action, log_prob, its gradient."""
    policy, theta, observations, actions = made(network, seen, head)
    x, choice, rng = drawn(observations, (2, 3)), drawn(actions, (2, 3), 1), np.random.default_rng(2)
    noise = (rng.normal if isinstance(actions, Box) else rng.uniform)(size=choice.shape)

    def program(theta):
        chosen = policy.choose(theta, x, noise)
        weighed = lambda theta: WEIGHT @ policy.log_prob(theta, x, choice).reshape(-1)
        return chosen, policy.action(chosen), *jax.value_and_grad(weighed)(theta)

    return x, choice, noise, *map(np.array, quick(program)(theta))


WEIGHT = np.arange(1.0, 7)


def score(policy, theta, x, choice):
    return np.array(quick(jax.vmap(jax.grad(policy.log_prob), (None, 0, 0)))(theta, x, choice))


# Scores, and one definition for two libraries


@EVERY_CASE
def test_scores_are_differences_and_numpy_is_jax(network, seen, head):
    """JAX's gradient beside central differences of NumPy's log_prob: h = 1e-5 is off by h^2 f'''/6 + eps f / h < 1e-8.

    The normaliser's numbers, at the front, are the exception: they move log_prob, and their gradient is exactly 0.
    """
    policy, theta, *_ = made(network, seen, head)
    x, choice, *_, value, gradient = answers(network, seen, head)
    f, h = lambda t: WEIGHT @ policy.log_prob(t, x, choice).reshape(-1), 1e-5
    by_difference = [(f(theta + h * e) - f(theta - h * e)) / (2 * h) for e in np.eye(policy.size)]
    assert value == pytest.approx(f(theta), rel=1e-12)
    frozen = 6 if seen == "normalised" else 0
    assert (policy.normalise is None) == (not frozen)
    np.testing.assert_array_equal(gradient[:frozen], 0)
    assert np.all(np.abs(by_difference[:frozen]) > 1e-3)
    np.testing.assert_allclose(gradient[frozen:], by_difference[frozen:], rtol=1e-6, atol=1e-7)


@EVERY_CASE
def test_numpy_chooses_as_jax_and_each_row_alone(network, seen, head):
    policy, theta, observations, actions = made(network, seen, head)
    x, _, noise, with_jax, acted, *_ = answers(network, seen, head)
    choice = policy.choose(theta, x, noise)
    action = policy.action(choice)
    assert type(choice) is type(action) is np.ndarray
    assert choice.shape == action.shape == (2, 3, actions.width)
    np.testing.assert_allclose(with_jax, choice, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(acted, action, rtol=1e-12, atol=1e-14)
    together = policy.log_prob(theta, x, choice)
    for i in np.ndindex(2, 3):  # to the bit
        np.testing.assert_array_equal(policy.choose(theta, x[i], noise[i]), choice[i])
        np.testing.assert_array_equal(policy.log_prob(theta, x[i], choice[i]), together[i])
    others = x.copy()
    others[0, 0] = np.nan if isinstance(observations, Box) else 1 - np.minimum(x[0, 0], 1)
    np.testing.assert_array_equal(policy.choose(theta, others, noise)[1], choice[1])
    low = policy.choose(theta.astype(np.float32), x, noise.astype(np.float32))  # observations may well be float64
    assert low.dtype == np.float32


@pytest.mark.parametrize("rows", [2, 7, 64])
def test_a_row_of_a_wide_network_is_the_same_in_any_company(rows):
    policy = make("mlp", box(17), box(6, -1, 1), True)
    theta = np.random.default_rng(0).normal(size=policy.size).astype(np.float32) / 4
    x, noise = (np.float32(drawn(box(n), (rows,), n)) for n in (17, 6))
    together = policy.choose(theta, x, noise)
    for i in range(rows):
        np.testing.assert_array_equal(policy.choose(theta, x[i], noise[i]), together[i])


# Distributions


@pytest.mark.parametrize("head", ["softmax", "softmaxes", "equal"])
def test_probabilities_sum_to_one_and_scores_to_zero(head):
    policy, theta, observations, actions = made("mlp", "normalised", head)
    x = np.repeat(drawn(observations, (1,)), len(every(actions)), axis=0)
    p = np.exp(policy.log_prob(theta, x, every(actions)))
    assert p.sum() == pytest.approx(1, abs=1e-14)
    scores = score(policy, theta, x, every(actions))
    assert np.abs(scores).max() > 0.1
    np.testing.assert_allclose(p @ scores, 0, atol=1e-14)


@pytest.mark.parametrize("head", ["softmax", "softmaxes", "equal"])
def test_choices_have_the_probabilities_that_log_prob_says(head):
    """Chi-square over all joint actions of 40,000 draws; wrongly red with probability 1e-3, and the seed is fixed."""
    policy, theta, observations, actions = made("linear", "numbers", head)
    x, n = drawn(observations, ()), 40_000
    choices = policy.choose(theta, np.tile(x, (n, 1)), np.array(policy.noise(jax.random.key(3), (n,), jnp.float32)))
    p = np.exp(policy.log_prob(theta, x, every(actions)))
    counts = [(choices == a).all(-1).sum() for a in every(actions)]
    assert sum(counts) == n
    assert stats.chisquare(counts, n * p / p.sum()).pvalue > 1e-3


def test_a_choice_is_the_number_of_cumulative_probabilities_up_to_u():
    """p = (1/4, 1/2, 1/4): u below 1/4 plays 0, from 1/4 on 1, from 3/4 on 2; probability 0 is never played."""
    policy = make("table", Discrete(1), Discrete(3))
    u = np.array([[0.0], [0.24], [0.26], [0.74], [0.76], [1 - 2**-53]])
    theta = np.log([1.0, 2.0, 1.0])
    np.testing.assert_array_equal(policy.choose(theta, np.zeros((6, 1)), u)[:, 0], [0, 0, 1, 1, 2, 2])
    for at in range(3):
        theta = np.where(np.arange(3) == at, 2000.0, -2000.0)
        np.testing.assert_array_equal(policy.choose(theta, np.zeros((6, 1)), u), at)
        np.testing.assert_array_equal(policy.log_prob(theta, np.zeros(1), np.arange(3.0)[:, None]), theta - 2000)


@pytest.mark.parametrize("head", ["normal", "unbounded", "fixed"])
def test_gaussian_choices_have_scipys_density(head):
    """choice = c + h (z + std eps); the mean z is put in by hand: theta's last row is the constant's."""
    policy, theta, _, actions = made("linear", "numbers", head)
    theta[:6] = 0
    z, std = theta[6:8], np.exp(theta[8:] if head != "fixed" else -0.7)
    c, h = np.array([[1, 0.25], [2, 0.25]] if actions is SIDES else [[2, 0], [1, 1]])
    normal = stats.norm(c + h * z, h * std)
    choices = drawn(actions, (20,))
    np.testing.assert_allclose(
        policy.log_prob(theta, np.ones(3), choices), normal.logpdf(choices).sum(-1), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(policy.choose(theta, np.ones(3), np.zeros(2)), normal.mean(), rtol=1e-14)
    np.testing.assert_allclose(policy.choose(theta, np.ones(3), np.ones(2)), normal.mean() + normal.std(), rtol=1e-14)
    np.testing.assert_array_equal(policy.action(choices), np.clip(choices, actions.low, actions.high))


def test_gaussian_noise_is_standard_normal():
    """Kolmogorov-Smirnov for 20,000 numbers; wrongly red with probability 1e-3, and the seed is fixed."""
    policy, *_ = made("linear", "numbers", "normal")
    noise = policy.noise(jax.random.key(5), (10_000,), jnp.float32)
    assert noise.shape == (10_000, 2)
    assert noise.dtype == jnp.float32
    assert stats.kstest(np.ravel(noise), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(noise.T)[0, 1]) < 3.3 / 100


@pytest.mark.parametrize(("z", "log_std"), [(0.3, -0.5), (2.5, 0.0), (-1.0, 1.2)])
def test_a_squashed_density_integrates_to_one_in_the_actions_units(z, log_std):
    """The integral of exp(log_prob) as a function of the action: over each part of the box the normal's share of it.

    The parts reach to 1e-9 of the width from the bounds, where tanh(x) has |x| = 10.4; with log_std = 1.2 that leaves
    out P(N(-1, 3.3) < -10.4) = 2.3e-3 of probability, and the density is largest at the bounds.
    """
    policy = make("linear", box(1), Box((2.0,), (5.0,)), settings={"squash": True})
    theta = np.array([0.0, z, log_std])
    unsquash = lambda a: np.arctanh((a - 3.5) / 1.5)
    density = lambda a: np.exp(policy.log_prob(theta, np.zeros(1), np.array([unsquash(a)])))
    edges = 2 + 3 * np.array([1e-9, 1e-6, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1 - 1e-4, 1 - 1e-6, 1 - 1e-9])
    shares = [integrate.quad(density, *ends)[0] for ends in pairwise(edges)]
    expected = np.diff(stats.norm(z, np.exp(log_std)).cdf(unsquash(edges)))
    np.testing.assert_allclose(shares, expected, rtol=1e-6, atol=1e-9)
    assert sum(shares) == pytest.approx(1, abs=3e-3)


def test_squashed_numbers_stay_in_the_box_and_far_out_nothing_overflows():
    """For large |x| log(1 - tanh(x)^2) is log 4 - 2|x|; log N(x; 0, 1) = -x^2/2 - log(2 pi)/2; log h = log 0.2."""
    policy = make("linear", box(1), Box((-0.1,), (0.3,)), settings={"squash": "yes", "learn_std": "no"})
    x = np.array([[-3e4], [-400.0], [0.0], [400.0], [3e4]])
    theta = np.zeros(2)
    far = np.abs(x[:, 0])
    expected = -(far**2) / 2 - np.log(2 * np.pi) / 2 - np.log(0.2) - np.where(far > 0, np.log(4) - 2 * far, 0)
    np.testing.assert_allclose(policy.log_prob(theta, np.zeros((5, 1)), x), expected, rtol=1e-14)
    assert np.isfinite(score(policy, theta, np.zeros((5, 1)), x)).all()
    np.testing.assert_allclose(policy.action(x)[:, 0], [-0.1, -0.1, 0.1, 0.3, 0.3], atol=1e-16)
    for t in (np.float32, np.float64):
        a = policy.action(x.astype(t))
        assert a.dtype == t
        assert t(-0.1) <= a.min()
        assert a.max() <= t(0.3)


@pytest.mark.parametrize(("network", "seen", "head"), [case for case in CASES if case not in ALIKE])
def test_at_zero_and_at_the_start_play_is_uniform_or_centred(network, seen, head):
    """At the start the standard deviation is what was asked for: noise 1 is one of them off the centre."""
    policy, _, observations, actions = made(network, seen, head)
    x, start = drawn(observations, (3,)), np.array(quick(policy.init)(jax.random.key(0)))
    assert start.shape == (policy.size,)
    for theta in (start, np.zeros(policy.size)):
        if isinstance(actions, Box):
            centre = [2, 0] if actions is HALF else [1, 0.25]
            np.testing.assert_allclose(policy.action(policy.choose(theta, x, np.zeros((3, 2)))), [centre] * 3)
        else:
            p = policy.log_prob(theta, x[0], every(actions))
            np.testing.assert_allclose(p, -np.log(len(every(actions))), rtol=1e-14)
    if head == "normal":
        off = policy.choose(start, x, np.ones((3, 2))) - [1, 0.25]
        np.testing.assert_allclose(off, [np.exp(-0.5) * np.array([2, 0.25])] * 3)


# Networks


def test_one_hot_features_are_the_table_are_the_mdps_softmax():
    S, A = 6, 4
    theta = np.random.default_rng(0).normal(size=S * A) * 3
    states, actions = np.repeat(np.arange(S), A)[:, None] * 1.0, np.tile(np.arange(A), S)[:, None] * 1.0
    pi = finite.log_softmax_policy(jnp.asarray(theta), S, A)
    table, linear = (make(name, Discrete(S), Discrete(A)) for name in ("table", "linear"))
    given = log_linear(lambda o: (o == np.arange(S)) * 1.0, Discrete(S), Discrete(A))
    assert table.size == linear.size == given.size == S * A
    for t in (theta, jnp.asarray(theta)):
        rows = table.log_prob(t, states, actions)
        np.testing.assert_allclose(rows.reshape(S, A), pi, rtol=1e-14)
        np.testing.assert_array_equal(linear.log_prob(t, states, actions), rows)
        np.testing.assert_array_equal(given.log_prob(t, states, actions), rows)
    np.testing.assert_allclose(np.exp(rows).reshape(S, A), finite.softmax_policy(jnp.asarray(theta), S, A), rtol=1e-14)


def test_several_observations_are_numbered_jointly_in_a_table_and_added_up_otherwise():
    observations, theta = MultiDiscrete((2, 3)), np.random.default_rng(0).normal(size=6 * 4)
    several, one = make("table", observations, Discrete(4)), make("table", Discrete(6), Discrete(4))
    numbers = np.arange(6.0)[:, None]
    for a in range(4):
        c = np.full((6, 1), float(a))
        np.testing.assert_array_equal(several.log_prob(theta, every(observations), c), one.log_prob(theta, numbers, c))
    added = make("linear", observations, box(1), settings={"learn_std": False})
    means = added.choose(np.array([1.0, 2, 10, 20, 30]), every(observations), np.zeros((6, 1)))[:, 0]
    np.testing.assert_array_equal(means, [11, 21, 31, 12, 22, 32])


def test_a_linear_policy_is_linear_in_the_observation_and_1():
    policy = make("linear", box(2), box(2), settings={"learn_std": False})
    M = np.random.default_rng(0).normal(size=(3, 2))
    x = drawn(box(2), (4,))
    mean = policy.choose(M.ravel(), x, np.zeros((4, 2)))
    np.testing.assert_allclose(mean, np.c_[x, np.ones(4)] @ M, rtol=1e-14)


def test_given_features_see_normalised_observations():
    policy = log_linear(lambda x: x**2, box(2), box(1), True, learn_std=False)
    theta = policy.normalise(np.array([0, 0, 0, 0, 1.0, 10]), np.array([1.0, 2]), np.array([1.0, 4]))
    assert policy.choose(theta, np.array([4.0, 0]), np.zeros(1)) == pytest.approx(3**2 + 10 * (-2 / 4) ** 2)


@pytest.mark.parametrize("observations", [BOX, Discrete(5), MultiDiscrete((2, 3))], ids=["numbers", "one", "several"])
def test_the_network_is_the_textbooks(observations):
    """Three layers by hand on one-hot vectors; the start has W ~ N(0, 1/in), seen in the spread of its numbers.

    The standard error of that is 1/sqrt(2 n): 8 % for the first layer's n >= 90 numbers, 2 % for the next one's 1,200.
    Five and four of them are allowed, a confidence of 99.99 %.
    """
    policy = make("mlp", observations, box(2), settings={"hidden": (30, 40), "learn_std": "false"})
    theta, x = np.random.default_rng(0).normal(size=policy.size) / 3, drawn(observations, (5,))
    y = x
    if not isinstance(observations, Box):
        n = (observations.n,) if isinstance(observations, Discrete) else observations.n
        y = np.concatenate([np.eye(m)[x[:, j].astype(int)] for j, m in enumerate(n)], axis=1)
    at = 0
    for last, (m, n) in enumerate([(y.shape[1], 30), (30, 40), (40, 2)]):
        y = y @ theta[at : at + m * n].reshape(m, n) + theta[at + m * n :][:n]
        y = y if last == 2 else np.tanh(y)
        at += m * n + n
    assert at == policy.size
    np.testing.assert_allclose(policy.choose(theta, x, np.zeros((5, 2))), y, rtol=1e-12, atol=1e-14)
    init = quick(policy.init)
    start = np.array(init(jax.random.key(4)))
    W2, b2 = start[-(1240 + 82) : -(40 + 82)], start[-(40 + 82) : -82]
    assert start[: len(theta) - 1322 - 30].std() * math.sqrt(observations.width) == pytest.approx(1, abs=0.4)
    assert W2.std() * math.sqrt(30) == pytest.approx(1, abs=0.08)
    np.testing.assert_array_equal(b2, 0)
    np.testing.assert_array_equal(start[-82:], 0)
    assert np.any(start != np.array(init(jax.random.key(5))))


@pytest.mark.parametrize("bandwidth", [0.5, 2.0])
def test_fourier_features_have_the_gaussian_kernel_as_inner_product(bandwidth):
    """The mean of p = 20,000 products bounded by 2 is within 4.5 sqrt(1/p) = 0.032 of it: Var[2 cos cos] <= 1.

    The features are read off as scores: of a normal number with mean phi . theta = 0 and variance 1, at 1.
    """
    p, seen = 20_000, box(3)
    policy = make("fourier", seen, box(1), settings={"features": p, "bandwidth": bandwidth, "learn_std": False})
    x = drawn(seen, (8,)) * bandwidth
    phi = score(policy, np.zeros(p), x, np.ones((8, 1)))
    kernel = np.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / (2 * bandwidth**2))
    assert kernel.min() < 0.1
    np.testing.assert_allclose(phi @ phi.T, kernel, atol=0.032)


def test_fourier_features_come_from_the_seed_alone():
    theta = np.ones(8)
    play = lambda **settings: make(
        "fourier", BOX, box(1), settings={"features": 8, "learn_std": False} | settings
    ).choose(theta, np.ones(3), np.zeros(1))
    assert play() == play(seed="0") != play(seed=1)


# Normalisation


@pytest.mark.parametrize("network", ["linear", "fourier", "mlp"])
def test_a_shifted_and_scaled_world_with_its_moments_is_the_same_world(network):
    policy, theta, observations, _ = made(network, "normalised", "softmax")
    x, choice = drawn(observations, (5,)), drawn(Discrete(4), (5,))
    theta[:6] = 0
    mean, std = np.array([100.0, -3, 0]), np.array([5.0, 0.01, 1])
    moved = policy.normalise(theta, mean, std)
    np.testing.assert_array_equal(moved[6:], theta[6:])
    np.testing.assert_allclose(
        policy.log_prob(moved, mean + std * x, choice), policy.log_prob(theta, x, choice), rtol=1e-10
    )
    with_jax = policy.normalise(jnp.asarray(theta), mean, std)
    assert isinstance(with_jax, jax.Array)
    np.testing.assert_allclose(with_jax, moved, rtol=1e-15)
    plain = make(network, observations, Discrete(4), settings=SMALL[network])
    np.testing.assert_array_equal(policy.log_prob(theta, x, choice), plain.log_prob(theta[6:], x, choice))


def test_what_did_not_move_is_not_scaled_and_what_is_far_is_eased():
    """10 + log(1 + (1e9 - 7) - 10) and its mirror image, whose scale is 0.1; and at most 10 + log(1 + 1e30)."""
    policy = make("linear", box(2), box(2), True, {"learn_std": False})
    identity = np.array([0, 0, 0, 0, 1.0, 0, 0, 1, 0, 0])
    theta = policy.normalise(identity, np.array([7.0, 0]), np.array([0.0, 0.1]))
    mean = lambda *x: policy.choose(theta, np.array(x), np.zeros(2)).tolist()
    assert mean(7.5, 0.2) == pytest.approx([0.5, 2])
    assert mean(1e9, -1e9) == pytest.approx([10 + np.log(1e9 - 16), -10 - np.log(1e10 - 9)], rel=1e-14)
    assert mean(17, -1) == pytest.approx([10, -10], rel=1e-14)
    for t in (np.float32, np.float64):
        with np.errstate(over="ignore"):  # as where it is played
            far = policy.choose(theta.astype(t), np.array([3e38, -3e38], t), np.zeros(2, t))
        np.testing.assert_allclose(far, [10 + np.log(1e30), -10 - np.log(1e30)], rtol=1e-6)


def test_all_of_a_carts_track_is_told_apart_after_normalisation():
    """Measured as a run measures: from the sums of what a policy at theta = 0 sees. NumPy's answer is JAX's.

    The slope beyond 10 standard deviations is 1/(1 + |y| - 10); at 2.4 m, which are 35 of them, 1/26.
    """
    carts = cart_pole(agents=2)
    policy = make("linear", carts.observations, box(1), True, {"learn_std": False})
    pushes = make("linear", carts.observations, carts.actions)
    task = jax.tree.map(lambda x: x[0], carts.tasks)
    seen = carts.play(pushes, task, np.zeros(pushes.size), jax.random.key(0), 16, 60)
    x = np.asarray(seen.observations[:, :-1])[np.asarray(seen.alive)]
    assert 10 * x[:, 0].std() < 2.4, "or else it would be no test"
    theta = policy.normalise(np.r_[np.zeros(8), 1.0, np.zeros(4)], x.mean(axis=0), x.std(axis=0))
    track = np.linspace(-2.4, 2.4, 97)[:, None] * np.eye(4)[0]
    places = policy.choose(theta, track, np.zeros((97, 1)))[:, 0]
    steps = np.diff(places)
    assert steps.min() > 0.03 * steps.max()
    np.testing.assert_allclose(policy.choose(jnp.asarray(theta), track, np.zeros((97, 1)))[:, 0], places, rtol=1e-12)


# Makers


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("mpl", BOX, Discrete(2)),
            "policy 'mpl'; did you mean 'mlp'? (known: table, linear, fourier, mlp, cnn, gru, bits)",
        ),
        (("mlp", BOX, Discrete(2), False, {"hiden": 3}), "'hiden'; did you mean 'hidden'? (known: hidden, log_std, "),
        (("table", BOX, Discrete(2)), "Box of 3 numbers (-inf to inf); a table has a row for each: take linear or mlp"),
        (("table", MultiDiscrete((1000, 1001)), Discrete(2)), "1,001,000 rows, more than 1,000,000; take linear"),
        (("table", Discrete(3), Discrete(2), True), "Discrete(3); only those of a Box are normalised"),
        (("mlp", MultiDiscrete((2, 2)), Discrete(2), True), "take normalise=False"),
        (("mlp", BOX, box(2), False, {"squash": "true"}), "squash needs bounds on every side"),
        (("mlp", BOX, HALF, False, {"squash": "true"}), "squash needs bounds on every side"),
        (
            ("mlp", BOX, Discrete(2), False, {"squash": True}),
            "squash is for actions of a Box, and these are Discrete(2)",
        ),
        (
            ("mlp", BOX, SIDES, False, {"squash": "maybe"}),
            "squash of policy 'mlp' is 'maybe'; it must be true or false",
        ),
        (("mlp", BOX, SIDES, False, {"log_std": "wide"}), "log_std of policy 'mlp' is 'wide'; it must be a number"),
        (("mlp", BOX, SIDES, False, {"log_std": "inf"}), "log_std = inf; it must be a finite number"),
        (("mlp", BOX, Box((1.0,), (1.0,))), "each lower bound must be below the upper one"),
        (
            ("mlp", BOX, SIDES, False, {"hidden": "64,64"}),
            "'64,64'; it must be the layers' sizes, such as 64 or 64x64",
        ),
        (("mlp", BOX, SIDES, False, {"hidden": "64x0"}), "each layer has at least 1 unit"),
        (("mlp", BOX, SIDES, False, {"hidden": 2.5}), "hidden of policy 'mlp' is 2.5; it must be the layers' sizes"),
        (
            ("fourier", BOX, SIDES, False, {"features": "many"}),
            "features of policy 'fourier' is 'many'; it must be a whole number",
        ),
        (("fourier", BOX, SIDES, False, {"features": 0}), "features = 0 and seed = 0; they must be at least 1 and 0"),
        (("fourier", BOX, SIDES, False, {"bandwidth": "-1"}), "bandwidth = -1; it must be a positive number"),
    ],
)
def test_mistakes_are_answered_in_words(given, said):
    with pytest.raises(InputError) as error:
        make(*given)
    assert said in str(error.value)


def test_mistakes_in_features_and_direct_calls():
    with pytest.raises(InputError, match=r"features make \(2, 3\) of observations \(2, 3, 3\); they must make"):
        log_linear(lambda x: x.sum(-1), BOX, Discrete(2))
    with pytest.raises(InputError, match="only those of a bounded Box are squashed"):
        POLICIES["mlp"](BOX, Discrete(2), squash=True)


def test_words_become_values():
    assert set(takes("mlp")) == {"hidden", "log_std", "learn_std", "squash"}
    sizes = [make("mlp", BOX, Discrete(2), settings={"hidden": h}).size for h in ("8x4", (8, 4), [8, 4])]
    assert sizes == [32 + 36 + 10] * 3
    assert make("mlp", BOX, Discrete(2), settings={"hidden": "8"}).size == 32 + 18
    assert POLICIES["mlp"](BOX, Discrete(2), hidden="8x4").size == sizes[0]
    wide = make("linear", BOX, SIDES, settings={"log_std": "0.5", "learn_std": "true", "squash": "0"})
    np.testing.assert_array_equal(wide.init(jax.random.key(0))[-2:], 0.5)
    assert make("linear", BOX, SIDES, settings={"learn_std": "False"}).size == wide.size - 2
    assert make("fourier", BOX, Discrete(2), settings={"features": "16", "bandwidth": "2", "seed": "3"}).size == 32


PLAYED = """
import sys, cloudpickle, numpy as np
from fastfedpg.policies import make
from fastfedpg.spaces import Box, Discrete, MultiDiscrete, box
sides, rng = Box((-1.0, 0.0), (3.0, 0.5)), np.random.default_rng(0)
for name, observations, actions, normalise in [
    ("mlp", box(3), sides, True), ("fourier", box(3), MultiDiscrete((2, 3)), True), ("table", Discrete(3), sides, False)
]:
    policy = make(name, observations, actions, normalise)
    sent = cloudpickle.loads(cloudpickle.dumps(policy))
    theta, x, noise = rng.normal(size=policy.size), np.ones((2, observations.width)), rng.uniform(size=(2, 2))
    choice = sent.choose(theta, x, noise)
    assert np.array_equal(choice, policy.choose(theta, x, noise))
    assert np.array_equal(sent.log_prob(theta, x, choice), policy.log_prob(theta, x, choice))
    sent.action(choice), normalise and sent.normalise(theta, np.ones(3), np.ones(3))
assert "jax" not in sys.modules
"""


def test_a_policy_is_made_sent_and_played_without_jax():
    run = subprocess.run([sys.executable, "-c", PLAYED], capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr


@pytest.mark.parametrize(("network", "seen", "head"), CASES[::6], ids=map("-".join, CASES[::6]))
def test_a_policy_survives_pickling(network, seen, head):
    policy, theta, observations, actions = made(network, seen, head)
    sent = cloudpickle.loads(cloudpickle.dumps(policy))
    assert pickle.loads(pickle.dumps(policy)).size == policy.size
    x, choice, key = drawn(observations, (2,)), drawn(actions, (2,)), jax.random.key(0)
    np.testing.assert_array_equal(sent.init(key), policy.init(key))
    np.testing.assert_array_equal(sent.noise(key, (2,), jnp.float64), policy.noise(key, (2,), jnp.float64))
    np.testing.assert_array_equal(sent.log_prob(theta, x, choice), policy.log_prob(theta, x, choice))
