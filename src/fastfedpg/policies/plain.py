"""A policy and its theta as plain arrays, which NumPy alone can act with: `examples/act_with_numpy.py` reads them.

Observations (…, o) are rows of numbers, discrete ones by their number from 0. The arrays are, in the order of use:

- `shift`, `scale`: for normalised observations, x = (observation - shift) / scale, and where |x| > 10, in x's place
  sign(x) (10 + log(|x| - 9));
- `steps`: for a table of several discrete observations, which are one number then, their sum with these factors;
- `image`, `darkest`, `span`: for images, (observation - darkest) / span is laid out as (height, width, channels);
- `strides`: for each k the step between windows of the image, whose product with `C{k}` (kernel, kernel, in, out),
  summed, goes with `c{k}` through tanh; what comes out last is laid flat again: `examples/act_on_images.py`;
- `first`: discrete observations are rows of W0, from these on for each; their sum takes the place of x W0;
- `layers`: tanh, cos or none, for each k what becomes of x `W{k}` + `b{k}`;
- `choices`: with discrete actions, how many numbers of the last layer are the logits of each of them;
- `std`, `low`, `high`, `centre`, `half`, `squash`: with real ones, the last layer's numbers z are means. The action is
  centre + half (z + std normal), or with squash low + (high - low) (tanh(z + std normal) + 1) / 2, clipped to the box.
"""

import math
from typing import Any

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.policies import networks
from fastfedpg.policies.bits import Bits
from fastfedpg.policies.heads import Softmax
from fastfedpg.policies.images import CNN
from fastfedpg.policies.inputs import OneHot
from fastfedpg.policies.policy import Policy


def arrays(policy: Policy, theta: np.ndarray) -> dict[str, np.ndarray]:
    """All that is needed to act, by name."""
    if policy.parts is None:
        raise InputError("a policy of one's own is Python code, and no arrays; keep its function and theta")
    if policy.memory:
        raise InputError("a policy with memory can't be written as layers; keep its run, and load it")
    seen, network, head = policy.parts
    theta = np.asarray(theta, np.float64)
    layers = _layers(network, theta)
    if isinstance(head, Bits):  # a table still: of every action's log-probability
        ((kind, W, b),) = layers
        layers, head = [(kind, head.logits(np, W), b[: len(head.where)])], head.flat
    found: dict[str, Any] = {"layers": np.array([kind for kind, _, _ in layers])}
    for k, (_, W, b) in enumerate(layers):
        found |= {f"W{k}": W, f"b{k}": b}
    if isinstance(network, CNN):
        found |= _convolutions(network, theta)
    if isinstance(network, networks.Jointly):
        found |= {"steps": network.step, "first": np.zeros(1, int)}
    elif isinstance(seen, OneHot):
        found["first"] = seen.first
    elif seen.frozen:
        found |= {"shift": theta[: seen.width], "scale": np.exp(theta[seen.width : seen.frozen])}
    if isinstance(head, Softmax):
        return found | {"choices": np.array(head.n)}
    bounds = {name: getattr(head, name).values for name in ("low", "high")}
    middle = {"centre": head.c.values, "half": head.h.values}
    return found | bounds | middle | {"std": np.exp(head.log_stds(theta)), "squash": np.array(head.squash)}


def _convolutions(network: CNN, theta: np.ndarray) -> dict[str, Any]:
    """How an image becomes what the first layer sees."""
    seen, each = network.x, network.convolutions
    found = {"image": np.array(seen.shape), "darkest": seen.low.values, "span": seen.span.values}
    for k, x in enumerate(each):
        own = theta[x.first : x.first + x.size].reshape(x.fan + 1, -1)
        found[f"C{k}"], found[f"c{k}"] = own[:-1].reshape(x.kernel, x.kernel, x.taken[2], -1), own[-1]
    return found | {"strides": np.array([x.stride for x in each], int)}


def _layers(network: Any, theta: np.ndarray) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """What becomes of each layer's output, its W and its b."""
    network = network.rows if isinstance(network, networks.Jointly) else network
    network = network.dense if isinstance(network, CNN) else network
    at = network.x.frozen
    own = theta[at : at + network.size]
    if isinstance(network, networks.MLP):
        each = (network.first, *network.others)
        kinds = ["tanh"] * len(network.others) + ["none"]
        return [(kind, theta[x.W].reshape(x.shape), theta[x.b]) for kind, x in zip(kinds, each, strict=True)]
    if isinstance(network, networks.Featured):
        raise InputError("a policy with features of one's own is Python code, and no arrays; keep its theta")
    M = -own.reshape(network.q, -1).T if isinstance(network, networks.Gain) else own.reshape(-1, network.q)
    if isinstance(network, networks.Fourier):
        last = ("none", math.sqrt(2 / network.p) * M, np.zeros(network.q))
        return [("cos", network.W.values, network.b.values), last]
    if isinstance(network, networks.Linear) and network.bias:
        return [("none", M[:-1], M[-1])]
    return [("none", M, np.zeros(network.q))]
