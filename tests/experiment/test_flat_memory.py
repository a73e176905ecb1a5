"""Memory does not grow with rounds: policies are let go, records go to disk, and files are written in pieces."""

import tracemalloc
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fastfedpg
from fastfedpg import Config
from fastfedpg.core import Evaluation
from fastfedpg.experiment import checkpoints, journal, record_table, results
from fastfedpg.experiment import recorded_run as run
from fastfedpg.experiment.record_table import RecordTable
from fastfedpg.runtime import Record, Result, collect
from fastfedpg.runtime.result import gather
from stopped_runs import CONFIG

pytestmark = pytest.mark.usefixtures("fresh_folder")

LONG = replace(CONFIG, rounds=20, metrics_every=1)


def record(round: int, runs: int = 1, agents: int = 2) -> Record:
    """Numbers that can be told apart."""
    x = round + np.arange(runs) / 8
    returns = x[:, None] + np.arange(agents) / 64
    some = np.full(runs, round, np.int64)
    return Record(round, np.tile(x[:, None], 3), Evaluation(x, x / 2, x**2, returns), x / 4, some, some / 2)


@pytest.mark.parametrize("out", [None, "out"])
@pytest.mark.parametrize("runtime", ["loop", "simulate"])
def test_of_all_policies_only_the_last_few_are_kept(out, runtime):
    """21 records; two are kept for an interruption, and one is in the program's own hands."""
    seen, most = [], 0

    def report(done: int, record=None) -> None:
        nonlocal most
        if record is not None:
            seen.append(weakref.ref(record.theta))
        most = max(most, sum(theta() is not None for theta in seen))

    fastfedpg.run(replace(LONG, runtime=runtime), out, report=report)
    assert len(seen) == 21
    assert most <= 3


def test_without_a_journal_too():
    seen, most = [], 0

    def running():
        nonlocal most
        for k in range(30):
            new = record(k)
            seen.append(weakref.ref(new.theta))
            yield new
            del new
            most = max(most, sum(theta() is not None for theta in seen))

    sizes = run.plan(CONFIG).sizes
    found = gather(running(), sizes, (1,))
    assert most <= 2
    np.testing.assert_array_equal(found.theta, record(29).theta)


def peak(records: int) -> int:
    """Bytes at the peak of a run with so many records, which come from nowhere and cost nothing."""
    out = Path(f"out-{records}")
    config = Config("compromise", agents=2, rounds=records, H=1)
    with run.begin(config, out) as planned:
        running = lambda *_: (record(k) for k in range(records + 1))
        tracemalloc.start()
        try:
            result = run.execute(planned, out, records=running)
            found = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    np.testing.assert_array_equal(result.rounds, np.arange(records + 1))
    np.testing.assert_array_equal(result.metrics["J"][0], np.arange(records + 1.0))
    return found


def test_memory_is_flat_in_records(monkeypatch):
    """Eight times the records: 17 numbers of 8 bytes would be 0.5 MB for 3,500 more, and the objects that hold them ten
    times that. The numbers that are read back stay on disk, as large ones do."""
    monkeypatch.setattr(results, "LARGE", 1000)
    monkeypatch.setattr(journal, "BUFFER_RECORDS", 100)
    for module in (record_table, results):
        monkeypatch.setattr(module, "PIECE", 4096)
    monkeypatch.setattr(results, "ROWS", 100)
    peak(499)  # what is imported and kept at the first time
    few, many = (peak(records) for records in (500, 4000))
    assert many < few + 150_000
    monkeypatch.setattr(journal, "BUFFER_RECORDS", 10**9)
    assert peak(3999) > few + 1_500_000, "else the bound above says nothing"


def test_a_checkpoint_adds_what_is_new(monkeypatch):
    """Bytes written for a checkpoint late in a run are those of one early in it, not those of all records."""
    written, added = {}, [0]
    real, put = checkpoints.write, record_table._write

    def write(out, who, standing, *more):
        folder = real(out, who, standing, *more)
        written[standing.round] = sum(p.stat().st_size for p in folder.iterdir()), added[0]
        added[0] = 0
        return folder

    def counted(file, values, at):
        added[0] += values.nbytes
        put(file, values, at)

    monkeypatch.setattr(checkpoints, "write", write)
    monkeypatch.setattr(record_table, "_write", counted)
    fastfedpg.run(replace(LONG, rounds=120, checkpoint_rounds=4), "out")
    assert len(written) == 30
    folders, records = zip(*(written[k] for k in sorted(written)), strict=True)
    assert max(folders) < 1.02 * min(folders)
    assert {*records[1:]} == {records[1]} != {0}, "four records each; and one more before the first"


