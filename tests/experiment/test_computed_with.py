"""A run that goes on with another arithmetic says so: rounding differs, and where policies are sampled it grows."""

from dataclasses import replace

import numpy as np
import pytest

import fastfedpg
from commands import command
from fastfedpg.experiment import journal
from stopped_runs import CONFIG, OFTEN, edit, killed, numbers

pytestmark = pytest.mark.usefixtures("fresh_folder")


def test_with_all_the_same_nothing_is_said(never_stopped, capsys):
    out = killed()
    assert command("resume", out) == 0
    assert "rounding" not in capsys.readouterr().err
    assert numbers(out) == never_stopped


@pytest.mark.parametrize("what", ["sampling", "processor"])
def test_another_implementation_or_processor_is_said(what, monkeypatch, capsys):
    out = killed()
    before = journal.computed_with(journal_plan())[what]
    monkeypatch.setattr(journal, "computed_with", lambda planned: {**real(planned), what: "another"})
    assert command("resume", out) == 0
    said = f"note: out/checkpoints/000000008: {what} was {before}, and is another: rounding may differ from here on"
    assert said in capsys.readouterr().err


def test_batches_of_agents_are_said(capsys):
    config = replace(OFTEN, participants=2)
    out = killed(config=config)
    edit(out / "config.toml", "checkpoint_rounds = 2", "checkpoint_rounds = 2\nagent_batch = 1")
    assert command("resume", out) == 0
    assert "agent_batch was all, and is 1: rounding may differ" in capsys.readouterr().err
    for name in ("results.npz",):
        with np.load(out / name) as here, np.load(f"whole/{name}") as there:
            np.testing.assert_allclose(here["theta"], there["theta"], rtol=1e-9)


real = journal.computed_with


def journal_plan():
    return fastfedpg.experiment.plan(CONFIG)


def test_where_nothing_is_sampled_no_loops_are_asked_for(monkeypatch):
    """To ask would compile them."""
    monkeypatch.setattr(journal.kernels, "build", lambda: pytest.fail("asked"))
    fastfedpg.run(replace(CONFIG, oracle="exact", given={"eta": 0.5, "H": 2, "everybody": False}), "out")
