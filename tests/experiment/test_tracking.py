"""`--track`: what other programs are told of a run is what the run recorded, whatever became of it on the way."""

import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from commands import command
from fastfedpg import tracking
from fastfedpg.errors import InputError
from fastfedpg.experiment import Config, begin, execute, results, resume, run
from fastfedpg.experiment.recorded_run import Interrupted
from fastfedpg.tracking import Trackers

CONFIG = Config("compromise", algorithm="fedavg_pg", eta=0.5, H=2, rounds=6, seeds=2, first_seed=3, checkpoint_rounds=2)


def events(folder: Path) -> tuple[dict, str]:
    """The scalars of an event file, by name and round, as TensorBoard's records have them; and all of it as text."""
    from tensorboardX.proto.event_pb2 import Event

    (file,) = (folder / "tracking" / "tensorboard").iterdir()
    data, found = file.read_bytes(), {}
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        event = Event.FromString(data[at + 12 : at + 12 + length])
        at += 16 + length
        for value in event.summary.value:
            if value.HasField("simple_value"):
                assert (value.tag, event.step) not in found
                found[value.tag, event.step] = value.simple_value
    return found, data.decode(errors="replace")


def stored(folder: Path) -> dict:
    """The same of MLflow's store."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'tracking' / 'mlflow' / 'mlflow.db'}")
    (one,) = client.search_runs([client.get_experiment_by_name("fastfedpg").experiment_id])
    assert one.info.status == "FINISHED"
    assert one.data.params["algorithm.eta"] == "0.5"
    history = {name: client.get_metric_history(one.info.run_id, name) for name in one.data.metrics}
    assert sum(map(len, history.values())) == len({(name, m.step) for name, each in history.items() for m in each})
    return {(name, m.step): m.value for name, each in history.items() for m in each}


def offline(folder: Path) -> dict:
    """The same of W&B's file: a log in blocks of 32 KB, as LevelDB's, of a message each."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = (folder / "tracking" / "wandb").rglob("*.wandb")
    data, at, found, part = file.read_bytes(), 7, {}, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind not in (1, 4):
            continue
        record, part = Record.FromString(part), b""
        if record.WhichOneof("record_type") == "history":
            row = {(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in record.history.item}
            found |= {
                (name, row["_step"]): x for name, x in row.items() if not name.startswith("_") and name != "round"
            }
    assert (b"0.5" in data, b"algorithm.eta" in data) == (True, True)
    return found


READ = {"tensorboard": lambda folder: events(folder)[0], "mlflow": stored, "wandb": offline}


def recorded(folder: Path) -> dict:
    """What must be there: each seed's and the mean over them, from the run's own results; no more, and none twice."""
    result = results.read(folder / "results.npz").result
    found = {}
    for name, values in result.metrics.items():
        for k, t in enumerate(result.rounds):
            each = {f"seed-{3 + s}/{name}": values[s, k] for s in range(2)} | {name: values[:, k].mean()}
            found |= {(key, int(t)): x for key, x in each.items() if np.isfinite(x)}
    return found


def same(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[k] for k in expected], [*expected.values()], rtol=1e-6)


def needed(name: str) -> None:
    if importlib.util.find_spec(tracking.TRACKERS[name].package) is None:
        pytest.skip(f"{tracking.TRACKERS[name].shown} is not installed: pip install 'fastfedpg[{name}]'")


def cut_off_and_resumed(out: Path, name: str) -> None:
    """Interrupted after the third round, with a checkpoint after the second; then, as killed, with words too many."""

    def stop(done=None, record=None, stage=""):
        if record is not None and record.round == 3:
            raise KeyboardInterrupt

    with begin(CONFIG.but(track=(name,)), out) as planned, pytest.raises(Interrupted):
        execute(planned, out, stop)
    before = sorted(p.relative_to(out) for p in out.rglob("*") if not p.is_dir())
    assert [p for p in before if p.parts[0] == "tracking"]
    resume(out)
    same(READ[name](out), recorded(out))
    assert len({t for _, t in READ[name](out)}) == 7


def test_tensorboard_has_what_was_recorded_after_an_interruption_too(tmp_path):
    cut_off_and_resumed(tmp_path / "run", "tensorboard")
    text = events(tmp_path / "run")[1]
    assert "algorithm.eta" in text
    assert "finished" in text


