"""Code of one's own that raises in a run: which it is, and what it said, for the one line that tells."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from fastfedpg.errors import EnvironmentFailed, InputError, text_of
from fastfedpg.experiment.choices import KINDS
from fastfedpg.experiment.config import Config
from fastfedpg.registry import is_own, raised

NOTED = "in the code of "
FULL = "RESOURCE_EXHAUSTED"
"""What JAX says where memory is."""


def own_code(config: Config, error: BaseException) -> str:
    """What of a run is the user's own and may have raised this, in words; nothing where all of it is ours."""
    kinds = ("problem",) if isinstance(error, EnvironmentFailed) else KINDS
    return " or ".join(f"{kind} '{name}'" for kind in kinds if is_own(name := getattr(config, kind) or ""))


@contextmanager
def named(label: str, config: Config) -> Iterator[None]:
    """What is raised within is noted to be of this method's own code, if it has any; it stays what it is."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if own := own_code(config, error):
            error.add_note(f"{NOTED}method '{label}', {own}")
        raise


def culprit(error: BaseException) -> str:
    """Whose code it was, as noted; nothing where that is not known."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(NOTED)]
    return notes[0].removeprefix(NOTED) if notes else ""


def failure(error: BaseException, own: str) -> str:
    """Why work has ended, in words, where it is a matter of the machine or of somebody's `own` code; else nothing."""
    said = text_of(error)
    jax_says = isinstance(error, jax.errors.JaxRuntimeError)
    if isinstance(error, EnvironmentFailed):
        return f"{own}: {said}" if own else said
    if isinstance(error, OSError | MemoryError) or (jax_says and (not own or FULL in said)):
        return _quoted(said)
    return f"{own}: {_quoted(raised(error))}" if own and not isinstance(error, InputError) else ""


def _quoted(text: str) -> str:
    """Of a traceback that JAX quotes from a callback, what it ends with."""
    found = re.search(r'Traceback \(most recent call last\):.*File "[^"]*", line \d+, in \S+ (.*)', text)
    return found.group(1) if found else text
