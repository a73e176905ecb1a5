"""Pytrees of arrays as named arrays and back: for files, and for messages."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def named(prefix: str, tree: Any) -> list[tuple[str, Any]]:
    """Every leaf with the path that leads to it."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(prefix + jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def arrays_of(prefix: str, tree: Any) -> dict[str, np.ndarray]:
    """The leaves as plain arrays; a random key as its data."""
    raw = lambda x: jax.random.key_data(x) if is_key(x) else x
    # Never ascontiguousarray: it gives a scalar an axis.
    return {name: np.asarray(raw(x), order="C") for name, x in named(prefix, tree)}


def restored(prefix: str, form: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree that `arrays_of` took apart, if it has this form."""
    leaves = []
    for name, x in named(prefix, form):
        saved = arrays[name]
        leaf = jax.random.wrap_key_data(jnp.asarray(saved), impl=_impl(x)) if is_key(x) else saved
        if leaf.shape != x.shape or leaf.dtype != x.dtype:
            raise ValueError(f"{name} is {leaf.dtype}{leaf.shape}, and must be {x.dtype}{x.shape}")
        leaves.append(leaf)
    return jax.tree.unflatten(jax.tree.structure(form), leaves)


def is_key(x: Any) -> bool:
    """Whether it is an array of random keys."""
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _impl(x: Any) -> Any:
    return jax.random.key_impl(jnp.empty((), x.dtype))  # which takes no shapes
