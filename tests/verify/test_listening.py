"""Seeds that a report is made from, and what is heard of it while it is made."""

import time
from dataclasses import replace

import numpy as np
import pytest

from fastfedpg.cli import verify as cli
from fastfedpg.verify import agenda, listening, recording
from fastfedpg.verify.claims import structure
from fastfedpg.verify.options import VerifySettings
from fastfedpg.verify.recording import one_round
from fastfedpg.verify.verdict import claim
from tiny_subject import like, told


def test_words_say_where_it_is():
    """Counters inside counters, and nothing left behind by one that was broken off."""
    heard = []
    with listening.listening(heard.append):
        for _ in listening.counted("ab"):
            for _ in listening.counted("c"):
                listening.say("round 7 of 9")
        listening.say("end")
    assert heard == [
        *("1 of 2", "1 of 2, 1 of 1", "1 of 2, 1 of 1, round 7 of 9"),
        *("2 of 2", "2 of 2, 1 of 1", "2 of 2, 1 of 1, round 7 of 9", "end"),
    ]
    with listening.listening(heard.append):
        next(listening.counted("ab"))
    with listening.listening(heard.append):
        listening.say("anew")
    assert heard[-1] == "anew"


def test_runs_are_heard(subject):
    heard = []
    with listening.listening(heard.append):
        listening.simulate(subject.exact, subject.make(0.1, 3), 5, metrics_every=5)
    assert heard[-1] == "round 5 of 5"


def test_lines_inside_a_part(tmp_path, monkeypatch):
    """Without a terminal: a line when a part begins, and every few seconds one for how far it is."""
    monkeypatch.chdir(tmp_path)
    good = claim("a good claim", "1 <= 2", 1.0, 2.0)

    def work():
        for _ in listening.counted(range(50)):
            pass
        time.sleep(0.3)
        return [good], {}

    monkeypatch.setattr(agenda, "parts", lambda settings: [agenda.Part("many", work), agenda.Part("again", work)])
    said = told("--out", "seldom")
    assert [line.partition(" (")[0] for line in said.err.splitlines() if line.startswith("verify:")] == [
        "verify: part 1 of 2, many",
        "verify: part 2 of 2, again",
    ]
    monkeypatch.setattr(cli, "SECONDS", 0.1)
    assert "verify: part 1 of 2, many: 50 of 50" in told("--out", "often").err


def test_first_seed(subject, theta):
    """Replica 2 of seeds from 5 on is replica 7 of seeds from 0 on; random policies are others."""
    some = one_round(subject.watched_sampled, subject.fast, 0.3, theta, 3, 64, 5)
    from_0 = one_round(subject.watched_sampled, subject.fast, 0.3, theta, 3, 64)
    np.testing.assert_array_equal(some.answers[:59], from_0.answers[5:])
    assert not np.array_equal(structure.policies(like(subject, first_seed=5)), structure.policies(subject))


@pytest.mark.parametrize("quick", [False, True])
def test_every_subject_of_a_report_has_the_seed(monkeypatch, quick):
    made, init = [], agenda.Subject.__init__

    def watched(self, *given, **more):
        init(self, *given, **more)
        made.append(self)

    monkeypatch.setattr(agenda.Subject, "__init__", watched)
    agenda.parts(VerifySettings(first_seed=99, quick=quick))
    assert len(made) >= 6
    assert {subject.first_seed for subject in made} == {99}


def test_a_seed_that_is_none():
    for words in (("--first-seed", -1), ("--first-seed", 2**31)):
        said = told(*words)
        assert said.code == 2
        assert "first_seed" in said.err


def test_points_in_blocks(subject, monkeypatch):
    """Gradients at 7 points in blocks of 3 are those of one block, and each block is told of."""
    at, heard = np.random.default_rng(1).normal(size=(7, 3, 1, 6)), []
    whole = recording.gradients_at(subject.exact, at)
    monkeypatch.setattr(recording, "BLOCK", 3)
    with listening.listening(heard.append):
        np.testing.assert_array_equal(recording.gradients_at(subject.exact, at), whole)
    assert heard == ["1 of 3", "2 of 3", "3 of 3"]


def test_the_pilot_is_heard(subject):
    heard = []
    with listening.listening(heard.append):
        steps = len(replace(subject).pilot.gaps) - 1
    assert heard[-1] == f"step {steps:,} of an exact run to the optimum"
