"""Runs every command that a page names as `<!-- output: COMMAND -->` and puts what it prints below it.

What a command prints as Markdown stands between `<!-- markdown: COMMAND -->` and `<!-- end -->`.

python docs/outputs.py [PAGE …] from the repository's folder; all pages unless given. What a command prints that then
fails, as a report of `verify` with a claim that does not hold, is put there too; they are named at the end, with
exit code 1.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"(<!-- output: (?P<command>.+?) -->\n)(?P<block>```\n.*?\n```\n)?", flags=re.S)
MARKDOWN = re.compile(r"(<!-- markdown: (?P<command>[^\n]+?) -->\n).*?(<!-- end -->\n)", flags=re.S)
HIDDEN = ("written: ", "a page of it: ")
"""How lines begin that name files, and are not shown."""
STUDIES = ("point-mass", "cart-pole", "thermostats")
SERIES = ("speedup", "heterogeneity", "local-steps", "communication", "momentum", "participation")
PICTURES = {
    "main/curves.png": "compare-curves.png",
    "main/sensitivity.png": "compare-sensitivity.png",
    "main/policies.png": "compare-policies.png",
    "main/agents.png": "compare-agents.png",
    "claims/linear.png": "theory-linear.png",
    "claims/truncation.png": "theory-truncation.png",
    "claims/floors.png": "theory-floors.png",
    "claims/bias.png": "theory-bias.png",
    "claims/stationary.png": "theory-stationary.png",
    "claims/tightness.png": "theory-tightness.png",
    "offices.png": "offices.png",
    "advice.png": "advice.png",
    **{f"{name}/curves.png": f"study-{name}.png" for name in STUDIES},
    "studies/suite/profiles.png": "suite-profiles.png",
    "studies/rivals/profiles.png": "rivals-profiles.png",
    "point-mass/agents.png": "study-point-mass-agents.png",
    **{f"studies/{name}/series.png": f"series-{name}.png" for name in SERIES},
    "studies/phases/phases.png": "phases.png",
}


def printed(command: str, folder: Path) -> tuple[str, int]:
    """The command's own words, without the names of the files it wrote, and its exit code."""
    words = shlex.split(command)
    if words[0] == "fastfedpg":
        words[0] = str(Path(sys.executable).with_name("fastfedpg"))
    elif words[0] == "python":
        words = [sys.executable, str(ROOT / words[1]), *words[2:]]
    elif words[0] == "make":
        words += ["-s", "-C", str(ROOT), f"ARGS=--out {folder / 'main'}"]
    print(command, flush=True)
    done = subprocess.run(words, cwd=folder, env={**os.environ, "COLUMNS": "80"}, stdout=subprocess.PIPE, text=True)
    lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith(HIDDEN)]
    return "\n".join(lines).strip("\n"), done.returncode


def main(pages: list[Path]) -> list[str]:
    """Each command once, whichever pages name it; returns those that failed, in words."""
    known: dict[str, tuple[str, int]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(ROOT / "docs" / "studies", folder / "studies")  # which took too long to be run again

        def said(command: str) -> str:
            if command not in known:
                known[command] = printed(command, folder)
            return known[command][0]

        def fill(found: re.Match[str]) -> str:
            command = found["command"]
            shown = "" if command.startswith("make") else f"$ {command}\n"
            return f"{found[1]}```\n{shown}{said(command)}\n```\n"

        def fill_markdown(found: re.Match[str]) -> str:
            return f"{found[1]}{said(found['command'])}\n{found[3]}"

        for page in pages:
            text = MARKDOWN.sub(fill_markdown, MARK.sub(fill, page.read_text(encoding="utf-8")))
            page.write_text(text, encoding="utf-8")
        for name, there in PICTURES.items():
            if (folder / name).exists():
                (ROOT / "docs" / there).write_bytes((folder / name).read_bytes())
    return [f"exit code {code}: {command}" for command, (_, code) in known.items() if code]


if __name__ == "__main__":
    failed = main([Path(p) for p in sys.argv[1:]] or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    sys.exit("\n".join(failed) or 0)
