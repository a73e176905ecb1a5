"""The Tab key: what is offered is what can be typed there, for every command, and in a real bash."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import command
from fastfedpg.cli import COMMANDS
from fastfedpg.cli.completion import SCRIPTS, lines, offered
from fastfedpg.experiment import presets
from fastfedpg.tables import ALGORITHMS, PROBLEMS


def tab(*typed: str, shell: str = "bash") -> list[str]:
    """What is offered in the place of the last word."""
    words = ["fastfedpg", *typed]
    return [*lines(shell, words, len(words) - 1)]


def test_commands_and_names():
    assert tab("") == [*COMMANDS, "--help", "--version"]
    assert tab("run", "--algorithm", "") == [*ALGORITHMS, "auto"]
    assert tab("run", "--problem", "compr") == ["compromise", "compromise-grid"]
    assert tab("run", "--preset", "") == presets.known()
    assert tab("show", "") == [*PROBLEMS]
    assert tab("list", "lunar") == ["lunar-lander"]
    assert tab("list", "pend") == ["pendulum"], "a problem and a preset: once"
    assert tab("run", "--track", "tensorboard", "w") == ["wandb"]
    assert tab("completion", "") == [*SCRIPTS]
    assert "suite" in tab("study", "")
    assert tab("nonsense", "") == []


def test_flags_are_those_of_what_is_chosen():
    """SCAFFOLD's option is no flag of Fast-FedPG, nor reuse one of SCAFFOLD; nothing of it was run or written."""
    assert "--option" in tab("run", "--algorithm", "scaffold_pg", "--")
    assert "--reuse" not in tab("run", "--algorithm", "scaffold_pg", "--")
    assert "--reuse" in tab("run", "--")
    assert "--option" not in tab("run", "--")
    assert tab("run", "--algorithm", "scaffold_pg", "--option", "") == ["I", "II"]
    assert tab("run", "--problem", "compromise", "--problem-args", "m") == ["mid="]
    assert tab("run", "--rounds", "") == []
    assert sorted(tab("kit", "--add", "")) == ["certificate", "key", "site"]
    assert tab("run", "--config", "no.toml", "--ove") == ["--overwrite"]


@pytest.mark.parametrize("name", sorted({*COMMANDS} - {"list", "completion"}))
def test_every_command_has_its_flags(name, capsys):
    """With --help, every flag that its help names at the beginning of a line."""
    flags = {word for word, _ in offered([name], "--")}
    assert command(name, "--help") == 0
    named = {*re.findall(r"^[│ ]*(?:-h, )?(--[a-zA-Z][\w-]*)", capsys.readouterr().out, flags=re.M)}
    assert "--help" in named
    assert named <= flags


def test_bash_breaks_words_at_colons_and_equals_signs_and_we_do_not():
    assert tab("run", "--algorithm", "=", "fedav") == ["fedavg_pg"]
    (said,) = tab("run", "--algorithm=fedav", shell="zsh")
    assert said.startswith("--algorithm=fedavg_pg:")  # and after the colon what it is


def test_what_is_wrong_is_refused(capsys):
    assert command("completion", "fish") == 2
    assert "unknown shell 'fish' (known: bash, zsh)" in capsys.readouterr().err, "of two none is the nearest"
    assert command("completion", "bash", "7", "fastfedpg") == 2
    assert command("completion", "bash", "x") == 2
    assert command("completion") == 2


def test_in_bash(tmp_path):
    """One line sets it up; then bash calls what was typed as the command, wherever that is."""
    program = Path(sys.executable).with_name("fastfedpg")
    script = (
        f'eval "$({program} completion bash)"; complete -p fastfedpg\n'
        f"COMP_WORDS=({program} run --oracle gp); COMP_CWORD=3\n"
        '_fastfedpg; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert done.stderr == ""
    assert done.stdout == "complete -o default -F _fastfedpg fastfedpg\ngpomdp\n"


@pytest.mark.docs
def test_in_zsh(tmp_path):
    """The Tab key itself, on a terminal that zsh makes: `fastfedpg sho` becomes `fastfedpg show`.

    `make test` has the words that zsh is given.
    """
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    program = Path(sys.executable).with_name("fastfedpg")
    (tmp_path / ".zshrc").write_text(f'autoload -Uz compinit && compinit -u\neval "$({program} completion zsh)"\n')
    script = (
        "zmodload zsh/zpty\n"
        f"zpty -b shell {zsh} -i\n"
        "zpty -w -n shell $'fastfedpg run --oracle gpo\\t'\n"
        "for i in {1..300}; do sleep 0.1; while zpty -r -t shell part; do said+=$part; done\n"
        "[[ $said == *gpomdp* ]] && break; done; zpty -d shell; print -r -- $said"
    )
    environment = {**os.environ, "ZDOTDIR": str(tmp_path), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    words = [zsh, "-f", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert "gpomdp" in done.stdout
