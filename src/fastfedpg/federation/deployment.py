"""A deployed run: the same plan, folder, journal and checkpoints as a simulated one, with its rounds over an engine."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

from fastfedpg.errors import InputError, printable
from fastfedpg.experiment import Plan, begin, budgets, execute, plan, reopen, run_folder
from fastfedpg.experiment.checkpoints import Checkpoint
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.journal import Note, unsaid
from fastfedpg.experiment.progress import OnProgress
from fastfedpg.federation import protocol
from fastfedpg.federation.metrics import serve_metrics
from fastfedpg.federation.roster import Roster
from fastfedpg.federation.rounds import Rounds, form
from fastfedpg.federation.terms import Address, Deployment, Terms
from fastfedpg.federation.transport import superlink
from fastfedpg.federation.transport.keys import public_keys, signed_by
from fastfedpg.federation.watch import Watch
from fastfedpg.files import append_regular, write_text
from fastfedpg.parameters import fit
from fastfedpg.runtime import Result
from fastfedpg.toml_files import read_toml

ROUTINE = "took part"
"""What the log says of every round; a person watches the progress instead."""

ABOUT, LOG = run_folder.DEPLOYED, "log.txt"


def read(out: Path) -> Deployment:
    """What a deployed run's folder says."""
    path = out / run_folder.FEDERATION / ABOUT
    table = read_toml(path)
    try:
        address = dict(table["address"])
        ca = address.pop("ca", None)
        how = Deployment(
            Terms(**_fitted(path, Terms, table["terms"])),
            Address(ca=None if ca is None else Path(ca), **_fitted(path, Address, address)),
            **_fitted(path, Deployment, {k: table[k] for k in ("keys", "run", "local")}),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not as it was written ({error})") from None
    if not protocol.is_run(how.run):
        raise InputError(f"{path}: not as it was written (run = {how.run!r})")
    return how


def _fitted(path: Path, kind: type, table: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {name: fit(f"{path}: {name}", hints[name], value) for name, value in table.items()}


@contextmanager
def begin_deployed(config: Config, out: Path, overwrite: bool, how: Deployment) -> Iterator[tuple[Plan, Deployment]]:
    """Check everything, then open the folder of a new deployed run."""
    how = replace(how, run=secrets.token_hex(16))

    def also() -> None:
        (out / run_folder.FEDERATION).mkdir(mode=0o700, exist_ok=True)
        write_text(out / run_folder.FEDERATION / ABOUT, how.to_toml())

    if config.seeds != 1:
        raise InputError(f"seeds = {config.seeds}; a deployed run has one (--first-seed says which)")
    run_folder.check_folder(out, overwrite)
    planned = plan(replace(config, checkpoint_rounds=1))
    _check(planned, how)  # before anything that was there is removed
    with begin(planned.config, out, overwrite, planned, also) as planned:
        yield planned, how


@contextmanager
def reopen_deployed(out: Path, note: Note) -> Iterator[tuple[Plan, Deployment, Checkpoint | None]]:
    """Open the folder of a deployed run that was interrupted, killed or stopped."""
    with reopen(out, note, shapes=form) as (planned, found):
        how = read(out)
        _check(planned, how)
        yield planned, how, found


def _check(planned: Plan, how: Deployment) -> None:
    how.terms.check(planned.problem.N)
    protocol.talks(planned.algorithm, protocol.theta_of(planned.problem), planned.problem.N)
    if how.terms.evaluate == "server" and planned.known is None:
        raise InputError("evaluate = server needs a problem that the server knows; this one is private to its agents")


def message_limit(planned: Plan) -> int:
    """No message of this run has more bytes."""
    theta = protocol.theta_of(planned.problem)
    return protocol.largest(protocol.talks(planned.algorithm, theta, planned.problem.N), theta)


def run_deployed(
    planned: Plan,
    how: Deployment,
    out: Path,
    report: OnProgress,
    found: Checkpoint | None,
    note: Note,
    connect: Callable[[float], Any] | None = None,
    stage: Note = unsaid,
) -> Result:
    """Run the rounds over the engine, into a folder that is open already; `stage` hears how far a round has come."""
    config, problem, folder = planned.config, planned.problem, out / run_folder.FEDERATION
    terms = how.terms
    if terms.evaluate is None:
        theirs = planned.known is None or planned.algorithm.personalise is not None
        terms = replace(terms, evaluate="agents" if theirs else "server")
    declared = protocol.declaration(config, problem.N, protocol.theta_of(problem), how.keys)

    def write(words: str) -> None:
        with append_regular(folder / LOG) as file:
            line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {printable(words)}\n"
            file.write(line.encode(errors="backslashreplace"))

    def log(words: str) -> None:
        write(words)
        if ROUTINE not in words:
            note(words)

    write("begins" if found is None else f"goes on after round {found.standing.round}")
    if how.keys == "private":
        note("random numbers are each site's own: equal to a simulation in distribution only (see fastfedpg verify)")
    if connect is None:
        connect = lambda seconds: superlink.connect(how.address, message_limit(planned), seconds, log)
    known = {} if how.address.ca is None else public_keys(how.address.ca.parent)
    opened = lambda i, question, content: signed_by(known[i], question, content) if known else content
    with (
        Watch(folder, how.run, config.rounds, problem.N, note) as watch,
        serve_metrics(watch, terms.metrics_port) as port,
    ):
        if port is not None:
            note(f"Prometheus is told at http://127.0.0.1:{port}/metrics")
        roster = Roster(watch.over_engine(connect), how.run, declared, problem.N, terms.patience, log, stage, opened)
        rounds = Rounds(roster, problem, planned.algorithm, terms, _steps(planned))
        records = lambda problem, algorithm, *rest: rounds.records(*rest)  # which has both already
        try:
            result = execute(planned, out, report, found, note, records)
        except BaseException as error:
            write(f"stopped: {type(error).__name__}: {error}")
            raise
        finally:
            roster.close()
    write(f"finished after round {result.rounds[-1]}")
    return result


def _steps(planned: Plan) -> float:
    """The environment steps of one agent's round, where the server can know them: episodes may end before K steps."""
    if planned.known is None or planned.known.played:
        return float("nan")
    return budgets.samples(planned) / planned.schedule.taking_part(planned.problem) if budgets.plays(planned) else 0.0
