"""What a policy prepared for one theta chooses is what it chooses, to the bit."""

import numpy as np
import pytest

from fastfedpg import InputError, policies
from fastfedpg.policies.in_place import prepared
from fastfedpg.spaces import Discrete, MultiDiscrete, box

SPACES = [box(4), box(17), Discrete(5), MultiDiscrete((3, 4))]
ACTIONS = [*map(Discrete, (1, 2, 3, 4, 6)), MultiDiscrete((2, 3)), box(2, -1, 1), box(3)]
KINDS = {
    "linear": {},
    "mlp": {"hidden": "8x5x3"},
    "fourier": {"features": 8},
    "table": {},
    "bits": {},
    "gru": {"units": 3},
    "normalised": {},
    "squashed": {"squash": True},
}


def made(kind, observations, actions):
    """A policy, where there is one of its kind for these spaces."""
    name, normalise = {"normalised": ("mlp", True), "squashed": ("linear", False)}.get(kind, (kind, False))
    try:
        return policies.make(name, observations, actions, normalise, KINDS[kind])
    except InputError:
        return None


def observed(rng, space, rows):
    if hasattr(space, "low"):
        return 3 * rng.standard_normal((rows, space.width))
    return np.stack([rng.integers(0, n, rows) for n in np.atleast_1d(space.n)], 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3, 8, 257])
@pytest.mark.parametrize("scale", [0.3, 30.0, 1e30])
def test_choices_are_the_policys(kind, rows, scale):
    """Several steps in a row, also where z overflows; what was chosen stays as it was."""
    rng, tried = np.random.default_rng(0), 0
    for observations in SPACES:
        for actions in ACTIONS:
            policy = made(kind, observations, actions)
            for dtype in (np.float32, np.float64) if policy else ():
                theta = (scale * rng.standard_normal(policy.size)).astype(dtype)
                with np.errstate(all="ignore"):
                    choose, before = prepared(policy.choose, theta, rows), []
                for _ in range(3):
                    kept = rng.standard_normal((rows, policy.memory))
                    seen = np.concatenate([observed(rng, observations, rows), kept], 1).astype(dtype)
                    noise = policy.parts.head.draw(rng, (rows,)).astype(dtype)
                    with np.errstate(all="ignore"):
                        want, got = policy.choose(theta, seen, noise), choose(seen.copy(), noise)
                    before.append((want, got))
                for want, got in before:
                    assert (got.dtype, got.shape) == (want.dtype, want.shape)
                    assert got.tobytes() == want.tobytes()
                tried += 1
    assert tried


def test_at_its_mode_it_is_not_prepared_for_chance():
    policy = made("linear", box(4), Discrete(2))
    theta, seen = np.linspace(-1, 1, policy.size), np.ones((3, 4))
    choose = prepared(policy.at_its_mode.choose, theta, 3)
    np.testing.assert_array_equal(choose(seen, np.zeros((3, 1))), choose(seen, np.full((3, 1), 0.999)))


def test_functions_of_ones_own_are_called_as_they_are():
    got = prepared(lambda theta, observation, noise: theta + observation + noise, np.ones(2), 3)
    np.testing.assert_array_equal(got(np.ones((3, 2)), np.ones((3, 2))), 3)
