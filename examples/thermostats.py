"""One thermostat for 32 offices that weigh comfort against energy differently, learned without showing anybody's data.

Draws thermostats.png: a winter week in one office, and what a year costs all of them. Takes a few minutes.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from drawing.week_and_year import picture

import fastfedpg as ff
from fastfedpg.envs.catalogue.office import Hour
from fastfedpg.envs.catalogue.thermostats import Control, fixed, played, reward, setback, thermostats, trace

jax.config.update("jax_enable_x64", True)


def main(rounds: int = 60) -> None:
    offices = thermostats(agents=32)
    policy = ff.policies.linear(offices.observations, offices.actions, log_std=-1.0)
    problem = ff.with_policy(offices, policy, "gpomdp", B=8, baseline="leave-one-out")
    methods = {"fast_fedpg": ff.fast_fedpg(eta=0.002, H=10), "independent_pg": ff.independent_pg(eta=0.001, H=10)}
    found = {name: ff.simulate(problem, method, rounds, metrics_every=rounds) for name, method in methods.items()}
    for name, result in found.items():
        print(f"{name}: an episode of a week costs an office {-result.final('return_mean')[0]:.2f} euros")

    prefers = jnp.asarray(offices.tasks.preferred)
    together, alone = (result.theta[0] for result in found.values())
    years = {
        "fixed setting": year(lambda i: fixed(prefers[i])),
        "night setback": year(lambda i: setback(prefers[i])),
        "each alone": year(lambda i: played(policy, jnp.asarray(alone)[i], steady=True)),
        "learned together": year(lambda i: played(policy, jnp.asarray(together), steady=True)),
    }
    for name, hours in years.items():
        euros = -reward(jax.tree.map(lambda x: x[:, None], offices.tasks), hours).sum(axis=1).mean()
        print(f"{name}: a year costs {euros:,.0f} euros, discomfort included")
    picture(years, np.asarray(prefers), Path("thermostats.png"))


def year(control: Callable[[int], Control]) -> Hour:
    """A year of every office, in the same weather, that nobody has seen while learning: arrays (32, 8760)."""
    every = jax.jit(jax.vmap(lambda i: trace(control(i), 365, seed=1)))(jnp.arange(32))
    return jax.tree.map(np.asarray, every)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
