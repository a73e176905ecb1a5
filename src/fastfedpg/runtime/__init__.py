"""Ways to run an algorithm, all with the same random numbers, and equal but for rounding."""

from fastfedpg.runtime.fits_in_memory import check_memory
from fastfedpg.runtime.loop import loop, loop_records
from fastfedpg.runtime.placement import layout_of
from fastfedpg.runtime.result import Diverged, Record, Result, add, collect
from fastfedpg.runtime.run_state import Standing, shapes
from fastfedpg.runtime.schedule import Schedule, participants_of
from fastfedpg.runtime.simulate import simulate, simulate_records
from fastfedpg.runtime.walk import (
    MessageSizes,
    check_forms,
    counting_oracle,
    message_sizes,
    samples_in_a_round,
    samples_of_each,
    walk,
)

__all__ = [
    "Diverged",
    "MessageSizes",
    "Record",
    "Result",
    "Schedule",
    "Standing",
    "add",
    "check_forms",
    "check_memory",
    "collect",
    "counting_oracle",
    "layout_of",
    "loop",
    "loop_records",
    "message_sizes",
    "participants_of",
    "samples_in_a_round",
    "samples_of_each",
    "shapes",
    "simulate",
    "simulate_records",
    "walk",
]
