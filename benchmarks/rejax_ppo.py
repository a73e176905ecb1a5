"""rejax's PPO with its own values, as a child of peers.py: a line of JSON for every evaluation.

The values are those of configs/gymnax/cartpole.yaml and pendulum.yaml of github.com/keraJLi/rejax (commit 4954fbf).
Training is rejax's own `train_iteration`, compiled once, in gymnax's environments; its policies have no mode to be
played by, so `mode` is null. It needs rejax and a gymnax before 1 in an environment of their own, and nothing of
fastfedpg.
"""

import argparse
import json
import time

import jax
from rejax import PPO
from rejax.evaluate import evaluate

THEIRS = {
    "CartPole-v1": {
        "agent_kwargs": {"activation": "tanh"}, "num_envs": 5, "num_steps": 100, "num_epochs": 5, "num_minibatches": 5,
        "learning_rate": 0.00075, "max_grad_norm": 0.5, "gamma": 0.99, "gae_lambda": 0.95, "clip_eps": 0.2,
        "ent_coef": 0.01, "vf_coef": 0.5,
    },
    "Pendulum-v1": {
        "agent_kwargs": {"activation": "swish"}, "num_envs": 100, "num_steps": 100, "num_epochs": 10,
        "num_minibatches": 10, "learning_rate": 0.001, "max_grad_norm": 10, "gamma": 0.995, "gae_lambda": 0.95,
        "clip_eps": 0.2, "ent_coef": 0.0, "vf_coef": 0.5, "normalize_observations": True,
    },
}  # fmt: skip


def main():
    """Train, and say how far it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", choices=THEIRS, required=True)
    for name in ("seed", "budget", "every", "episodes"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    begun = time.process_time()
    algorithm = PPO.create(env=args.env, **THEIRS[args.env])
    batch = algorithm.num_envs * algorithm.num_steps
    train = jax.jit(algorithm.train_iteration)
    most = algorithm.env_params.max_steps_in_episode

    @jax.jit
    def worth(state, key):
        act = algorithm.make_act(state)
        return evaluate.__wrapped__(act, key, algorithm.env, algorithm.env_params, args.episodes, most)[1].mean()

    state = jax.jit(algorithm.init_state)(jax.random.key(args.seed))
    spent, due = 0.0, 0
    for steps in range(0, args.budget + batch, batch):
        if steps >= due or steps + batch >= args.budget + batch:
            jax.block_until_ready(state)
            start = time.process_time()
            mean = float(worth(state, jax.random.key(1_000_000 + args.seed)))
            spent, due = spent + time.process_time() - start, steps + args.every
            cpu = {"cpu": time.process_time() - begun - spent, "cpu_all": time.process_time()}
            print(json.dumps({"steps": steps, "mode": None, "sampled": mean, **cpu}), flush=True)
        state = train(state)


if __name__ == "__main__":
    main()
