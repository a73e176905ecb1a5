"""One thermostat for 32 offices that weigh comfort against energy differently, beside the rules of their managers."""

import sys
from pathlib import Path
from typing import Annotated

import jax
import tyro
from managing.contenders import asked_for, judged, rules, same_offices, searched, weather_years, with_best
from managing.picture import picture
from managing.table import table, verdicts
from rich.console import Console

import fastfedpg as ff
from fastfedpg.experiment.progress import progress


def main(
    runs: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    years: int = 5,
    search_years: int = 2,
    rounds: int = 60,
    spread: float = 0.0,
    noisy: bool = False,
    out: Path = Path("offices"),
) -> None:
    """What a year costs an office, whoever controls it: policies of runs and rules, in the same weather; and a picture.

    Args:
        runs: folders of runs, or NAME=FOLDER; where none is given, one is trained for a few minutes.
        years: weather years in which all are judged.
        search_years: others, in which the best rules are looked for, and the best of a run's training seeds.
        rounds: of the run that is trained.
        spread: how much buildings differ in it.
        noisy: play policies as they were trained, and not their means.
        out: the picture's name, without .png.
    """
    judging, searching = weather_years(years, search_years)
    with jax.enable_x64(True):
        policies = [asked_for(run, noisy) for run in runs or [f"learned by fast_fedpg={trained(rounds, spread)}"]]
        known = rules(offices := same_offices(policies)) + searched(offices, searching)
        found = judged(known + with_best(policies, searching), judging)
        print(table(found), *verdicts(found), *map("written: {}".format, picture(found, out)), sep="\n")


def trained(rounds: int, spread: float) -> str:
    about = {"oracle": "gpomdp", "policy": "linear", "policy_args": {"log_std": -1.0}, "metrics_every": rounds}
    about |= {"B": 8, "H": 10, "eta": 0.01, "optimiser": "adam", "baseline": "leave-one-out", "seeds": 2}
    config = ff.Config("offices", {"context": True, "spread": spread}, rounds=rounds, **about)
    with progress(Console(stderr=True), "fast_fedpg", rounds) as report:
        ff.run(config, out := "runs/offices", overwrite=True, report=report)
    return out


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except ff.InputError as error:
        sys.exit(str(error))
