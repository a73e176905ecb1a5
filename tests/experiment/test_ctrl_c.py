"""A run that a person interrupted ends, taken up again, as if it had never been stopped."""

import signal
from dataclasses import replace

import pytest

import fastfedpg
from commands import command
from fastfedpg.experiment import Interrupted
from stopped_runs import BOTH, CONFIG, ROUNDS, last_round, numbers, recorded, state

pytestmark = pytest.mark.usefixtures("fresh_folder")


@BOTH
@pytest.mark.parametrize("every", [1, None], ids=["before", "by"])
@pytest.mark.parametrize("at", [1, 4, 6, 11])
def test_after_ctrl_c_it_ends_as_if_never_stopped(at, every, runtime, never_stopped, capsys):
    """Put away before or by the interruption, whose own row in metrics.csv is no part of the run and gone at the end.

    Without checkpoints to make, the simulation may come up for air a few rounds later.
    """
    if runtime == "loop":
        fastfedpg.run(replace(CONFIG, runtime="loop"), "plain")
        never_stopped = numbers("plain")

    def report(done: int, record=None) -> None:
        if done >= at:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match=r"after round \d+ of 11"):
        fastfedpg.run(replace(CONFIG, runtime=runtime, checkpoint_rounds=every), "out", report=report)
    reached = last_round()
    assert reached == at or (reached > at and every is None)
    assert state("out") == "interrupted"
    assert recorded("out") == sorted({0, *(r for r in (4, 8) if r <= reached), reached})
    assert command("resume", "out") == 0
    assert f"from round {reached} of 11" in capsys.readouterr().err
    assert numbers("out") == never_stopped
    assert state("out") == "finished"


def test_interrupted_again_and_again(never_stopped):
    def report(done: int, record=None) -> None:
        if done > begun:
            signal.raise_signal(signal.SIGINT)

    begun = 0
    with pytest.raises(Interrupted):
        fastfedpg.run(replace(CONFIG, checkpoint_rounds=1), "out", report=report)
    for begun in range(1, ROUNDS):
        assert last_round() == begun, "one round at a time"
        with pytest.raises(Interrupted):
            fastfedpg.experiment.resume("out", report)
    begun = ROUNDS
    fastfedpg.experiment.resume("out", report)
    assert numbers("out") == never_stopped
