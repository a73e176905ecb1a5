"""An exported policy acts with NumPy alone: every network, input and head, in a process without fastfedpg and JAX."""

import importlib.util
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from fastfedpg import InputError, policies
from fastfedpg.policies import plain
from fastfedpg.spaces import Box, Discrete, MultiDiscrete, box

READER = Path(__file__).parents[2] / "examples" / "act_with_numpy.py"
BOUNDED = Box((-1.0, 0.0), (2.0, 5.0))
POLICIES = {
    "a table": policies.table(Discrete(5), Discrete(3)),
    "a table of several": policies.table(MultiDiscrete((2, 3)), MultiDiscrete((3, 2))),
    "linear": policies.linear(box(3), Discrete(4)),
    "linear, normalised": policies.linear(box(3), Discrete(4), normalise=True),
    "linear in one-hot vectors": policies.linear(MultiDiscrete((2, 3)), Discrete(3)),
    "fourier": policies.fourier(box(3), Discrete(4), features=7, normalise=True),
    "mlp": policies.mlp(box(3), MultiDiscrete((2, 4)), hidden=(5, 6), normalise=True),
    "mlp of one-hot vectors": policies.mlp(Discrete(5), Discrete(2), hidden=(4,)),
    "gaussian, clipped": policies.mlp(box(3), BOUNDED, hidden=(5,)),
    "gaussian, squashed": policies.linear(box(3), BOUNDED, squash=True, learn_std=False, log_std=-0.5),
    "gaussian, without bounds": policies.linear(box(3), box(2), normalise=True),
    "of images": policies.cnn(box((6, 5, 2), -4, 8), Discrete(3), channels=(3, 2), kernel=2, hidden=(4,)),
    "of images, gaussian": policies.cnn(box((4, 3), 0, 1), BOUNDED, channels=(2,), hidden=()),
    "a regulator": policies.regulator(3, 2, noise=0.3),
    "a regulator without noise": policies.regulator(3, 2),
}
SIZES = {"a table": (5,), "mlp of one-hot vectors": (5,)}
SIZES |= dict.fromkeys(["a table of several", "linear in one-hot vectors"], (2, 3))

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("fastfedpg", "jax", "jaxlib", "jaxtyping"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
sys.path.insert(0, sys.argv[1])
import runpy
import numpy as np
names = runpy.run_path(sys.argv[2])
given = np.load(sys.argv[3])
policy, found = names["read"](sys.argv[4]), {"act": None}
found["act"] = names["act"](policy, given["observations"])
if "choices" in policy:
    found |= {f"p{k}": p for k, p in enumerate(names["probabilities"](policy, given["observations"]))}
np.savez(sys.argv[5], **found)
assert not {"fastfedpg", "jax"} & {*sys.modules}
"""


def case(name: str):
    """A policy, a theta and observations, some of them far away; drawn from a seed."""
    rng, policy = np.random.default_rng(len(name)), POLICIES[name]
    sizes = SIZES.get(name)
    width = policy.width if "images" in name else 3
    observations = rng.normal(size=(9, width)) * 4 if sizes is None else rng.integers(0, sizes, (9, len(sizes)))
    return policy, rng.normal(size=policy.size), observations.astype(np.float64)


def reader(file=READER):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def agree(name: str, found, observations, policy, theta) -> None:
    """Joint probabilities, one choice after another, are those of log_prob; likeliest actions are the policy's."""
    parts = [found[f"p{k}"] for k in range(len([key for key in found if key.startswith("p")]))]
    if parts:
        for choice in product(*(range(p.shape[-1]) for p in parts)):
            here = np.prod([p[:, c] for p, c in zip(parts, choice, strict=True)], axis=0)
            chosen = np.broadcast_to(np.array(choice, float), (len(observations), len(choice)))
            there = np.exp(policy.log_prob(theta, observations, chosen))
            np.testing.assert_allclose(here, there, rtol=0, atol=1e-12, err_msg=name)
    likeliest = policy.parts.head.likeliest(np, theta, policy.parts.network.output(np, theta, observations))
    np.testing.assert_allclose(found["act"], policy.action(likeliest), rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", ["mlp", "gaussian, squashed"])
def test_in_a_process_that_has_numpy_alone(name, tmp_path):
    """-S: no packages but NumPy, which is linked into a folder of its own; fastfedpg and jax can't be imported."""
    policy, theta, observations = case(name)
    np.savez(tmp_path / "policy.npz", allow_pickle=False, **plain.arrays(policy, theta))
    np.savez(tmp_path / "given.npz", observations=observations)
    packages, numpy = tmp_path / "packages", Path(np.__file__).parent
    packages.mkdir()
    for folder in (numpy, *numpy.parent.glob("numpy.libs")):
        (packages / folder.name).symlink_to(folder)
    files = [packages, READER, tmp_path / "given.npz", tmp_path / "policy.npz", tmp_path / "found.npz"]
    subprocess.run([sys.executable, "-I", "-S", "-c", BLOCKED, *map(str, files)], check=True, timeout=60)
    with np.load(tmp_path / "found.npz") as found:
        agree(name, dict(found), observations, policy, theta)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy(name, tmp_path):
    policy, theta, observations = case(name)
    np.savez(tmp_path / "policy.npz", allow_pickle=False, **plain.arrays(policy, theta))
    module = reader()
    read = module.read(tmp_path / "policy.npz")
    given = observations
    if "images" in name:
        given = reader(READER.with_name("act_on_images.py")).convolved(read, observations)
    found = {"act": module.act(read, given)}
    if "choices" in read:
        found |= {f"p{k}": p for k, p in enumerate(module.probabilities(read, given))}
    assert ("p0" in found) == (not isinstance(policy.parts.head, type(POLICIES["a regulator"].parts.head)))
    agree(name, found, observations, policy, theta)
    one = module.act(read, given[0])
    np.testing.assert_allclose(one, found["act"][0], rtol=1e-12, atol=1e-12, err_msg="of a single observation")


class Given:
    """A generator whose numbers are known."""

    def __init__(self, noise):
        self.random = lambda shape: noise[..., 0].reshape(shape)
        self.standard_normal = lambda shape: noise.reshape(shape)


@pytest.mark.parametrize(
    "name", [name for name in POLICIES if "several" not in name and "images" not in name and name != "mlp"]
)
def test_chance_is_used_as_the_policy_uses_it(name):
    """The same numbers lead to the same actions."""
    policy, theta, observations = case(name)
    noise = policy.parts.head.draw(np.random.default_rng(0), (len(observations),))
    found = reader().act(plain.arrays(policy, theta), observations, Given(noise))
    there = policy.action(policy.choose(theta, observations, noise))
    np.testing.assert_allclose(found, there, rtol=1e-12, atol=1e-12)


def test_code_is_not_exported():
    """Features of one's own, and a policy of one's own, are Python functions."""
    with pytest.raises(InputError, match="features of one's own is Python code"):
        plain.arrays(policies.log_linear(np.square, box(3), Discrete(2)), np.zeros(6))
    own = POLICIES["linear"]._replace(choose=lambda theta, observation, noise: noise)
    with pytest.raises(InputError, match="a policy of one's own is Python code"):
        plain.arrays(own, np.zeros(16))
