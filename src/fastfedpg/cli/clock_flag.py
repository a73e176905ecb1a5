"""`--clock`, as several commands have it: what a network takes."""

from typing import Annotated, Any

from fastfedpg.experiment.clock import Clock, from_words
from fastfedpg.experiment.words import read_pairs, words_of
from fastfedpg.kinds import ANYTHING


def parse_clock(words: list[str]) -> dict[str, Any]:
    """latency=0.1 bandwidth=1e6 and so on; what is wrong of it is told with all else."""
    return {name: ANYTHING.read(value) for name, value in read_pairs(words).items()}


Seconds = Annotated[dict[str, Any], words_of("NAME=NUMBER …", parse_clock)]


def clock_of(said: dict[str, Any]) -> Clock | None:
    """A clock, if one was given."""
    return from_words(said) if said else None
