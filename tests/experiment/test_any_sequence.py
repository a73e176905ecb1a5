"""A run's folder under any sequence of runs, kills, Ctrl-C, full disks, damage, edits, resumptions and replacements.

Whatever happens: what is somebody else's stays as it is; a run that comes to its end has the bytes of one that was
never stopped; checkpoints that were refused stay; the command line never ends in a traceback, and never hangs.
"""

import io
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

import fastfedpg
from commands import command
from fastfedpg import files
from fastfedpg.experiment import checkpoints, finished_run
from fastfedpg.experiment import recorded_run as run
from fastfedpg.experiment.config import from_toml
from folders import FOLDER, PIPE, contents, ending, in_time, put
from properties import few, many, until_time_is_up
from stopped_runs import NUMBERS, OFTEN, flags, numbers, state

pytestmark = pytest.mark.usefixtures("fresh_folder")

CONFIGS = (OFTEN, replace(OFTEN, rounds=9))
HOW = st.sampled_from([None, "kill", "ctrl-c", "full disk"])
CALL = st.integers(1, 170)  # of which a run has as many
HARM = st.sampled_from(["flip", "cut", "empty", "longer", "remove", FOLDER, PIPE])
FOREIGN = (
    *("notes.txt", "checkpoints/model.pt", "checkpoints/000000004/model.pt", "before-restart/notes.txt"),
    *("curve.png/inside", "checkpoints/000000010-refused/notes.txt", ".part-of-a-thesis"),
)
LIKE_OURS = ("summary.json", "results.npz", "checkpoints/000000004/state.safetensors", "config.toml")
EDITS = (("rounds = 11", "rounds = 9"), ("rounds = 9", "rounds = 11"), ("rounds = 2", "rounds = 3"))
OURS = re.compile(rf"(checkpoints/)?({re.escape(files.PART)}\d+-.*|\.lock)")


@cache
def expected(number: int):
    """The files and the results of a run never stopped."""
    out = Path(f"never-stopped-{number}")
    with ending(out):
        result = fastfedpg.run(CONFIGS[number], out)
    return numbers(out), result


class AnySequence(RuleBasedStateMachine):
    """One folder, and what must be true of it."""

    count = 0
    commands = 0

    def __init__(self):
        super().__init__()
        AnySequence.count += 1
        self.out = Path(f"folder-{AnySequence.count}")
        self.foreign = {}
        self.refused = []
        self.harmed = False  # since it was last written

    def teardown(self):
        shutil.rmtree(self.out, ignore_errors=True)

    def call(self, words, how, number, overwrite=False):
        """A command, and what must be true after every one."""
        AnySequence.commands += 1
        before, said, code = contents(self.out), io.StringIO(), None
        with in_time(), ending(self.out, how, number) as end, redirect_stderr(said), redirect_stdout(said):
            code = command(*words)
        words = said.getvalue()
        assert "Traceback" not in words
        cause = how if end.happened else None
        allowed = {"kill": (None,), "ctrl-c": (0, 2, 130), "full disk": (0, 1, 2)}.get(cause, (0, 2))
        assert code in (*allowed, *((1,) if self.harmed else ())), (code, words)
        after = contents(self.out)
        if code == 2 and cause is None:
            told = lambda found: {name: what for name, what in found.items() if not OURS.match(name)}
            assert told(after) == told(before), words
        for name in re.findall(rf"{self.out}/checkpoints/(\d+): refused", words):
            mine = {path: what for path, what in before.items() if path not in self.foreign}
            self.refused.append(self.below(mine, f"checkpoints/{name}/"))
        if overwrite and code != 2:
            self.refused = []
        self.check_kept(after)
        if code == 0 and "nothing to do" not in words and "its picture was missing" not in words:
            self.harmed = False
            self.check_finished(after)

    def below(self, found, start):
        return {name.removeprefix(start): what for name, what in found.items() if name.startswith(start)}

    def has(self, found, folder, each):
        """Whether all of a checkpoint is there; somebody may have put something beside it since."""
        return each.items() <= self.below(found, f"{folder}/").items()

    def check_kept(self, after):
        for name, what in self.foreign.items():
            assert after.get(name) == what, f"{name} was somebody else's"
        for each in self.refused:
            folders = [name for name, what in after.items() if what == FOLDER]
            assert any(self.has(after, name, each) for name in folders), "it was refused, and is gone"

    def check_finished(self, after):
        assert state(self.out) == "finished"
        assert [name for name in after if OURS.match(name) and name not in self.foreign] == []
        config = from_toml(self.out / "config.toml")
        same = [k for k, other in enumerate(CONFIGS) if not config.differs(other, checkpoints.FREE)]
        bytes_of, result = expected(same[0])
        for name in NUMBERS:
            assert after[name] == bytes_of[name], name
        notes = []
        found, _ = finished_run.read(self.out, "it", notes.append, like=run.plan(CONFIGS[same[0]]))
        assert notes == []
        assert found.result.theta.tobytes() == result.theta.tobytes()
        assert found.result.returns.tobytes() == result.returns.tobytes()
        for name, values in result.metrics.items():
            np.testing.assert_array_equal(found.result.metrics[name], values)

    @rule(how=HOW, number=CALL, which=st.integers(0, 1), overwrite=st.booleans())
    def run(self, how, number, which, overwrite):
        words = ["run", *flags(CONFIGS[which]), "--out", self.out, *(["--overwrite"] * overwrite)]
        self.call(words, how, number, overwrite)

    @rule(how=HOW, number=CALL, restart=st.booleans())
    def resume(self, how, number, restart):
        self.call(["resume", self.out, *(["--restart"] * restart)], how, number)

    @precondition(lambda self: self.out.is_dir())
    @rule(which=st.integers(0, 40), harm=HARM, where=st.integers(0, 10**6))
    def damage(self, which, harm, where):
        found = contents(self.out)
        theirs = lambda name: any(f"{other}/".startswith(f"{name}/") for other in self.foreign)
        names = [name for name in found if not theirs(name)]
        if not names:
            return
        name = names[which % len(names)]
        what, path = found[name], self.out / name
        self.harmed = True
        if harm in (FOLDER, PIPE):
            put(path, harm)
        elif harm == "remove" or not isinstance(what, bytes) or not what:
            put(path, b"")
            path.unlink()
        else:
            at = where % len(what)
            flipped = what[:at] + bytes([what[at] ^ (1 << where % 8)]) + what[at + 1 :]
            put(path, {"flip": flipped, "cut": what[:at], "empty": b"", "longer": what + b"\0"}[harm])
            self.as_it_was_unless_known(path, what)
        after = contents(self.out)
        still = lambda each: any(self.has(after, n, each) for n, what in after.items() if what == FOLDER)
        self.refused = [each for each in self.refused if still(each)]

    def as_it_was_unless_known(self, path, what):
        """A configuration that is another good one has other numbers, and might run for years."""
        if path.name == "config.toml":
            with suppress(fastfedpg.InputError):
                config = from_toml(path)
                if config.flat() not in [other.flat() for other in CONFIGS]:
                    put(path, what)

    @rule(which=st.sampled_from(EDITS))
    def edit(self, which):
        path = self.out / "config.toml"
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(*(words.encode() for words in which)))

    @precondition(lambda self: self.out.is_dir())
    @rule(name=st.sampled_from(FOREIGN))
    def somebody_else(self, name):
        path = self.out / name
        if path.exists() or any(parent.exists() and not parent.is_dir() for parent in path.parents):
            return
        self.somebody(name)

    @precondition(lambda self: not self.out.exists())
    @rule(name=st.sampled_from(LIKE_OURS))
    def somebody_else_s_folder(self, name):
        self.somebody(name)

    def somebody(self, name):
        put(self.out / name, b"years of work")
        self.foreign[name] = b"years of work"
        self.harmed = True  # it may stand where ours would


