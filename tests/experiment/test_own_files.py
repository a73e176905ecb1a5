"""What is replaced or moved is a run's own, file by file; whatever else is in a folder is refused, and stays."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import fastfedpg
from commands import command
from fastfedpg import Config, files
from fastfedpg.experiment import own_files, run_folder
from stopped_runs import CONFIG, OFTEN, WHOLE, killed, numbers

pytestmark = pytest.mark.usefixtures("fresh_folder")

SHORT = Config("compromise", H=2, rounds=2)
WORDS = ("--problem", "compromise", "--H", "2", "--rounds", "2")


def contents(out: str = "out") -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in Path(out).rglob("*") if p.is_file() and p.name != ".lock"}


def put(*names: str) -> None:
    for name in names:
        Path("out", name).parent.mkdir(parents=True, exist_ok=True)
        Path("out", name).write_text("years of work")


@pytest.mark.parametrize(
    "names",
    [
        ("checkpoints/model.pt", "federation/notes.txt", "summary.json"),
        ("summary.json",),
        ("results.npz", "metrics.csv"),
        ("checkpoints/000000004/state.safetensors",),
        ("config.toml",),
        ("compare.toml", "fast_fedpg/config.toml"),
        ("thesis.tex",),
    ],
)
@pytest.mark.parametrize("words", [("run", *WORDS), ("compare", *WORDS)])
def test_where_no_run_is_nothing_is_replaced(words, names, capsys):
    """Names like ours are not enough: a configuration of ours begins with the words that we wrote."""
    put(*names)
    before = contents()
    assert command(*words, "--out", "out", "--overwrite") == 2
    assert "fastfedpg: out: neither a run nor a comparison, so nothing in it is replaced" in capsys.readouterr().err
    assert contents() == before


@pytest.mark.parametrize(
    "name",
    [
        *("notes.txt", "checkpoints/model.pt", "checkpoints/000000004/model.pt", "federation/notes.txt"),
        *("before-restart/notes.txt", "fast_fedpg/config.toml", "config.toml.bak", "figures/one.png"),
        *("federation/keys/thesis.txt", "federation/logs/analysis.ipynb", "federation/agents/0/model.safetensors"),
        *("federation/flower/notes/config.toml", "federation/flower-0/apps/mine/pyproject.toml"),
    ],
)
def test_what_else_is_in_a_run_s_folder_stays(name):
    """Beside it the run is another one afterwards."""
    fastfedpg.run(replace(SHORT, rounds=3), "out")
    put(name)
    fastfedpg.run(SHORT, "out", overwrite=True)
    fastfedpg.run(SHORT, "new")
    assert Path("out", name).read_text() == "years of work"
    assert {*contents("out")} - {name} == {*contents("new")}
    assert numbers("out") == numbers("new")
    assert not run_folder.is_deployed(Path("out"))


@pytest.mark.parametrize("name", ["mine", "mine/plans", "checkpoints/mine", "federation/keys/mine"])
def test_an_empty_folder_of_somebody_else_s_stays(name):
    fastfedpg.run(SHORT, "out")
    Path("out", name).mkdir(parents=True)
    fastfedpg.run(SHORT, "out", overwrite=True)
    assert Path("out", name).is_dir()


def test_a_run_s_own_folders_go_though_nothing_is_in_them():
    """As a process leaves them that is killed after it has made a folder."""
    fastfedpg.run(SHORT, "out")
    deployed = ("agents/0", "keys", "logs", "flower/app", "flower-0/apps/fastfedpg.fastfedpg-carrier.1.0.0.6a666fa9")
    for name in ("checkpoints/000000004", "before-restart-2/checkpoints", *(f"federation/{x}" for x in deployed)):
        Path("out", name).mkdir(parents=True)
    fastfedpg.run(SHORT, "out", overwrite=True)
    assert not [path for path in Path("out").iterdir() if path.is_dir()]


@pytest.mark.parametrize("name", ["curve.png/inside", "results.npz/inside", "compare.toml/inside"])
def test_what_is_in_the_way_is_refused_by_name(name, capsys):
    fastfedpg.run(SHORT, "out")
    Path("out/results.npz").unlink()
    put(name)
    before = contents()
    assert command("run", *WORDS, "--out", "out", "--overwrite") == 2
    assert f"out/{name}: in the way, and not of what is to be replaced; move it" in capsys.readouterr().err
    assert contents() == before


def test_a_link_in_the_folder_is_neither_followed_nor_removed(capsys):
    fastfedpg.run(SHORT, "out")
    Path("elsewhere").mkdir()
    Path("elsewhere/thesis.tex").write_text("years of work")
    Path("out/checkpoints").symlink_to(Path("elsewhere").absolute())
    assert command("run", *WORDS, "--out", "out", "--overwrite") == 2
    assert "out/checkpoints: in the way" in capsys.readouterr().err
    assert Path("elsewhere/thesis.tex").read_text() == "years of work"
    assert Path("out/checkpoints").is_symlink()


def test_a_killed_run_is_replaced_with_its_checkpoints_and_all_that_was_set_aside():
    """What is left is what a new run leaves, and nothing else."""
    out = killed()
    shutil.copytree(out / "checkpoints", out / "before-restart" / "checkpoints")
    shutil.copytree(out / "checkpoints" / "000000008", out / "checkpoints" / "000000002-refused-3")
    (out / f"{files.PART}7-summary.json").write_text("{")
    fastfedpg.run(replace(CONFIG, rounds=3), out, overwrite=True)
    fastfedpg.run(replace(CONFIG, rounds=3), "new")
    assert {*contents("out")} == {*contents("new")}
    assert {p.name for p in out.iterdir()} == {p.name for p in Path("new").iterdir()}


def refused(name: str, said: str) -> None:
    """--overwrite of `out` names this file, and changes nothing."""
    before = contents()
    assert command("run", *WORDS, "--out", "out", "--overwrite") == 2
    assert f"out/{name}: not what was written there, but changed since, or somebody else's" in said()
    assert contents() == before


def test_a_file_that_has_one_of_the_run_s_names_and_not_its_content_is_kept(capsys):
    """Of what was never there, and of each file that the run wrote; put back, it is the run's again."""
    said = lambda: capsys.readouterr().err
    out = killed()
    begun = "checkpoints/000000008"
    for name in ("metrics.csv", "curve.png", "before-restart/summary.json", "checkpoints/000000002/state.safetensors"):
        put(name)
        refused(name, said)
        Path("out", name).unlink()
    for name in ("config.toml", f"{begun}/checkpoint.toml"):
        kept = Path("out", name).read_bytes()
        put(name) if begun in name else Path("out", name).write_bytes(kept + b"# mine\n")
        refused(name, said)
        Path("out", name).write_bytes(kept)
    assert command("run", *WORDS, "--out", "out", "--overwrite") == 0
    written = [*own_files.RESULTS[:5], "curve.png", "curve.svg", "config.toml"]
    assert {*written} == {path.name for path in out.iterdir()} - {".written"}
    for name in written[:-1]:
        kept = Path("out", name).read_bytes()
        put(name)
        refused(name, said)
        Path("out", name).write_bytes(kept)
    assert command("run", *WORDS, "--out", "out", "--overwrite") == 0


