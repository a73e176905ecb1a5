"""What there is, by name: a table of ours, or a user's own module:function or file.py:function."""

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fastfedpg.errors import InputError, text_of, unknown
from fastfedpg.parameters import bind
from fastfedpg.signatures import Described, describe_function, describe_source

PACKAGE = Path(__file__).parent
SUITES = ("gym", "gymnax", "mo", "sumo")
"""What stands before a colon and is no module of the user's."""


class Choice(NamedTuple):
    """One thing by its name, with its arguments: all that is written down of it."""

    name: str
    args: dict[str, Any]
    source: str = ""  # a hash of the file that a user's own function is in


class Table(Mapping[str, Callable[..., Any]]):
    """Factories of one kind by name; a factory is imported when it is asked for.

    `given` are the parameters that are no settings: the library passes them itself.
    """

    def __init__(self, kind: str, rows: Mapping[str, str], given: tuple[str, ...] = ()) -> None:
        self.kind, self.rows, self.given = kind, dict(rows), given

    def __getitem__(self, name: str) -> Callable[..., Any]:
        module, _, function = self.rows[name].partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(f"fastfedpg.{module}"), function)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.rows  # without importing it

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def resolve(self, name: str) -> Callable[..., Any]:
        """The factory of this name, of ours or a user's own."""
        if name in self.rows:
            return self[name]
        if is_own(name):
            return load(self.kind, name)
        raise unknown(self.kind, name, self.rows)

    def describe(self, name: str) -> Described:
        """What a factory says of itself; one of ours is not imported for it."""
        if name in self.rows:
            module, _, function = self.rows[name].partition(":")
            found = describe_source(PACKAGE / f"{module.replace('.', '/')}.py", function)
        else:
            found = describe_function(self.resolve(name))
        return found._replace(parameters={k: p for k, p in found.parameters.items() if k not in self.given})

    def takes(self, name: str) -> dict[str, bool]:
        """The names of a factory's own settings, and whether each must be given by whoever calls it."""
        parameters = inspect.signature(self.resolve(name)).parameters.values()
        return {p.name: p.default is p.empty for p in parameters if p.name not in self.given}

    def choose(self, name: str, args: Mapping[str, Any]) -> Choice:
        """The choice of a name and its arguments, each as what it must be, with the defaults of the others."""
        bound = bind(f"{self.kind} '{name}'", self.describe(name).parameters, args)
        return Choice(name, bound, source_hash(name))


def is_own(name: str) -> bool:
    """Whether a name is a user's own function: module:function or file.py:function."""
    module, colon, function = name.partition(":")
    return bool(colon and module and function) and module not in SUITES and not name.endswith(".npz")


OBJECT = "object"
_OBJECTS: dict[str, Any] = {}


def keep(kind: str, label: str, made: Any) -> str:
    """A name for something that was made in Python, as long as this program runs."""
    name = f"{OBJECT}:{label}"
    _OBJECTS[f"{kind} {name}"] = made
    return name


def load(kind: str, name: str) -> Callable[..., Any]:
    """A user's own function; its file is looked for where the program was started."""
    what = f"{kind} '{name}'"
    if name.startswith(f"{OBJECT}:"):
        if f"{kind} {name}" not in _OBJECTS:
            raise InputError(f"{what} was made in Python, and is gone with the program that made it")
        return lambda: _OBJECTS[f"{kind} {name}"]
    place, _, function = name.rpartition(":")
    folder, module = (Path(place).parent, Path(place).stem) if place.endswith(".py") else (Path(), place)
    if not (place and function):
        raise InputError(f"{what}: name a function, as in module:function or file.py:function")
    if place.endswith(".py") and not Path(place).is_file():
        raise InputError(f"{what}: no file {place} in {Path.cwd()}, where this was started")
    try:
        with importable(Path.cwd() / folder), in_place():
            found = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(module)
    except BaseException as error:
        if type(error) is KeyboardInterrupt:
            raise
        gone = error.name if isinstance(error, ModuleNotFoundError) else None
        if gone is None or not f"{module}.".startswith(f"{gone}."):
            raise InputError(f"{what}: module '{module}' can't be imported: {raised(error)}") from error
        raise InputError(
            f"{what}: no module '{gone}' in {Path.cwd()}, where this was started, nor among those that are installed; "
            "start it in the module's folder"
        ) from None
    made = getattr(found, function, None)
    if callable(made):
        _check_signature(what, made)
        return made
    own = [k for k, f in vars(found).items() if inspect.isfunction(f) and f.__module__ == found.__name__]
    raise InputError(f"{found.__file__ or module}: {unknown('function', function, own)}")


def _check_signature(what: str, made: Callable[..., Any]) -> None:
    try:
        inspect.signature(made)
    except (TypeError, ValueError):
        raise InputError(
            f"{what} does not say what it takes, as a function written in Python does; name one of your own"
        ) from None


@contextmanager
def told(what: str, instead: str = "") -> Iterator[None]:
    """Whatever a user's own code raises, as a mistake in words; Ctrl-C stays what it is, and so does what we say."""
    try:
        with in_place():
            yield
    except InputError:
        raise
    except BaseException as error:
        if type(error) is KeyboardInterrupt:
            raise
        raise InputError(f"{what}: {raised(error)}{instead}") from error


@contextmanager
def in_place() -> Iterator[None]:
    """Wherever somebody's code goes, we stay where this was started: that is what relative names mean."""
    here = os.open(".", os.O_RDONLY)  # the folder itself, which may be renamed or removed meanwhile
    try:
        yield
    finally:
        os.fchdir(here)
        os.close(here)


_LOADED: dict[Path, tuple[str, Any]] = {}


def _from_file(path: Path) -> Any:
    """The module in a file as it is now; it gets another name where its own is some other module's."""
    path = path.resolve()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if path in _LOADED and _LOADED[path][0] == digest:
        return _LOADED[path][1]
    known = sys.modules.get(path.stem)
    free = path.stem not in sys.stdlib_module_names and (known is None or getattr(known, "__file__", None) == str(path))
    name = path.stem if free else f"fastfedpg_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _LOADED[path] = digest, module
    return module


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Modules in that folder can be imported."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def raised(error: BaseException) -> str:
    """What was raised, and the first place on the way there that is not ours."""
    ours = ("<frozen importlib", str(PACKAGE), importlib.__file__)
    every = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(ours)]
    frames = [f for f in every if "site-packages" not in f.filename] or every
    where = f" ({frames[0].filename}, line {frames[0].lineno})" if frames else ""
    return f"{type(error).__name__}: {text_of(error)}{where}"


def source_hash(name: str) -> str:
    """A hash of the file that a user's own function is in; nothing for what is ours, which has a version."""
    if not is_own(name) or name.startswith(f"{OBJECT}:"):
        return ""
    place = name.rpartition(":")[0]
    if not place.endswith(".py"):
        with importable(Path.cwd()):
            spec = importlib.util.find_spec(place)
        place = str(spec.origin) if spec and spec.origin else ""
    return hashlib.sha256(Path(place).read_bytes()).hexdigest() if Path(place).is_file() else ""
