"""Runs from a configuration: on disk as they go, whatever ends them, and taken up again from there."""

import math
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import jax

from fastfedpg import runtime
from fastfedpg.core import Algorithm, Problem
from fastfedpg.errors import InputError, Stopped, text_of
from fastfedpg.experiment import checkpoints, own_files, run_folder
from fastfedpg.experiment.checkpoints import Checkpoint, UnusableCheckpoint
from fastfedpg.experiment.config import AUTO, Config, from_toml
from fastfedpg.experiment.copies import placed, read_graphs, write_graphs
from fastfedpg.experiment.journal import Journal, Note, identity, unsaid
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.experiment.progress import OnProgress, silent
from fastfedpg.files import clear_parts, hold
from fastfedpg.precision import float64, precision_of
from fastfedpg.runtime import Diverged, Record, Result, Schedule, Standing

Shapes: TypeAlias = Callable[[Problem, Algorithm, Schedule], Standing]
Records: TypeAlias = Callable[..., Iterable[Record]]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; what was recorded until then was kept."""


@float64
def run(
    config: Config,
    out: Path | str | None = None,
    overwrite: bool = False,
    report: OnProgress = silent,
    note: Note = warnings.warn,
) -> Result:
    """Run a configuration; with `out`, leave its folder behind, also when interrupted or diverged."""
    if out is None:
        if config.track:
            note("track has no effect: a run without a folder writes nothing")
        return execute(_planned(config), report=report)
    with begin(config, Path(out), overwrite) as planned:
        return execute(planned, Path(out), report, note=note)


@float64
def resume(out: Path | str, report: OnProgress = silent, note: Note = warnings.warn, restart: bool = False) -> Result:
    """Go on with a run that was interrupted or killed, to the same bytes as if it never had been.

    So it is with the same versions and the same kind of processor. Elsewhere, or with other sampling loops, shards or
    batches, it is the same but for rounding, which grows where steps are large; a note says so.

    Where none of its checkpoints can be used nothing is done; with `restart` it then begins anew, and what was there is
    kept in a folder of its own.
    """
    with reopen(Path(out), note, restart=restart) as (planned, found):
        return execute(planned, Path(out), report, found, note)


def _planned(config: Config) -> Plan:
    """The plan; where the algorithm is left open, of the one that is advised, with its reasons."""
    if config.algorithm != AUTO:
        return plan(config)
    from fastfedpg.experiment.advised import advise

    found = advise(config)
    planned = plan(found.config)
    said = f"auto: {found.best.method.label}, with {found.chosen}, since {found.reason()}"
    return replace(planned, notes=(*planned.notes, said, *found.notes), advice=found.summary())


@contextmanager
def begin(
    config: Config,
    out: Path,
    overwrite: bool = False,
    like: Plan | None = None,
    also: Callable[[], None] = lambda: None,
) -> Iterator[Plan]:
    """Check the folder and the configuration, and only then open the folder; `also` writes what else belongs in it."""
    run_folder.check_folder(out, overwrite)
    planned = like or _planned(config)
    clear, graphs = lambda: run_folder.clear(out, overwrite), read_graphs(planned.config.choice("algorithm").args)

    def describe() -> None:
        also()
        write_graphs(out, graphs)
        run_folder.describe(out, planned.config, planned.known, planned.theta0, planned.advice)

    with run_folder.open_folder(out, clear, describe):
        yield replace(planned, config=placed(planned.config, out)) if graphs else planned


@contextmanager
def reopen(
    out: Path, note: Note, like: Plan | None = None, shapes: Shapes = runtime.shapes, restart: bool = False
) -> Iterator[tuple[Plan, Checkpoint | None]]:
    """Open the folder of a run that has not come to its end; one that has no checkpoint yet starts again."""
    with ExitStack() as stack:
        try:
            if not (out / "config.toml").is_file():
                raise InputError(f"{out}: no run to go on with: there is no config.toml in it")
            if run_folder.is_deployed(out) and shapes is runtime.shapes:
                raise InputError(f"{out}: a deployed run; the command line goes on with it: fastfedpg resume {out}")
            stack.enter_context(hold(out))
            if run_folder.ended(out) in ("finished", "diverged"):
                raise InputError(f"{out}: the run has {run_folder.ended(out)}; there is nothing to go on with")
            run_folder.check_files(out)
            planned = like or replace(plan(from_toml(out / "config.toml")), advice=run_folder.advice(out))
            own_files.check_results(out, aside=True)  # before a checkpoint that is refused gets another name
            clear_parts(out)
            with precision_of(planned.problem.theta0):
                form = shapes(planned.problem, planned.algorithm, planned.schedule)
            try:
                found = checkpoints.newest(out, identity(planned), form, note)
            except UnusableCheckpoint as error:
                if not restart:
                    raise InputError(
                        f"{out}: none of its checkpoints can be used ({error}); nothing was changed. Put that right, "
                        f"or begin anew and keep what is there: fastfedpg resume {out} --restart"
                    ) from None
                found = None
            left = checkpoints.present(out) or run_folder.has_results(out)
            if found is None and left and not restart:
                raise InputError(
                    f"{out}: it has results and no checkpoint, so it can't go on; nothing was changed. Begin anew and "
                    f"keep what is there: fastfedpg resume {out} --restart"
                )
            if found is None and left:
                note(f"what was there is kept in {own_files.set_aside(out)}")
            own_files.check_results(out)
        except OSError as error:
            raise InputError(f"{out}: {error.strerror}; nothing was run") from None
        yield planned, found


def execute(
    planned: Plan,
    out: Path | None = None,
    report: OnProgress = silent,
    found: Checkpoint | None = None,
    note: Note = unsaid,
    records: Records | None = None,
) -> Result:
    """Run what was planned, into a folder that is open already.

    `records` is the runtime, if it is none of the configuration's own. Such a run has parts elsewhere, which must never
    be ahead of its checkpoint: it does not go on without one.
    """
    config, journal = planned.config, Journal(planned, out, found, note)
    start = records or (runtime.simulate_records if config.runtime == "simulate" else runtime.loop_records)
    state = "finished"
    stopped: BaseException | None = None
    pause = config.checkpoint_rounds if out is not None else None
    if out is not None and config.shards is not None and jax.process_count() > 1:
        raise InputError(
            f"{out}: {jax.process_count()} processes share this run, and a folder is one process's; take "
            "fastfedpg.simulate, and write its result in the first process (docs/scale.md)"
        )

    def tick(done: int, standing: Callable[[], Standing]) -> None:
        journal.tick(done, standing)
        if records is not None and out is not None and journal.kept != done:
            raise Stopped(f"no checkpoint could be written after round {done}; the agents wait where they are")
        report(done)

    try:
        with precision_of(planned.problem.theta0):
            for record in start(planned.problem, planned.algorithm, planned.schedule, tick, journal.start, pause):
                journal.add(record)
                report(record.round, record)
    except KeyboardInterrupt:
        state = "interrupted"
    except Diverged as e:
        state, stopped = "diverged", Diverged(e.round, e.exchange, e.agent, e.seed, f". {_advice(planned)}", e.why)
    except BaseException as error:  # whatever it is, what was recorded goes to disk before it goes on up
        state, stopped = "failed", error
    with _whole(heed=state in ("finished", "diverged")):
        if planned.problem.release is not None:
            planned.problem.release()
        if state == "interrupted":
            stopped = Interrupted(f"interrupted after round {journal.last} of {config.rounds}")
        result = journal.close(state, "" if stopped is None else text_of(stopped))
    if isinstance(stopped, Diverged):
        stopped.result = result
    if stopped is not None:
        raise stopped
    assert result is not None
    return result


def _advice(planned: Plan) -> str:
    """What may help; Lemma 2 speaks of Fast-FedPG, and of problems with a bound on L."""
    config, known = planned.config, planned.known
    if math.isnan(config.eta):
        return "Try smaller steps."
    if config.algorithm != "fast_fedpg" or known is None or known.smoothness() is None:
        return f"The step size is eta = {config.eta:g}; try a smaller one."
    return (
        f"The step size is eta = {config.eta:g}; Lemma 2 asks for at most 1/(3LH) = {planned.step_limit:.3g}, "
        f"with H = {planned.local_steps} and the bound L = {planned.smoothness:.4g}. Try a smaller eta."
    )


@contextmanager
def _whole(heed: bool) -> Iterator[None]:
    """Ctrl-C, or a request to end, must not cut the files short: it waits for them.

    Then it is heard, if there is something to `heed` it: what runs after this run. One that is ending anyway ends.
    """
    heard: list[int] = []
    try:
        every = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {n: signal.signal(n, lambda number, frame: heard.append(number)) for n in every}
    except ValueError:  # not in the main thread, where no signal arrives
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if heed and heard:
        signal.raise_signal(heard[0])
