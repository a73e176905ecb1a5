"""Policies for images: against JAX's own convolutions, differences, NumPy row by row, and what they refuse."""

import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as theirs

from fastfedpg import InputError
from fastfedpg.gym_workers.adapter import environments
from fastfedpg.policies import cnn, make
from fastfedpg.spaces import Box, Discrete, MultiDiscrete, box

IMAGE = box((9, 7, 2), 0.0, 255.0)
SMALL = {"channels": (3, 4), "hidden": (5,)}


def made(observations=IMAGE, actions=None, **settings):
    """A small policy, a theta of it that is not special, and some images."""
    policy = cnn(observations, box(2) if actions is None else actions, **{**SMALL, "learn_std": False, **settings})
    rng = np.random.default_rng(5)
    return policy, rng.normal(size=policy.size) / 2, rng.uniform(0, 255, (2, 3, observations.width))


def means(policy, theta, x):
    """A Gaussian's choice without noise is what the network says."""
    return policy.choose(theta, x, np.zeros((*x.shape[:-1], 2)))


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (2, 1)])
def test_it_is_jaxs_own_convolution(kernel, stride):
    """lax.conv_general_dilated, without padding, of images scaled to [0, 1]; then two layers by hand."""
    policy, theta, x = made(kernel=kernel, stride=stride)
    y, at = jnp.asarray(x).reshape(6, 9, 7, 2) / 255, 0
    for m, n in ((2, 3), (3, 4)):
        W = theta[at : at + kernel**2 * m * n].reshape(kernel, kernel, m, n)
        at += W.size + n
        order = ("NHWC", "HWIO", "NHWC")
        y = jnp.tanh(
            jax.lax.conv_general_dilated(y, W, (stride, stride), "VALID", dimension_numbers=order) + theta[at - n : at]
        )
    y = np.asarray(y).reshape(6, -1)
    for n in (5, 2):
        W = theta[at : at + y.shape[1] * n].reshape(-1, n)
        at += W.size + n
        y = (np.tanh if n == 5 else np.asarray)(y @ W + theta[at - n : at])
    assert at == policy.size
    assert policy.last_layer == 5 * 2 + 2
    found = means(policy, theta, x)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found.reshape(6, 2), y, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(means(policy, jnp.asarray(theta), jnp.asarray(x)), found, rtol=1e-10, atol=1e-12)


def test_a_row_is_the_same_in_any_company_and_numbers_keep_their_type():
    policy, theta, x = made()
    together = means(policy, theta, x)
    for i in np.ndindex(2, 3):  # to the bit
        np.testing.assert_array_equal(means(policy, theta, x[i]), together[i])
    low = theta.astype(np.float32), x.astype(np.float32)
    assert policy.choose(*low, np.zeros((2, 3, 2), np.float32)).dtype == np.float32
    np.testing.assert_array_equal(
        policy.choose(*low, np.zeros((2, 3, 2), np.float32))[1, 2], means(policy, low[0], low[1][1, 2])
    )


def test_scores_are_differences():
    policy, theta, x = made(box((5, 5), -1.0, 1.0), Discrete(3), channels=(2,), hidden=(3,))
    x, choice, h = x.reshape(-1, 25) / 200, np.arange(6.0)[:, None] % 3, 1e-5
    f = lambda t: np.arange(1.0, 7) @ policy.log_prob(t, x, choice)
    found = jax.grad(lambda t: jnp.arange(1.0, 7) @ policy.log_prob(t, x, choice))(jnp.asarray(theta))
    by_difference = [(f(theta + h * e) - f(theta - h * e)) / (2 * h) for e in np.eye(policy.size)]
    np.testing.assert_allclose(found, by_difference, rtol=1e-6, atol=1e-7)
    assert (np.abs(found[:20]) > 1e-6).all(), "of the convolution, too"