@pytest.mark.parametrize("name", ["metrics.csv", "summary.json", "curve.png"])
def test_a_result_is_not_written_over_what_somebody_has_put_there_meanwhile(name, capsys):
    """Moved out of the way, the run goes on to its end."""
    killed("out")
    put(name)
    before = contents()
    assert command("resume", "out") == 2
    assert f"out/{name}: not what was written there, but changed since, or somebody else's" in capsys.readouterr().err
    assert contents() == before
    Path("out", name).rename("mine")
    assert command("resume", "out") == 0
    assert Path("mine").read_text() == "years of work"
    assert numbers("out") == numbers(WHOLE)


def test_so_it_is_in_a_comparison_and_in_its_runs(capsys):
    """Each has a list of its own; without a list, as older versions left it, names are all there is."""
    said = lambda: capsys.readouterr().err
    assert command("compare", *WORDS, "--algorithms", "fast_fedpg", "--out", "out") == 0
    for name in ("table.csv", "fast_fedpg/summary.json"):
        kept = Path("out", name).read_bytes()
        put(name)
        refused(name, said)
        Path("out", name).write_bytes(kept)
    Path("out/.written").unlink()
    put("table.csv")
    assert command("run", *WORDS, "--out", "out", "--overwrite") == 0


@pytest.mark.parametrize("damage", ["years of work", ""])
def test_a_list_that_is_none_lists_nothing_and_stays(damage, capsys):
    fastfedpg.run(SHORT, "out")
    Path("out/.written").write_text(damage)
    refused(".written", lambda: capsys.readouterr().err)


