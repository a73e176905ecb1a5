"""Every mistake that `fastfedpg run` can be given: exit code 2, a message that helps, and nothing left behind."""

import csv
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fastfedpg import Config, InputError, cli
from fastfedpg.experiment import run_folder
from fastfedpg.problems import compromise

N, S, A = 2, 2, 2


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def run(*words) -> int:
    """The exit code of `fastfedpg run …`."""
    try:
        return cli.main(["run", *(str(w) for w in words)])
    except SystemExit as stop:
        return stop.code


def refuse(capsys, *words, says: tuple[str, ...]) -> str:
    """`fastfedpg run …` is wrong input: code 2, a message with every part of `says`, and not one file more or less."""
    before = contents()
    assert run(*words) == 2
    captured = capsys.readouterr()
    message = " ".join(captured.err.replace("│", " ").split())
    for part in says:
        assert part in message
    assert "Traceback" not in message
    assert captured.out == ""
    assert contents() == before
    return message


def contents() -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() else None for p in Path().rglob("*")}


def arrays(**changes) -> dict[str, object]:
    """A correct MDP in which some arrays were replaced; None leaves one out."""
    P = np.full((S, A, S), 0.5)
    reward = np.stack([np.eye(2), 1 - np.eye(2)])
    correct = {"P": P, "reward": reward, "rho": np.array([0.25, 0.75]), "gamma": 0.5}
    return {k: v for k, v in {**correct, **changes}.items() if v is not None}


def but(x: np.ndarray, index, value) -> np.ndarray:
    x = np.array(x, float)
    x[index] = value
    return x


P, REWARD = arrays()["P"], arrays()["reward"]
P_EACH = np.stack([P, P])


def test_the_arrays_that_the_mistakes_are_made_in_are_correct():
    np.savez("mdp.npz", **arrays())
    assert run("--problem", "mdp.npz", "--rounds", 1, "--out", "out") == 0
    np.savez("each.npz", **arrays(P=P_EACH, rho=np.full((N, S), 0.5)))
    assert run("--problem", "each.npz", "--rounds", 1, "--out", "out-each") == 0


def test_rounding_errors_in_sums_are_not_mistakes():
    np.savez("mdp.npz", **arrays(P=P * (1 + 1e-8), rho=np.array([0.25, 0.75 - 1e-8])))
    assert run("--problem", "mdp.npz", "--rounds", 1, "--out", "out") == 0


