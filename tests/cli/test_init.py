"""`fastfedpg init`: the file it writes is the run that its flags say, with the help of every setting in it."""

import tomllib

import pytest

from commands import command
from fastfedpg.cli.flags import NAMES
from fastfedpg.cli.init import commented
from fastfedpg.experiment import choices, presets
from fastfedpg.experiment.config import Config, from_toml
from fastfedpg.experiment.run_settings import SETTINGS


def words(text: str) -> str:
    """The comments, as one line."""
    return " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))


CONFIGS = {
    "usual": Config(),
    "another": Config("mazes", algorithm="scaffold_pg", oracle="gpomdp", eta=2.0, option="II", participants=3, seeds=2),
    "played": Config("cart-pole", algorithm="fedavg_pg", oracle="ppo", policy="mlp", policy_args={"hidden": (8, 8)}),
    "elsewhere": Config("gym:CartPole-v1", {"length": 0.3}, oracle="gpomdp", policy="linear", agents=2),
    **{name: from_toml(presets.find(name)) for name in presets.known()},
}


@pytest.mark.parametrize("which", CONFIGS)
def test_it_is_the_same_run_and_every_setting_is_explained(which, tmp_path):
    """Also those that are not set, which stand there as comments."""
    config, file = CONFIGS[which], tmp_path / "it.toml"
    text = commented(config)
    file.write_text(text)
    found = from_toml(file)
    assert found == config
    said = words(text)
    assert "The problem, the algorithm, the oracle and the policy stand at the end" in said
    assert text.index("\n[problem]") > max(text.index(f"{name} = ") for name in SETTINGS)
    for parameter in SETTINGS.values():
        assert " ".join(parameter.help.split()) in said
        assert f"\n{parameter.name} = " in text or f"\n# {parameter.name} = …" in text
    for kind in choices.KINDS:
        assert NAMES[kind] in said
        for name, parameter in choices.takes(kind, getattr(config, kind)).items():
            assert " ".join(parameter.help.split()) in said
            assert f"\n{name} = " in text or f"\n# {name} = …" in text


def test_the_file_runs_and_is_never_written_over(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command("init", "--problem", "compromise", "--rounds", 2, "--eta", 0.5) == 0
    assert capsys.readouterr().out == "written: experiment.toml; fastfedpg run --config experiment.toml runs it\n"
    assert command("run", "--config", "experiment.toml", "--out", "out") == 0
    stored = tomllib.loads((tmp_path / "out" / "config.toml").read_text())
    assert (stored["problem"]["name"], stored["rounds"], stored["algorithm"]["eta"]) == ("compromise", 2, 0.5)
    before = (tmp_path / "experiment.toml").read_bytes()
    assert command("init") == 2
    assert "experiment.toml: is there already, and nothing is written over" in capsys.readouterr().err
    assert (tmp_path / "experiment.toml").read_bytes() == before


def test_files_are_named_as_they_are_from_there(tmp_path, monkeypatch):
    """A path in a file is relative to the file's folder, one on the command line to where one is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    assert command("init", "below/a.toml", "--problem", "mine.npz") == 0
    assert tomllib.loads((tmp_path / "below" / "a.toml").read_text())["problem"]["name"] == "../mine.npz"
    assert from_toml(tmp_path / "below" / "a.toml").problem == str(tmp_path / "below" / "../mine.npz")


def test_what_is_refused_leaves_no_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command("init", "--preset", "pendulun") == 2
    assert command("init", "--rounds", 0) == 2
    assert command("init", "--algorithm", "auto") == 2
    assert command("init", "--algorithm", "fast_fedgp") == 2
    assert command("init", "no/folder.toml") == 1
    assert [*tmp_path.iterdir()] == []
    assert "did you mean 'fast_fedpg'?" in capsys.readouterr().err
