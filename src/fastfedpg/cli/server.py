"""`fastfedpg server` and `fastfedpg federate`: deployed runs, with agents elsewhere or all on this machine."""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from fastfedpg.cli import execute
from fastfedpg.cli.consoles import noting
from fastfedpg.cli.flags import need_flower, new_name, settings_for
from fastfedpg.experiment import Plan, plan, run_folder
from fastfedpg.experiment.checkpoints import Checkpoint
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.progress import Report
from fastfedpg.federation.terms import Address, Deployment, Keys, Terms
from fastfedpg.runtime import Result


@dataclass(frozen=True)
class Elsewhere(Config):
    """A run whose agents are on other machines."""

    problem: str = Config.problem
    """A problem's name (see `fastfedpg list`), the path of an .npz file with P, reward, rho and gamma, or private:
    each site has its own, perhaps a module:function, and the server is told --agents and --parameters alone."""


@dataclass(frozen=True)
class Here(Config):
    """A run whose agents are on this machine."""

    problem: str = Config.problem
    """A problem's name (see `fastfedpg list`), the path of an .npz file with P, reward, rho and gamma, gym:ID, or
    module:function, which each agent calls for its own; then give --agents too, and --parameters where it returns a
    Problem."""


@dataclass(frozen=True)
class Server:
    """Run an algorithm with agents on other machines, over a Flower SuperLink."""

    settings: Config
    terms: Terms = field(default_factory=Terms)
    address: Address = field(default_factory=Address)
    config: Path | None = None
    """A TOML file with any of these settings; flags given beside it win."""
    out: Path | None = None
    """The folder for the results; a new one under runs/ unless given."""
    overwrite: bool = False
    """Replace the results of an earlier run in that folder."""
    keys: Keys = "counter"
    """Random numbers from the run's seed, as in a simulation, or from a secret of each site's own."""


@dataclass(frozen=True)
class Federate:
    """Run an algorithm with real processes on this machine: SuperLink, proxy, and a node and an agent for each site."""

    settings: Config
    terms: Terms = field(default_factory=Terms)
    config: Path | None = None
    """A TOML file with any of these settings; flags given beside it win."""
    out: Path | None = None
    """The folder for the results, keys and logs; a new one under runs/ unless given."""
    overwrite: bool = False
    """Replace the results of an earlier run in that folder."""
    keys: Keys = "counter"
    """Random numbers from the run's seed, as in a simulation, or from a secret of each site's own."""
    insecure: bool = False
    """Without TLS and without node keys."""


def server(arguments: list[str], console: Console, errors: Console) -> int:
    """Run an algorithm with agents on other machines, over a Flower SuperLink."""
    given = settings_for(Server, "fastfedpg server", arguments, Elsewhere)
    need_flower()
    from fastfedpg.federation.transport import superlink

    plan(given.settings)  # what can be wrong here is said before anybody is called
    superlink.check(given.address)
    out = given.out or new_name(Path("runs") / f"server-{given.settings.algorithm}")
    ca = None if given.address.ca is None else given.address.ca.absolute()  # resumed from another folder, too
    how = Deployment(given.terms, replace(given.address, ca=ca), given.keys)
    return _begin(given.settings, out, given.overwrite, how, console, errors)


def federate(arguments: list[str], console: Console, errors: Console) -> int:
    """Run an algorithm over real processes on this machine: SuperLink, proxy, nodes and agents."""
    given = settings_for(Federate, "fastfedpg federate", arguments, Here)
    need_flower()
    out = given.out or new_name(Path("runs") / f"federate-{given.settings.algorithm}")
    how = Deployment(given.terms, Address(insecure=given.insecure), given.keys, local=True)
    return _begin(given.settings, out, given.overwrite, how, console, errors)


def resume(out: Path, console: Console, errors: Console) -> int:
    """Go on with a deployed run."""
    need_flower()
    from fastfedpg.federation import deployment
    from fastfedpg.federation.transport import superlink

    note = noting(errors)
    with deployment.opened_again(out, note) as (planned, how, found):
        if not how.local:
            superlink.check(how.address)
        note(execute.where(planned, found))
        return _carry_out(planned, how, out, found, console, errors)


def _begin(config: Config, out: Path, overwrite: bool, how: Deployment, console: Console, errors: Console) -> int:
    from fastfedpg.federation import deployment

    with deployment.opened(config, out, overwrite, how) as (planned, how):
        return _carry_out(planned, how, out, None, console, errors)


def _carry_out(
    planned: Plan, how: Deployment, out: Path, found: Checkpoint | None, console: Console, errors: Console
) -> int:
    from fastfedpg.federation import deployment
    from fastfedpg.federation.localhost import localhost

    def work(report: Report, note: Note) -> Result:
        stage = lambda words: report(stage=words)

        def say(words: str) -> None:
            stage(words)
            note(words)

        with ExitStack() as stack:
            here = how
            if how.local:
                started = localhost.started(out, planned, how, say)
                here = replace(how, address=stack.enter_context(started))
            return deployment.carry_out(planned, here, out, report, found, say, stage=stage)

    code = execute.carry_out(planned, out, work, console, errors)
    console.print(
        f"who took part: {out / run_folder.FEDERATION / deployment.LOG}", soft_wrap=True, highlight=False, markup=False
    )
    return code
