"""Every command, from a fresh folder: what it prints, what it leaves on disk, and that a run can be repeated."""

import csv
import json
import math
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import fastfedpg
from commands import command
from fastfedpg import Config, cli
from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.experiment import plan, presets
from fastfedpg.experiment.config import from_toml
from fastfedpg.oracles import ORACLES
from fastfedpg.policies import POLICIES
from fastfedpg.problems import PLAYED, PROBLEMS, compromise, compromise_grid, tabular_exact

SCRIPT = str(Path(sys.executable).with_name("fastfedpg"))
DRAWN = {"curve.png", "curve.svg"}
RUN_FILES = {".written", "config.toml", "results.npz", "metrics.csv", "final.npz", "agents.npz", "summary.json"}
COLUMNS = (
    "seed round J gap grad_norm_sq return_mean return_worst return_q25 return_median return_q75 drift env_steps "
    "floats_up floats_down bytes_up bytes_down syncs"
)
SAMPLED = ("--oracle", "gpomdp", "--B", 4, "--K", 6)


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def run(out: str, *words, problem: str = "compromise") -> Path:
    """A run that must succeed, and its folder."""
    assert command("run", "--problem", problem, "--H", 3, "--eta", 0.5, *words, "--out", out) == 0
    return Path(out)


def repeat(folder: Path | str, out: str, *words) -> Path:
    """The run again, from the configuration that it left."""
    assert command("run", "--config", Path(folder) / "config.toml", *words, "--out", out) == 0
    return Path(out)


def rows(folder: Path | str) -> list[dict[str, str]]:
    with (Path(folder) / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def column(folder: Path | str, name: str) -> np.ndarray:
    return np.array([float(row[name] or "nan") for row in rows(folder)])


def theta(folder: Path | str) -> np.ndarray:
    with np.load(Path(folder) / "final.npz") as file:
        assert file.files == ["theta"]
        return file["theta"]


def summary(folder: Path | str) -> dict:
    return json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))


def assert_same_run(a: Path, b: Path) -> None:
    assert (a / "metrics.csv").read_bytes() == (b / "metrics.csv").read_bytes()
    np.testing.assert_array_equal(theta(a), theta(b))


def write_mdp(path: str, reward: np.ndarray | None = None, **changes) -> None:
    """Two states, two actions, two agents; every probability is a dyadic fraction."""
    P = np.array([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.125, 0.875]]])
    if reward is None:
        reward = np.array([[[1.0, 0.0], [0.25, 0.5]], [[0.0, 0.75], [0.5, 1.0]]])
    np.savez(path, **{"P": P, "reward": reward, "rho": np.array([0.75, 0.25]), "gamma": 0.5, **changes})


def test_list_has_a_line_for_everything(capsys):
    assert command("list") == 0
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("presets")
    assert [line.split()[0] for line in lines[first + 1 :]] == presets.known()
    lines = lines[:first]
    registered = {**PROBLEMS, **ALGORITHMS, **PLAYED, **ORACLES, **POLICIES}
    said = {words[0]: " ".join(words[1:]) for words in (line.split() for line in lines) if len(words) > 1}
    assert said.pop("--problem-args") == "gamma=0.99 horizon=1000 reward_scale=1.0 patience=60.0", "the last's"
    assert set(said) == set(registered)
    for name, function in registered.items():
        assert said[name] == " ".join(function.__doc__.split("\n\n")[0].split())
    assert [line for line in lines if not line.startswith(" ")] == ["problems", "algorithms", "oracles", "policies"]


@pytest.mark.parametrize("name", presets.known())
def test_list_of_a_preset_has_all_its_settings(name, capsys):
    """What stands below `settings` is TOML with the values of the file; a problem of the same name comes first."""
    assert command("list", name) == 0
    said = capsys.readouterr().out.partition(f"{name}: a preset\n")
    assert said[0].startswith(f"{name}: a problem\n") == (name in PROBLEMS)
    assert f"\nfastfedpg run --preset {name}\n" in said[2]
    assert tomllib.loads(said[2].partition("settings\n")[2]) == tomllib.loads(presets.find(name).read_text())


