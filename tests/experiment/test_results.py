"""results.npz: everything that a run recorded, in one file that is read back as arrays."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from fastfedpg import Config, InputError, load, run
from fastfedpg.experiment import exported, finished_run, plan, results

CONFIG = Config(
    "compromise", agents=3, H=2, oracle="gpomdp", B=2, K=3, rounds=5, seeds=3, first_seed=4, metrics_every=2
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder, not to be written to, and the result that Python was given."""
    out = tmp_path_factory.mktemp("made") / "out"
    return out, run(CONFIG, out)


@pytest.fixture
def folder(made, tmp_path) -> Path:
    """A copy."""
    return Path(shutil.copytree(made[0], tmp_path / "run"))


def test_it_is_the_result_to_the_bit_and_to_the_type(made):
    out, result = made
    found = results.read(out / "results.npz")
    assert found.seeds == (4, 5, 6)
    assert list(found.result.metrics) == list(result.metrics)
    pairs = [(found.result.metrics[name], result.metrics[name]) for name in result.metrics]
    for here, there in [
        *pairs,
        *((getattr(found.result, n), getattr(result, n)) for n in ("rounds", "returns", "theta")),
    ]:
        np.testing.assert_array_equal(here, there)
        assert here.dtype == there.dtype


def test_numpy_alone_opens_it(made):
    """By the names that docs/runs.md gives."""
    with np.load(made[0] / "results.npz") as file:
        assert {"seeds", "rounds", "returns", "theta", "metrics/gap"} <= {*file.files}
        assert file["metrics/gap"].shape == (3, 4)
        assert file["rounds"].tolist() == [0, 2, 4, 5]


def test_a_comparison_reads_it_and_not_the_exports(folder, made):
    """They are all gone, and the numbers are those that were recorded."""
    for name in results.EXPORTS:
        (folder / name).unlink()
    heard: list[str] = []
    outcome, _ = finished_run.read(folder, "it", heard.append)
    np.testing.assert_array_equal(outcome.result.metrics["gap"], made[1].metrics["gap"])
    np.testing.assert_array_equal(outcome.result.theta, made[1].theta)
    assert outcome.seeds == (4, 5, 6)
    assert heard == []


def test_exports_say_the_same(folder):
    """repr of a float64 is the float64: what is read from the CSV is what is in the file, to the bit."""
    heard: list[str] = []
    here, there = results.read(folder / "results.npz"), exported.read(folder, plan(CONFIG), heard.append)
    assert here.seeds == there.seeds
    for name, values in here.result.metrics.items():
        np.testing.assert_array_equal(values, there.result.metrics[name])
    np.testing.assert_array_equal(here.result.theta, there.result.theta)
    np.testing.assert_array_equal(here.result.returns, there.result.returns)
    assert heard == []


def damaged(path: Path, how: str) -> None:
    whole = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    if how == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "a bit":
        at = whole.index(arrays["theta"].tobytes())
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    elif how == "no zip":
        path.write_bytes(b"no zip")
    elif how == "a name less":
        np.savez(path, **{k: v for k, v in arrays.items() if k != "theta"})
    elif how == "a shape":
        np.savez(path, **{**arrays, "metrics/gap": arrays["metrics/gap"][:, 1:]})
    elif how == "objects":
        np.savez(path, allow_pickle=True, **{**arrays, "theta": np.array([{}, {}, {}])})
    elif how == "compressed":  # some kilobytes may be a thousand times as many
        np.savez_compressed(path, **arrays)
    else:
        np.savez(path, **{**arrays, "seeds": arrays["seeds"] + 1})


FITTING = {
    "no seeds": lambda x: {k: v if k in ("config", "rounds") else v[:0] for k, v in x.items()},
    "no rounds": lambda x: {
        k: v[:0] if k == "rounds" else v if k in ("config", "seeds", "theta") else v[:, :0] for k, v in x.items()
    },
    "seeds that are none": lambda x: {**x, "seeds": np.full(3, np.nan)},
    "rounds that are none": lambda x: {**x, "rounds": np.full(4, np.inf)},
    "words": lambda x: {**x, "metrics/gap": x["metrics/gap"].astype(str)},
    "complex numbers": lambda x: {**x, "theta": x["theta"] + 0j},
}
"""Arrays whose shapes fit together, and of which no run is."""


@pytest.mark.parametrize("how", FITTING)
def test_arrays_that_fit_and_are_no_results_are_refused(how, folder):
    """And the exports are read, as where it is damaged."""
    path = folder / "results.npz"
    np.savez(path, **FITTING[how](dict(np.load(path))))
    with pytest.raises(InputError, match=r"results\.npz: not the results of a run \((no seed|its)"):
        results.read(path)
    heard: list[str] = []
    finished_run.read(folder, "it", heard.append)
    assert heard[0].endswith(finished_run.INSTEAD)


@pytest.mark.parametrize(
    "how", ["cut", "a bit", "no zip", "a name less", "a shape", "objects", "compressed", "other seeds"]
)
def test_one_that_is_damaged_is_said_and_the_exports_are_read(how, folder, made):
    damaged(folder / "results.npz", how)
    heard: list[str] = []
    outcome, _ = finished_run.read(folder, "it", heard.append)
    (said,) = heard
    assert str(folder / "results.npz") in said
    assert said.endswith(finished_run.INSTEAD)
    np.testing.assert_array_equal(outcome.result.metrics["gap"], made[1].metrics["gap"])
    np.testing.assert_array_equal(outcome.result.theta, made[1].theta)


def test_no_file_at_all(tmp_path):
    with pytest.raises(InputError, match=r"results\.npz: no such file"):
        results.read(tmp_path / "results.npz")


def test_where_it_is_missing_that_is_said_and_the_exports_are_read(folder, made):
    """They have no sums, so that a gap that somebody edited would be told as the run's own."""
    (folder / "results.npz").unlink()
    heard: list[str] = []
    outcome, _ = finished_run.read(folder, "it", heard.append)
    np.testing.assert_array_equal(outcome.result.returns, made[1].returns)
    assert heard == [f"{folder / 'results.npz'}: no such file; {finished_run.INSTEAD}"]
    with pytest.warns(UserWarning, match=r"results\.npz: no such file; final\.npz is read instead, .* edited can't be"):
        np.testing.assert_array_equal(load(folder).theta, made[1].theta[0])


EDITS = {
    "eta = 0.1": "eta = 0.7",
    "B = 2": "B = 3",
    "first_seed = 4": "first_seed = 5",
}


@pytest.mark.parametrize(("before", "after"), EDITS.items(), ids=EDITS.values())
def test_settings_that_were_edited_after_a_run_are_not_told_as_its_own(folder, before, after):
    """Not in a comparison, nor with the policy; what differs is said."""
    file = folder / "config.toml"
    file.write_text(file.read_text().replace(before, after))
    for read in (lambda: finished_run.read(folder, "it", print), lambda: load(folder).theta):
        with pytest.raises(InputError, match=r"config.toml: not what this run ran with, .* there and .* here"):
            read()


def test_settings_that_change_no_number_may_be_edited(folder):
    file = folder / "config.toml"
    file.write_text(file.read_text().replace("checkpoint_seconds = 30.0", "checkpoint_seconds = 5.0"))
    assert finished_run.read(folder, "it", print)[0].config.checkpoint_seconds == 5
