"""Finite MDPs and linear-quadratic regulators: their equations, and nothing else."""
