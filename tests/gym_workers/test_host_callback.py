"""Work that is done outside JAX: the same however JAX calls it."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg.gym_workers import host_callback
from fastfedpg.gym_workers.host_callback import NUMBERED, Numbered, call_host


def host(x, n):
    return np.cumsum(x, -1) / 3, (n + 1).astype(np.int32)


HOST = Numbered(host)


def called(x, n):
    """Running sums, divided by 3, and a number more."""
    return call_host(HOST, (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.int32)), x, n)


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
        call_host(Numbered(broken), [jax.ShapeDtypeStruct((), jnp.float32)], jnp.float32(1))


def test_a_program_that_was_kept_calls_the_host_of_whoever_takes_it():
    """Two programs that differ in their hosts alone, which have one number, as in two processes.

    The second is not compiled, and calls its own host. A callback of JAX's would be in no program that is kept, so
    there would be no hit.
    """
    heard = []

    def hear(event, **more):
        heard.append(event)

    x, form = np.arange(5.0), [jax.ShapeDtypeStruct((5,), jnp.float64)]
    jax.monitoring.register_event_listener(hear)
    try:
        for factor in (2.0, 3.0):
            heard.clear()
            own = Numbered(lambda x, factor=factor: [factor * x])
            own.number = 10**6
            NUMBERED[own.number] = own
            assert np.array_equal(jax.jit(lambda x, own=own: call_host(own, form, x)[0])(x), factor * x)
    finally:
        jax.monitoring.unregister_event_listener(hear)
    assert "/jax/compilation_cache/cache_hits" in heard


def test_hosts_that_live_side_by_side_have_numbers_of_their_own():
    hosts = [Numbered(lambda x, k=k: [x + k]) for k in range(3)]
    form = [jax.ShapeDtypeStruct((), jnp.float32)]
    every = jax.jit(lambda x: [call_host(host, form, x)[0] for host in hosts])
    assert np.array_equal(every(jnp.float32(1)), [1, 2, 3])
    assert len({host.number for host in hosts}) == 3


@pytest.mark.parametrize("wrong", [lambda x: 1 / 0, lambda x: [np.zeros(3)], lambda x: [x, x]])
def test_a_host_that_fails_in_a_program_is_told(wrong):
    own = Numbered(wrong)
    called = jax.jit(lambda x: call_host(own, [jax.ShapeDtypeStruct((2,), x.dtype)], x)[0])
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"ZeroDivisionError|not float64\[2\]|longer than"):
        jax.block_until_ready(called(np.zeros(2)))


def test_without_compiled_calls_results_are_the_same(monkeypatch):
    """JAX's own callback, as where there is no C compiler."""
    monkeypatch.setattr(host_callback, "_compiled_calls", lambda: False)
    x, n = np.linspace(0, 1, 6).reshape(2, 3), np.array([4, 7], np.int32)
    want, got = host(x, n), jax.jit(jax.vmap(lambda *given: called(*given)))(x, n)
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