ARRAYS = {
    "row of P": ({"P": but(P, (1, 0), [0.5, 0.4])}, ("P of state 1, action 0 sums to 0.9", "must sum to 1")),
    "row of P, slightly": ({"P": but(P, (0, 1), [0.5, 0.50001])}, ("P of state 0, action 1 sums to 1.00001",)),
    "first of two rows": (
        {"P": but(but(P, (1, 1), 0), (0, 1), 1)},
        ("P of state 0, action 1 sums to 2",),
    ),
    "row of one agent's P": (
        {"P": but(P_EACH, (1, 0, 1), [0.5, 0.7])},
        ("P of agent 1, state 0, action 1 sums to 1.2", "must sum to 1"),
    ),
    "negative P": ({"P": but(P, (0, 1), [-0.25, 1.25])}, ("P[0, 1, 0] is -0.25", "can't be negative")),
    "negative P of an agent": ({"P": but(P_EACH, (1, 0, 1), [1.5, -0.5])}, ("P[1, 0, 1, 1] is -0.5",)),
    "NaN in P": ({"P": but(P, (1, 1, 0), np.nan)}, ("P[1, 1, 0] is nan", "finite")),
    "infinite P": ({"P": but(P, (1, 0, 1), np.inf)}, ("P[1, 0, 1] is inf", "finite")),
    "NaN in reward": ({"reward": but(REWARD, (1, 0, 1), np.nan)}, ("reward[1, 0, 1] is nan", "finite")),
    "NaN in rho": ({"rho": np.array([np.nan, 1])}, ("rho[0] is nan", "finite")),
    "sum of rho": ({"rho": np.array([0.5, 0.6])}, ("rho sums to 1.1", "must sum to 1")),
    "sum of one agent's rho": ({"rho": np.array([[1, 0], [0.5, 0.3]])}, ("rho of agent 1 sums to 0.8",)),
    "negative rho": ({"rho": np.array([-0.5, 1.5])}, ("rho[0] is -0.5", "can't be negative")),
    "rewards": (
        {"reward": but(but(REWARD, (1, 0, 0), -2), (1, 1, 1), 5)},
        ("rewards of agent 1 lie in [-2, 5], outside [0, 1]", "--reward-range -2.0 5.0 "),
    ),
    "gamma = 1": ({"gamma": 1.0}, ("gamma is 1.0", "in [0, 1)")),
    "gamma > 1": ({"gamma": 1.5}, ("gamma is 1.5", "in [0, 1)")),
    "gamma < 0": ({"gamma": -0.1}, ("gamma is -0.1", "in [0, 1)")),
    "gamma NaN": ({"gamma": np.nan}, ("gamma", "nan", "finite")),
    "two gammas": ({"gamma": np.array([0.5, 0.9])}, ("gamma is [0.5, 0.9]", "one number")),
    "P: states": (
        {"P": np.full((3, A, S), 0.5)},
        ("P has shape (3, 2, 2)", "axis 0 (states) has length 3", "reward of shape (2, 2, 2) says 2"),
    ),
    "P: actions": ({"P": np.full((S, 3, S), 0.5)}, ("P has shape (2, 3, 2)", "axis 1 (actions) has length 3")),
    "P: next states": ({"P": np.full((S, A, 3), 1 / 3)}, ("axis 2 (next states) has length 3", "says 2")),
    "P: agents": ({"P": np.full((3, S, A, S), 0.5)}, ("axis 0 (agents) has length 3", "says 2")),
    "P: too few axes": ({"P": np.ones((S, A))}, ("P has shape (2, 2)", "must be (2, 2, 2) or (2, 2, 2, 2)")),
    "reward: actions": ({"reward": np.zeros((N, S, 3))}, ("axis 1 (actions) has length 2", "(2, 2, 3) says 3")),
    "reward: too few axes": ({"reward": np.zeros((S, A))}, ("reward has shape (2, 2)", "(N, S, A): agents, states")),
    "reward: no agents": ({"reward": np.zeros((0, S, A))}, ("reward has shape (0, 2, 2)", "at least one agent")),
    "rho: states": ({"rho": np.full(4, 0.25)}, ("rho has shape (4,)", "axis 0 (states) has length 4", "says 2")),
    "rho: agents": ({"rho": np.full((3, S), 0.5)}, ("rho has shape (3, 2)", "axis 0 (agents) has length 3")),
    "rho: a number": ({"rho": np.array(1.0)}, ("rho has shape ()", "must be (2,) or (2, 2)")),
    "complex P": ({"P": P.astype(complex)}, ("P is not an array of real numbers", "complex128")),
    "words": ({"reward": np.full((N, S, A), "high")}, ("reward is not an array of real numbers",)),
    "missing name": ({"rho": None}, ("mdp.npz: lacks rho", "exactly P, reward, rho, gamma")),
    "unknown name": ({"rewards": REWARD}, ("has also rewards", "exactly P, reward, rho, gamma")),
    "misspelt name": ({"reward": None, "R": REWARD}, ("lacks reward and has also R",)),
    "needs pickle": (
        {"reward": np.array([[["a", None]]], dtype=object)},
        ("mdp.npz: reward holds Python objects, which need pickle", "plain numeric array"),
    ),
}


@pytest.mark.parametrize("mistake", ARRAYS)
def test_arrays_in_a_file(mistake, capsys):
    changes, says = ARRAYS[mistake]
    np.savez("mdp.npz", **arrays(**changes))
    refuse(capsys, "--problem", "mdp.npz", "--out", "out", says=says)


def a_truncated_npz(path: Path) -> None:
    np.savez(path, **arrays())
    path.write_bytes(path.read_bytes()[:300])


def a_damaged_npz(path: Path) -> None:
    """The list of names is whole; the header of a large array, read before its checksum, lacks its closing brace."""
    np.savez(path, **arrays(P=np.zeros((50, 2, 50))))
    data = bytearray(path.read_bytes())
    data[data.index(b"}", data.index(b"{'descr'"))] = ord(" ")
    path.write_bytes(data)


def a_single_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, P)


