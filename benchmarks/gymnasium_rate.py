"""Useful steps per second with a policy in the loop: ours, and every way that a user of Gymnasium or gymnax has.

All play the same policy with the same theta in the same environment, and take turns in one run, so that a busy machine
slows all; where others use it as well, the rates per second of CPU time say more. Rivals are plain loops: choose,
step, and keep what was seen, in Gymnasium's synchronous, asynchronous and, where there is one, built-in vector
environment, by the policy's NumPy half; there (`prepared`) also by the form of it for one theta that ours plays, which
is no part of the interface; and in gymnax compiled, by its JAX half. Ours is a batch of lanes in which
episodes follow each other, as `ppo` plays them, with all that such a call costs: of Gymnasium's single environments in
processes, of its built-in vectors there, with an agent for each core and a batch as large as the rival's, and of
gymnax's, compiled. A step that only begins another episode does not count, for anybody.

    python benchmarks/gymnasium_rate.py --seconds 0.3 --rounds 7
"""

import argparse
import contextlib
import os
import time
import warnings
from functools import partial

import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from measuring import ratio
from our_run import cpu

from fastfedpg import policies
from fastfedpg.envs.gymnax import gymnax_environments
from fastfedpg.gym_workers.adapter import environments
from fastfedpg.policies.in_place import prepared
from fastfedpg.spaces import Discrete, box

K = 200
POLE = np.array([0.0, 0.0, 0.0, 1.0, -4.0, 4.0, -2.0, 2.0, 0.0, 0.0])


def network(observations, actions):
    """A network of 64x64, as it is in the beginning."""
    policy = policies.mlp(observations, actions)
    return policy, np.asarray(policy.init(jax.random.key(0)), float)


CASES = {
    "CartPole-v1, linear": (policies.linear(box(4), Discrete(2)), POLE),
    "CartPole-v1, 64x64": network(box(4), Discrete(2)),
    "HalfCheetah-v5, 64x64": network(box(17), box(6, -1, 1)),
}
"""Policies and their theta; the linear one balances for some hundred steps."""

SIZES = {"sync": (8, 32), "async": (2, 8), "built-in": (8, 64, 512), "prepared": (8, 64, 512)}
"""How many environments each kind of vector has; `prepared` is `built-in` with our inner form of the policy."""

BUILT_IN = ("built-in", "prepared")

LEAST = 0.2
"""Seconds of CPU in a turn: those of other processes are counted in hundredths."""

LANES = 256
"""How many are played at once in gymnax, by either side; of Gymnasium's single ones ours are 32, in parts of 16."""


def compiled(play, theta):
    """A function that plays one batch, by a function of theta and a key, and returns its useful steps."""
    run = jax.jit(lambda key: play(jnp.asarray(theta), key))
    keys = iter(jax.random.split(jax.random.key(0), 1_000_000))
    return lambda: int(run(next(keys)))


def asked(steps, *arrays):
    """The steps; and the arrays are really made, since no compiler knows whether there is a NaN in them."""
    return steps + sum(jnp.isnan(x.sum()) for x in arrays)


def ours(envs, policy, theta, B):
    """Lanes of ours, B for each agent; of Gymnasium's or in JAX."""

    def play(theta, key):
        found = jax.vmap(lambda task: envs.play(policy, task, theta, key, B, K, restart=True))(envs.tasks)
        return asked(found.alive.sum(), found.observations, found.choices, found.rewards)

    return compiled(play, theta)


def scanned(name, policy, theta, count):
    """gymnax's own environments, which begin anew within a step, so that every step is useful."""
    env, params = gymnax.make(name)

    def lane(theta, key):
        first, acting, moving = jax.random.split(key, 3)

        def step(carry, given):
            (seen, state), (noise, key) = carry, given
            choice = policy.choose(theta, seen.astype(theta.dtype), noise)
            new = env.step(key, state, policy.action(choice)[0].astype(int), params)
            return new[:2], (seen, choice, new[2])

        noise = policy.noise(acting, (K,), theta.dtype)
        return lax.scan(step, env.reset(first, params), (noise, jax.random.split(moving, K)))[1]

    def play(theta, key):
        return asked(K * count, *jax.vmap(partial(lane, theta))(jax.random.split(key, count)))

    return compiled(play, theta)


