"""Environments by name, in JAX."""