def a_pickle(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.array([{"P": 1}], dtype=object), allow_pickle=True)


FILES = {
    "missing": (lambda path: None, "no such file"),
    "text": (lambda path: path.write_text("P, reward\n1, 2\n"), "not an .npz file"),
    "empty": (lambda path: path.write_bytes(b""), "not an .npz file"),
    "cut short": (a_truncated_npz, "not an .npz file"),
    "damaged": (a_damaged_npz, "not an .npz file that can be read"),
    "npy": (a_single_array, "a single array; save the arrays P, reward, rho, gamma, or next, p, reward, rho, gamma"),
    "pickle": (a_pickle, "not an .npz file"),
    "folder": (lambda path: path.mkdir(), "not a file"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_npz(kind, capsys):
    make, says = FILES[kind]
    make(Path("mdp.npz"))
    refuse(capsys, "--problem", "mdp.npz", "--out", "out", says=("mdp.npz: ", says))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--reward-range 0 2", ("rewards of agent 0 lie in [-2, 5], outside [0, 2]", "--reward-range -2.0 5.0 ")),
        ("--reward-range 5 -2", ("reward_range is [5.0, -2.0]", "two numbers LO < HI")),
        ("--reward-range 1 1", ("reward_range is [1.0, 1.0]", "two numbers LO < HI")),
        ("--reward-range nan 1", ("reward_range[0] is nan",)),
        ("--reward-range 0 inf", ("reward_range[1] is inf",)),
        ("--agents 3 --reward-range -2 5", ("mdp.npz is a file", "agents do not apply")),
        ("--problem-args n=3 --reward-range -2 5", ("mdp.npz is a file", "problem_args")),
    ],
)
def test_settings_beside_a_file(words, says, capsys):
    np.savez("mdp.npz", **arrays(reward=7 * REWARD - 2))
    refuse(capsys, "--problem", "mdp.npz", *words.split(), "--out", "out", says=says)