def test_records_may_come_in_any_pieces():
    """The sum is of what is written, and not of how: three at a time, one, and four make what eight make at once."""
    sizes = run.plan(CONFIG).sizes
    all_of_them = [record(k, runs=3, agents=4) for k in range(8)]
    tables = {"once": RecordTable(Path("once"), 9), "pieces": RecordTable(Path("pieces"), 9)}
    tables["once"].append(collect(all_of_them, sizes))
    for first, stop in ((0, 3), (3, 4), (4, 8)):
        tables["pieces"].append(collect(all_of_them[first:stop], sizes))
    assert tables["once"].describe() == tables["pieces"].describe()
    assert Path("once").read_bytes() == Path("pieces").read_bytes()
    other = RecordTable(Path("other"), 9)
    other.append(collect([*all_of_them[:7], all_of_them[6]._replace(round=7)], sizes))
    assert other.describe()["sha256"] != tables["once"].describe()["sha256"]


def test_a_column_keeps_its_type():
    """Whole numbers after others would be other bytes, under a sum that is right."""
    sizes = run.plan(CONFIG).sizes
    first, second = (collect([record(k)], sizes) for k in (0, 1))
    second = replace(second, metrics={name: x.astype(np.int64) for name, x in second.metrics.items()})
    table = RecordTable(Path("table"), 3)
    for block in (first, second):
        table.append(block)
    assert (table.last("J")[0], table.last("J").dtype) == (1.0, np.float64)
    assert RecordTable.restored(Path("table"), table.describe(), table.theta).count == 2


@pytest.mark.parametrize("block", [[0, 1], [2, 2], [2, 3, 4]], ids=["again", "twice", "too many"])
def test_records_that_do_not_follow_are_refused(block):
    sizes = run.plan(CONFIG).sizes
    table = RecordTable(Path("table"), 4)
    table.append(collect([record(0), record(1)], sizes))
    before = Path("table").read_bytes()
    with pytest.raises(AssertionError, match="after 1, 2 records of 4"):
        table.append(collect([record(k) for k in block], sizes))
    assert Path("table").read_bytes() == before


def test_many_seeds_open_the_file_once(monkeypatch):
    """Not once for each seed's part of each column, when a run goes on or its files are written."""
    sizes = run.plan(CONFIG).sizes
    table = RecordTable(Path("table"), 4)
    table.append(collect([record(k, runs=50) for k in range(3)], sizes))
    opened = []
    real = record_table.open_regular
    monkeypatch.setattr(record_table, "open_regular", lambda path: opened.append(path) or real(path))
    RecordTable.restored(Path("table"), table.describe(), table.theta)
    assert len(opened) == 1
    results.write(Path(), table, 0, (3,), "")
    assert len(opened) < 4 * len(table.columns)


def test_what_is_large_stays_on_disk_and_is_the_same(monkeypatch):
    here = fastfedpg.run(replace(CONFIG, seeds=3), "out")
    monkeypatch.setattr(results, "LARGE", 1)
    there = results.read(Path("out/results.npz")).result
    for a, b in ((here, there), (fastfedpg.run(replace(CONFIG, seeds=3)), there)):
        for name in a.metrics:
            np.testing.assert_array_equal(a.metrics[name], b.metrics[name])
            assert a.metrics[name].dtype == b.metrics[name].dtype
        np.testing.assert_array_equal(a.returns, b.returns)
        np.testing.assert_array_equal(a.theta, b.theta)
    assert isinstance(there.returns.base, np.memmap)
    before = Path("out/results.npz").read_bytes()
    there.returns[:] = 7
    assert Path("out/results.npz").read_bytes() == before


def test_a_long_curve_is_drawn_with_fewer_points():
    rounds = np.arange(100_001)
    x = np.linspace(1, 2, len(rounds))[None]
    result = Result(rounds, {"J": x, "gap": x, "grad_norm_sq": x}, x[..., None], np.zeros((1, 2)))
    (line,) = result.plot().axes[0].lines
    shown = line.get_xdata()
    assert len(shown) == 2000
    assert (shown[0], shown[-1]) == (0, 100_000)
    assert len(np.unique(np.diff(shown))) <= 2
