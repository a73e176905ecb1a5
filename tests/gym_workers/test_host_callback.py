"""Work that is done outside JAX: the same however JAX calls it."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg.gym_workers.host_callback import call_host


def host(x, n):
    return np.cumsum(x, -1) / 3, (n + 1).astype(np.int32)


def called(x, n):
    """Running sums, divided by 3, and a number more."""
    return call_host(host, (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.int32)), x, n)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_results_are_the_hosts_to_the_bit(dtype):
    """Eagerly, without jit, compiled and mapped: NumPy's own numbers, float64 in full."""
    x, n = jnp.linspace(0, 1, 6, dtype=dtype).reshape(2, 3), jnp.array([4, 7], jnp.int32)
    want = host(np.asarray(x), np.asarray(n))
    with jax.disable_jit():
        without = called(x[0], n[0]), jax.vmap(called)(x, n)
    for one in (called(x[0], n[0]), jax.jit(called)(x[0], n[0]), without[0]):
        assert one[0].dtype == dtype
        assert all(np.array_equal(a, b[0]) for a, b in zip(one, want, strict=True))
    for every in (jax.vmap(called)(x, n), jax.jit(jax.vmap(called))(x, n), without[1]):
        assert all(np.array_equal(a, b) for a, b in zip(every, want, strict=True))


def test_nothing_is_compiled_for_a_second_eager_call(caplog):
    x, n = jnp.ones(3), jnp.int32(1)
    called(x, n)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        called(x, n)
    assert not caplog.records


def test_what_the_host_raises_is_raised():
    def broken(x):
        raise ValueError("out of order")

    with pytest.raises(ValueError, match="out of order"):
        call_host(broken, [jax.ShapeDtypeStruct((), jnp.float32)], jnp.float32(1))
