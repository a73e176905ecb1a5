"""Act with a policy for images that `ff.load(…).export("policy.npz")` wrote: NumPy alone, beside act_with_numpy.py.

policy = act_with_numpy.read("policy.npz"); act_with_numpy.act(policy, convolved(policy, images))
"""

import numpy as np


def convolved(policy, images):
    """What convolutions make of images (…, height width channels), laid flat: what the other layers are given."""
    x = (np.asarray(images, np.float64) - policy["darkest"]) / policy["span"]
    x = x.reshape(*x.shape[:-1], *policy["image"])
    for k, stride in enumerate(policy["strides"]):
        x = np.tanh(layer(x, policy[f"C{k}"], stride) + policy[f"c{k}"])
    return x.reshape(*x.shape[:-3], -1)


def layer(x, W, stride):
    """(…, h, w, in) times W (kernel, kernel, in, out), at every window that is wholly in the image."""
    inside = range(len(W))
    down, across = (stride * ((n - len(W)) // stride) + 1 for n in x.shape[-3:-1])
    return sum(x[..., i : i + down : stride, j : j + across : stride, :] @ W[i, j] for i in inside for j in inside)