def test_a_line_that_was_cut_off_takes_no_other_with_it():
    """As a full disk leaves it: what is written next is listed on a line of its own."""
    fastfedpg.run(SHORT, "out")
    lines = Path("out/.written").read_text()
    Path("out/.written").write_text(lines + "\n0123")
    files.write_text(Path("out/summary.json"), "{}")
    assert {p.name for p in own_files.listed(Path("out"))} == {p.name for p in Path("out").iterdir()}


def test_a_comparison_is_replaced_with_its_cells_and_no_others(capsys):
    """Cells of the earlier one are gone, but for what is somebody else's; a run that was put beside them stays."""
    words = ("compare", *WORDS, "--seeds", "2", "--out", "out")
    assert command(*words, "--algorithms", "fast_fedpg", "fedavg_pg") == 0
    fastfedpg.run(SHORT, "out/scaffold_pg")
    put("fast_fedpg/notes.txt")
    before = contents()
    assert command(*words, "--overwrite", "--algorithms", "fedavg_pg", "scaffold_pg") == 2
    assert "out/scaffold_pg/agents.npz: in the way" in capsys.readouterr().err
    assert command(*words, "--overwrite", "--algorithms", "fast_fedpg") == 2
    assert "out/fast_fedpg/notes.txt: in the way" in capsys.readouterr().err
    assert contents() == before
    Path("out/scaffold_pg").rename("out/mine")
    assert command(*words, "--overwrite", "--algorithms", "fedavg_pg", "scaffold_pg") == 0
    assert {p.name for p in Path("out").iterdir() if p.is_dir()} == {"fast_fedpg", "fedavg_pg", "scaffold_pg", "mine"}
    assert [p.name for p in Path("out/fast_fedpg").iterdir()] == ["notes.txt"]
    assert contents("out/mine") == {
        n.removeprefix("scaffold_pg/"): d for n, d in before.items() if n.startswith("scaffold_pg/")
    }


@pytest.mark.parametrize("words", [("run", *WORDS), ("compare", "alone"), ("compare", *WORDS)])
def test_a_comparison_is_not_replaced_while_another_process_is_at_work_in_a_cell_of_it(words, capsys):
    """As `fastfedpg resume out/fast_fedpg` is, which holds that cell alone."""
    fastfedpg.run(SHORT, "alone")
    assert command("compare", *WORDS, "--algorithms", "fast_fedpg", "fedavg_pg", "--out", "out") == 0
    before = contents()
    with files.hold(Path("out/fast_fedpg")):
        assert command(*words, "--out", "out", "--overwrite") == 2
        assert "out/fast_fedpg: another process is at work in this folder" in capsys.readouterr().err
        assert contents() == before
    assert command(*words, "--out", "out", "--overwrite") == 0


def test_nobody_can_begin_in_a_cell_while_it_is_removed(monkeypatch):
    """From the first file to the last each cell is held, so that what is looked at and what is removed is one thing."""
    words = ("compare", "--problem", "compromise", "--algorithms", "fast_fedpg", "fedavg_pg", "--rounds", 1, "--H", 1)
    assert command(*words, "--seeds", 1, "--out", "out") == 0
    seen, real = [], own_files.remove

    def spied(out, old):
        cells = [out / name for name in ("fast_fedpg", "fedavg_pg")]
        seen.append([*map(files.is_held, cells)])
        real(out, old)
        seen.append([*map(files.is_held, cells)])

    monkeypatch.setattr(own_files, "remove", spied)
    assert command("run", "--problem", "compromise", "--rounds", 1, "--H", 1, "--out", "out", "--overwrite") == 0
    assert seen == [[True, True]] * 2
    assert not any(path.is_dir() for path in Path("out").iterdir()), "nor are the locks left"


