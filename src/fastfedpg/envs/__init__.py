"""Environments: pure JAX ones, and adapters, one foreign suite per file."""

from fastfedpg.envs.context import with_context
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.episodes import Episodes
from fastfedpg.envs.jax_env import Env, Step, play

__all__ = ["Env", "Environments", "Episodes", "Step", "play", "with_context"]
