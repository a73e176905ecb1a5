"""benchmarks/peers.py: the threshold, the table, and what is there already, with children that only count."""

import importlib.util
import sys
from pathlib import Path

import pytest

COUNTING = """
import json, sys
seed = int(sys.argv[1])
print("a word of some library's")
for k in range(int(sys.argv[2])):
    about = {"steps": 10 * k, "mode": MODE, "sampled": k + seed - 5.0, "cpu": k / 2, "cpu_all": k / 2 + 1}
    print(json.dumps(about), flush=True)
"""


@pytest.fixture
def peers(tmp_path, monkeypatch):
    """The program, with one task and children of its own."""
    path = Path(__file__).parents[1] / "benchmarks" / "peers.py"
    spec = importlib.util.spec_from_file_location("peers", path)
    program = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "peers", program)
    spec.loader.exec_module(program)
    for name, mode in (("both", "k + seed"), ("one", "None")):
        (tmp_path / f"{name}.py").write_text(COUNTING.replace("MODE", mode))
    monkeypatch.setattr(program, "HERE", tmp_path)
    monkeypatch.setattr(program, "TASKS", {"Count-v0": program.Task("Count-v0", 7, 20, 1, 1)})
    rows = {name: {"*": ("{peer}", f"{name}.py", "{seed} {budget} {horizon}")} for name in ("both", "one")}
    monkeypatch.setattr(program, "METHODS", {**rows, "elsewhere": {"Other-v0": rows["one"]["*"]}})
    words = ["peers.py", "--peer-python", sys.executable, "--tasks", "Count-v0", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", [*words, "--seeds", "2"])
    return program


def test_runs_to_the_threshold_are_rows(peers, tmp_path, capfd):
    """The mean is k + seed and that of random actions 5 less, so 7 is reached at k = 7 - seed and 12 - seed."""
    peers.main()
    rows = peers.read(tmp_path / "out" / "peers.csv")
    assert [(x["method"], x["seed"]) for x in rows] == [("both", "0"), ("one", "0"), ("both", "1"), ("one", "1")]
    assert [(x["steps_mode"], x["steps_sampled"]) for x in rows] == [
        ("70", "120"),
        ("", "120"),
        ("60", "110"),
        ("", "110"),
    ]
    assert rows[2]["cpu_mode"] == "3.0"
    assert rows[2]["cpu_all_mode"] == "4.0"
    assert len((tmp_path / "out" / "Count-v0-both-1.jsonl").read_text().splitlines()) == 12
    said = capfd.readouterr().out.splitlines()
    assert said[0].startswith(
        "Count-v0 both, mode: 7 reached by 2 of 2 after 65 (60 to 70) steps, 3.25 (3 to 3.5) s of CPU"
    )
    assert len(said) == 3  # of `one` the mode is not played


def rows_of(method, values):
    """Runs that reached the threshold after so many steps, and CPU seconds a tenth of that; None: not by 1,000."""
    return [
        {"task": "T", "method": method, "threshold": "1", "last_steps": "1000", "last_cpu_all": "100"}
        | {"steps_sampled": "" if n is None else str(n), "cpu_all_sampled": "" if n is None else str(n / 10)}
        for n in values
    ]


def test_ratios_of_geometric_means_and_bounds_where_a_seed_is_late(peers):
    """sqrt(10 x 40) / sqrt(40 x 160) = 1 / 4; the logarithms' variance is 2 log(2)^2 in both.

    The interval is exp(-log 4 -+ 4.303 sqrt(2) log 2): 0.0037 to 17, as t has 2 degrees of freedom.
    """
    ours, theirs = rows_of("ppo", (10, 40)), rows_of("peer", (40, 160))
    said = "T ppo over peer: steps {0}, CPU s {0}".format
    assert peers.ratios([*ours, *theirs]) == [said("0.25 [0.00, 16.97]")]
    late = rows_of("peer", (10, None))  # sqrt(10 x 1000) = 100
    assert peers.ratios([*ours, *late]) == [said("at most 0.20 (1 of 2 did not get there)")]
    assert peers.ratios([*rows_of("ppo", (10, None)), *theirs]) == [said("at least 1.25 (1 of 2 did not get there)")]
    assert peers.ratios([*rows_of("ppo", (None,)), *late]) == [said("unknown")]


def test_programs_are_kept_for_the_next_child(peers, tmp_path):
    """JAX is told where by the environment, below the folder of results."""
    (tmp_path / "told.py").write_text(
        "import json, os\n"
        "assert os.environ['JAX_COMPILATION_CACHE_DIR'].endswith('programs')\n"
        "print(json.dumps({'steps': 1, 'mode': None, 'sampled': 9.0, 'cpu': 1, 'cpu_all': 1}))"
    )
    task = peers.TASKS["Count-v0"]
    assert peers.run([sys.executable, str(tmp_path / "told.py")], task, tmp_path / "log", lambda x: None)


def test_what_is_in_the_table_is_not_run_again(peers, tmp_path, capfd):
    peers.main()
    table = tmp_path / "out" / "peers.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join(lines[:-1]) + "\n")  # the last run was killed
    capfd.readouterr()
    peers.main()
    assert table.read_text().splitlines() == lines
    assert {line.split(":")[0] for line in capfd.readouterr().err.splitlines()} == {"[4/4] Count-v0 one seed 1"}


def test_a_budget_that_is_too_small(peers, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--budget", "9", "--methods", "both"])
    peers.main()
    row = peers.read(tmp_path / "out" / "peers.csv")[0]
    assert (row["steps_mode"], row["steps_sampled"], row["last_steps"]) == ("70", "", "80")
    assert "sampled: 7 reached by 0 of 2\n" in capfd.readouterr().out


def test_a_child_that_fails(peers, tmp_path, monkeypatch):
    (tmp_path / "both.py").write_text("raise SystemExit(3)")
    with pytest.raises(SystemExit, match=r"both\.py .* ended with code 3"):
        peers.main()
    assert not (tmp_path / "out" / "peers.csv").exists()
