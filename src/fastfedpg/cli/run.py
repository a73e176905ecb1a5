"""`fastfedpg run`: one algorithm on one problem."""

from dataclasses import dataclass
from pathlib import Path

import jax
import tyro
from rich.console import Console
from rich.table import Table

from fastfedpg.cli.words import new_name, noting, say, value_of
from fastfedpg.config import Config, from_toml
from fastfedpg.runtime import Diverged, Result
from fastfedpg.study import Interrupted, Plan, begin, bootstrap, execute, output
from fastfedpg.study.checkpoints import Checkpoint
from fastfedpg.study.progress import progress


@dataclass(frozen=True)
class Run:
    """Run one algorithm on one problem."""

    settings: Config
    config: Path | None = None
    """A TOML file with any of these settings; flags given beside it win."""
    out: Path | None = None
    """The folder for the results; a new one under runs/ unless given."""
    overwrite: bool = False
    """Replace the results of an earlier run in that folder."""


def run(arguments: list[str], console: Console, errors: Console) -> int:
    """Run one algorithm on one problem, and leave a folder with everything about it."""
    base = Config()
    if (file := value_of("--config", arguments)) is not None:
        base = from_toml(file)
    parsed = tyro.cli(
        tyro.conf.OmitArgPrefixes[Run], prog="fastfedpg run", args=arguments, default=Run(base), console_outputs=True
    )
    config = parsed.settings
    out = parsed.out or new_name(Path("runs") / f"{Path(config.problem).stem}-{config.algorithm}")
    with begin(config, out, parsed.overwrite) as planned:
        return carry_out(planned, out, None, console, errors)


def carry_out(planned: Plan, out: Path, found: Checkpoint | None, console: Console, errors: Console) -> int:
    """Run what was planned, or go on with what was found, and say how it ended."""
    config = planned.config
    note = noting(errors)
    for words in planned.notes:
        note(words)
    try:
        with progress(errors, f"{config.algorithm} on {planned.name}", config.rounds) as report:
            result = execute(planned, out, report, found, note)
    except Diverged as error:
        return say(errors, f"{error} Metrics until then are in {out}", 1)
    except Interrupted as error:
        return say(errors, f"{error}; {output.kept(out)}", 130)
    except (OSError, MemoryError, jax.errors.JaxRuntimeError) as error:
        return say(errors, f"failed: {error}; {output.kept(out)}", 1)
    console.print(_results(config, result))
    console.print(f"results: {out}", soft_wrap=True, highlight=False, markup=False)
    return 0


def _results(config: Config, result: Result) -> Table:
    seeds = f"{config.seeds} seeds" if config.seeds > 1 else "1 seed"
    table = Table(title=f"{config.algorithm} after {result.rounds[-1]} rounds ({seeds})", title_justify="left")
    for column in ("", "mean", "95% interval over seeds"):
        table.add_column(column, justify="left" if not column else "right")
    rows = {
        "gap to the best common policy": "gap",
        "squared gradient norm": "grad_norm_sq",
        "mean return of the agents": "return_mean",
        "worst agent's return": "return_worst",
        "environment steps, all agents": "env_steps",
        "bytes sent per agent": "bytes_up",
        "synchronisations": "syncs",
    }
    if (result.final("gap") != result.final("gap")).any():
        rows = {"J, the mean cost (no gap: kernels or starts differ)": "J", **rows}
        del rows["gap to the best common policy"]
    for label, name in rows.items():
        mean, low, high = bootstrap(result.final(name))
        counted = name in ("env_steps", "bytes_up", "syncs")
        show = (lambda x: f"{x:,.0f}") if counted else (lambda x: f"{x:.4g}")
        table.add_row(
            label, show(mean), "" if counted or low != low else f"[{low:.4g}, {high:.4g}]".replace("[", r"\[")
        )
    return table
