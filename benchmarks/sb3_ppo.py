"""Stable-Baselines3's PPO with RL-Zoo's values, as a child of peers.py: a line of JSON for every evaluation.

The values are those of hyperparams/ppo.yml of github.com/DLR-RM/rl-baselines3-zoo (commit 00128b5, read in 2026), which
has them for LunarLander-v2 and HalfCheetah-v3, the same tasks in earlier versions. "lin_x" falls from x to 0 over the
budget. It needs torch and stable-baselines3 in its own environment, and nothing of fastfedpg.
"""

import argparse
import json
import time
from itertools import count

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

WIDE = {
    "log_std_init": -2,
    "ortho_init": False,
    "activation_fn": torch.nn.ReLU,
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}
ZOO = {
    "CartPole-v1": {
        "n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20,
        "ent_coef": 0.0, "learning_rate": "lin_0.001", "clip_range": "lin_0.2",
    },
    "Pendulum-v1": {
        "n_envs": 4, "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0,
        "learning_rate": 1e-3, "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4,
    },
    "LunarLander-v3": {
        "n_envs": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4,
        "ent_coef": 0.01,
    },
    "HalfCheetah-v5": {
        "normalize": True, "n_envs": 1, "n_steps": 512, "batch_size": 64, "gamma": 0.98, "learning_rate": 2.0633e-05,
        "ent_coef": 0.000401762, "clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92, "max_grad_norm": 0.8,
        "vf_coef": 0.58096, "policy_kwargs": WIDE,
    },
}  # fmt: skip


def schedule(value):
    """A number, or a function of what is left of the budget, from 1 to 0."""
    if not isinstance(value, str):
        return value
    first = float(value.removeprefix("lin_"))
    return lambda left: first * left


def played(model, norm, envs, first, by_mode):
    """The mean return of an episode in each environment, seeded from `first` on; the policy acts for all at once.

    Noise that depends on the state (gSDE) is drawn anew as often as in training.
    """
    seen = [env.reset(seed=first + k)[0] for k, env in enumerate(envs)]
    total, alive = 0.0, list(range(len(envs)))
    for step in count():
        if not alive:
            return total / len(envs)
        if model.use_sde and not by_mode and step % model.sde_sample_freq == 0:
            model.policy.reset_noise(len(alive))
        shown = np.stack([seen[k] for k in alive])
        actions = model.predict(shown if norm is None else norm.normalize_obs(shown), deterministic=by_mode)[0]
        for k, action in zip(list(alive), actions, strict=True):
            seen[k], reward, terminated, truncated, _ = envs[k].step(action)
            total += float(reward)
            if terminated or truncated:
                alive.remove(k)
    raise AssertionError


class Evaluate(BaseCallback):
    """Before every batch that is due: both means, and the CPU time of all but evaluations."""

    def __init__(self, envs, norm, args, begun):
        super().__init__()
        self.envs, self.norm, self.args, self.begun = envs, norm, args, begun
        self.due, self.spent = 0, 0.0

    def evaluate(self):
        """Play, and print."""
        start = time.process_time()
        first = 1_000_000 + 1000 * self.args.seed
        mean = {
            name: played(self.model, self.norm, self.envs, first, by_mode)
            for name, by_mode in (("mode", True), ("sampled", False))
        }
        self.spent += time.process_time() - start
        cpu = {"cpu": time.process_time() - self.begun - self.spent, "cpu_all": time.process_time()}
        print(json.dumps({"steps": self.num_timesteps, **mean, **cpu}), flush=True)
        self.due = self.num_timesteps + self.args.every

    def _on_rollout_start(self):
        if self.num_timesteps >= self.due:
            self.evaluate()

    def _on_step(self):
        return True


def main():
    """Train, and say how far it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", choices=ZOO, required=True)
    parser.add_argument("--horizon", type=int, help="steps of an episode, unless they are the environment's own")
    for name in ("seed", "budget", "every", "episodes"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    begun = time.process_time()
    values = {k: schedule(v) if k in ("learning_rate", "clip_range") else v for k, v in ZOO[args.env].items()}
    number, normalise = values.pop("n_envs"), values.pop("normalize", False)
    make = lambda: gymnasium.make(args.env, max_episode_steps=args.horizon)
    # A Monitor, which is usual, is left out: it counts returns that nobody asks for here.
    envs = DummyVecEnv([make] * number)
    norm = VecNormalize(envs, gamma=values["gamma"]) if normalise else None
    model = PPO("MlpPolicy", norm or envs, seed=args.seed, device="cpu", **values)
    evaluation = Evaluate([make() for _ in range(args.episodes)], norm, args, begun)
    model.learn(args.budget, callback=evaluation)
    evaluation.evaluate()


if __name__ == "__main__":
    main()