FLAGS = {
    "--problem compromize": ("unknown problem 'compromize'", "did you mean 'compromise'?", "garnet"),
    "--problem compromise_grid": ("unknown problem 'compromise_grid'", "did you mean 'compromise-grid'?"),
    "--problem qqq": ("unknown problem 'qqq'", "known: compromise, compromise-grid, "),
    "--algorithm fastfedpg": ("unknown algorithm 'fastfedpg'", "did you mean 'fast_fedpg'?", "fedavg_pg"),
    "--algorithm SCAFFOLD": ("unknown algorithm 'SCAFFOLD'", "did you mean 'scaffold_pg'?"),
    "--oracle reinforse": ("unknown oracle 'reinforse'", "did you mean 'reinforce'?", "gpomdp"),
    "--H 0": ("H = 0", "at least 1"),
    "--K 0": ("K = 0", "at least 1"),
    "--K -5": ("K = -5", "at least 1"),
    "--B 0": ("B = 0", "at least 1"),
    "--rounds 0": ("rounds = 0", "at least 1"),
    "--rounds -1": ("rounds = -1", "at least 1"),
    "--seeds 0": ("seeds = 0", "at least 1"),
    "--agents 0": ("agents = 0", "at least 1"),
    "--metrics-every 0": ("metrics_every = 0", "at least 1"),
    "--B0 0": ("B0 = 0", "at least 1"),
    "--participants 0": ("participants = 0", "at least 1"),
    "--participants 3": ("participants = 3", "between 1 and the number of agents, 2"),
    "--first-seed -1": ("first_seed = -1", "all seeds must lie in [0, 2^31)"),
    "--eta 0": ("eta = 0", "positive and finite"),
    "--eta -1": ("eta = -1", "positive and finite"),
    "--eta nan": ("eta = nan", "positive and finite"),
    "--eta inf": ("eta = inf", "positive and finite"),
    "--alpha-g 0": ("alpha_g = 0", "(0, 1]"),
    "--alpha-g -0.5": ("alpha_g = -0.5", "(0, 1]"),
    "--alpha-g 1.01": ("alpha_g = 1.01", "(0, 1]"),
    "--alpha-g nan": ("alpha_g = nan", "(0, 1]"),
    "--tau -0.1": ("tau = -0.1", "finite and at least 0"),
    "--tau nan": ("tau = nan", "finite and at least 0"),
    "--tau inf": ("tau = inf", "finite and at least 0"),
    "--oracle gpomdp --baseline leave-one-out --B 1": ("leave-one-out", "at least 2 trajectories", "= 1"),
    "--oracle gpomdp --baseline leave-one-out --B0 1": ("leave-one-out", "at least 2 trajectories", "B0", "= 1"),
    "--baseline mean": ("'mean'", "--baseline", "leave-one-out"),
    "--option III": ("'III'", "--option", "II"),
    "--runtime lop": ("'lop'", "--runtime", "loop"),
    "--etta 0.1": ("--etta", "--eta FLOAT"),
    "--algorithm dial --trust 1": ("unknown algorithm 'dial'",),  # and not that nothing has a --trust
    "--problem tax --raining 1": ("unknown problem 'tax'; did you mean 'taxi'?",),
    "--policy mpl --oracle ppo --hiden 64x64": ("unknown policy 'mpl'; did you mean 'mlp'?",),
    "--algorithm auto --trust 1": ("Unrecognized options: --trust",),
    "--problem gym:CartPole-v1 --trust 1": ("Unrecognized options: --trust",),
    "--eta fast": ("--eta", "fast"),
    "--H 2.5": ("--H", "2.5"),
    "--reward-range 0": ("--reward-range",),
    "--reward-range 0 2": ("problem 'compromise'", "from a file"),
    "--problem-args mid": ("--problem-args", "'mid' is not of the form name=value"),
    "--problem-args midd=.5": ("problem 'compromise': unknown argument 'midd'", "did you mean 'mid'?", "gamma"),
    "--problem-args mid=high": ("argument mid of problem 'compromise' is 'high'", "must be a number"),
    "--problem-args agents=3": ("--agents",),
    "--problem-args gamma=1": ("gamma is 1.0", "in [0, 1)"),
    "--problem-args mid=1.5": ("mid = 1.5; it must lie in [0, 1]",),
    "--problem compromise-grid --problem-args n=4": ("n = 4", "odd n of at least 3"),
    "--problem compromise-grid --problem-args n=3.5": ("argument n", "'3.5'", "a whole number"),
    "--problem compromise-grid --problem-args slip=2": ("slip = 2", "in [0, 1]"),
    "--problem random --problem-args kappa=1.5": ("kappa = 1.5", "[0, 1]"),
    "--problem random --problem-args kernel=-1": ("kernel = -1", "[0, 1]"),
    "--problem random --problem-args concentration=0": ("concentration = 0", "positive"),
    "--problem random --problem-args S=0": ("S = 0", "at least 1"),
    "--problem garnet --problem-args branching=21": ("branching = 21", "between 1 and S = 20"),
    "--config": ("--config",),
    "--out": ("--out",),
}


@pytest.mark.parametrize("words", FLAGS)
def test_flags(words, capsys):
    problem = () if "--problem " in words else ("--problem", "compromise")
    out = () if words in ("--out", "--config") else ("--out", "out")
    refuse(capsys, *problem, *out, *words.split(), says=FLAGS[words])


def test_a_negative_seed_of_a_random_problem(capsys):
    refuse(capsys, "--problem", "random", "--problem-args", "seed=-1", "--out", "out", says=("seed = -1", "at least 0"))


@pytest.mark.parametrize("words", [("--problem", 300 * "x"), ("--out", 300 * "x")])
def test_a_name_that_is_too_long(words, capsys):
    refuse(capsys, "--problem", "compromise", *words, says=(300 * "x",))


def test_the_advice_on_rewards_of_a_maker_can_be_followed(capsys):
    words = ("--problem", "compromise", "--problem-args", "mid=1.5", "--out", "out")
    assert "--reward-range" not in refuse(capsys, *words, says=("mid",))


