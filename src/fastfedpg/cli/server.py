"""`fastfedpg server` and `fastfedpg federate`: deployed runs, with agents elsewhere or all on this machine."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from fastfedpg.cli import execute
from fastfedpg.cli.consoles import noting
from fastfedpg.cli.extras import need_flower
from fastfedpg.cli.new_folder import new_folder
from fastfedpg.cli.parse_flags import option, settings_for
from fastfedpg.experiment import Plan, plan, run_folder
from fastfedpg.experiment.checkpoints import Checkpoint
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.progress import OnProgress
from fastfedpg.federation.terms import Address, Deployment, Keys, Terms
from fastfedpg.runtime import Result

ELSEWHERE = (
    "A problem's name (see `fastfedpg list`), the path of an .npz file with P, reward, rho and gamma, or private: each "
    "site has its own, perhaps a module:function, and the server is told --agents and --parameters alone."
)
HERE = (
    "A problem's name (see `fastfedpg list`), the path of an .npz file with P, reward, rho and gamma, gym:ID, or "
    "module:function, which each agent calls for its own; then give --agents too, and --parameters where it returns a "
    "Problem."
)
EXAMPLE = "--problem compromise --algorithm fast_fedpg --eta 0.5 --rounds 3"


@dataclass(frozen=True)
class ServerFlags:
    """Run an algorithm with agents on other machines, over a Flower SuperLink."""

    config: Path | None = option(None, "A TOML file with any of these settings; flags given beside it win.")
    out: Path | None = option(None, "The folder for the results; a new one under runs/ unless given.")
    overwrite: bool = option(False, "Replace the results of an earlier run in that folder.")
    keys: Keys = option(
        "counter", "Random numbers from the run's seed, as in a simulation, or from a secret of each site's own.", "run"
    )


@dataclass(frozen=True)
class FederateFlags(ServerFlags):
    """Run an algorithm with real processes on this machine: a SuperLink, and an agent for each site."""

    insecure: bool = option(False, "Without TLS and without node keys.", "run")


def server(arguments: list[str], console: Console, errors: Console) -> int:
    """Run an algorithm with agents on other machines, over a Flower SuperLink."""
    example = f"fastfedpg server {EXAMPLE} --superlink 127.0.0.1:8000 --ca ca.crt"
    about, kinds = {"problem": ELSEWHERE}, (ServerFlags, Terms, Address)
    config, (given, terms, address) = settings_for(kinds, "fastfedpg server", arguments, about, example)
    need_flower()
    from fastfedpg.federation.transport import flower_http

    planned = plan(config)  # what can be wrong here is said before anybody is called
    flower_http.check(address, planned.problem.N)
    out = given.out or new_folder("server", config.algorithm)
    ca = None if address.ca is None else address.ca.absolute()  # resumed from another folder, too
    how = Deployment(terms, replace(address, ca=ca), given.keys)
    return _begin(config, out, given.overwrite, how, console, errors)


def federate(arguments: list[str], console: Console, errors: Console) -> int:
    """Run an algorithm over real processes on this machine: a SuperLink and an agent for each site."""
    example = f"fastfedpg federate {EXAMPLE}"
    about, kinds = {"problem": HERE}, (FederateFlags, Terms)
    config, (given, terms) = settings_for(kinds, "fastfedpg federate", arguments, about, example)
    need_flower()
    out = given.out or new_folder("federate", config.algorithm)
    how = Deployment(terms, Address(insecure=given.insecure), given.keys, local=True)
    return _begin(config, out, given.overwrite, how, console, errors)


def resume(out: Path, console: Console, errors: Console) -> int:
    """Go on with a deployed run."""
    need_flower()
    from fastfedpg.federation import deployment
    from fastfedpg.federation.transport import flower_http

    note = noting(errors)
    with deployment.reopen_deployed(out, note) as (planned, how, found):
        if not how.local:
            flower_http.check(how.address, planned.problem.N)
        note(execute.where(planned, found))
        return _run(planned, how, out, found, console, errors)


def _begin(config: Config, out: Path, overwrite: bool, how: Deployment, console: Console, errors: Console) -> int:
    from fastfedpg.federation import deployment

    with deployment.begin_deployed(config, out, overwrite, how) as (planned, how):
        return _run(planned, how, out, None, console, errors)


def _run(planned: Plan, how: Deployment, out: Path, found: Checkpoint | None, console: Console, errors: Console) -> int:
    from fastfedpg.federation import deployment
    from fastfedpg.federation.localhost import start_all

    def work(report: OnProgress, note: Note) -> Result:
        stage = lambda words: report(stage=words)

        def say(words: str) -> None:
            stage(words)
            note(words)

        with ExitStack() as stack:
            here = how
            if how.local:
                started = start_all.start_federation(out, planned, how, say)
                here = replace(how, address=stack.enter_context(started))
            return deployment.run_deployed(planned, here, out, report, found, say, stage=stage)

    code = execute.run_and_report(planned, out, work, console, errors)
    console.print(
        f"who took part: {out / run_folder.FEDERATION / deployment.LOG}", soft_wrap=True, highlight=False, markup=False
    )
    return code
