"""What a series of comparisons differs in: one setting, and the values that it has."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import product
from typing import Any, NamedTuple

from fastfedpg.comparison.spec import LONGEST, Comparison
from fastfedpg.errors import InputError, unknown
from fastfedpg.parameters import fit

NESTED = ("problem", "policy", "clock")
"""Settings that have tables of their own, in which one can vary: problem.kappa."""


MOST = sys.float_info.max
"""The largest number that can be drawn; a whole one in a file may be larger."""


class Vary(NamedTuple):
    """One setting with the values that it has, and how pictures and tables call it.

    `also` are settings that have the same value, as where one method calls it b and another a. With `slope` the line of
    log gap against log value is asked for, and `claim` is what somebody says it is.
    """

    setting: str
    label: str
    values: tuple[Any, ...]
    also: tuple[str, ...] = ()
    slope: bool = False
    claim: float | None = None

    @property
    def labels(self) -> list[str]:
        """Of the comparisons, and so of their folders: agents=4."""
        return [f"{self.setting.rpartition('.')[2]}={said(x)}" for x in self.values]

    @property
    def numbers(self) -> bool:
        """Whether the values are numbers, and not words."""
        return all(_is_number(x) for x in self.values)

    def to_table(self) -> dict[str, Any]:
        """As it stands in a file."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self._asdict().items() if v is not None}

    def place(self, value: Any, table: dict[str, Any]) -> dict[str, Any]:
        """A comparison's table with one of the values."""
        for setting in (self.setting, *self.also):
            table = _with(table, setting, value)
        return table


def labels_of(varied: Sequence[Vary]) -> list[str]:
    """Of comparisons that differ in all of these: kappa=0.5,B=4."""
    return [",".join(each) for each in product(*(vary.labels for vary in varied))]


def _with(table: dict[str, Any], setting: str, value: Any) -> dict[str, Any]:
    """A table with one more setting; nothing is placed in a problem or policy that is not there."""
    head, _, inner = setting.partition(".")
    if not (inner and head in NESTED):
        return {**table, setting: value}
    if head not in table and head != "clock":
        return table
    within = table.get(head, {})
    within = {"name": within} if isinstance(within, str) else within
    return {**table, head: {**within, inner: value} if isinstance(within, dict) else within}


def said(x: Any) -> str:
    """A value as a person writes it."""
    return str(x).lower() if isinstance(x, bool) else f"{x:g}" if isinstance(x, float) else str(x)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and abs(x) <= MOST


def from_table(table: Any, where: str, name: str = "vary") -> Vary:
    """What [vary], or [across], says, checked for names and types; `where` is the file."""
    here = f"{where}: {name}"
    if not isinstance(table, Mapping):
        raise InputError(f'{where}: no [{name}], which says what differs, as in setting = "agents", values = [2, 4, 8]')
    for key in table:
        if key not in Vary._fields:
            raise InputError(f"{here}: {unknown('setting', key, Vary._fields)}")
    if "setting" not in table:
        raise InputError(f'{here} has no setting; say what differs, as in setting = "agents"')
    setting = fit(f"{here}: setting", str, table["setting"])
    values = table.get("values")
    if not (isinstance(values, list) and values and all(isinstance(x, bool | int | float | str) for x in values)):
        shown = "not there" if values is None else repr(values)
        raise InputError(f"{here}: values is {shown}; it must be a list of numbers or words, as in [2, 4, 8]")
    claim, also = table.get("claim"), table.get("also", [])
    if not (isinstance(also, list) and all(isinstance(name, str) for name in also)):
        raise InputError(f"{here}: also is {also!r}; it must be a list of settings that have the same value")
    found = Vary(
        setting,
        fit(f"{here}: label", str, table.get("label", setting)),
        tuple(values),
        tuple(also),
        fit(f"{here}: slope", bool, table.get("slope", False)),
        None if claim is None else fit(f"{here}: claim", float, claim),
    )
    _check(found, here)
    return found


def check_name(what: str, name: str) -> None:
    """Refuse a name that no title, axis or terminal can show."""
    if not name.strip() or not name.isprintable() or len(name) > LONGEST:
        said = f"{len(name):,} letters" if len(name) > LONGEST else repr(name)
        raise InputError(f"{what} is {said}; give it 1 to {LONGEST} letters that can be printed: it stands in pictures")


def _check(vary: Vary, here: str) -> None:
    check_name(f"{here}: label", vary.label)
    shown = ", ".join(map(said, vary.values))
    if len({*vary.labels}) < len(vary.values):
        raise InputError(f"{here}: values are {shown}; each must be there once, and differ in its first six digits")
    if vary.numbers and sorted(vary.values) != list(vary.values):
        raise InputError(f"{here}: values are {shown}; numbers must increase, as in 2, 4, 8")
    if vary.slope and not (vary.numbers and len(vary.values) > 2 and vary.values[0] > 0):
        raise InputError(f"{here}: values are {shown}; a slope needs at least three positive numbers that increase")
    if vary.claim is not None and not (vary.slope and math.isfinite(vary.claim)):
        raise InputError(f"{here}: claim = {vary.claim:g} is what a slope is said to be; it needs slope = true")


def check_matters(vary: Vary, every: Sequence[Comparison], where: str) -> None:
    """Refuse what changes nothing in comparisons that differ in it alone, and a slope over different seeds."""
    if len(every) > 1 and all(_seen(x) == _seen(every[0]) for x in every[1:]):
        raise InputError(f"{where}: vary: {vary.setting} changes nothing here: no method has it")
    if vary.slope and len({(x.settings.first_seed, x.settings.seeds) for x in every}) > 1:
        raise InputError(f"{where}: vary: a slope needs the same seeds for all values")


def _seen(x: Comparison) -> tuple[Any, ...]:
    """All that a comparison's runs depend on."""
    own = {f.name: getattr(x, f.name) for f in fields(x) if f.name != "settings"}
    return own, x.settings.rounds, [x.config(label).flat() for label in x.labels]