TOML = {
    "unknown key": ("etta = 0.1", ("unknown setting 'etta'", "did you mean 'eta'?")),
    "flag spelling": ("alpha-g = 0.5", ("unknown setting 'alpha-g'", "did you mean 'alpha_g'?")),
    "table": ("[algorithm]\netta = 0.1", ("algorithm 'fast_fedpg': unknown argument 'etta'", "did you mean 'eta'?")),
    "table without a name": ('algorithm = ["fast_fedpg"]', ("algorithm is ['fast_fedpg']", "must be text, or a table")),
    "text for a number": ('eta = "fast"', ("eta is 'fast'", "must be a number")),
    "fraction for a whole number": ("H = 2.5", ("H is 2.5", "must be a whole number")),
    "truth for a whole number": ("rounds = true", ("rounds is True", "must be a whole number")),
    "number for text": ("oracle = 5", ("oracle is 5", "must be text")),
    "number for truth": ("reuse = 1", ("reuse is 1", "must be true or false")),
    "text for a table": ('problem_args = "n=7"', ("problem_args is 'n=7'", "a table of names and values")),
    "one number for two": ("reward_range = [1]", ("reward_range is [1]", "two numbers")),
    "text in two numbers": ('reward_range = [0, "b"]', ("reward_range is [0, 'b']", "must be two numbers")),
    "text for an optional": ('agents = "two"', ("agents is 'two'", "must be a whole number")),
    "no TOML": ("eta: 0.1", ("not a TOML file", "line 1")),
    "no text": (b"\xff\xfe\x00", ("not a TOML file", "no UTF-8 at line 1, column 1")),
    "a wrong byte": (b"seeds = 1\nK = \xff", ("no UTF-8 at line 2, column 5",)),
    "no value": ("seeds = 1\nrounds = \n", ("not a TOML file", "at line 2, column 10")),
    "cut off in a table's name": ("seeds = 1\n[algor", ("at line 2, column 7, where the file ends",)),
    "cut off in a text": ('seeds = 1\n[algorithm]\nname = "fast_f', ("at line 3, column 15, where the file ends",)),
    "cut off in a list": ("speeds = [1,\n2", ("at line 2, column 2, where the file ends",)),
}


@pytest.mark.parametrize("mistake", TOML)
def test_toml_files(mistake, capsys):
    text, says = TOML[mistake]
    Path("run.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    refuse(capsys, "--problem", "compromise", "--config", "run.toml", "--out", "out", says=("run.toml: ", *says))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('runtime = "lop"', ("unknown runtime 'lop'", "did you mean 'loop'?")),
        ('baseline = "mean"', ("unknown baseline 'mean'", "leave-one-out")),
        ("option = 3", ("unknown option '3'", "I, II")),
    ],
)
def test_an_unknown_choice_in_a_toml_file(text, says, capsys):
    Path("run.toml").write_text(f'problem = "compromise"\n{text}\n')
    refuse(capsys, "--config", "run.toml", "--out", "out", says=says)


def test_an_infinite_whole_number_in_a_toml_file(capsys):
    Path("run.toml").write_text('problem = "compromise-grid"\nproblem_args = {n = inf}\n')
    refuse(capsys, "--config", "run.toml", "--out", "out", says=("argument n", "inf", "a whole number"))


def test_a_value_out_of_range_in_a_toml_file(capsys):
    Path("run.toml").write_text('problem = "compromise"\nalpha_g = 2\n')
    refuse(capsys, "--config", "run.toml", "--out", "out", says=("alpha_g = 2", "(0, 1]"))


@pytest.mark.parametrize("words", [("--config", "gone.toml"), ("--config=gone.toml",)])
def test_a_toml_file_that_is_missing(words, capsys):
    refuse(capsys, *words, "--out", "out", says=("gone.toml: No such file",))


THETA0 = {
    "missing": (None, ("start.npz: no such file",)),
    "shape": ({"theta": np.zeros((3, 3))}, ("theta has shape (3, 3)", "must be (1, 3)", "(2, 1, 3)", "2 seeds")),
    "one per seed": ({"theta": np.zeros((5, 1, 3))}, ("theta has shape (5, 1, 3)", "(2, 1, 3)")),
    "transposed": ({"theta": np.zeros((3, 1))}, ("theta has shape (3, 1)", "states, actions")),
    "name": ({"params": np.zeros((1, 3))}, ("lacks theta and has also params", "exactly theta")),
    "NaN": ({"theta": np.array([[0, np.nan, 0]])}, ("theta must hold finite",)),
    "infinite": ({"theta": np.array([[0, np.inf, 0]])}, ("theta must hold finite",)),
    "words": ({"theta": np.array([["a", "b", "c"]])}, ("theta has type <U1", "real numbers")),
    "pickle": ({"theta": np.array([[None, 1, 2]], dtype=object)}, ("theta holds Python objects", "pickle")),
}


