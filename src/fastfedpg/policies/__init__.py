"""Policies on a flat theta, for NumPy and JAX alike: a network for the observations, a distribution for the actions."""

from fastfedpg.policies.makers import POLICIES, fourier, linear, log_linear, mlp, table
from fastfedpg.policies.policy import Policy
from fastfedpg.policies.settings import make, takes

__all__ = ["POLICIES", "Policy", "fourier", "linear", "log_linear", "make", "mlp", "table", "takes"]
