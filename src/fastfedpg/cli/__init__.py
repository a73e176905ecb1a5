"""The command line: one file for each command, imported when it is asked for."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from rich.console import Console

from fastfedpg import __version__
from fastfedpg.cli.consoles import QuietConsole, discard, say
from fastfedpg.errors import EnvironmentFailed, InputError, unknown

Command: TypeAlias = Callable[[list[str], Console, Console], int]

COMMANDS = {
    "init": ("init.init", "Write a commented TOML file with every setting of a run, to be edited."),
    "run": ("run.run", "Run one algorithm on one problem, and leave a folder with everything about it."),
    "compare": ("compare.compare", "Compare methods on one problem and one budget, or finished runs."),
    "sweep": (
        "sweep.sweep",
        "Run one algorithm with every combination of several values of its settings, and compare them.",
    ),
    "study": (
        "study.study",
        "Run comparisons on many problems, or at many values of one setting, and show them together.",
    ),
    "resume": ("resume.resume", "Go on with a run, a comparison or a study that was interrupted or killed."),
    "runs": ("runs.runs", "List the runs below a folder, with their problem, algorithm, gap and state."),
    "advise": (
        "advise.advise",
        "Say which method, step size and local steps a problem asks for, and what each would cost.",
    ),
    "show": ("show.show", "Draw a problem and say what it is."),
    "federate": (
        "server.federate",
        "Run an algorithm over real processes on this machine: a SuperLink and an agent for each site.",
    ),
    "server": ("server.server", "Run an algorithm with agents on other machines, over a Flower SuperLink."),
    "status": ("status.status", "Say of a deployed run who is there, which round it is in, and what exchanges take."),
    "verify": (
        "verify.verify",
        "Check every claim of the paper on a problem, or compare a deployed run with its simulation.",
    ),
    "agent": ("agent.agent", "Be one site's agent: answer the questions of an algorithm's server, and no others."),
    "kit": (
        "kit.kit",
        "Make keys, certificates and systemd units for a server and its sites, one folder for each machine.",
    ),
    "film": ("film.film", "Draw what a learned policy does, as a moving picture."),
    "watch": ("watch.watch", "Serve the page of a run that is under way on this machine, and show how far it is."),
    "report": (
        "report.report",
        "Make one HTML file, which opens without a network, of runs, comparisons, studies and verifications.",
    ),
    "list": (
        "list.list_everything",
        "Show the problems, algorithms, oracles, policies and presets, a line each; or all about one of them.",
    ),
    "completion": ("completion.completion", "Complete commands, flags and names by the Tab key, in bash and zsh."),
}
"""Where each command is, and the first line of its docstring."""

QUICK = ("init", "completion")
"""Those that JAX is not loaded for."""


def load(name: str) -> Command:
    """The function of a command."""
    module, function = COMMANDS[name][0].split(".")
    found: Command = getattr(import_module(f"fastfedpg.cli.{module}"), function)
    return found


def prepare(arguments: list[str]) -> None:
    """Import what a command needs before it is called; help needs nothing of the sort."""
    if arguments and arguments[0] in COMMANDS and arguments[0] not in QUICK and not _asks_for_help(arguments):
        load(arguments[0])
        import_module("fastfedpg.comparison.run_cells")


def _asks_for_help(arguments: list[str]) -> bool:
    return bool({"-h", "--help"} & {*arguments})


def main(arguments: list[str] | None = None) -> int:
    """The entry point; returns the exit code: 0 done, 1 diverged or a claim fails, 2 wrong input, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    console, errors = QuietConsole(), QuietConsole(stderr=True)
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            console.print(_help(), highlight=False, markup=False, soft_wrap=True)
            return 0 if arguments else 2
        if wrong := [word for word in arguments if "\0" in word]:
            raise InputError(f"{wrong[0]}: no name or path has a NUL in it")
        if arguments[0] == "--version":
            from fastfedpg.experiment import run_folder

            console.print(run_folder.versions(), highlight=False)
            return 0
        if arguments[0] not in COMMANDS:
            raise unknown("command", arguments[0], COMMANDS)
        command = load(arguments[0])
        if not _asks_for_help(arguments) and arguments[0] not in QUICK:
            from fastfedpg.precision import float64  # with JAX

            command = float64(command)
        return command(arguments[1:], console, errors)
    except InputError as error:
        return say(errors, str(error), 2)
    except EnvironmentFailed as error:
        return say(errors, str(error), 1)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _asks_for_help(arguments):  # whose reader has seen enough
            discard(sys.stdout)
            return 0
        return say(errors, f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), 1)
    except KeyboardInterrupt:
        return say(errors, "interrupted before anything was done", 130)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return (
        f"fastfedpg {__version__}: federated and multi-task policy gradients\n\nusage: fastfedpg COMMAND …\n\n"
        + "\n".join(lines)
        + "\n\n`fastfedpg COMMAND --help` says more about each."
    )