@pytest.mark.parametrize("mistake", THETA0)
def test_theta0(mistake, capsys):
    held, says = THETA0[mistake]
    if held is not None:
        np.savez("start.npz", **held)
    words = ("--problem", "compromise", "--seeds", 2, "--theta0", "start.npz", "--out", "out")
    refuse(capsys, *words, says=("start.npz: ", *says))


SMALL = ("--problem", "compromise", "--rounds", "1")


def test_a_folder_that_holds_something_is_refused(capsys):
    Path("out").mkdir()
    Path("out/thesis.tex").write_text("years of work")
    refuse(capsys, *SMALL, "--out", "out", says=("out: the folder is not empty", "--out", "--overwrite"))


def test_an_empty_folder_is_used():
    Path("out").mkdir()
    assert run(*SMALL, "--out", "out") == 0
    assert Path("out/metrics.csv").exists()


def test_overwrite_replaces_the_runs_own_files_only():
    np.savez("start.npz", theta=np.ones((1, 3)))
    assert run(*SMALL, "--rounds", 2, "--theta0", "start.npz", "--out", "out") == 0
    assert Path("out/theta0.npz").exists()
    Path("out/thesis.tex").write_text("years of work")
    Path("out/figures").mkdir()
    Path("out/figures/one.png").write_bytes(b"png")
    assert run(*SMALL, "--out", "out", "--overwrite") == 0
    assert Path("out/thesis.tex").read_text() == "years of work"
    assert Path("out/figures/one.png").read_bytes() == b"png"
    assert json.loads(Path("out/summary.json").read_text())["rounds"] == 1
    assert not Path("out/theta0.npz").exists(), "left over from the earlier run, and no part of this one"


@pytest.mark.parametrize("words", [("--eta", "-1"), ("--algorithm", "fedavg"), ("--theta0", "gone.npz")])
def test_a_mistake_beside_overwrite_loses_nothing(words, capsys):
    assert run(*SMALL, "--out", "out") == 0
    capsys.readouterr()
    refuse(capsys, *SMALL, "--out", "out", "--overwrite", *words, says=("fastfedpg: ",))


def test_out_is_a_file(capsys):
    Path("out").write_text("not a folder")
    refuse(capsys, *SMALL, "--out", "out", says=("out: exists and is not a folder",))
    refuse(capsys, *SMALL, "--out", "out", "--overwrite", says=("out: exists and is not a folder",))


def test_out_is_below_a_file(capsys):
    Path("file").write_text("not a folder")
    refuse(capsys, *SMALL, "--out", "file/out", says=("file/out: ", "Not a directory"))


def test_no_permission_to_write_in_the_parent(capsys, monkeypatch):
    """Root may write anywhere, so the answer of the operating system is put in its mouth."""
    Path("locked").mkdir()
    locked = Path("locked").resolve()
    access = run_folder.os.access
    monkeypatch.setattr(run_folder.os, "access", lambda path, mode: Path(path) != locked and access(path, mode))
    refuse(capsys, *SMALL, "--out", "locked/a/b", says=("locked/a/b: no permission to write in", str(locked)))


def test_list_takes_one_name(capsys):
    assert cli.main(["list", "fast_fedpg", "gpomdp"]) == 2
    assert "list takes one name, but was given fast_fedpg gpomdp" in capsys.readouterr().err
    assert cli.main(["list", "fastfedpg"]) == 2
    assert "unknown name 'fastfedpg'; did you mean 'fast_fedpg'?" in capsys.readouterr().err


def test_unknown_command(capsys):
    assert cli.main(["rum"]) == 2
    assert "unknown command 'rum'; did you mean 'run'?" in capsys.readouterr().err


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_divergence_in_the_first_round(capsys):
    """One state, gamma = 1/2, A = 3: L <= 1 / (2 (1 - gamma)^3) = 4, and 1/(3LH) = 1/(3 * 4 * 10) = 0.00833."""
    assert run("--problem", "compromise", "--eta", "1e308", "--H", 10, "--out", "out") == 1
    captured = capsys.readouterr()
    for part in ("diverged in round 1", "agent 0", "eta = 1e+308", "1/(3LH) = 0.00833", "H = 10", "L = 4", "in out"):
        assert part in captured.err
    assert "Traceback" not in captured.err
    assert "results:" not in captured.out
    assert [row["round"] for row in rows("out/metrics.csv")] == ["0"]
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["state"] == "diverged"
    assert summary["rounds_done"] == 0
    assert "diverged in round 1" in summary["message"]
    assert np.isfinite(np.load("out/final.npz")["theta"]).all()


