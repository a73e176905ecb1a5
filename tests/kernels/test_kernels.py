"""The compiled loops against the plain functions that define them, and the streams of random numbers they use."""

import _ctypes
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import reference as ref
from fastfedpg import kernels, with_oracle
from fastfedpg.oracles import alias, sampled

K = 7


@pytest.fixture(scope="module", autouse=True)
def compiled():
    assert kernels.available(), "a C compiler is needed here (cc, gcc or clang)"


def model_of(S, A, seed=0, width=None):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(width or S, 0.5), (S, A))
    P = np.concatenate([P, np.zeros((S, A, S - P.shape[-1]))], axis=-1)
    return jax.tree.map(jnp.asarray, sampled.prepare(P, rng.dirichlet(np.ones(S))))


def below_of(S, A, *lanes, seed=1):
    theta = np.random.default_rng(seed).normal(size=(*lanes, S, A))
    flat = alias.thresholds(jax.nn.softmax(jnp.asarray(theta.reshape(-1, A))))
    return flat.reshape(*lanes, S, A - 1)


def plain(model, below, g):
    return jax.vmap(lambda g: sampled.play(model, below, g, K))(g)


def fast(model, below, g):
    return kernels.play(model.next.bins, model.first.bins, below, g, K)


@pytest.mark.parametrize(
    ("S", "A", "B"), [(1, 1, 1), (2, 2, 8), (25, 3, 11), (25, 4, 8), (6, 5, 3), (3, 1, 9), (25, 9, 17)]
)
def test_trajectories_are_those_of_the_plain_function(S, A, B):
    """All sizes for which the compiled loop has a form of its own, whole groups of eight and what is left over."""
    given = model_of(S, A), below_of(S, A), sampled.generators(jax.random.key(5), B)
    one = fast(*given)
    assert one.dtype == jnp.int32
    np.testing.assert_array_equal(one, jax.jit(plain)(*given))


def test_mapped_three_deep_with_parts_that_are_shared_and_parts_that_are_not():
    """Settings x seeds x agents under jit and scan; each level maps other arguments."""
    S, A, B = 6, 3, 5
    models = jax.tree.map(lambda *x: jnp.stack(x), *(model_of(S, A, seed) for seed in range(4)))
    below = below_of(S, A, 2, 4)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(1), i))(jnp.arange(3))
    g = jax.vmap(lambda k: sampled.generators(k, B))(keys)

    def everything(one):
        agents = jax.vmap(one, in_axes=(0, 0, None))
        seeds = jax.vmap(agents, in_axes=(None, None, 0))
        settings = jax.vmap(seeds, in_axes=(None, 0, None))
        twice = lambda c, _: (c, settings(models, below, g))
        return jax.jit(lambda: jax.lax.scan(twice, 0, None, length=2)[1])()

    one = everything(fast)
    assert one.shape == (2, 2, 3, 4, B, K)
    np.testing.assert_array_equal(one, everything(plain))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("weights", sampled.COMPILED)
def test_weights_are_those_of_the_plain_function(dtype, weights):
    """Costs shared by the lanes or their own. A weight is below K, and 5 K of them are added: K^2 eps is far above."""
    rng = np.random.default_rng(2)
    visited = jnp.asarray(rng.integers(0, 10, (3, 5, K)), jnp.int32)
    r = jnp.asarray(rng.uniform(size=(3, 12)), dtype)
    discount = jnp.asarray(0.9 ** np.arange(K), dtype)
    fast = lambda v, r: kernels.weigh(sampled.COMPILED.index(weights), v, r, discount)
    plain = lambda v, r: sampled.weigh(weights, v, r, discount)
    near = {"rtol": 0, "atol": K * K * jnp.finfo(dtype).eps}
    for axes, given in (((0, 0), r), ((0, None), r[0])):
        one, other = (jax.vmap(f, in_axes=axes)(visited, given) for f in (fast, plain))
        assert one.dtype == dtype
        np.testing.assert_allclose(one, other, **near)
        assert abs(np.asarray(other)).max() > 0.1


def test_many_lanes_at_once_are_each_their_own():
    """More lanes than threads and blocks: each of them as if it were alone, for any batching."""
    S, A, B, N = 5, 3, 4, 1000
    model, below = model_of(S, A), below_of(S, A, N)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(1), i))(jnp.arange(N))
    g = jax.vmap(lambda k: sampled.generators(k, B))(keys)
    mapped = jax.jit(jax.vmap(fast, in_axes=(None, 0, 0)))
    visited = mapped(model, below, g)
    for i in (0, 1, 499, 998, 999):
        np.testing.assert_array_equal(visited[i], jax.jit(plain)(model, below[i], g[i]))
    in_two = [mapped(model, below[part], g[part]) for part in (slice(0, 333), slice(333, N))]
    np.testing.assert_array_equal(np.concatenate(in_two), visited)


