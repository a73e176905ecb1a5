"""Policies on a flat theta, for NumPy and JAX alike: a network for the observations, a distribution for the actions."""

from fastfedpg.policies.bits import bits
from fastfedpg.policies.images import cnn
from fastfedpg.policies.makers import fourier, linear, log_linear, mlp, regulator, table
from fastfedpg.policies.policy import Acting, Policy
from fastfedpg.policies.recurrent import gru
from fastfedpg.policies.settings import make, takes
from fastfedpg.tables import POLICIES

__all__ = [
    "POLICIES",
    "Acting",
    "Policy",
    "bits",
    "cnn",
    "fourier",
    "gru",
    "linear",
    "log_linear",
    "make",
    "mlp",
    "regulator",
    "table",
    "takes",
]
