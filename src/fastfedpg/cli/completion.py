"""`fastfedpg completion`: the Tab key. The shell asks this command, so that what it offers is what is there.

Flags are those of what has been typed so far: the command's own parser is made, and asked for them, instead of used.
"""

import contextlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console

from fastfedpg import cli
from fastfedpg.cli.parse_flags import Asked, asked
from fastfedpg.errors import InputError
from fastfedpg.experiment import choices, presets
from fastfedpg.experiment.config import AUTO
from fastfedpg.registry import PACKAGE
from fastfedpg.tables import ALGORITHMS, ORACLES, PLAYED, POLICIES, PROBLEMS
from fastfedpg.tracking import TRACKERS

SCRIPTS = {
    "bash": r"""_fastfedpg() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" completion bash "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null))
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _fastfedpg fastfedpg
""",
    "zsh": r"""(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
_fastfedpg() {
    local -a found
    found=("${(@f)$("${words[1]}" completion zsh "$((CURRENT - 1))" "${(@)words}" 2>/dev/null)}")
    if [[ -n ${found[1]} ]]; then _describe 'fastfedpg' found; else _files; fi
}
compdef _fastfedpg fastfedpg
""",
}
USAGE = """usage: fastfedpg completion {bash,zsh}

Print what makes the Tab key complete commands, flags, and the names of problems, algorithms, oracles, policies and
presets. One line in ~/.bashrc or ~/.zshrc does it: eval "$(fastfedpg completion bash)"

example: fastfedpg completion bash"""

BREAKS = re.compile(r"[:=]+")
"""Where bash breaks a word, and we don't."""


def completion(arguments: list[str], console: Console, errors: Console) -> int:
    """Complete commands, flags and names by the Tab key, in bash and zsh."""
    if not arguments or arguments[0] in ("-h", "--help"):
        console.print(USAGE, highlight=False, markup=False, soft_wrap=True)
        return 0 if arguments else 2
    shell, *asked_for = arguments
    if shell not in SCRIPTS:
        raise InputError(f"unknown shell '{shell}' (known: {', '.join(SCRIPTS)})")
    if not asked_for:
        console.out(SCRIPTS[shell], highlight=False, end="")
        return 0
    if not asked_for[0].isdigit() or int(asked_for[0]) >= len(asked_for) - 1:
        raise InputError(f"completion {shell} takes nothing more; a shell gives the word's number, and the words")
    for word in lines(shell, asked_for[1:], int(asked_for[0])):
        console.out(word, highlight=False)
    return 0


def lines(shell: str, words: Sequence[str], at: int) -> Iterator[str]:
    """What the shell is told: the rest of a word for bash, and for zsh each word with what it means."""
    before, current = [*words[1:at]], words[at]
    if shell == "bash":
        *before, current = _joined([*before, current])
    skipped = "".join(re.findall(r"^.*[:=]", current)) if shell == "bash" else ""
    for word, help in offered(before, current):
        if word.startswith(current) and word != current:
            what = f":{help}" if help else ""
            yield word.removeprefix(skipped) if shell == "bash" else word.replace(":", r"\:") + what


def _joined(words: Sequence[str]) -> list[str]:
    """The words as they were typed, before bash broke them at colons and equals signs."""
    found: list[str] = []
    for k, word in enumerate(words):
        if found and (BREAKS.fullmatch(word) or (k and BREAKS.fullmatch(words[k - 1]))):
            found[-1] += word
        else:
            found.append(word)
    return found


def offered(before: Sequence[str], current: str) -> list[tuple[str, str]]:
    """All that could stand where the cursor is, and what each means."""
    if not before:
        return [*((name, what) for name, (_, what) in cli.COMMANDS.items()), ("--help", ""), ("--version", "")]
    command, *rest = before
    if command not in cli.COMMANDS:
        return []
    flag, equals, _ = current.partition("=")
    if equals and flag.startswith("--"):
        return [(f"{flag}={word}", help) for word, help in _values(command, rest, flag)]
    last = next((k for k in reversed(range(len(rest))) if rest[k].startswith("--")), None)
    if current.startswith("-"):
        return [(name, a.help or "") for a in _actions(command, rest) for name in a.option_strings if name[:2] == "--"]
    if last is not None and (last == len(rest) - 1 or _takes_several(command, rest, rest[last])):
        return _values(command, rest, rest[last])
    return [(name, "") for name in _positional(command)]


NAMED = {
    "--algorithm": [*ALGORITHMS, AUTO],
    "--algorithms": [*ALGORITHMS],
    "--problem": [*PROBLEMS],
    "--oracle": [*dict.fromkeys([*ORACLES, *PLAYED])],
    "--policy": [*POLICIES],
    "--preset": presets.known(),
    "--track": [*TRACKERS],
}
"""Flags whose values are names of ours."""
SEVERAL = ("--algorithms", "--track")


def _takes_several(command: str, rest: Sequence[str], flag: str) -> bool:
    if flag in NAMED:
        return flag in SEVERAL
    return any(flag in a.option_strings and a.nargs in ("*", "+") for a in _actions(command, rest))


def _values(command: str, rest: Sequence[str], flag: str) -> list[tuple[str, str]]:
    """What may follow a flag; nothing where that is a number, a file or somebody's own."""
    if flag in NAMED:
        kind = {"--algorithms": "algorithm"}.get(flag, flag[2:])
        return [(name, _said(kind, name)) for name in NAMED[flag]]
    action: Any = next((a for a in _actions(command, rest) if flag in a.option_strings), None)
    if action is None or action.nargs == 0:
        return []
    if flag in ("--problem-args", "--policy-args"):
        name = next((rest[k + 1] for k in range(len(rest) - 1) if rest[k] == flag.removesuffix("-args")), None)
        return [(f"{p}=", x.help) for p, x in choices.takes(flag[2:].removesuffix("-args"), name).items()]
    braces = re.fullmatch(r"\{(.+)\}", str(action.metavar or ""))
    known = action.choices or (braces.group(1).split(",") if braces else ())
    return [(word, "") for word in known if word != "None"]


def _said(kind: str, name: str) -> str:
    if kind == "preset":
        return presets.said(name)
    return choices.describe(kind, name).summary if kind in choices.KINDS and name != AUTO else ""


def _positional(command: str) -> Iterable[str]:
    """Names that a command takes without a flag; files are the shell's own affair."""
    studies = [*sorted(file.stem for file in (PACKAGE / "studies").glob("*.toml")), "claims"]
    named = [*PROBLEMS, *ALGORITHMS, *NAMED["--oracle"], *POLICIES, *NAMED["--preset"]]
    every = [*dict.fromkeys(named), "--costs", "--cards"]
    return {"show": PROBLEMS, "advise": PROBLEMS, "study": studies, "list": every, "completion": SCRIPTS}.get(
        command, ()
    )


def _actions(command: str, rest: Sequence[str]) -> list[Any]:
    """The flags of a command, after these words; where they are wrong already, those of no words."""
    for words in (rest, ()):
        quiet = Console(file=io.StringIO())
        with asked(), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(InputError, OSError, SystemExit):
            try:
                cli.load(command)([*words], quiet, quiet)
            except Asked as parser:
                return [*parser.args[0]._actions]
    return []
