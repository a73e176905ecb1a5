"""Errors for the person who made the mistake, and the nearest name to an unknown one."""

import difflib
from collections.abc import Iterable


def printable(text: object) -> str:
    """Text from elsewhere on one line, with what a terminal would obey written out: a newline is \\n, escape \\x1b."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def text_of(error: BaseException) -> str:
    """What an exception says, on one line; somebody's own may not even be able to."""
    try:
        return " ".join(str(error).split())
    except Exception as why:
        return f"(what it says is not known: its own __str__ raised {type(why).__name__})"


class Told(Exception):
    """Words for a person, which may quote a file or somebody's code: they are printable, on one line."""

    def __init__(self, words: object = "") -> None:
        super().__init__(printable(words))


class InputError(Told, ValueError):
    """Something given by the user is wrong; the message says what, where, and what would be right."""


class Stopped(Told, RuntimeError):
    """A run that can't go on now, and why; nothing is lost, and it can be resumed."""


class EnvironmentFailed(Told, RuntimeError):
    """An environment outside JAX that raised, hung, died or said what it can't say; the message names its agent."""


def missing_extra(what: str, package: str, extra: str) -> InputError:
    """An error for a package that is not installed, with the command that installs it."""
    return InputError(f"{what} needs {package}: pip install 'fastfedpg[{extra}]'")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name in a table that was probably meant, if there is one."""
    table = {k.replace("-", "_"): k for k in known}
    near = difflib.get_close_matches(name.lower().replace("-", "_"), table, n=1, cutoff=0.5)
    near = near or [k for k in table if name and name.lower() in k][:1]
    return table[near[0]] if near else None


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An error for a name that is not in the table, with the nearest that is."""
    known = list(known)
    near = nearest(name, known)
    suggestion = f"; did you mean '{near}'?" if near else ""
    return InputError(f"unknown {kind} '{name}'{suggestion} (known: {', '.join(known)})")
