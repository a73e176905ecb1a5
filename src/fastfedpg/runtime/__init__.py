"""Ways to run an algorithm, all with the same numbers."""

from fastfedpg.runtime.layout import layout_of
from fastfedpg.runtime.loop import loop, loop_records
from fastfedpg.runtime.memory import check_memory
from fastfedpg.runtime.record import (
    Diverged,
    MessageSizes,
    Record,
    Result,
    Schedule,
    collect,
    message_sizes,
    samples_in_a_round,
)
from fastfedpg.runtime.simulate import simulate, simulate_records
from fastfedpg.runtime.standing import Standing, shapes

__all__ = [
    "Diverged",
    "MessageSizes",
    "Record",
    "Result",
    "Schedule",
    "Standing",
    "check_memory",
    "collect",
    "layout_of",
    "loop",
    "loop_records",
    "message_sizes",
    "samples_in_a_round",
    "shapes",
    "simulate",
    "simulate_records",
]
