"""Help that one can read: groups, the flags of what is chosen alone, an example at the end, and nothing of None."""

import pytest

from commands import command
from fastfedpg.cli import COMMANDS
from fastfedpg.cli.list import folded

GROUPS = ("problem", "algorithm", "gradient", "policy", "run", "output", "advanced")


@pytest.fixture(autouse=True)
def _narrow(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.chdir(tmp_path)


def help_of(capsys, *words) -> str:
    assert command(*words, "--help") == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_with_an_example_and_says_nothing_of_none(name, capsys):
    said = help_of(capsys, name)
    assert "{None}" not in said
    assert "default: None" not in said
    assert said.rstrip().splitlines()[-1].startswith(f"example: fastfedpg {name}")


def test_flags_stand_in_groups_in_this_order(capsys):
    said = help_of(capsys, "run")
    places = [said.index(f" {group} options") for group in GROUPS]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("words", "there", "not_there"),
    [
        ((), ("--reuse", "--alpha-g", "--n INT", "--slip"), ("--option", "--baseline", "--lam", "--hidden", "--B INT")),
        (("--algorithm", "scaffold_pg"), ("--option {I,II}",), ("--reuse", "--B0")),
        (("--oracle", "gpomdp"), ("--baseline {none,leave-one-out}", "--B INT", "--K INT"), ("--lam",)),
        (("--policy", "mlp"), ("--hidden INTxINT…", "--log-std"), ("--bandwidth",)),
        (("--problem", "random"), ("--kappa FLOAT",), ("--slip",)),
    ],
)
def test_only_the_flags_of_what_is_chosen(words, there, not_there, capsys):
    said = help_of(capsys, "run", *words)
    for flag in there:
        assert flag in said
    for flag in not_there:
        assert flag not in said


def test_a_flag_of_the_problem_is_its_argument(capsys):
    assert command("run", "--problem", "compromise", "--mid", 0.75, "--rounds", 1, "--out", "a") == 0
    assert command("run", "--problem", "compromise", "--problem-args", "mid=.75", "--rounds", 1, "--out", "b") == 0
    read = lambda folder: folder + "/config.toml"
    from fastfedpg.experiment.config import from_toml

    assert from_toml(read("a")) == from_toml(read("b"))
    assert from_toml(read("a")).choice("problem").args["mid"] == 0.75


def test_a_file_gives_the_defaults_that_help_shows(capsys, tmp_path):
    (tmp_path / "run.toml").write_text("[algorithm]\neta = 0.375\n")
    assert "0.375" in help_of(capsys, "run", "--config", "run.toml")


def test_the_list_tells_what_one_is_with_its_equation_and_settings(capsys):
    assert command("list", "scaffold_pg") == 0
    said = capsys.readouterr().out
    assert "x_{l+1} = x_l - eta (g_i(x_l) - c_i + c)" in said
    for flag in ("--eta", "--H", "--option", "{I,II}"):
        assert flag in said
    assert command("list", "reinforce") == 0
    assert "Eq. (5)" in capsys.readouterr().out


def test_on_a_terminal_equations_of_the_list_stay_as_they_are():
    """Two lines that must not be joined, one longer than the terminal, and text that is broken anew."""
    equations = "    a   = b +           c,              b = 1\n    a+  = a + 1"
    before = f"What it is.\n\n{equations}\n\nText that goes on for\nlonger than a terminal\nof 40 columns has."
    after = f"What it is.\n\n{equations}\n\nText that goes on for longer than a\nterminal of 40 columns has."
    assert "\n".join(folded(before, 40)) == after


def test_lines_of_the_list_are_broken_between_words():
    line = "  fast_fedpg   Local policy-gradient steps, each corrected by the memory of the global gradient, and more."
    parts = folded(line, 60)
    assert len(parts) > 1
    assert " ".join(" ".join(parts).split()) == " ".join(line.split())
    assert all(len(part) <= 60 for part in parts)
    assert parts[1].startswith(" " * 15)
    assert parts[1][15] != " "