@pytest.mark.parametrize("runtime", ["simulate", "loop"])
def test_divergence_later_keeps_the_metrics_until_then(runtime, capsys):
    """Agent 1 alone has a cost, and only in state 1, which is seldom reached.

    gpomdp is exactly zero on a trajectory without cost, so theta stays 0 whatever eta is. Once agent 1 meets a cost,
    seed 4 does so in its fourth round, its gradient is of order 1 and a step of 1.7e308 beyond float64: agent 1's
    message, and no other, stops being finite. Lemma 2, which is about Fast-FedPG, is not quoted to it.
    """
    stay = np.tile([[0.98, 0.02], [0.0, 1.0]], (2, 1, 1)).transpose(1, 0, 2)
    reward = np.ones((2, 2, 2))
    reward[1, 1] = 0
    np.savez("mdp.npz", P=stay, reward=reward, rho=np.array([1.0, 0.0]), gamma=0.9)
    sampled = ("--oracle", "gpomdp", "--B", 1, "--K", 10, "--rounds", 200, "--first-seed", 4, "--runtime", runtime)
    fast = ("--algorithm", "fedavg_pg", "--H", 1, "--eta", 1.7e308)
    assert run("--problem", "mdp.npz", *fast, *sampled, "--out", "out") == 1
    message = capsys.readouterr().err
    recorded = [int(row["round"]) for row in rows("out/metrics.csv")]
    assert len(recorded) > 2
    assert recorded == list(range(len(recorded)))
    for part in (f"diverged in round {recorded[-1] + 1} ", "agent 1", "seed 4", "1.7e+308"):
        assert part in message
    assert "1/(3LH)" not in message
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["state"] == "diverged"
    assert summary["rounds_done"] == recorded[-1]
    assert {p.name for p in Path("out").iterdir()} == {
        ".written",
        "config.toml",
        "results.npz",
        "metrics.csv",
        "final.npz",
        "agents.npz",
        "summary.json",
        "problem.npz",
    }


def test_ctrl_c_before_anything_was_done(capsys, monkeypatch):
    def stopped(config, like=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["fastfedpg.experiment.recorded_run"], "plan", stopped)
    assert run(*SMALL, "--out", "out") == 130
    assert "interrupted before anything was done" in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--H 99999999999999999999", ("H = 99999999999999999999; it must be below 2^31",)),
        ("--tau 1e308", ("tau = 1e+308", "at most 1e6")),
        (
            "--problem random --problem-args S=10000000",
            ("agents = 5, S = 10000000, A = 5: that takes about", "take less of them"),
        ),
        ("--theta0 " + 300 * "x" + ".npz", ("file name too long",)),
        ("--problem " + 300 * "x" + ".npz", ("file name too long",)),
        ("--config .", (".: a folder; give the file, config.toml",)),
    ],
)
def test_sizes_and_names_beyond_reason(words, says, capsys):
    problem = () if "--problem " in words else ("--problem", "compromise")
    refuse(capsys, *problem, "--out", "out", *words.split(), says=says)


@pytest.mark.parametrize("value", ["9" * 400, "[" * 2000, "9" * 5000])
def test_toml_beyond_pythons_limits(value, capsys):
    Path("bad.toml").write_text(f"eta = {value}\n")
    refuse(capsys, "--config", "bad.toml", "--out", "out", says=("bad.toml: ",))


def test_the_advised_reward_range_is_accepted(capsys):
    """Pasted back as it stands, for rewards that no short decimal reaches, and for rewards that are all alike."""
    for out, rewards in (("a", np.array([[[0.1234567891, 7.987654321]]])), ("b", np.full((1, 1, 2), 3.0))):
        np.savez("mdp.npz", P=np.ones((1, 2, 1)), reward=rewards, rho=np.ones(1), gamma=0.5)
        assert run("--problem", "mdp.npz", "--out", out) == 2
        advised = re.search(r"--reward-range (\S+) (\S+)", capsys.readouterr().err).groups()
        assert run("--problem", "mdp.npz", "--rounds", 1, "--out", out, "--reward-range", *advised) == 0
        capsys.readouterr()


