"""Act with a policy that `ff.load(…).export("policy.npz")` wrote: copy the functions, which need NumPy alone.

python examples/act_with_numpy.py learns a small one first, for which it does need fastfedpg.
"""

import numpy as np

AFTER = {"tanh": np.tanh, "cos": np.cos, "none": lambda x: x}


def read(path):
    with np.load(path) as file:
        return dict(file)


def convolved(policy, x):
    """What convolutions make of images (…, height width channels) between 0 and 1, laid flat."""
    x = x.reshape(*x.shape[:-1], *policy["image"])
    for k, s in enumerate(policy["strides"]):
        W, b = policy[f"C{k}"], policy[f"c{k}"]
        h, w = ((n - len(W)) // s + 1 for n in x.shape[-3:-1])
        window = lambda i, j, x=x, s=s, h=h, w=w: x[..., i : i + s * (h - 1) + 1 : s, j : j + s * (w - 1) + 1 : s, :]
        x = np.tanh(sum(window(i, j) @ W[i, j] for i in range(len(W)) for j in range(len(W))) + b)
    return x.reshape(*x.shape[:-3], -1)


def numbers(policy, observation):
    """What the network makes of observations (…, o): logits side by side, or means."""
    x = np.asarray(observation, np.float64)
    if "shift" in policy:
        x = (x - policy["shift"]) / policy["scale"]
        x = np.clip(x, -10, 10) + np.sign(x) * np.log1p(np.maximum(np.abs(x) - 10, 0))
    if "image" in policy:
        x = convolved(policy, (x - policy["darkest"]) / policy["span"])
    if "steps" in policy:
        x = (x * policy["steps"]).sum(-1, keepdims=True)
    for k, after in enumerate(policy["layers"]):
        W, b = policy[f"W{k}"], policy[f"b{k}"]
        rows = k == 0 and "first" in policy
        x = AFTER[str(after)]((W[x.astype(int) + policy["first"]].sum(-2) if rows else x @ W) + b)
    return x


def probabilities(policy, observation):
    """For each discrete action those of its values, (…, n)."""
    parts = np.split(numbers(policy, observation), np.cumsum(policy["choices"])[:-1], axis=-1)
    weights = [np.exp(z - z.max(-1, keepdims=True)) for z in parts]
    return [w / w.sum(-1, keepdims=True) for w in weights]


def act(policy, observation, rng=None):
    """Actions (…, a): drawn with a NumPy generator, or without one the likeliest."""
    if "choices" in policy:
        drawn = lambda p: (p.cumsum(-1)[..., :-1] <= rng.random(p.shape[:-1])[..., None]).sum(-1)
        return np.stack([(p.argmax(-1) if rng is None else drawn(p)) for p in probabilities(policy, observation)], -1)
    x = numbers(policy, observation)
    x = x if rng is None else x + policy["std"] * rng.standard_normal(x.shape)
    low, high = policy["low"], policy["high"]
    x = low + (high - low) * (np.tanh(x) + 1) / 2 if policy["squash"] else policy["centre"] + policy["half"] * x
    return np.clip(x, low, high)


if __name__ == "__main__":
    import fastfedpg as ff

    ff.run(ff.Config("compromise-grid", rounds=20), "learned", overwrite=True)
    ff.load("learned").export("policy.npz")
    policy = read("policy.npz")
    print("fast_fedpg goes, from state 0, with probabilities", probabilities(policy, [0])[0].round(3))
    print("and ten times", act(policy, np.zeros((10, 1)), np.random.default_rng(0)).ravel())
