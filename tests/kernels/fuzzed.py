"""Random calls of the compiled loops, right and wrong ones: `python fuzzed.py LIBRARY CASES SEED`, under sanitizers.

A right call gives the bits of the functions below, loops in NumPy; a wrong one is refused in words. No JAX is imported.
"""

import collections
import ctypes
import sys

import hypothesis
import numpy as np
from hypothesis import strategies as st

TYPES = {np.dtype(np.int32): 4, np.dtype(np.int64): 5, np.dtype(np.uint32): 8, np.dtype(np.float32): 11}
TYPES[np.dtype(np.float64)] = 12
EXTREME = (-(2**31), -1, 0, 1, 7, 2**30, 2**31 - 1)
ODD = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 5e-324, 3e38, 1.0)


class RefusedError(Exception):
    """By the definition."""


def call(library, loop, arrays, out, attribute=0, weights=0, threads=1):
    """The result, or the words of an error."""
    every = [np.ascontiguousarray(x) for x in (*arrays, out)]
    n, lengths = len(every), [np.asarray(x.shape, np.int64) for x in every]
    words = ctypes.create_string_buffer(256)
    pointers = lambda xs: (ctypes.c_void_p * n)(*(x.ctypes.data for x in xs))
    refused = library.drive(
        loop,
        n,
        (ctypes.c_int * n)(*(TYPES[x.dtype] for x in every)),
        (ctypes.c_int64 * n)(*(x.ndim for x in every)),
        pointers(lengths),
        (ctypes.c_int64 * n)(*(x.nbytes for x in every)),
        pointers(every),
        attribute,
        weights,
        threads,
        words,
    )
    return (None, words.value.decode()) if refused else (every[-1], "")


def must(holds):
    if not holds:
        raise RefusedError


def lanes(arrays, own, out, own_out):
    """Each lane's own arrays, in the order of the result's leading axes."""
    axes = out.ndim - own_out
    must(axes >= 0 and all(x.ndim == axes + k for x, k in zip(arrays, own, strict=True)))
    must(all(a in (1, b) for x in arrays for a, b in zip(x.shape[:axes], out.shape[:axes], strict=True)))
    for at in np.ndindex(out.shape[:axes]):
        yield at, [x[tuple(0 if n == 1 else i for i, n in zip(at, x.shape[:axes], strict=True))] for x in arrays]


