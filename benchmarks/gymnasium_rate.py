"""Steps per second of `fastfedpg.gym_workers.adapter` against Gymnasium's own asynchronous vector environment.

Both play the same policy, by its NumPy half, in the same environment. The rival is a plain loop: choose, step, and
keep what was seen; its episodes begin anew by themselves, and those steps count. Ours counts the steps of episodes
alone, and its time has all that a call costs. The two take turns, so that a busy machine slows both.

    python benchmarks/gymnasium_rate.py --seconds 0.5 --rounds 7
"""

import argparse
import contextlib
import os
import time
import warnings
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from measuring import ratio

from fastfedpg import policies
from fastfedpg.gym_workers.adapter import environments
from fastfedpg.spaces import Discrete, box

CHEETAH = policies.mlp(box(17), box(6, -1, 1))
CASES = {
    "CartPole-v1": (
        policies.linear(box(4), Discrete(2)),
        np.array([0.0, 0.0, 0.0, 1.0, -4.0, 4.0, -2.0, 2.0, 0.0, 0.0]),
    ),
    "HalfCheetah-v5": (CHEETAH, np.asarray(CHEETAH.init(jax.random.key(0)), float)),
}
"""Policies and their theta: a linear one that balances for some hundred steps, and a network of 64x64."""


def ours(name, policy, theta, B, K, workers):
    """A function that plays one batch and returns its steps."""
    envs = environments(name, agents=1, workers=workers)
    play = jax.jit(lambda key: envs.play(policy, envs.tasks[0], jnp.asarray(theta), key, B, K).alive.sum())
    keys = iter(jax.random.split(jax.random.key(0), 100_000))
    return lambda: int(play(next(keys)))


def theirs(name, policy, theta, count):
    """A function that takes 200 steps in each of some environments and returns their number."""
    with contextlib.suppress(ImportError):
        import mujoco

        mujoco.set_mju_user_warning(lambda message: None)  # of its children too: a word about each model they load
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # they never touch JAX
        vector = gymnasium.make_vec(name, num_envs=count, vectorization_mode="async")
    rng = np.random.default_rng(0)
    draw = rng.random if isinstance(vector.single_action_space, gymnasium.spaces.Discrete) else rng.standard_normal
    width = 1 if draw == rng.random else vector.single_action_space.shape[0]
    state = [vector.reset(seed=0)[0]]

    def run(K=200):
        kept = []
        for noise in draw((K, count, width)):
            choice = policy.choose(theta, state[0].astype(theta.dtype), noise)
            action = policy.action(choice)
            action = action[:, 0].astype(int) if draw == rng.random else action.astype(np.float32)
            seen, reward, _, _, _ = vector.step(action)
            kept.append((state[0], choice, reward))
            state[0] = seen
        return K * count

    return run, vector.close


def rate(run, seconds):
    """Steps per second over a while."""
    steps, start = 0, time.perf_counter()
    while (now := time.perf_counter() - start) < seconds:
        steps += run()
    return steps / now


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a turn")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each")
    parser.add_argument("--envs", type=int, nargs="*", help="environments of the rival (default: cores, and 8)")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    for name, (policy, theta) in CASES.items():
        mine = ours(name, policy, theta, 16, 200, cores)
        mine()
        for count in args.envs or sorted({cores, 8}):
            run, close = theirs(name, policy, theta, count)
            run(10)
            turns = np.array([[rate(mine, args.seconds), rate(partial(run), args.seconds)] for _ in range(args.rounds)])
            middle, low, high = ratio(*turns.T)
            rival = f"steps per second over those of an async vector of {count}"
            print(f"{name}, {cores} cores: {rival}: {middle:.2f}, 95% [{low:.2f}, {high:.2f}]", flush=True)
            close()


if __name__ == "__main__":
    main()
