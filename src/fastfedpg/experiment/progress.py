"""Progress for people: a bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fastfedpg.runtime import Record
from fastfedpg.runtime.views import leads

LINE_SECONDS = 2.0


OnProgress: TypeAlias = Callable[..., None]
"""Called as report(rounds done), at each record as report(rounds done, record), and as report(stage=words) between."""


Show: TypeAlias = Callable[[str, int], AbstractContextManager[OnProgress]]
"""Called as show(title, rounds) for each piece of work, gives a report for it."""


def silent(done: int | None = None, record: Record | None = None, stage: str = "") -> None:
    """Show nothing."""


def unseen(title: str, rounds: int) -> AbstractContextManager[OnProgress]:
    """Progress that nobody sees."""
    return nullcontext(silent)


@contextmanager
def progress(console: Console, title: str, rounds: int) -> Iterator[OnProgress]:
    """A progress report for one run."""
    base: tuple[int, float] | None = None  # the first round is left out of the rate: it waits for the compiler
    value: tuple[str, int | None] = ("compiling", None)
    now, under_way = 0, ""

    def describe(done: int, record: Record | None) -> str:
        nonlocal value
        if record is not None:
            e = record.evaluation
            name = leads(e.gap, e.grad_norm_sq)
            said = {"gap": ("gap", e.gap), "J": ("J", e.J), "return_mean": ("return", e.returns)}[name]
            value = f"{said[0]} {np.mean(said[1]):.4g}", record.round
        text, of = value
        if of is None and done > 0:
            return ""
        return text if of in (None, done) else f"{text} after round {of}"

    def rate(done: int) -> str:
        nonlocal base
        if base is None and done > 0:
            base = (done, time.monotonic())
        if base is None or done <= base[0]:
            return ""
        speed = (done - base[0]) / max(time.monotonic() - base[1], 1e-9)
        return f"{speed:.1f} rounds/s" if speed >= 0.5 else f"{1 / speed:.0f} s a round"

    if console.is_terminal:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
            task = bar.add_task(title, total=rounds, note=value[0])

            def draw(done: int | None = None, record: Record | None = None, stage: str = "") -> None:
                nonlocal now, under_way
                now, under_way = now if done is None else done, stage.partition("\n")[0] or under_way
                parts = (under_way,) if under_way and now == 0 else (rate(now), describe(now, record), under_way)
                words = "  ".join(filter(None, parts))
                bar.update(task, completed=now, note=words, refresh=bool(stage))

            yield draw
        return
    last = time.monotonic()

    def line(done: int | None = None, record: Record | None = None, stage: str = "") -> None:
        nonlocal last
        if done is None:  # stages change too fast for lines, and are noted where they matter
            return
        speed, text = rate(done), describe(done, record)
        finished = done == rounds and record is not None
        if finished or time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            words = "  ".join(filter(None, (f"{title}: round {done}/{rounds}", speed, text)))
            console.print(words, highlight=False, markup=False, soft_wrap=True)

    yield line