def test_an_oracle_uses_them_and_says_the_same_without(monkeypatch):
    """The whole oracle with and without; without a compiler it is the plain one."""
    theta, key = jnp.asarray(np.random.default_rng(0).normal(size=12)), jax.random.key(9)

    def answer():
        problem = with_oracle(ref.small_problem(), "gpomdp", B=6, K=9, baseline="leave-one-out")
        oracle = problem.oracle(jnp.asarray(problem.tasks[0]))
        batch, _ = oracle.sample(theta, (), key, None)
        program = str(jax.make_jaxpr(lambda t: oracle.sample(t, (), key, None))(theta))
        return batch, oracle.gradient(theta, (), batch), "fastfedpg_play" in program

    batch, g, used = answer()
    monkeypatch.setattr(kernels, "available", lambda: False)
    plain_batch, plain_g, used_again = answer()
    assert (used, used_again) == (True, False)
    np.testing.assert_array_equal(batch.visited, plain_batch.visited)
    np.testing.assert_allclose(g, plain_g, rtol=0, atol=1e-14)


def test_where_there_is_more_than_the_cpu_each_platform_has_its_own(monkeypatch):
    """A program for CUDA has the plain functions, one for the CPU the compiled loops; alone, the CPU needs none."""
    problem = with_oracle(ref.small_problem(), "gpomdp", B=6, K=9)
    oracle = problem.oracle(jnp.asarray(problem.tasks[0]))

    def estimate(theta):
        batch, _ = oracle.sample(theta, (), jax.random.key(9), None)
        return oracle.gradient(theta, (), batch)

    def calls(platform):
        program = jax.jit(lambda theta: estimate(theta)).trace(jnp.zeros(12)).lower(lowering_platforms=(platform,))
        return [name in program.as_text() for name in ("fastfedpg_play", "fastfedpg_weigh")]

    monkeypatch.setattr(sampled, "backends", lambda: {"cpu": None, "cuda": None})
    assert calls("cuda") == [False, False]
    assert calls("cpu") == [True, True]
    monkeypatch.setattr(sampled, "backends", lambda: {"cpu": None})
    assert calls("cpu") == [True, True]
    assert "platform_index" not in str(jax.make_jaxpr(lambda theta: estimate(theta))(jnp.zeros(12)))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_short_floats_go_the_plain_way(dtype):
    problem = with_oracle(ref.small_problem(), "reinforce", B=6, K=9)
    oracle = problem.oracle(jnp.asarray(problem.tasks[0]))
    theta = jnp.zeros(12, dtype)
    batch, _ = oracle.sample(theta, (), jax.random.key(9), None)
    g = oracle.gradient(theta, (), batch)
    assert g.dtype == dtype
    wide = oracle.gradient(theta.astype(jnp.float64), (), batch)
    np.testing.assert_allclose(g.astype(jnp.float64), wide, atol=0.05 * float(abs(wide).max()))


def test_wrong_types_and_shapes_are_refused():
    """Not read as if they were others."""
    visited, r = jnp.zeros((2, 3), jnp.int32), jnp.zeros(4)
    for given in ((visited, r, jnp.zeros(3, jnp.float32)), (visited, r[None], jnp.zeros(3)), (r[None], r, r[:3])):
        with pytest.raises(jax.errors.JaxRuntimeError, match="weigh takes pairs as int32"):
            jax.block_until_ready(kernels.weigh(0, *given))


def test_it_can_be_switched_off(tmp_path):
    code = "from fastfedpg import kernels; print(kernels.available())"
    done = python(code, tmp_path, FASTFEDPG_KERNELS="off")
    assert (done.stdout, done.stderr) == ("False\n", "")