def test_overwrite_touches_nothing_where_it_cannot_go_on(capsys):
    Path("out/metrics.csv").mkdir(parents=True)
    Path("out/config.toml").write_text(f"# {run_folder.versions()}\n")
    words = ("--problem", "compromise", "--out", "out", "--overwrite")
    refuse(capsys, *words, says=("metrics.csv: a folder where a file of the run belongs",))


def test_of_two_runs_that_want_one_folder_only_one_begins(tmp_path):
    """Both pass the first look, since the folder is empty; who holds it, and config.toml after that, decide."""
    out, config = tmp_path / "out", Config(problem="compromise")
    clear, describe = lambda: run_folder.clear(out, False), lambda: run_folder.describe(out, config, compromise(), None)
    opened = lambda: run_folder.open_folder(out, clear, describe)
    with opened(), pytest.raises(InputError, match="another process is at work"), opened():
        pass
    with pytest.raises(InputError, match="another run has begun"), opened():
        pass


def test_theta0_beyond_any_policy(capsys):
    np.savez("start.npz", theta=np.array([[1e308, -1e308, 0.0]]))
    refuse(
        capsys, "--problem", "compromise", "--theta0", "start.npz", "--out", "out", says=("none larger than 1e+100",)
    )


def test_ctrl_c_while_jax_is_imported():
    """The interrupt comes out of the import of the command line itself: no traceback, and the code of an interrupt."""
    program = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "jax":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from fastfedpg.entry import main
assert "jax" not in sys.modules
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "list"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, "fastfedpg: interrupted before anything was done\n")


def test_ctrl_c_in_a_finaliser_is_not_lost():
    """Python forgets what is raised in one."""
    program = """
import signal, sys, time
from fastfedpg import cli, entry
class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
def work():
    try:
        held = Dying()
        del held
        time.sleep(20)
    except KeyboardInterrupt:
        return 130
    return 0
cli.prepare, cli.main = lambda arguments: None, work
entry.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_a_request_to_end_keeps_what_was_done_like_ctrl_c(number):
    command = [Path(sys.executable).parent / "fastfedpg", "run", "--problem", "compromise", "--rounds", "5000000"]
    command += ["--metrics-every", "500", "--out", "out"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        process.stderr.readline()
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "kept in out: config.toml, metrics.csv" in said
    assert "fastfedpg resume out goes on from it" in said
    assert len(Path("out/metrics.csv").read_text().splitlines()) > 2


def test_nohup_is_respected():
    """Where a hang-up is ignored from the start, it stays ignored, and the run goes on to its end."""
    script = Path(sys.executable).parent / "fastfedpg"
    words = "run --problem compromise --rounds 4000 --metrics-every 500 --out out"
    with subprocess.Popen(
        f"trap '' HUP; exec {script} {words}", shell=True, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stderr.readline()
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(Path("out/summary.json").read_text())["state"] == "finished"


def test_a_reader_that_goes_away_does_not_end_the_run():
    script = Path(sys.executable).parent / "fastfedpg"
    words = "run --problem compromise --rounds 6000 --metrics-every 500 --out out 2>&1 | head -1"
    subprocess.run(f"{script} {words}", shell=True, check=False, capture_output=True, timeout=120)
    for _ in range(100):
        if Path("out/summary.json").exists():
            break
        time.sleep(0.2)
    assert json.loads(Path("out/summary.json").read_text())["state"] == "finished"


def test_a_full_disk_is_one_message_and_the_small_files_come_first(capsys, monkeypatch):
    """The disk fills up inside metrics.csv: theta and the agents' returns are there already, and the exit code is 1."""

    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = Path.open
    monkeypatch.setattr(Path, "open", lambda p, *a, **k: Full() if p.name.endswith("metrics.csv") else real(p, *a, **k))
    assert run("--problem", "compromise", "--rounds", 1, "--out", "out") == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "kept in out: config.toml, final.npz, agents.npz" in said
    assert "Traceback" not in said
    assert Path("out/final.npz").exists()