@pytest.mark.docs
@pytest.mark.parametrize("name", ["mlflow", "wandb"])
@pytest.mark.filterwarnings("ignore::Warning")  # of theirs, about each other
def test_mlflow_and_wandb_have_what_was_recorded_and_call_nobody(tmp_path, name, monkeypatch):
    """In a process of their own, and without a network where the system lets us take it away; nothing lands elsewhere.

    `make test` has TensorBoard's, and the same for a writer of a few lines, below.
    """
    needed(name)
    home = tmp_path / "home"
    home.mkdir()
    program = (
        "import pathlib, test_tracking as t, socket\n"
        "def refuse(self, where): raise AssertionError(f'called {where}')\n"
        "real = socket.socket.connect\n"
        "socket.socket.connect = lambda self, to: real(self, to) if self.family == socket.AF_UNIX or to[0] in "
        "('127.0.0.1', 'localhost', '::1') else refuse(self, to)\n"
        f"t.cut_off_and_resumed(pathlib.Path('run'), {name!r})\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path])
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": paths, "XDG_CACHE_HOME": str(home / ".cache")}
    alone = ["unshare", "-rn", "sh", "-c", 'ip link set lo up 2>/dev/null; exec "$@"', "-"]
    can = subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0
    words = [*(alone if can else []), sys.executable, "-c", program]
    how = {"capture_output": True, "text": True, "timeout": 300, "check": False}
    done = subprocess.run(words, env=environment, cwd=tmp_path, **how)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"home", "run"}
    elsewhere = [p for p in home.rglob("*") if not p.is_dir() and "fastfedpg" not in p.parts]
    assert elsewhere == []
    strays = [p for p in (tmp_path / "run").rglob("*") if not p.is_dir() and "tracking" in p.parts]
    assert all(re.fullmatch(tracking.FILES, p.relative_to(tmp_path / "run").as_posix()) for p in strays), strays


def test_overwrite_takes_what_writers_left_and_nothing_else(tmp_path, capsys):
    """Their folder goes with the run; somebody's own file in it stays, and so does the folder."""
    words = ("run", "--problem", "compromise", "--rounds", 2, "--out", tmp_path / "run")
    assert command(*words, "--track", "tensorboard") == 0
    own = tmp_path / "run" / "tracking" / "notes.txt"
    own.write_text("mine")
    assert command(*words, "--overwrite") == 0
    assert [p.name for p in own.parent.iterdir()] == ["notes.txt"]
    own.unlink()
    assert command(*words, "--track", "tensorboard", "--overwrite") == 0
    assert command(*words, "--overwrite") == 0
    assert not own.parent.exists()


def test_what_is_not_known_or_not_installed_is_refused_before_anything_is_done(tmp_path, monkeypatch, capsys):
    words = ("run", "--problem", "compromise", "--out", tmp_path / "run", "--track")
    assert command(*words, "tensorbord") == 2
    assert "unknown tracker 'tensorbord'; did you mean 'tensorboard'?" in capsys.readouterr().err
    row = tracking.TRACKERS["mlflow"]._replace(package="no_such_package")
    monkeypatch.setitem(tracking.TRACKERS, "mlflow", row)
    assert command(*words, "tensorboard", "mlflow") == 2
    assert "--track mlflow needs MLflow: pip install 'fastfedpg[mlflow]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="unknown tracker"):
        run(CONFIG.but(track=("a",)), tmp_path / "run")


def test_without_a_folder_there_is_nothing_to_write_into():
    with pytest.warns(UserWarning, match="track has no effect: a run without a folder writes nothing"):
        run(CONFIG.but(track=("tensorboard",), rounds=1))


def test_a_writer_that_fails_is_given_up_and_the_others_go_on(tmp_path, monkeypatch):
    """A full disk is no reason to lose a run: the note is said once, and what follows is not tried."""
    from fastfedpg.tracking import to_tensorboard

    heard, notes = [], []

    class Full:
        def add(self, round, scalars):
            heard.append(round)
            raise OSError(28, "No space left on device")

        def close(self, state):
            heard.append(state)

    monkeypatch.setattr(to_tensorboard, "begin", lambda *given: Full())
    to = Trackers(("tensorboard",), tmp_path, "title", {}, notes.append)
    for round in range(3):
        to.add(round, {"gap": 1.0})
    to.close("finished")
    assert heard == [0]
    assert notes == ["--track tensorboard is given up: OSError: [Errno 28] No space left on device"]


def test_scalars_are_means_and_of_a_few_seeds_each():
    """Of 2 seeds three curves; of 17 the mean alone; infinity, of a seed that diverged, is in none."""
    found = tracking.scalars({"gap": np.array([1.0, 3.0]), "J": np.array([1.0, np.inf])}, first_seed=5)
    assert found == {"gap": 2.0, "seed-5/gap": 1.0, "seed-6/gap": 3.0, "seed-5/J": 1.0}
    assert tracking.scalars({"gap": np.arange(17.0)}, 0) == {"gap": 8.0}
