"""A small comparison, and what the tests of comparisons read off its folder."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from commands import command
from fastfedpg.comparison import tuning
from fastfedpg.comparison.spec import Comparison
from fastfedpg.experiment.config import Settings, from_toml

THREE = ("fast_fedpg", "fedavg_pg", "scaffold_pg")

# A round of one agent costs 3 * 6 steps in fast_fedpg and 2 * 6 in the others: 6, 9 and 9 rounds are the same budget.
SETTINGS = Settings("compromise", H=2, oracle="gpomdp", B=2, K=3, rounds=6, seeds=6)

COMPARISON = Comparison(SETTINGS, THREE, {"all": 0.5})

SAMPLED = [
    "--problem",
    "compromise",
    "--H",
    "2",
    "--oracle",
    "gpomdp",
    "--B",
    "2",
    "--K",
    "3",
    "--rounds",
    "6",
    "--seeds",
    "6",
]

EXACT = ["--problem", "compromise", "--H", "2", "--rounds", "4", "--seeds", "1", "--eta", ".5"]

TWO = ("--algorithms", "fast_fedpg", "fedavg_pg")

NUMBERS = ("metrics.csv", "final.npz", "agents.npz")

PICTURES = ("curves", "policies", "agents")


def compare(*words) -> Path:
    """A comparison that must succeed, in the folder `out`."""
    assert command("compare", *words, "--out", "out") == 0
    return Path("out")


def refused(capsys, *words) -> str:
    """The one line that says why a comparison is refused."""
    assert command("compare", *words) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def table(folder: Path | str = "out") -> dict[str, dict[str, str]]:
    with (Path(folder) / "table.csv").open(newline="", encoding="utf-8") as file:
        return {row["label"]: row for row in csv.DictReader(file)}


def column(folder: Path | str, name: str) -> np.ndarray:
    """One column of metrics.csv, (seeds, records)."""
    with (Path(folder) / "metrics.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    seeds = len({row["seed"] for row in rows})
    return np.array([float(row[name] or "nan") for row in rows]).reshape(seeds, -1)


def notes(capsys) -> list[str]:
    return [line[6:] for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]


def line_of(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(start))


def numbers(folder: Path | str) -> dict[str, bytes]:
    cells = [p for p in sorted(Path(folder).iterdir()) if (p / "config.toml").is_file()]
    return {f"{cell.name}/{name}": (cell / name).read_bytes() for cell in cells for name in NUMBERS}


def without_seconds(folder: Path | str) -> list[dict[str, str]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in table(folder).values()]


def tried(folder: Path | str = "out") -> dict[str, dict[float, float]]:
    """J by method and step size, from tune.csv."""
    found: dict[str, dict[float, float]] = {}
    with (Path(folder) / "tune.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert (row["state"] == "diverged") == (row["J"] == "")
            found.setdefault(row["algorithm"], {})[float(row["eta"])] = float(row["J"] or "inf")
    return found


def fake_try(monkeypatch, J, calls=None):
    """Trials without a run: J as a function of the method and eta."""

    def trial(name, planned, etas, seeds, report):
        if calls is not None:
            calls.append((name, list(etas)))
        return [tuning.Trial(name, e, J(name, e)) for e in etas]

    monkeypatch.setattr(tuning, "_try", trial)


def edit(folder: Path | str, **settings) -> None:
    """Another configuration in a folder."""
    path = Path(folder) / "config.toml"
    path.write_text(replace(from_toml(path), **settings).to_toml())


def times(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in sorted(folder.rglob("*")) if p.is_file()}


FLAGS = (*SAMPLED, "--eta", 0.5, "--checkpoint-rounds", 2)


def resumed(original: Path, capsys) -> None:
    """The end is that of a comparison that was never stopped, and the first cell was not touched."""
    before = times(Path("out/fast_fedpg"))
    assert {"config.toml", "metrics.csv", "summary.json"} <= {Path(name).name for name in before}
    assert command("resume", "out") == 0
    assert times(Path("out/fast_fedpg")) == before
    assert numbers("out") == numbers(original)
    assert without_seconds("out") == without_seconds(original)
    assert "fast_fedpg: round" not in capsys.readouterr().err