def test_list_help(capsys):
    assert command("list", "--help") == 0
    assert "usage: fastfedpg list" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_every_command(flag, capsys):
    assert command(flag) == 0
    said = capsys.readouterr().out
    assert "usage: fastfedpg COMMAND" in said
    for name in cli.COMMANDS:
        assert f"  {name:<10}  {cli.load(name).__doc__.splitlines()[0]}\n" in said, "completion is the longest"


def test_no_command_shows_the_help_and_is_an_error(capsys):
    assert command() == 2
    assert "usage: fastfedpg COMMAND" in capsys.readouterr().out


def test_version(capsys):
    assert command("--version") == 0
    assert capsys.readouterr().out.startswith(f"fastfedpg {fastfedpg.__version__}, jax ")


def test_run_help_explains_every_setting(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert command("run", "--help") == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name in [f.name for f in fields(Config) if f.name != "given"] + ["config", "out", "overwrite", "eta", "H"]:
        assert f"--{name.replace('_', '-')}" in said
    for text in (
        "Server step size, in (0, 1]",
        "the uniform policy unless given",
        "flags given beside",
    ):
        assert text in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("server", "or private: each site has its own, perhaps a module:function,"),
        ("federate", "or module:function, which each agent calls for its own;"),
        ("agent", "or module:function: this site's own,"),
    ],
)
def test_deployed_runs_explain_which_problems_they_take(name, words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "79")
    assert command(name, "--help") == 0
    assert words in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert command("run", "--help") == 0
    assert "module:function of your own" in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_unknown_command(capsys):
    assert command("lst") == 2
    said = capsys.readouterr().err
    assert f"unknown command 'lst'; did you mean 'list'? (known: {', '.join(cli.COMMANDS)})" in said


