"""A small run, what is left of it when it is stopped, and what the tests of checkpoints read off its folder."""

import json
import shutil
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

import fastfedpg
import reference as ref
from fastfedpg import Config, files, with_oracle
from fastfedpg.experiment import checkpoints
from fastfedpg.experiment.algorithm import algorithm_of
from fastfedpg.experiment.record_table import RecordTable
from fastfedpg.runtime import Result, Schedule, collect, loop_records, message_sizes, shapes, simulate_records

SCRIPT = str(Path(sys.executable).with_name("fastfedpg"))

FILES = {".written", "config.toml", "results.npz", "metrics.csv", "final.npz", "agents.npz", "summary.json"}
DRAWN = {"curve.png", "curve.svg"}  # where the command line has finished it

NUMBERS = ("results.npz", "final.npz", "metrics.csv", "agents.npz")

# All that a run carries from round to round: control variates at the agents, two random streams, and each round
# other participants. Records after rounds 0, 4, 8 and 11 leave checkpoints on and between them.
ROUNDS = 11

CONFIG = Config(
    "compromise",
    agents=4,
    participants=3,
    algorithm="scaffold_pg",
    everybody=False,
    eta=0.5,
    H=2,
    oracle="gpomdp",
    B=2,
    K=3,
    seeds=2,
    rounds=ROUNDS,
    metrics_every=4,
)

OFTEN = replace(CONFIG, checkpoint_rounds=2)

WHOLE = "whole"

VERSION = "fastfedpg 0.0.1, jax 0.0.1, numpy 0.0.1"


def flags(config: Config) -> list[str]:
    """The configuration on the command line."""
    given = {k: v for k, v in asdict(config).items() if k != "given" and v != asdict(Config())[k]} | config.given
    named = {name.replace("_", "-"): value for name, value in given.items()}
    switch = lambda name, on: [f"--{name}" if on else f"--no-{name}"]
    words = [switch(k, v) if isinstance(v, bool) else [f"--{k}", str(v)] for k, v in named.items()]
    return [word for some in words for word in some]


def numbers(out: Path | str) -> dict[str, bytes]:
    return {name: (Path(out) / name).read_bytes() for name in NUMBERS}


def state(out: Path | str) -> str:
    return json.loads((Path(out) / "summary.json").read_text())["state"]


def rounds_kept(out: Path | str) -> list[int]:
    return [int(p.name) for p in checkpoints.present(Path(out))]


def recorded(out: Path | str) -> list[int]:
    with np.load(Path(out) / "agents.npz") as file:
        return file["round"].tolist()


def killed(out: str = "out", at: int = 8, config: Config = OFTEN) -> Path:
    """What a kill after round `at` leaves on disk: a copy of its folder then; the run itself ends in WHOLE."""

    def report(done: int, record=None) -> None:
        if done >= at and not Path(out).exists():
            shutil.copytree("running", out, ignore=shutil.ignore_patterns(files.LOCK))

    fastfedpg.run(config, "running", report=report)
    Path("running").rename(WHOLE)
    return Path(out)


def newest(out: Path | str) -> Path:
    return checkpoints.present(Path(out))[0]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new), encoding="utf-8")


def last_round(out: str = "out") -> int:
    return max(rounds_kept(out), default=0)


TABULAR = ref.small_problem(N=3, S=3, A=2, seed=7)

PROBLEM = with_oracle(TABULAR, "gpomdp", B=2, K=3)

SCHEDULE = Schedule(7, seeds=2, metrics_every=3, participants=2, first_seed=4)

RUNTIMES = {"loop": loop_records, "simulate": simulate_records}

BOTH = pytest.mark.parametrize("runtime", RUNTIMES)

SETTINGS = Config(eta=0.3, H=2)

WHO = checkpoints.identity(SETTINGS, TABULAR, None, VERSION)


def table_of(result, folder: Path = Path()) -> RecordTable:
    """What a run has recorded, beside its checkpoints; nothing, if it is None."""
    table = RecordTable(checkpoints.records_of(folder), 10)
    if result is not None:
        checkpoints.folder_in(folder)
        table.append(result)
    return table


def recorded_in(table: RecordTable) -> Result:
    """And as arrays again."""
    column = lambda name: np.concatenate([*table.pieces(name)]).reshape(table.shape(name))
    metrics = {name: column(name) for name in table.columns if name not in ("rounds", "returns")}
    return Result(column("rounds"), metrics, column("returns"), table.theta)


def reseal(path: Path) -> None:
    """Write the sum anew, as if the file had been written like this."""
    path.write_text(files.seal(path.read_text(encoding="utf-8").partition("\n")[2]), encoding="utf-8")


@cache
def algorithm(name: str):
    return algorithm_of(replace(SETTINGS, algorithm=name))


def schedule_of(method) -> Schedule:
    """Two of three agents in each round, unless the method needs all, or says who."""
    return replace(SCHEDULE, participants=None) if method.everybody or method.turns else SCHEDULE


def every_standing(records, problem, method, schedule=SCHEDULE):
    """The records of a run never stopped, and where it stood after each round."""
    stood = []
    noted = list(records(problem, method, schedule, lambda done, standing: stood.append(standing()), pause=1))
    assert [s.round for s in stood] == list(range(1, schedule.rounds + 1))
    return noted, stood


def taken_up(records, problem, method, noted, standing, schedule=SCHEDULE):
    """All records of a run that was put away at a standing and went on from the file."""
    sizes = message_sizes(problem, method, schedule.starts(problem)[0])
    before = [r for r in noted if r.round <= standing.recorded]
    folder = checkpoints.write(Path(), WHO, standing, table_of(collect(before, sizes)), 1.5)
    found = checkpoints.read(folder, WHO, shapes(problem, method, schedule))
    assert found.seconds == 1.5
    assert bits(recorded_in(found.table)) == bits(collect(before, sizes))
    return before + list(records(problem, method, schedule, start=found.standing))


def bits(tree) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(asdict(tree) if hasattr(tree, "metrics") else tree)]