def test_a_run_in_the_place_of_a_comparison_and_the_other_way_round():
    """Nothing of the one is left beside the other."""
    words = ("compare", *WORDS, "--seeds", "2", "--out", "out", "--algorithms", "fast_fedpg", "fedavg_pg")
    assert command(*words) == 0
    assert command("run", *WORDS, "--out", "out", "--overwrite") == 0
    assert not [p for p in Path("out").iterdir() if p.is_dir()]
    assert not Path("out/compare.toml").exists()
    assert command(*words, "--overwrite") == 0
    assert not Path("out/config.toml").exists()
    assert not Path("out/results.npz").exists()


def test_runs_that_are_set_side_by_side_twice_into_one_folder():
    for name in ("a", "b"):
        fastfedpg.run(SHORT, name)
    words = ("compare", "a", "b", "--out", "out")
    assert command(*words) == 0
    assert command(*words) == 2
    assert command(*words, "--overwrite") == 0
    put("notes.txt")
    assert command(*words, "--overwrite") == 0
    assert Path("out/notes.txt").read_text() == "years of work"


def test_all_that_a_deployed_run_writes_is_its_own():
    """The names are those that a real one left, and of files that it was in the middle of writing."""
    state, carrier = f"agents/0/{'4f' * 16}.safetensors", "apps/fastfedpg.fastfedpg-carrier.1.0.0.6a666fa9"
    names = [
        *(
            "federation.toml",
            "log.txt",
            "superlink.db",
            "superlink.db-shm",
            "superlink.db-wal",
            ".part-7-federation.toml",
        ),
        *(state, "agents/0/secret", "agents/0/.lock", "agents/0/.part-7-secret", "keys/.part-7-ca.key"),
        *("keys/ca.crt", "keys/ca.key", "keys/server.pem", "keys/server.key", "keys/agent-0", "keys/agent-0.pub"),
        *("logs/superlink.log", "logs/proxy.log", "logs/agent-0.log", "logs/node-0.log"),
        *("flower/config.toml", "flower/app/pyproject.toml"),
        *(f"{home}/{name}" for home in ("flower", "flower-0") for name in ("source", f"{carrier}/pyproject.toml")),
    ]
    put("config.toml", *(f"federation/{name}" for name in names))
    Path("out/config.toml").write_text(f"# {run_folder.versions()}\n")
    assert len(own_files.listed(Path("out"))) == len(names) + 1 == 28
    own_files.remove(Path("out"), own_files.listed(Path("out")))
    assert list(Path("out").iterdir()) == []


@pytest.mark.parametrize("config", [SHORT, OFTEN])
def test_every_file_that_a_run_writes_is_listed(config):
    """While it goes, and when it has ended; else a run could not be replaced."""
    seen = []
    fastfedpg.run(config, "out", report=lambda done, record=None: seen.append(own_files.listed(Path("out"))))
    assert command("run", "--config", "out/config.toml", "--out", "drawn") == 0
    for out in (Path("out"), Path("drawn")):
        assert {*own_files.listed(out)} == {p for p in out.rglob("*") if p.is_file()}
    assert len(seen) > 2


def test_resume_of_a_finished_run_tells_what_was_changed_since(capsys):
    """It makes nothing again, and says so; that there was nothing to do said that all was well."""
    assert command("run", *WORDS, "--out", "out") == 0
    capsys.readouterr()
    assert command("resume", "out") == 0
    assert "not what was written" not in capsys.readouterr().err
    changed = b"years of work"
    Path("out", "agents.npz").write_bytes(changed)
    assert command("resume", "out") == 0
    said = capsys.readouterr()
    assert "out/agents.npz: not what was written there, but changed since" in said.err
    assert "there is nothing to do" in said.out
    assert Path("out", "agents.npz").read_bytes() == changed