def test_the_installed_command():
    done = subprocess.run([SCRIPT, "list"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "fast_fedpg" in done.stdout
    done = subprocess.run([SCRIPT, "rum"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("fastfedpg: unknown command 'rum'")


@pytest.fixture(scope="module")
def issue_run(tmp_path_factory):
    """The issue's own command, with fewer rounds, seeds and samples."""
    out = tmp_path_factory.mktemp("issue") / "DIR"
    words = (
        "run --problem compromise-grid --algorithm fast_fedpg --oracle gpomdp --baseline leave-one-out --H 20 "
        "--eta 2.0 --alpha-g 1.0 --B 4 --K 6 --rounds 3 --seeds 2 --out"
    )
    assert command(*words.split(), out) == 0
    return out


def test_a_run_leaves_its_folder(issue_run):
    assert {p.name for p in issue_run.iterdir()} == RUN_FILES | DRAWN


def test_config_toml_holds_every_setting(issue_run):
    given = Config(
        "compromise-grid", H=20, eta=2.0, oracle="gpomdp", baseline="leave-one-out", B=4, K=6, rounds=3, seeds=2
    )
    assert from_toml(issue_run / "config.toml") == given
    assert f"fastfedpg {fastfedpg.__version__}" in (issue_run / "config.toml").read_text(encoding="utf-8")


def test_metrics_csv(issue_run):
    """Message sizes and steps by hand: d = 25 * 5 = 125 and N = 4.

    Fast-FedPG sends d floats up and down in each of two exchanges, so 2 * 125 floats and 2000 bytes a round, and asks
    for H + 1 estimates of B * K steps, so 4 * 21 * 4 * 6 = 2016 steps. Round 0 is the uniform policy of every seed.
    """
    table = rows(issue_run)
    assert list(table[0]) == COLUMNS.split()
    assert [(row["seed"], row["round"]) for row in table] == [(s, r) for s in "01" for r in "0123"]
    for row in table:
        t = int(row["round"])
        assert row["env_steps"] == str(2016 * t)
        assert row["floats_up"] == row["floats_down"] == str(250 * t)
        assert row["bytes_up"] == row["bytes_down"] == str(2000 * t)
        assert row["syncs"] == str(2 * t)
        assert (row["drift"] == "") == (t == 0)
        assert float(row["gap"]) > 0
    uniform = tabular_exact.J(compromise_grid(), np.zeros(125))
    np.testing.assert_allclose(column(issue_run, "J")[[0, 4]], uniform, rtol=1e-12)
    J_star = tabular_exact.optimum(compromise_grid()).J
    np.testing.assert_allclose(column(issue_run, "gap"), column(issue_run, "J") - J_star, rtol=1e-9)
    assert column(issue_run, "J")[3] != column(issue_run, "J")[7], "two seeds draw different numbers"


def test_final_npz_is_the_policy_of_the_last_row(issue_run):
    assert theta(issue_run).shape == (2, 25, 5)
    assert theta(issue_run).dtype == np.float64
    last = [tabular_exact.J(compromise_grid(), x) for x in theta(issue_run)]
    np.testing.assert_allclose(column(issue_run, "J")[[3, 7]], last, rtol=1e-12)


def test_agents_npz_is_what_the_metrics_sum_up(issue_run):
    with np.load(issue_run / "agents.npz") as file:
        assert set(file.files) == {"returns", "round"}
        returns, number = file["returns"], file["round"]
    assert returns.shape == (2, 4, 4)
    assert number.tolist() == [0, 1, 2, 3]
    for name, statistic in (
        ("return_mean", np.mean),
        ("return_worst", np.min),
        ("return_q25", lambda x, axis: np.quantile(x, 0.25, axis=axis)),
        ("return_median", np.median),
        ("return_q75", lambda x, axis: np.quantile(x, 0.75, axis=axis)),
    ):
        np.testing.assert_allclose(statistic(returns, axis=-1).reshape(-1), column(issue_run, name), rtol=1e-12)
    np.testing.assert_allclose(returns[1, 3], tabular_exact.returns(compromise_grid(), theta(issue_run)[1]), rtol=1e-12)


def test_summary_json(issue_run):
    """gamma = 0.9: L <= 8 / 0.1^3 = 8000, so Lemma 2's limit is 1 / (3 * 500 * 20)."""
    said = summary(issue_run)
    expected = {"state": "finished", "message": "", "problem": "compromise-grid", "algorithm": "fast_fedpg"}
    expected |= {"oracle": "gpomdp", "N": 4, "S": 25, "A": 5, "gamma": 0.9, "rounds_done": 3, "rounds": 3, "seeds": 2}
    assert {name: said[name] for name in expected} == expected
    assert said["J_star"] == pytest.approx(tabular_exact.optimum(compromise_grid()).J, rel=1e-12)
    assert said["J_best_found"] == column(issue_run, "J").min()
    assert "J_lower_bound" not in said
    assert said["eta_limit_lemma_2"] == pytest.approx(1 / (3 * 500 * 20))
    assert set(said["final"]) == set(COLUMNS.split()[2:])
    gaps = column(issue_run, "gap")[[3, 7]]
    assert said["final"]["gap"]["mean"] == pytest.approx(gaps.mean())
    assert (said["final"]["gap"]["low"], said["final"]["gap"]["high"]) == (None, None), "two seeds have no interval"
    assert said["notes"] == []


def test_what_is_printed_at_the_end(capsys):
    np.savez("start.npz", theta=np.arange(15.0).reshape(5, 1, 3) ** 2 % 4)
    out = run("out", "--rounds", 3, "--seeds", 5, "--theta0", "start.npz")
    captured = capsys.readouterr()
    assert "fast_fedpg after 3 rounds (5 seeds)" in captured.out
    gap = summary(out)["final"]["gap"]
    line = next(line for line in captured.out.splitlines() if "gap to the best common policy" in line)
    assert f"{gap['mean']:.4g}" in line
    assert gap["low"] < gap["mean"] < gap["high"]
    assert f"[{gap['low']:.4g}, {gap['high']:.4g}]" in line
    sent = sum(summary(out)["final"][f"bytes_{way}"]["mean"] for way in ("up", "down"))
    line = next(line for line in captured.out.splitlines() if "bytes per agent, up and down" in line)
    assert line.split()[-1] == f"{sent:,.0f}"
    assert "results: out" in captured.out


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys):
    out = run("out", "--rounds", 4)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert lines[-1].startswith("fast_fedpg on compromise: round 4/4  ")
    assert "rounds/s" in lines[-1]
    assert lines[-1].endswith(f"gap {column(out, 'gap')[-1]:.4g}")
    assert "\x1b" not in captured.err + captured.out
    assert "\r" not in captured.err + captured.out


def test_progress_is_a_bar_on_a_terminal(tmp_path):
    master, slave = pty.openpty()
    said = bytearray()

    def listen() -> None:
        try:
            while data := os.read(master, 4096):
                said.extend(data)
        except OSError:  # the other end was closed
            return

    listener = threading.Thread(target=listen)
    listener.start()
    words = ("run", "--problem", "compromise", "--eta", "0.5", "--rounds", "40", "--out", "out")
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": "160"}
    done = subprocess.run(
        [SCRIPT, *words], stdin=slave, stdout=slave, stderr=slave, env=environment, timeout=60, check=False
    )
    os.close(slave)
    listener.join(timeout=10)
    os.close(master)
    text = said.decode()
    assert done.returncode == 0, text
    assert "\x1b[" in text
    assert "━━━━" in text
    assert "40/40" in text
    assert "rounds/s" in text
    assert f"gap {column(tmp_path / 'out', 'gap')[-1]:.4g}" in text


def test_ctrl_c_keeps_what_was_done(tmp_path):
    often = ("--rounds", "5000000", "--metrics-every", "50")
    words = ("run", "--problem", "compromise", "--eta", "0.01", *often, "--out", "out")
    process = subprocess.Popen([SCRIPT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    guard = threading.Timer(90, process.kill)
    guard.start()
    try:
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said, complaints = process.communicate(timeout=60)
    finally:
        guard.cancel()
        process.kill()
        process.wait()
    assert first.startswith("fast_fedpg on compromise: round "), first
    assert process.returncode == 130
    recorded = column("out", "round").astype(int)
    message = complaints.splitlines()[-1]
    assert message == (
        f"fastfedpg: interrupted after round {recorded[-1]} of 5000000; "
        "kept in out: config.toml, metrics.csv, final.npz, agents.npz, results.npz, summary.json, "
        f"a checkpoint after round {recorded[-1]} (fastfedpg resume out goes on from it)"
    )
    assert "Traceback" not in complaints
    assert "results:" not in said
    assert len(recorded) > 1
    assert recorded[:-1].tolist() == list(range(0, 50 * (len(recorded) - 1), 50))
    assert recorded[-2] < recorded[-1] <= recorded[-2] + 50, "the last record is of the last whole round"
    text = Path("out/metrics.csv").read_text()
    assert text.endswith("\n")
    assert {line.count(",") for line in text.splitlines()} == {len(COLUMNS.split()) - 1}
    assert {p.name for p in Path("out").iterdir()} == {*RUN_FILES, "checkpoints"}
    assert tabular_exact.J(compromise(), theta("out")[0]) == pytest.approx(column("out", "J")[-1], rel=1e-12)
    said = summary("out")
    assert said["state"] == "interrupted"
    assert said["rounds_done"] == recorded[-1]
    assert said["message"] == f"interrupted after round {recorded[-1]} of 5000000"


def test_out_is_a_new_folder_under_runs_unless_given():
    assert command("run", "--problem", "compromise", "--rounds", 1) == 0
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("compromise-fast_fedpg-2")
    assert {p.name for p in folder.iterdir()} == RUN_FILES | DRAWN


def test_metrics_every():
    out = run("out", "--rounds", 5, "--metrics-every", 2)
    assert column(out, "round").tolist() == [0, 2, 4, 5]
    every = run("every", "--rounds", 5)
    np.testing.assert_allclose(column(out, "J"), column(every, "J")[[0, 2, 4, 5]], rtol=1e-12)
    np.testing.assert_allclose(theta(out), theta(every), rtol=1e-12)


def test_first_seed_counts_on():
    words = ("--algorithm", "centralised_pg", "--rounds", 2, *SAMPLED)
    both, second = run("both", *words, "--seeds", 2), run("second", *words, "--first-seed", 1)
    assert [row["seed"] for row in rows(second)] == ["1", "1", "1"]
    np.testing.assert_allclose(theta(second)[0], theta(both)[1], atol=1e-12)
    assert not np.allclose(theta(both)[0], theta(both)[1])


def test_repeating_a_run_gives_the_same_bytes():
    words = ("--seeds", 2, "--rounds", 3, "--problem-args", "mid=.7", "gamma=0.75", "--agents", 3, "--participants", 2)
    sampled = (*SAMPLED, "--baseline", "leave-one-out", "--tau", 0.05, "--metrics-every", 2)
    first = run("first", "--algorithm", "centralised_pg", *words, *sampled)
    again = repeat(first, "again")
    assert_same_run(first, again)
    assert from_toml("again/config.toml") == from_toml("first/config.toml")
    assert tomllib.loads(Path("first/config.toml").read_text())["problem"] == {
        "name": "compromise",
        "mid": 0.7,
        "gamma": 0.75,
    }


def test_a_run_from_files_is_repeated_from_its_own_folder_alone():
    write_mdp("mdp.npz", reward=np.array([[[3.0, -1.0], [0, 1]], [[-1, 2], [1, 3]]]))
    start = np.random.default_rng(0).normal(size=(2, 2, 2))
    np.savez("start.npz", theta=start)
    words = ("--reward-range", -1, 3, "--theta0", "start.npz", "--seeds", 2, "--rounds", 3)
    first = run("first", *words, problem="mdp.npz")
    assert {p.name for p in first.iterdir()} == RUN_FILES | DRAWN | {"problem.npz", "theta0.npz"}
    Path("mdp.npz").unlink()
    Path("start.npz").unlink()
    shutil.move("first", "moved/elsewhere")
    again = repeat("moved/elsewhere", "again")
    assert_same_run(Path("moved/elsewhere"), again)
    third = repeat(again, "third")
    assert_same_run(again, third)


def test_a_run_from_a_file_with_rounded_rows_is_repeated_to_the_byte():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(7), (7, 3)).astype(np.float32)
    write_mdp("mdp.npz", P=P, reward=rng.uniform(size=(2, 7, 3)), rho=np.full(7, 1 / 7))
    first = run("first", "--rounds", 3, problem="mdp.npz")
    with np.load("first/problem.npz") as file:
        saved = fastfedpg.TabularProblem(file["P"], file["reward"], file["rho"], float(file["gamma"]))
        np.testing.assert_array_equal(saved.P, file["P"])
    assert_same_run(first, repeat(first, "again"))


def test_a_run_from_a_file_of_another_name_is_self_contained():
    write_mdp("mdp.npz")
    Path("mdp.npz").rename("mdp.data")
    first = run("first", "--rounds", 2, problem="mdp.data")
    Path("mdp.data").unlink()
    assert_same_run(first, repeat(first, "again"))


def test_flags_beside_a_configuration_win():
    Path("run.toml").write_text('problem = "compromise"\neta = 0.25\nH = 4\nrounds = 7\n\n[problem_args]\nmid = 0.9\n')
    assert command("run", "--rounds", 2, "--config", "run.toml", "--eta", 1.0, "--out", "out") == 0
    config = from_toml("out/config.toml")
    assert config == Config("compromise", {"mid": 0.9}, eta=1.0, H=4, rounds=2)
    np.testing.assert_array_equal(theta("out"), fastfedpg.run(config).theta.reshape(1, 1, 3))
    assert command("run", "--config=run.toml", "--rounds", 2, "--out", "file") == 0
    assert from_toml("file/config.toml") == replace(config, eta=0.25)
    assert not np.allclose(theta("file"), theta("out"))


def test_paths_in_a_configuration_are_relative_to_it():
    Path("study").mkdir()
    write_mdp("study/mdp.npz")
    Path("study/run.toml").write_text('problem = "mdp.npz"\nrounds = 1\n')
    assert command("run", "--config", "study/run.toml", "--out", "out") == 0
    assert summary("out")["N"] == 2


def test_flags_are_toml_is_python():
    config = Config(
        problem="compromise",
        problem_args={"mid": 0.7},
        agents=3,
        algorithm="scaffold_pg",
        eta=0.7,
        H=2,
        alpha_g=0.5,
        option="I",
        oracle="truncated",
        B=3,
        K=4,
        tau=0.01,
        rounds=3,
        seeds=2,
        first_seed=5,
    )
    flags = "--problem compromise --problem-args mid=.7 --agents 3 --algorithm scaffold_pg --eta .7 --H 2 --alpha-g .5 "
    flags += "--option I --oracle truncated --B 3 --K 4 --tau .01 --rounds 3 --seeds 2 --first-seed 5 --out flags"
    assert command("run", *flags.split(" ")) == 0
    Path("run.toml").write_text(config.to_toml())
    assert command("run", "--config", "run.toml", "--out", "toml") == 0
    result = fastfedpg.run(config, out="python")
    np.testing.assert_array_equal(theta("flags"), result.theta.reshape(2, 1, 4))
    assert_same_run(Path("flags"), Path("toml"))
    assert_same_run(Path("flags"), Path("python"))
    assert {p.name for p in Path("python").iterdir()} == RUN_FILES
    assert np.abs(result.theta).min() > 0
    assert from_toml("toml/config.toml") == from_toml("python/config.toml") == config
    assert from_toml("flags/config.toml") == replace(config, problem_args={"mid": ".7"})


def test_problem_args_and_agents():
    """On the compromise, J* is the cost of the best common action for ever: (1 - mid) / (1 - gamma)."""
    out = run("out", "--rounds", 1, "--agents", 3, "--problem-args", "mid=.75", "gamma=.8")
    said = summary(out)
    assert (said["N"], said["S"], said["A"], said["gamma"]) == (3, 1, 4, 0.8)
    assert said["J_star"] == pytest.approx((1 - 0.75) / (1 - 0.8))
    grid = run("grid", "--rounds", 1, "--agents", 5, "--problem-args", "n=3", problem="compromise-grid")
    assert (summary(grid)["N"], summary(grid)["S"]) == (5, 9)


def test_tau():
    """One state, costs c: J(pi) = (sum_a pi_a (c_a + tau log pi_a)) / (1 - gamma), as costs minus tau times entropy.

    The agents' mean cost is c = (1/2, 1/2, 2/5) with gamma = 1/2. At the uniform policy J = 2 (mean c - tau log 3);
    the least value is J* = -2 tau log sum_a exp(-c_a / tau), the soft minimum. Returns have no entropy in them.
    """
    tau, c = 0.2, np.array([0.5, 0.5, 0.4])
    out = run("out", "--rounds", 60, "--tau", tau, "--metrics-every", 60)
    start, end = rows(out)
    J_star = -2 * tau * math.log(np.exp(-c / tau).sum())
    assert float(start["J"]) == pytest.approx(2 * (c.mean() - tau * math.log(3)))
    assert summary(out)["J_star"] == pytest.approx(J_star)
    assert float(start["gap"]) == pytest.approx(float(start["J"]) - J_star)
    assert float(start["return_mean"]) == pytest.approx(2 * (1 - c.mean()))
    assert 0 <= float(end["gap"]) < 1e-3 * float(start["gap"])
    best = np.exp(-c / tau) / np.exp(-c / tau).sum()
    pi = np.exp(theta(out)[0, 0]) / np.exp(theta(out)[0, 0]).sum()
    np.testing.assert_allclose(pi, best, atol=5e-3)


def test_reward_range_gives_results_in_the_users_units():
    """Rewards r' = 10 r - 3 with the range (-3, 7) have the costs (7 - r') / 10 = 1 - r of the plain problem.

    So theta is the same. A cost is worth 10 reward units: J' = 10 J, J*' = 10 J*, gap' = 10 gap, and squared gradients
    grow by 100. A return is a discounted sum of r', and sum_t gamma^t = 2 for gamma = 1/2: return' = 10 return - 6.
    """
    write_mdp("plain.npz")
    with np.load("plain.npz") as file:
        write_mdp("scaled.npz", reward=10 * file["reward"] - 3)
    plain = run("plain", "--rounds", 3, problem="plain.npz")
    scaled = run("scaled", "--rounds", 3, "--reward-range", -3, 7, problem="scaled.npz")
    np.testing.assert_allclose(theta(scaled), theta(plain), atol=1e-12)
    for name, factor, shift in (
        ("J", 10, 0),
        ("gap", 10, 0),
        ("grad_norm_sq", 100, 0),
        ("return_mean", 10, -6),
        ("return_worst", 10, -6),
        ("return_q25", 10, -6),
        ("drift", 1, 0),
    ):
        np.testing.assert_allclose(column(scaled, name), factor * column(plain, name) + shift, rtol=1e-9, atol=1e-12)
    assert summary(scaled)["J_star"] == pytest.approx(10 * summary(plain)["J_star"])
    with np.load("plain/agents.npz") as a, np.load("scaled/agents.npz") as b:
        np.testing.assert_allclose(b["returns"], 10 * a["returns"] - 6, rtol=1e-9)


@pytest.mark.parametrize(("algorithm", "oracle"), [("fast_fedpg", SAMPLED), ("independent_pg", ())])
def test_the_loop_gives_the_numbers_of_the_simulation(algorithm, oracle):
    words = ("--algorithm", algorithm, "--rounds", 3, "--seeds", 2, "--metrics-every", 2, *oracle)
    compiled, plain = run("simulate", *words), run("loop", *words, "--runtime", "loop")
    assert from_toml("loop/config.toml").runtime == "loop"
    np.testing.assert_allclose(theta(plain), theta(compiled), atol=1e-10)
    for name in COLUMNS.split():
        np.testing.assert_allclose(column(plain, name), column(compiled, name), rtol=1e-9, atol=1e-10)
    assert np.abs(theta(plain)).max() > 0


AT_HOME = ("fast_fedpg", "independent_pg", "personal_heads", "fedkl", "pavg")
"""Methods of each form, which `make test` runs by the command; `long` does all, as test_conformance.py by functions."""


def _by_name(algorithm: str):
    return pytest.param(algorithm, marks=[] if algorithm in AT_HOME else [pytest.mark.long])


@pytest.mark.parametrize("algorithm", [*map(_by_name, ALGORITHMS)])
def test_every_algorithm_runs_by_its_name(algorithm):
    plays = SAMPLED if algorithm == "fedkl" else ()  # it needs an oracle that does
    run(algorithm, "--algorithm", algorithm, "--rounds", 1, *plays)
    own = algorithm in ("independent_pg", "personal_heads")  # one policy per agent
    assert theta(algorithm).shape == ((1, 2, 1, 3) if own else (1, 1, 3))
    assert np.abs(theta(algorithm)).max() > 0


def test_a_name_is_one_algorithm_s():
    for algorithm in ("fedavg_pg", "centralised_pg"):
        run(algorithm, "--algorithm", algorithm, "--rounds", 1)
    assert not np.allclose(theta("fedavg_pg"), theta("centralised_pg"))


def test_every_oracle_runs_by_its_name():
    for oracle in ORACLES:
        run(oracle, "--algorithm", "centralised_pg", "--oracle", oracle, "--rounds", 1, "--B", 2, "--K", 2)
    finals = [theta(name) for name in ORACLES]
    assert all(x.shape == (1, 1, 3) and np.abs(x).max() > 0 for x in finals)
    assert not np.allclose(theta("reinforce"), theta("gpomdp"))
    assert not np.allclose(theta("exact"), theta("truncated"))


def test_participants():
    """Two of four agents in a round: half the messages of an agent on average, and steps of two agents only.

    With d = 5, Fast-FedPG sends 2 d floats in a round it takes part in; Centralised-PG plays B K steps in one.
    """
    words = ("--agents", 4, "--rounds", 4)
    part, full = run("part", *words, "--participants", 2), run("full", *words)
    assert column(full, "floats_up").tolist() == [10 * t for t in range(5)]
    assert column(part, "floats_up").tolist() == [5 * t for t in range(5)]
    assert not np.allclose(theta(part), theta(full))
    sampled = run("sampled", *words, "--participants", 2, "--algorithm", "centralised_pg", *SAMPLED)
    assert column(sampled, "env_steps").tolist() == [2 * 4 * 6 * t for t in range(5)]


def test_theta0_is_where_each_seed_starts():
    start = np.array([[[0.0, 1.0, 2.0]], [[3.0, 0.0, -1.0]]])
    np.savez("start.npz", theta=start)
    out = run("out", "--theta0", "start.npz", "--seeds", 2, "--rounds", 1)
    expected = [tabular_exact.J(compromise(), x) for x in start]
    np.testing.assert_allclose(column(out, "J")[[0, 2]], expected, rtol=1e-12)
    np.savez("start.npz", theta=start[1])
    out = run("one", "--theta0", "start.npz", "--seeds", 2, "--rounds", 1)
    np.testing.assert_allclose(column(out, "J")[[0, 2]], expected[1], rtol=1e-12)


def test_agents_whose_dynamics_differ(capsys):
    """J* is not defined there; the mean of the agents' own optima bounds it from below.

    Reward 1 in state 1 and 0 in state 0, where all start. Agent i reaches and keeps state 1 by action i alone. Its own
    best is action i for ever: cost 1 in the first step, then 0, so the bound is 1.
    """
    P = np.zeros((2, 2, 2, 2))
    for i in range(2):
        P[i, :, i, 1] = P[i, :, 1 - i, 0] = 1
    reward = np.zeros((2, 2, 2))
    reward[:, 1] = 1
    write_mdp("mdp.npz", P=P, reward=reward, rho=np.array([1.0, 0.0]))
    out = run("out", "--rounds", 3, "--seeds", 2, problem="mdp.npz")
    assert {row["gap"] for row in rows(out)} == {""}
    said = summary(out)
    assert said["J_star"] is None
    assert said["J_lower_bound"] == pytest.approx(1)
    assert said["J_best_found"] == column(out, "J").min() > 1
    assert said["final"]["gap"] == {"mean": None, "low": None, "high": None}
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1].endswith(f"J {column(out, 'J')[[3, 7]].mean():.4g}")
    assert "no gap: kernels or starts differ" in captured.out
    assert "gap to the best" not in captured.out


def test_settings_without_effect_are_said(capsys):
    words = ("--algorithm", "centralised_pg", "--alpha-g", 0.5, "--B", 4, "--K", 6, "--rounds", 1)
    out = run("out", *words)
    notes = [
        "H = 3 has no effect: algorithm centralised_pg does not use it",
        "alpha_g = 0.5 has no effect: algorithm centralised_pg does not use it",
        "B = 4 has no effect: oracle exact does not use it",
        "K = 6 has no effect: oracle exact does not use it",
    ]
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert said == [f"note: {note}" for note in notes]
    assert summary(out)["notes"] == notes
    assert plan(Config("compromise", H=3, alpha_g=0.5, oracle="gpomdp", B=4, K=6, B0=8)).notes == ()
    run("b0", "--rounds", 1, "--B0", 8)
    assert "note: B0 = 8 has no effect: oracle exact plays no trajectories" in capsys.readouterr().err


def test_the_progress_line_shows_a_file_name_with_brackets(capsys):
    write_mdp("mdp[v2].npz")
    run("out", "--rounds", 1, problem="mdp[v2].npz")
    assert "fast_fedpg on mdp[v2].npz: round 1/1" in capsys.readouterr().err
