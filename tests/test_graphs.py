"""Graphs by name and by weights: what they are, that agents on them come to agree, and what is refused."""

import hashlib

import numpy as np
import pytest

from fastfedpg import Config, InputError
from fastfedpg.experiment import plan
from fastfedpg.experiment.config import from_toml
from fastfedpg.graphs import EDGES, gossip, weights


def test_weights_by_hand():
    """Metropolis: on a ring everybody has degree 2, W_ij = 1/3. A star of 4 has degrees 3, 1, 1, 1: 1/4 on each edge,
    which leaves 1/4 to the hub and 3/4 to a leaf. Complete: 1/N everywhere. A torus of 3 x 4: 4 neighbours, 1/5."""
    third = 1 / 3
    np.testing.assert_allclose(
        weights("ring", 4),
        [[third, third, 0, third], [third, third, third, 0], [0, third, third, third], [third, 0, third, third]],
    )
    star = np.diag([0.25, 0.75, 0.75, 0.75])
    star[0, 1:] = star[1:, 0] = 0.25
    np.testing.assert_allclose(weights("star", 4), star)
    np.testing.assert_allclose(weights("complete", 5), np.full((5, 5), 0.2))
    torus = weights("torus", 12)
    np.testing.assert_allclose(torus[0], [0.2 * (j in (0, 1, 3, 4, 8)) for j in range(12)])
    np.testing.assert_allclose(torus[6], [0.2 * (j in (6, 5, 7, 2, 10)) for j in range(12)])
    for name in EDGES:
        np.testing.assert_array_equal(weights(name, 1), [[1.0]])
    np.testing.assert_allclose(weights("ring", 2), [[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.parametrize("name", EDGES)
def test_agents_come_to_agree(name):
    """W is symmetric, doubly stochastic, and W^t -> 11'/N: all eigenvalues but one are below 1 in size."""
    W = weights(name, 12, edge_p=0.2, seed=3)
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W.sum(axis=1), 1, rtol=1e-14)
    assert (W >= 0).all()
    assert np.sort(np.abs(np.linalg.eigvalsh(W)))[-2] < 0.99
    assert gossip(name, 0.2, 3).of(12).degree == np.count_nonzero(W - np.diag(np.diag(W))) / 12


def test_random_graphs_have_a_seed_and_a_density():
    """p = .2 on 12 nodes has isolated nodes with probability about 12 * .8^11 = 1: most draws are drawn again."""
    one = weights("erdos-renyi", 12, 0.2, seed=0)
    np.testing.assert_array_equal(one, weights("erdos-renyi", 12, 0.2, seed=0))
    assert (one != weights("erdos-renyi", 12, 0.2, seed=1)).any()
    edges = lambda p: np.count_nonzero(np.triu(weights("erdos-renyi", 40, p), 1)) / 780
    assert edges(0.3) == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / 780) ** 0.5)
    assert edges(1.0) == 1


def test_weights_from_files(tmp_path):
    W = weights("star", 3)
    np.save(tmp_path / "w.npy", W)
    np.savez(tmp_path / "w.npz", W)
    np.savez(tmp_path / "named.npz", other=np.ones(2), W=W)
    ups = np.arange(6.0).reshape(3, 2)
    for given in (W, W.tolist(), *(str(tmp_path / name) for name in ("w.npy", "w.npz", "named.npz"))):
        rule = gossip(given).of(3)
        np.testing.assert_allclose(rule.merge(ups, np.arange(3)), W @ ups)
        assert (rule.agents, rule.degree) == (3, 4 / 3)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ("rnig", "unknown graph 'rnig'; did you mean 'ring'?"),
        ("none.npy", "graph: file none.npy can't be read as a matrix of numbers: .*No such file"),
        ("two.npz", "it has a, b, and none is W"),
        ("text.npy", "file text.npy can't be read as a matrix of numbers"),
        ([["a"]], "graph: its weights can't be read as a matrix of numbers"),
        ([[0.5, 0.5], [1.0]], "graph: its weights can't be read as a matrix of numbers"),
        ([[0.5, 0.5]], r"W has shape \(1, 2\); it must be \(N, N\)"),
        ([[0.6, 0.4], [0.5, 0.5]], "column 0 of W sums to 1.1; each must sum to 1"),
        (
            np.kron(np.eye(2), np.full((2, 2), 0.5)),
            "what agent 0 says never reaches agent 2; W must connect all agents",
        ),
        ([[0.0, 1.0], [1.0, 0.0]], "take turns for ever, all ways back have a multiple of 2 steps"),
        (np.roll(np.eye(3), 1, axis=0), "all ways back have a multiple of 3 steps; .* W_ii > 0"),
    ],
)
def test_bad_graphs_are_refused(graph, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("two.npz", a=np.ones(2), b=np.ones(2))
    (tmp_path / "text.npy").write_text("W = 1")
    with pytest.raises(ValueError, match=words):
        gossip(graph)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"graph": "torus"}, "graph = torus has 7 agents; it needs rows and columns of at least 3: 9, 12, 15, 16"),
        ({"graph": [[0.5, 0.5], [0.5, 0.5]]}, "combines the uploads of 2 agents, and there are 7"),
        ({"graph": "erdos-renyi", "edge_p": 1e-6}, "7 agents were never connected; take an edge_p above 1e-06"),
        ({"graph": "erdos-renyi", "edge_p": 1.5}, "edge_p = 1.5; the probability of an edge must lie in"),
        ({"graph": 3}, "graph of algorithm 'mdpgt' is 3; it must be a name, a file, or rows of numbers"),
        ({"graph_seed": -1}, "graph_seed = -1; it must be at least 0"),
        ({"b": 0.0}, r"b = 0; it must lie in \(0, 1\]"),
    ],
)
def test_what_can_t_be_is_refused_before_anything_is_run(given, words):
    with pytest.raises(InputError, match=words):
        plan(Config("compromise", agents=7, algorithm="mdpgt", **given))


def test_weights_are_a_setting_like_any_other(tmp_path):
    """Rows of numbers are written down with the run, and read again."""
    config = Config("compromise", agents=2, algorithm="decentralised_pg", graph=[[0.75, 0.25], [0.25, 0.75]])
    (tmp_path / "config.toml").write_text(config.to_toml())
    again = from_toml(tmp_path / "config.toml")
    assert again.choice("algorithm").args["graph"] == ((0.75, 0.25), (0.25, 0.75))
    assert again == config
    assert plan(again).sizes.floats_up == 3


def test_a_graph_s_file_counts_as_a_user_s_own_code(tmp_path):
    """What was learned on other weights is not gone on with: a configuration has their sum, as it has a function's."""
    file = tmp_path / "w.npy"
    of = lambda: Config(algorithm="decentralised_pg", given={"graph": str(file)})
    np.save(file, np.full((2, 2), 0.5))
    before = of().sources()
    assert before == of().sources() == {"decentralised_pg": hashlib.sha256(file.read_bytes()).hexdigest()}
    np.save(file, [[0.75, 0.25], [0.25, 0.75]])
    assert of().sources() != before
    file.unlink()
    assert of().sources() == {}