def python(code, tmp_path, **environment):
    kept = {k: v for k, v in os.environ.items() if k != "CC"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "XDG_CACHE_HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_without_a_compiler_it_says_so_and_goes_on(tmp_path):
    code = "from fastfedpg import kernels; print(kernels.available(), kernels.available())"
    done = python(code, tmp_path, PATH="/nonexistent")
    assert done.stdout == "False False\n"
    assert done.stderr.count("without its compiled loops, more slowly: no C compiler (cc, gcc or clang)") == 1


def test_a_compiler_that_fails_is_quoted(tmp_path):
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'cc: no such luck' >&2\nexit 1\n")
    broken.chmod(0o755)
    done = python("from fastfedpg import kernels; print(kernels.available())", tmp_path, CC=str(broken))
    assert done.stdout == "False\n"
    assert "failed: cc: no such luck" in done.stderr


def test_a_compiler_that_makes_something_else_is_not_believed(tmp_path):
    """A library without what is called, and words that are no text."""
    odd = tmp_path / "cc"
    copy = f"shutil.copy({_ctypes.__file__!r}, sys.argv[-1])"
    odd.write_text(f"#!{sys.executable}\nimport shutil, sys\nif '-o' in sys.argv: {copy}\n")
    odd.chmod(0o755)
    code = "from fastfedpg import kernels; print(kernels.available())"
    done = python(code, tmp_path, CC=str(odd))
    assert done.stdout == "False\n", done.stderr
    assert "has no fastfedpg_play, fastfedpg_weigh" in done.stderr
    odd.write_text(
        f"#!{sys.executable}\nimport sys\nsys.stderr.buffer.write(b'\\xff\\n')\nsys.exit('-o' in sys.argv)\n"
    )
    assert "failed: \ufffd" in python(code, tmp_path, CC=str(odd)).stderr


AVAILABLE = "from fastfedpg import kernels; print(kernels.available())"


def test_it_is_compiled_once_and_kept(tmp_path):
    """The second process finds what the first one made."""
    assert python(AVAILABLE, tmp_path).stdout == "True\n"
    (kept,) = (tmp_path / "fastfedpg").iterdir()
    made = kept.stat().st_mtime_ns
    assert python(AVAILABLE, tmp_path).stdout == "True\n"
    assert kept.stat().st_mtime_ns == made


def test_half_of_it_is_compiled_again(tmp_path):
    assert python(AVAILABLE, tmp_path).stdout == "True\n"
    (kept,) = (tmp_path / "fastfedpg").iterdir()
    kept.write_bytes(kept.read_bytes()[:20_000])  # which would be loaded, and end the process
    assert python(AVAILABLE, tmp_path).stdout == "True\n"
    assert kept.stat().st_size > 20_000


def test_in_a_folder_that_can_not_be_written_it_does_without(tmp_path):
    blocked = tmp_path / "a file"
    blocked.touch()
    assert python(AVAILABLE, blocked).stdout == "True\n"


def numbers(lanes, length, key=0):
    """31-bit numbers, one row for each generator."""
    g = sampled.generators(jax.random.key(key), lanes)
    step = lambda g, _: jax.vmap(sampled.bits)(g)
    return np.asarray(jax.lax.scan(step, g, None, length=length)[1]).T


def reference_generator(state):
    """xoshiro128++ as published, in plain Python."""
    s, word = [int(x) for x in state], 2**32 - 1
    left = lambda x, k: ((x << k) | (x >> (32 - k))) & word
    while True:
        yield ((left((s[0] + s[3]) & word, 7) + s[0]) & word) >> 1
        t = (s[1] << 9) & word
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = left(s[3], 11)


def test_the_generator_is_the_published_one():
    g = sampled.generators(jax.random.key(3), 2)
    for row, state in zip(numbers(2, 50, key=3), np.asarray(g), strict=True):
        assert [int(v) for v, _ in zip(reference_generator(state), range(50), strict=False)] == row.tolist()


def test_streams_are_uniform_and_independent_within_and_across_lanes():
    """512 generators with neighbouring counters, 2,000 numbers each; seven tests at 1e-6 each.

    Chi-square of the upper and of the lower bits, and of pairs (16 x 16 cells): a number and the next in its lane, the
    one after that, the same place in the next lane, and in the lane 256 further on.
    """
    v = numbers(512, 2000)
    assert len(np.unique(np.asarray(sampled.generators(jax.random.key(0), 4096)), axis=0)) == 4096
    for x in (v >> 23, v & 255):
        assert stats.chisquare(np.bincount(x.reshape(-1), minlength=256)).pvalue > 1e-6
    pairs = {
        "next": (v[:, :-1], v[:, 1:]),
        "after next": (v[:, :-2], v[:, 2:]),
        "next lane": (v[:-1], v[1:]),
        "far lane": (v[:256], v[256:]),
        "next lane, one later": (v[:-1, :-1], v[1:, 1:]),
    }
    for name, (x, y) in pairs.items():
        cells = np.bincount(((x >> 27) * 16 + (y >> 27)).reshape(-1), minlength=256)
        assert stats.chisquare(cells).pvalue > 1e-6, name


def test_neighbouring_agents_rounds_and_seeds_have_streams_of_their_own():
    """The first numbers of 4,096 keys that differ in one counter are as uniform as any."""
    from fastfedpg.core import key_for

    by = {
        "agent": lambda i: key_for(0, 0, "local", i),
        "round": lambda i: key_for(0, i, "local", 0),
        "seed": lambda i: key_for(i, 0, "local", 0),
    }
    for name, key in by.items():
        first = jax.vmap(lambda i, key=key: sampled.bits(sampled.generators(key(i), 1)[0])[1])(jnp.arange(4096))
        assert stats.chisquare(np.bincount(np.asarray(first) >> 25, minlength=64)).pvalue > 1e-6, name
