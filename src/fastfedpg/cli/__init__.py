"""The command line: one file for each command."""

import sys
from collections.abc import Callable

from rich.console import Console

from fastfedpg import __version__
from fastfedpg.cli import agent, compare, kit, listing, proxy, resume, run, runs, server, show, verify
from fastfedpg.cli.words import QuietConsole, say
from fastfedpg.errors import InputError, unknown
from fastfedpg.study import output

COMMANDS: dict[str, Callable[[list[str], Console, Console], int]] = {
    "run": run.run,
    "compare": compare.compare,
    "resume": resume.resume,
    "runs": runs.runs,
    "show": show.show,
    "federate": server.federate,
    "server": server.server,
    "verify": verify.verify,
    "agent": agent.agent,
    "proxy": proxy.proxy,
    "kit": kit.kit,
    "list": listing.list_everything,
}


def main(arguments: list[str] | None = None) -> int:
    """The entry point; returns the exit code: 0 done, 1 diverged, 2 wrong input, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    console, errors = QuietConsole(), QuietConsole(stderr=True)
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            console.print(_help(), highlight=False, markup=False, soft_wrap=True)
            return 0 if arguments else 2
        if arguments[0] == "--version":
            console.print(output.versions(), highlight=False)
            return 0
        if arguments[0] not in COMMANDS:
            raise unknown("command", arguments[0], COMMANDS)
        return COMMANDS[arguments[0]](arguments[1:], console, errors)
    except InputError as error:
        return say(errors, str(error), 2)
    except OSError as error:
        return say(errors, f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), 1)
    except KeyboardInterrupt:
        return say(errors, "interrupted before anything was done", 130)


def _help() -> str:
    lines = [f"  {name:<8} {(f.__doc__ or '').splitlines()[0]}" for name, f in COMMANDS.items()]
    return (
        f"fastfedpg {__version__}: federated and multi-task policy gradients\n\nusage: fastfedpg COMMAND …\n\n"
        + "\n".join(lines)
        + "\n\n`fastfedpg COMMAND --help` says more about each."
    )
