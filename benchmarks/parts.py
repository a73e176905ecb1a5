"""What an estimate's time goes into: each part by itself, with the compiled loops and without.

    .venv/bin/python benchmarks/parts.py        (a quarter of a minute)

Nanoseconds of wall time for an environment step, medians; the parts of one estimate for N agents. Use an idle machine.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from work import Work

from fastfedpg import kernels
from fastfedpg.mdp import finite
from fastfedpg.oracles import sampled
from fastfedpg.oracles.alias import thresholds
from fastfedpg.problems import with_oracle

N, REPEATS = 1024, 25


def nanoseconds(steps: int, f: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """The median of some calls after the first, for one environment step; and what is returned."""
    f = jax.jit(jax.vmap(f))
    result, took = jax.block_until_ready(f(*given)), []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(f(*given))
        took.append(time.perf_counter() - began)
    return float(np.median(took)) / steps * 1e9, result


def main() -> int:
    """Measure, and print a table."""
    if not kernels.available():
        return 1
    work = Work()
    S, A, B, K, steps = work.S, work.A, work.B, work.K, N * work.B * work.K
    problem = work.problem(N)
    cost, theta = jnp.asarray(problem.cost), jnp.asarray(np.random.default_rng(0).normal(size=(N, S * A)))
    model = jax.tree.map(jnp.asarray, sampled.prepare(problem.P, problem.rho))
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(N))
    discount = jnp.asarray(problem.gamma) ** jnp.arange(K)
    found: dict[str, float] = {}

    def part(name: str, f: Callable[..., Any], *given: Any) -> Any:
        found[name], result = nanoseconds(steps, f, *given)
        return result

    g = part("seeding the generators", lambda key: sampled.generators(key, B), keys)
    below = part("policy and thresholds", lambda theta: thresholds(finite.softmax_policy(theta, S, A)), theta)
    play = lambda below, g: kernels.play(model.next.bins, model.first.bins, below, g, K)
    visited = part("playing, compiled", play, below, g)
    weigh = lambda visited, cost: kernels.weigh(0, visited, cost.reshape(-1), discount)
    total = part("weighing, compiled", weigh, visited, cost)
    part("centring", lambda theta, w: w - finite.softmax_policy(theta, S, A).reshape(-1) * w.mean(), theta, total)
    part("playing, JAX", lambda below, g: jax.vmap(lambda g: sampled.play(model, below, g, K))(g), below, g)
    part("weighing, JAX", lambda v, cost: sampled.weigh(sampled.whole, v, cost.reshape(-1), discount), visited, cost)
    oracle = with_oracle(problem, "reinforce", B=B, K=K).oracle

    def estimate(cost: Any, theta: Any, key: Any) -> Any:
        o = oracle(cost)
        return o.gradient(theta, (), o.sample(theta, (), key, None)[0])

    part("a whole estimate, compiled loops", estimate, cost, theta, keys)
    print(f"nanoseconds for an environment step, {N} agents of {B} trajectories of {K} steps")
    for name, ns in found.items():
        print(f"{name:34} {ns:7.2f}")
    return 0


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    sys.exit(main())