def looped(name, policy, theta, count, mode):
    """A function that takes K steps in each of some environments and returns the useful ones; and an end."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # they never touch JAX
        kind = "vector_entry_point" if mode in BUILT_IN else mode
        vector = gymnasium.make_vec(name, num_envs=count, vectorization_mode=kind)
    choose = prepared(policy.choose, theta, count) if mode == "prepared" else partial(policy.choose, theta)
    rng, discrete = np.random.default_rng(0), isinstance(vector.single_action_space, gymnasium.spaces.Discrete)
    draw = rng.random if discrete else rng.standard_normal
    width = 1 if discrete else vector.single_action_space.shape[0]
    state = [vector.reset(seed=0)[0], np.zeros(count, bool)]

    def run():
        kept, useful = [], 0
        for noise in draw((K, count, width)):
            choice = choose(state[0].astype(theta.dtype), noise)
            action = policy.action(choice)
            action = action[:, 0].astype(int) if discrete else action.astype(np.float32)
            seen, reward, terminated, truncated, _ = vector.step(action)
            kept.append((state[0], choice, reward))
            useful += count - int(state[1].sum())  # after an end a step is a reset
            state[:] = seen, terminated | truncated
        return useful

    return run, vector.close


def contenders(name, policy, theta, cores, ends):
    """Everybody, by name."""
    found = {"ours": ours(environments(name, agents=1, workers=cores, vectors=False), policy, theta, 32)}
    built_in = gymnasium.spec(name).vector_entry_point is not None
    if name in gymnax.registered_envs:
        found["ours, gymnax"] = ours(gymnax_environments(name, agents=1), policy, theta, LANES)
        found["gymnax"] = scanned(name, policy, theta, LANES)
    for mode, sizes in SIZES.items():
        for count in sizes if built_in or mode not in BUILT_IN else ():
            if mode == "built-in":
                found[f"ours {count}"] = ours(environments(name, agents=cores, workers=cores), policy, theta, count)
            found[f"{mode} {count}"], close = looped(name, policy, theta, count, mode)
            ends.callback(close)
    return found


def rate(run, seconds):
    """Steps per second over a while, and per second of the processor's, this process's and its children's."""
    steps, start, before = 0, time.perf_counter(), cpu()
    while True:
        while (now := time.perf_counter() - start) < seconds or not steps:
            steps += run()
        if (spent := cpu() - before) >= LEAST:
            return steps / now, steps / spent
        seconds += now


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a turn")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(ImportError):
        import mujoco

        mujoco.set_mju_user_warning(lambda message: None)  # of its children too: a word about each model they load
    for case in args.cases:
        name, (policy, theta) = case.partition(",")[0], CASES[case]
        with contextlib.ExitStack() as ends:
            runs = contenders(name, policy, theta, cores, ends)
            for run in runs.values():
                run()
            turns = np.array([[rate(run, args.seconds) for run in runs.values()] for _ in range(args.rounds)])
        print(f"{case}, {cores} cores, {args.rounds} turns: useful steps, medians, and ours over each, 95%")
        print(f"{'':12}{'per second':>12}{'per CPU s':>12}{'by time':>22}{'by CPU time':>22}")
        for who, column in zip(runs, turns.transpose(1, 2, 0), strict=True):
            kind, _, count = who.partition(" ")
            alike = {"gymnax": "ours, gymnax", **dict.fromkeys(BUILT_IN, f"ours {count}")}.get(kind, "ours")
            mine = turns[:, list(runs).index(alike)].T
            ratios = [] if who.startswith("ours") else map(ratio, mine, column)
            words = [f"{middle:.2f} [{low:.2f}, {high:.2f}]" for middle, low, high in ratios]
            medians = "".join(f"{np.median(x):>12,.0f}" for x in column)
            print(f"{who:12}{medians}" + "".join(f"{word:>22}" for word in words), flush=True)


if __name__ == "__main__":
    main()
