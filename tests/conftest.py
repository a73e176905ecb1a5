"""Shapes in signatures are checked at run time in tests, and all tests run in 64-bit mode, as the command line does."""

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)

with install_import_hook("fastfedpg", "beartype.beartype"):
    import fastfedpg  # noqa: F401
    import fastfedpg.cli  # noqa: F401
