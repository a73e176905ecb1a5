"""Environments: pure JAX ones, and adapters, one foreign suite per file."""

from fastfedpg.envs.episodes import Episodes
from fastfedpg.envs.family import Environments
from fastfedpg.envs.pure import Env, Step, play

__all__ = ["Env", "Environments", "Episodes", "Step", "play"]
