"""Wrong indices and lengths are refused in words by the compiled loops themselves, and never end the process."""

import json
import subprocess
import sys

import pytest

WRONG = """
import json
import jax, jax.numpy as jnp, numpy as np
from fastfedpg import kernels
from fastfedpg.oracles import sampled
assert kernels.available()
S, A, B, K = 5, 3, 4, 6
rng = np.random.default_rng(0)
model = jax.tree.map(jnp.asarray, sampled.prepare(rng.dirichlet(np.ones(S), (S, A)), rng.dirichlet(np.ones(S))))
below = jnp.asarray(np.sort(rng.integers(0, 2**31, (S, A - 1)), axis=1), jnp.int32)
play = dict(next=model.next.bins, first=model.first.bins, below=below, g=sampled.generators(jax.random.key(0), B))
weigh = dict(visited=kernels.play(**play, K=K), r=jnp.ones(S * A, jnp.float32), discount=jnp.ones(K, jnp.float32))
visited, many = weigh["visited"], 10**7

def called(name, arrays, form, **attributes):
    return lambda: jax.ffi.ffi_call(name, form, vmap_method="expand_dims")(*arrays.values(), **attributes)

def playing(**other):
    return lambda: kernels.play(**{**play, **other}, K=K)

def weighing(which=0, **other):
    return lambda: kernels.weigh(which, **{**weigh, **other})

steps = jax.ShapeDtypeStruct((B, K), jnp.int32)
calls = {
    "play": playing(),
    "weigh": weighing(),
    "visited too large": weighing(visited=visited.at[1, 2].set(S * A)),
    "visited far too large": weighing(visited=visited.at[1, 2].set(2**31 - 1)),
    "visited negative": weighing(1, visited=visited.at[3, 5].set(-1)),
    "visited far too negative": weighing(2, visited=visited.at[0, 0].set(-(2**31))),
    "discount too short": weighing(discount=jnp.ones(K - 1, jnp.float32)),
    "discount too long": weighing(discount=jnp.ones(K + 1, jnp.float32)),
    "discount empty": weighing(discount=jnp.ones(0, jnp.float32)),
    "costs too short": called(
        "fastfedpg_weigh", {**weigh, "r": jnp.ones(S, jnp.float32)}, jax.ShapeDtypeStruct((many,), jnp.float32),
        weights=np.int32(0),
    ),
    "weights 3": weighing(3),
    "weights -1": weighing(-1),
    "weights 1.5": called("fastfedpg_weigh", weigh, weigh["r"], weights=np.float32(1.5)),
    "weights text": called("fastfedpg_weigh", weigh, weigh["r"], weights="whole"),
    "no weights": called("fastfedpg_weigh", weigh, weigh["r"]),
    "one trajectory has no others": weighing(2, visited=visited[:1]),
    "lanes of another length": called(
        "fastfedpg_weigh", {"v": visited[None], "r": jnp.ones((2, S * A)), "d": jnp.ones((3, K))},
        jax.ShapeDtypeStruct((2, S * A), jnp.float32), weights=np.int32(0),
    ),
    "below empty": playing(below=jnp.zeros((0, A - 1), jnp.int32)),
    "below of other states": playing(below=jnp.zeros((S - 1, A - 1), jnp.int32)),
    "below of more states": playing(below=jnp.zeros((many, A - 1), jnp.int32)),
    "below of other actions": playing(below=jnp.zeros((S, A + 4), jnp.int32)),
    "below that is not in fours": called("fastfedpg_play", play, steps),
    "g too short": called("fastfedpg_play", {**play, "below": jnp.zeros((S, 4), jnp.int32), "g": play["g"][:1]}, steps),
    "g of three words": playing(g=play["g"][:, :3]),
    "bins that are no power of two": playing(next=jnp.zeros((S * A, 3, 4), jnp.int32)),
    "no bins": playing(next=jnp.zeros((S * A, 0, 4), jnp.int32)),
    "no first bins": playing(first=jnp.zeros((0, 4), jnp.int32)),
    "bins of five": playing(next=jnp.zeros((S * A, 8, 5), jnp.int32)),
    "a next state that is not there": playing(next=play["next"].at[:, :, 1:3].set(S)),
    "a next state that is negative": playing(next=play["next"].at[:, :, 1:3].set(-(2**31))),
    "a first state that is not there": playing(first=play["first"].at[:, 1:3].set(2**31 - 1)),
    "the rest of play": playing(),
}
for name, call in calls.items():
    print(json.dumps(name), flush=True)
    try:
        jax.block_until_ready(call())
        print(json.dumps("taken"), flush=True)
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        print(json.dumps(str(error)), flush=True)
"""
LENGTHS = "weigh: 15 costs for 15 pairs, and {} discounts for 6 steps; as many is right"
EXPECTED = {
    "play": "taken",
    "weigh": "taken",
    "visited too large": "weigh: a visited pair is not from 0 to 14",
    "visited far too large": "weigh: a visited pair is not from 0 to 14",
    "visited negative": "weigh: a visited pair is not from 0 to 14",
    "visited far too negative": "weigh: a visited pair is not from 0 to 14",
    "discount too short": LENGTHS.format(5),
    "discount too long": LENGTHS.format(7),
    "discount empty": LENGTHS.format(0),
    "costs too short": "weigh: 5 costs for 10000000 pairs",
    "weights 3": "weigh: weights are 0, 1 or 2, an int32",
    "weights -1": "weigh: weights are 0, 1 or 2, an int32",
    "weights 1.5": "weigh: weights are 0, 1 or 2, an int32",
    "weights text": "weigh: weights are 0, 1 or 2, an int32",
    "no weights": "weigh: weights are 0, 1 or 2, an int32",
    "one trajectory has no others": "weigh: 1 trajectories; 2 have others",
    "lanes of another length": "for the same lanes",
    "below empty": "play: 15 pairs of 8 bins, and 0 states with 4 thresholds, do not go together",
    "below of other states": "play: 15 pairs of 8 bins, and 4 states with 4 thresholds, do not go together",
    "below of more states": "play: 15 pairs of 8 bins, and 10000000 states",
    "below of other actions": "play: 8 thresholds for 3 actions; one less than actions, filled up to fours, is right",
    "below that is not in fours": "5 states with 2 thresholds, do not go together",
    "g too short": "play: 1 generators of 4 words for 4 trajectories; one of 4 for each is right",
    "g of three words": "play: 4 generators of 3 words for 4 trajectories; one of 4 for each is right",
    "bins that are no power of two": "play: tables have 3 and 8 bins of 4 and 4 numbers; a power of two of 4 is right",
    "no bins": "play: tables have 0 and 8 bins of 4 and 4 numbers; a power of two of 4 is right",
    "no first bins": "play: tables have 8 and 0 bins of 4 and 4 numbers; a power of two of 4 is right",
    "bins of five": "play: tables have 8 and 8 bins of 5 and 4 numbers; a power of two of 4 is right",
    "a next state that is not there": "play: a table leads to a state not from 0 to 4",
    "a next state that is negative": "play: a table leads to a state not from 0 to 4",
    "a first state that is not there": "play: a table leads to a state not from 0 to 4",
    "the rest of play": "taken",
}


@pytest.fixture(scope="module")
def answers():
    """What a process of its own was told, call by call: a crash ends that one."""
    done = subprocess.run([sys.executable, "-c", WRONG], capture_output=True, text=True, timeout=300)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{lines[-1:]} ended it ({done.returncode}): {done.stderr[-2000:]}"
    return dict(zip(lines[::2], lines[1::2], strict=True))


def test_every_call_was_made(answers):
    assert [*answers] == [*EXPECTED]


@pytest.mark.parametrize("call", EXPECTED)
def test_a_wrong_call_is_refused_in_words(call, answers):
    assert EXPECTED[call] in answers[call]
