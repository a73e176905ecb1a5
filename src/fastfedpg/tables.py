"""Everything that has a name, a row each: where its factory is. Nothing is imported until it is asked for."""

from fastfedpg.registry import Table

ALGORITHMS = Table(
    "algorithm",
    {
        "fast_fedpg": "algorithms.fast_fedpg:fast_fedpg",
        "fedavg_pg": "algorithms.fedavg_pg:fedavg_pg",
        "scaffold_pg": "algorithms.scaffold_pg:scaffold_pg",
        "fedprox_pg": "algorithms.fedprox_pg:fedprox_pg",
        "fedlin_pg": "algorithms.fedlin_pg:fedlin_pg",
        "proxskip_pg": "algorithms.proxskip_pg:proxskip_pg",
        "rc_pg": "algorithms.rc_pg:rc_pg",
        "fedsvrpg_m": "algorithms.fedsvrpg_m:fedsvrpg_m",
        "fedhapg_m": "algorithms.fedhapg_m:fedhapg_m",
        "mfpo": "algorithms.mfpo:mfpo",
        "fedpg_br": "algorithms.fedpg_br:fedpg_br",
        "afedpg": "algorithms.afedpg:afedpg",
        "incremental_pg": "algorithms.incremental_pg:incremental_pg",
        "centralised_pg": "algorithms.centralised_pg:centralised_pg",
        "minibatch_pg": "algorithms.minibatch_pg:minibatch_pg",
        "heavy_anchor": "algorithms.heavy_anchor:heavy_anchor",
        "adaptive_anchor": "algorithms.adaptive_anchor:adaptive_anchor",
        "personal_heads": "algorithms.personal_heads:personal_heads",
        "independent_pg": "algorithms.independent_pg:independent_pg",
        "decentralised_pg": "algorithms.decentralised_pg:decentralised_pg",
        "mdpgt": "algorithms.mdpgt:mdpgt",
        "pavg": "algorithms.pavg:pavg",
        "qavg": "algorithms.qavg:qavg",
        "fednpg_admm": "algorithms.fednpg_admm:fednpg_admm",
        "fednpg": "algorithms.fednpg:fednpg",
        "fedkl": "algorithms.fedkl:fedkl",
    },
)

ORACLES = Table(
    "oracle",
    {
        "exact": "oracles.exact:exact",
        "truncated": "oracles.exact:truncated",
        "reinforce": "oracles.sampled:reinforce",
        "gpomdp": "oracles.sampled:gpomdp",
    },
    given=("model", "cost", "gamma", "tau"),
)
"""Oracles of a problem whose numbers are known."""

PLAYED = Table(
    "oracle",
    {
        "reinforce": "oracles.played:reinforce",
        "gpomdp": "oracles.played:gpomdp",
        "actor_critic": "oracles.critic:actor_critic",
        "ppo": "oracles.ppo:ppo",
        "trpo": "oracles.trpo:trpo",
    },
    given=("game",),
)
"""Oracles that need only be able to play."""

BIASED = ("actor_critic", "ppo", "trpo")
"""Those with a critic, whose error is in every estimate."""

POLICIES = Table(
    "policy",
    {
        "table": "policies.makers:table",
        "linear": "policies.makers:linear",
        "fourier": "policies.makers:fourier",
        "mlp": "policies.makers:mlp",
        "cnn": "policies.images:cnn",
        "gru": "policies.recurrent:gru",
        "bits": "policies.bits:bits",
    },
    given=("observations", "actions", "normalise"),
)

ENVIRONMENTS = Table(
    "problem",
    {
        "recall": "envs.catalogue.recall:recall",
        "point-mass": "envs.catalogue.point_mass:point_mass",
        "cart-pole": "envs.catalogue.cart_pole:cart_pole",
        "pendulum": "envs.catalogue.pendulum:pendulum",
        "thermostats": "envs.catalogue.thermostats:thermostats",
        "offices": "envs.catalogue.offices:offices",
        "half-cheetah-vel": "gym_workers.mujoco:half_cheetah_vel",
        "half-cheetah-dir": "gym_workers.mujoco:half_cheetah_dir",
        "walker2d-vel": "gym_workers.mujoco:walker2d_vel",
        "ant-dir": "gym_workers.mujoco:ant_dir",
    },
    given=("agents",),
)

PROBLEMS = Table(
    "problem",
    {
        "compromise": "problems.catalogue.basics:compromise",
        "compromise-grid": "problems.catalogue.grids:compromise_grid",
        "mazes": "problems.catalogue.grids:mazes",
        "windy-cliff": "problems.catalogue.grids:windy_cliff",
        "opposed-line": "problems.catalogue.lines:opposed_line",
        "river-swim": "problems.catalogue.lines:river_swim",
        "frozen-lake": "problems.catalogue.toy_text:frozen_lake",
        "cliff-walking": "problems.catalogue.toy_text:cliff_walking",
        "taxi": "problems.catalogue.toy_text:taxi",
        "lqr": "problems.catalogue.basics:lqr",
        "hard-mdp": "problems.catalogue.hard_mdp:hard_mdp",
        "random": "problems.catalogue.basics:random",
        "garnet": "problems.catalogue.basics:garnet",
        **ENVIRONMENTS.rows,
    },
    given=("agents",),
)