@pytest.fixture
def never_stopped_ones(fresh_folder):
    expected.cache_clear()
    for number in range(len(CONFIGS)):
        expected(number)


@pytest.mark.usefixtures("never_stopped_ones")
def test_a_run_s_folder_under_any_sequence():
    run_state_machine_as_test(AnySequence, settings=few(12, 5))


EDITED = ("rounds = 11", "rounds = 9")
FOUND = {
    "nothing is renamed where nothing is run": [
        ("run", {"how": "ctrl-c", "number": 59, "overwrite": False, "which": 0}),
        ("somebody_else", {"name": "curve.png/inside"}),
        ("damage", {"harm": "flip", "where": 0, "which": 7}),
        ("resume", {"how": None, "number": 1, "restart": False}),
    ],
    "a file beside a checkpoint's stays where it is": [
        ("run", {"how": "ctrl-c", "number": 59, "overwrite": False, "which": 0}),
        ("edit", {"which": EDITED}),
        ("somebody_else", {"name": "checkpoints/000000004/model.pt"}),
        ("resume", {"how": None, "number": 1, "restart": True}),
    ],
    "a folder with a result's name stays where it is": [
        ("run", {"how": "ctrl-c", "number": 14, "overwrite": False, "which": 0}),
        ("edit", {"which": EDITED}),
        ("somebody_else", {"name": "curve.png/inside"}),
        ("resume", {"how": None, "number": 1, "restart": True}),
    ],
    "a folder in the place of the list": [
        ("run", {"how": None, "number": 1, "overwrite": False, "which": 0}),
        ("damage", {"harm": FOLDER, "where": 0, "which": 0}),
        ("run", {"how": None, "number": 1, "overwrite": True, "which": 0}),
    ],
    "a finished run's results are not made again where only a picture is missing": [
        ("run", {"how": "ctrl-c", "number": 126, "overwrite": False, "which": 1}),
        ("damage", {"harm": "flip", "where": 0, "which": 1}),
        ("resume", {"how": None, "number": 1, "restart": False}),
    ],
}


@pytest.mark.usefixtures("never_stopped_ones")
@pytest.mark.parametrize("steps", FOUND.values(), ids=FOUND)
def test_sequences_that_were_found(steps):
    """By the next test; each ended in a promise that was not kept."""
    folder = AnySequence()
    for what, how in steps:
        getattr(folder, what)(**how)
    folder.teardown()


@pytest.mark.properties
@pytest.mark.usefixtures("never_stopped_ones")
def test_a_run_s_folder_under_many_sequences(record_property):
    """As above, as long as there is time."""
    once = lambda seeded: run_state_machine_as_test(seeded(type("Any", (AnySequence,), {})), settings=many(30, 12))
    until_time_is_up(once, record_property)
    record_property("examples", f"{AnySequence.count} sequences, {AnySequence.commands} commands")