def test_it_starts_uniform_with_layers_of_unit_size():
    """W ~ N(0, 1/27) for 3 x 3 x 3 numbers; the spread of n = 27 x 64 is known to 1/sqrt(2 n) = 1.7 %, 4 allowed."""
    policy = make("cnn", box((8, 8, 3), 0, 255), Discrete(4), settings={"channels": "64", "hidden": "8"})
    start = np.array(policy.init(jax.random.key(1)))
    assert start.shape == (policy.size,)
    assert start[: 27 * 64].std() * np.sqrt(27) == pytest.approx(1, abs=0.07)
    np.testing.assert_array_equal(start[27 * 64 : 28 * 64], 0)
    np.testing.assert_allclose(policy.log_prob(start, np.full(192, 9.0), np.array([1.0])), -np.log(4), rtol=1e-14)
    assert policy.width == 192
    np.testing.assert_allclose(policy.enter(start, np.full(192, 51.0), np.ones((192, 1))), 192 / 5)


class Bright(gymnasium.Env):
    """A side of the image is bright, by the seed; the action that names it is paid 1."""

    observation_space, action_space = theirs.Box(0, 255, (4, 6), np.uint8), theirs.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.right = int(self.np_random.integers(2))
        seen = np.zeros((4, 6), np.uint8)
        seen[:, 3 * self.right : 3 * self.right + 3] = 255
        self.seen = seen
        return seen, {}

    def step(self, action):
        return self.seen, float(action == self.right), True, False, {}


def test_gymnasiums_images_arrive_with_their_shape_and_are_told_apart():
    """One convolution over 2 x 2 pixels; theta is set by hand: bright pixels on the right speak for action 1.

    A window's mean m gives tanh(m); windows 0 and 2 of three (stride 2) are the left and the right half's.
    """
    envs = environments([Bright], workers=1)
    try:
        assert envs.observations == box((4, 6), 0.0, 255.0)
        policy = cnn(envs.observations, envs.actions, channels=(1,), kernel=2, hidden=())
        theta = np.zeros(policy.size)
        theta[:4] = 1
        W = theta[5 : 5 + 12].reshape(2, 3, 2)
        W[:, 0, 0] = W[:, 2, 1] = 50
        played = envs.play(policy, jnp.int32(0), jnp.asarray(theta), jax.random.key(0), 12, 1)
    finally:
        envs.release()
    np.testing.assert_array_equal(played.rewards, 1)
    assert 0 < np.mean(played.choices) < 1


WORKER = """
import sys, pickle, numpy as np
from fastfedpg.policies import make
from fastfedpg.spaces import Discrete, box
policy = make("cnn", box((8, 8, 3), 0, 255), Discrete(4), settings={"channels": "2x3"})
choose = pickle.loads(pickle.dumps(policy.choose))
assert choose(np.ones(policy.size), np.ones((5, 192)), np.full((5, 1), 0.3)).shape == (5, 1)
assert "jax" not in sys.modules
"""


def test_it_is_played_without_jax():
    run = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr


@pytest.mark.parametrize(
    ("observations", "settings", "words"),
    [
        (box(4), {}, "Box of 4 numbers (-inf to inf); policy cnn is for images, a Box of shape (height, width)"),
        (MultiDiscrete((2, 2)), {}, "MultiDiscrete((2, 2)); policy cnn is for images"),
        (box((2, 9, 9, 3), 0, 1), {}, "Box of 2x9x9x3 numbers (0 to 1); policy cnn is for images"),
        (box((3, 64, 64), 0, 255), {}, "Box of 3x64x64 numbers (0 to 255); its channels seem to come first"),
        (box((9, 9, 3)), {}, "scales an image by its bounds, and these are not all finite"),
        (Box((0.0,) * 81, (0.0,) * 81, (9, 9)), {}, "each lower bound must be below the upper one"),
        (
            box((5, 5, 3), 0, 1),
            {},
            "and 2x2 pixels after 1 convolutions: too few for a kernel of 3; take fewer, such as channels=16",
        ),
        (IMAGE, {"channels": "3x0"}, "channels = (3, 0), hidden = (64,), kernel = 3, stride = 2; each is at least 1"),
        (IMAGE, {"stride": 0}, "stride = 0; each is at least 1"),
        (IMAGE, {"channels": "a"}, "channels of policy 'cnn' is 'a'; it must be the layers' sizes"),
    ],
)
def test_what_is_no_image_is_refused_in_words(observations, settings, words):
    with pytest.raises(InputError) as error:
        make("cnn", observations, Discrete(2), settings=settings)
    assert words in str(error.value)


def test_what_else_is_refused():
    with pytest.raises(InputError, match="scales images by their own bounds"):
        make("cnn", IMAGE, Discrete(2), normalise=True)