def play(arrays, out):
    """`oracles.sampled.play` for all trajectories of all lanes."""
    must(len(arrays) == 4 and [x.dtype for x in (*arrays, out)] == [np.int32] * 3 + [np.uint32, np.int32])
    found = np.empty_like(out)
    every = [*lanes(arrays, (3, 2, 2, 2), out, 2)]
    (pairs, W, four), (W0, four0), (S, edges) = arrays[0].shape[-3:], arrays[1].shape[-2:], arrays[2].shape[-2:]
    B, K = out.shape[-2:]
    must(four == four0 == 4 and W in (1, 2, 4, 8, 16) and W0 in (1, 2, 4, 8, 16))
    must(S and pairs and pairs % S == 0 and arrays[3].shape[-2:] == (B, 4))
    A = pairs // S
    must(edges == max(4, -(-(A - 1) // 4) * 4))
    for at, (following, first, below, g) in every:
        s = [g[:, j].astype(np.uint64) for j in range(4)]
        word, left = np.uint64(2**32 - 1), lambda x, k: ((x << np.uint64(k)) | (x >> np.uint64(32 - k))) & word

        def bits(s=s, word=word, left=left):
            v = ((left((s[0] + s[3]) & word, 7) + s[0]) & word) >> np.uint64(1)
            t = (s[1] << np.uint64(9)) & word
            s[2], s[3] = s[2] ^ s[0], s[3] ^ s[1]
            s[1], s[0] = s[1] ^ s[2], s[0] ^ s[3]
            s[2], s[3] = s[2] ^ t, left(s[3], 11)
            return v.astype(np.int64)

        pair = np.zeros(B, np.int64)
        for k in range(K):
            table, u, v = (following if k else first[None]).astype(np.int64), bits(), bits()
            rest = 31 - (table.shape[-2].bit_length() - 1)
            chosen = table[pair, u >> rest]
            state = np.where((u & (2**rest - 1)) < chosen[:, 0], chosen[:, 1], chosen[:, 2])
            must(((state >= 0) & (state < S)).all())
            pair = state * A + np.minimum((v[:, None] >= below[state]).sum(axis=1), A - 1)
            found[at][:, k] = pair
    return found


def weigh(arrays, out, attribute, weights):
    """`oracles.sampled.weigh`, each operation rounded by itself."""
    must(len(arrays) == 3 and arrays[0].dtype == np.int32 and out.dtype in (np.float32, np.float64))
    must(arrays[1].dtype == arrays[2].dtype == out.dtype and attribute == 1 and weights in (0, 1, 2) and out.ndim)
    every, found = [*lanes(arrays, (2, 1, 1), out, 1)], np.zeros_like(out)
    B, K = arrays[0].shape[-2:]
    must(arrays[1].shape[-1] == out.shape[-1] and arrays[2].shape[-1] == K and (weights != 2 or B > 1))
    for at, (visited, r, discount) in every:
        must(((visited >= 0) & (visited < len(r))).all())
        paid, total, none = discount * r[visited] if visited.size else r[:0], found[at], out.dtype.type(0)
        together = np.zeros(K, out.dtype)
        to_go = np.zeros((B, K), out.dtype)
        for b in range(B):
            later = none
            for k in range(K)[::-1]:
                to_go[b, k] = later = later + paid[b, k]
            together = together + to_go[b]
        for b in range(B):
            whole = none
            for k in range(K):
                whole = whole + paid[b, k]
            for k in range(K)[::-1]:
                others = (together[k] - to_go[b, k]) * (out.dtype.type(1) / out.dtype.type(B - 1)) if B > 1 else none
                total[visited[b, k]] += (whole, to_go[b, k], to_go[b, k] - others)[weights]
    return found


@st.composite
def shapes(draw):
    """Lanes of the result, and which of them an array shares: up to three axes."""
    lead = tuple(draw(st.lists(st.sampled_from((1, 2, 3, 2, 3, 0)), max_size=3)))
    part = lambda: tuple(1 if draw(st.booleans()) else n for n in lead)
    return lead, part


def damaged(draw, arrays):
    """Now and then an array of another length, type, rank or with another value, or one less."""
    arrays = [*arrays]
    for _ in range(draw(st.sampled_from((0, 1, 1, 2)))):
        i = draw(st.sampled_from((0, *range(len(arrays)))))
        x, how = arrays[i], draw(st.sampled_from(("length", "length", "type", "rank", "value", "values", "none")))
        if how == "length" and x.ndim:
            shape = [*x.shape]
            shape[draw(st.sampled_from((-1, -min(2, x.ndim), 0)))] = draw(st.integers(0, 9))
            x = np.resize(x, shape) if x.size else np.zeros(shape, x.dtype)
        elif how == "type":
            x = x.astype(draw(st.sampled_from([*TYPES])), casting="unsafe")
        elif how == "rank":
            x = x[None] if draw(st.booleans()) else x.reshape(-1)
        elif how in ("value", "values") and x.size and x.ndim:
            x = np.array(x)  # a copy whose rows follow each other
            odd = np.asarray(draw(st.sampled_from(ODD if x.dtype.kind == "f" else EXTREME))).astype(x.dtype)
            if how == "value":
                x.reshape(-1)[draw(st.integers(0, x.size - 1))] = odd
            else:
                x[..., draw(st.integers(0, x.shape[-1] - 1))] = odd
        elif how == "none" and len(arrays) > 2:
            del arrays[i]
            continue
        arrays[i] = x
    return arrays[:-1], arrays[-1]


@st.composite
def plays(draw):
    """Arrays of `play` and its result."""
    lead, part = draw(shapes())
    S, A, B, K = (draw(st.integers(a, b)) for a, b in ((1, 5), (1, 11), (1, 19), (1, 35)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    W, W0 = draw(st.sampled_from((1, 2, 4, 8))), draw(st.sampled_from((1, 2, 8)))
    table = lambda shape: np.concatenate(
        [rng.integers(0, 2**31, (*shape, 1)), rng.integers(0, S, (*shape, 2)), rng.integers(-9, 9, (*shape, 1))],
        axis=-1,
    ).astype(np.int32)
    edges = max(4, -(-(A - 1) // 4) * 4)
    below = np.sort(rng.integers(0, 2**31, (*part(), S, edges)), axis=-1).astype(np.int32)
    below[..., A - 1 :] = 2**31 - 1
    g = rng.integers(0, 2**32, (*part(), B, 4)).astype(np.uint32)
    made = [table((*part(), S * A, W)), table((*part(), W0)), below, g, np.zeros((*lead, B, K), np.int32)]
    return (*damaged(draw, made), draw(st.integers(0, 4)))


@st.composite
def weighs(draw):
    """Arrays of `weigh` and its result, and which weights."""
    lead, part = draw(shapes())
    d, B, K = (draw(st.integers(a, b)) for a, b in ((1, 9), (1, 7), (1, 12)))
    rng, dtype = np.random.default_rng(draw(st.integers(0, 2**32))), draw(st.sampled_from((np.float32, np.float64)))
    visited = rng.integers(0, d, (*part(), B, K)).astype(np.int32)
    r = (rng.normal(size=(*part(), d)) * 10.0 ** rng.integers(-9, 9, d)).astype(dtype)
    made = [visited, r, rng.uniform(size=(*part(), K)).astype(dtype), np.full((*lead, d), 7, dtype)]
    number = draw(st.sampled_from((0, 1, 2) * 6 + (3, -1, 2**31 - 1)))
    return (*damaged(draw, made), draw(st.sampled_from((1,) * 9 + (0, 2))), number, draw(st.integers(0, 4)))


def compare(found, words, define, seen):
    """A call with what its definition says."""
    try:
        with np.errstate(all="ignore"):
            right = define()
    except RefusedError:
        assert found is None, f"taken: {found}"
        assert words
        seen[f"refused, {' '.join(words.split()[:4])} …"] += 1
        return
    assert found is not None, f"refused: {words}"
    assert np.array_equal(found, right, equal_nan=found.dtype.kind == "f"), (found, right)
    seen["equal bits"] += 1


def main(path, cases, seed):
    """Half of the cases for each loop."""
    library, seen = ctypes.CDLL(path), collections.Counter()
    print(f"{cases} cases, seed {seed}", flush=True)
    how = hypothesis.settings(
        max_examples=cases // 2, deadline=None, database=None, suppress_health_check=[*hypothesis.HealthCheck]
    )

    @hypothesis.seed(seed)
    @how
    @hypothesis.given(plays())
    def playing(given):
        *arrays, threads = given
        compare(*call(library, 0, *arrays, threads=threads), lambda: play(*arrays), seen)

    @hypothesis.seed(seed)
    @how
    @hypothesis.given(weighs())
    def weighing(given):
        *arrays, attribute, number, threads = given
        define = lambda: weigh(*arrays, attribute, number)
        compare(*call(library, 1, *arrays, attribute, number, threads), define, seen)

    playing()
    weighing()
    print(*(f"{what} {n}" for what, n in sorted(seen.items())), sep=", ")


if __name__ == "__main__":
    if sys.argv[2] == "overrun":
        ctypes.CDLL(sys.argv[1]).overrun(8)
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
