"""`make audit`: whether a version in constraints.txt has a known vulnerability, by pip-audit in a folder of its own.

Exit code 0: every one was looked up, and none is known. 1: some are known. 2: not all could be looked up.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SERVICES = ("pypi", "osv")


def verdict(found: Any) -> tuple[int, list[str]]:
    """The exit code and what is said; pip-audit itself says that all is well where it could look nothing up."""
    if found is None:
        return 2, ["no answer: the data of known vulnerabilities can't be had from here; nothing was looked up"]
    known = [(each, bad) for each in found["dependencies"] for bad in each.get("vulns", [])]
    skipped = [each["name"] for each in found["dependencies"] if "skip_reason" in each]
    number = len(found["dependencies"])
    lines = [
        f"{each['name']} {each['version']}: {bad['id']}, mended in {', '.join(bad['fix_versions']) or 'no version yet'}"
        for each, bad in known
    ]
    lines += [
        f"{number - len(skipped)} of {number} dependencies were looked up; {len(known)} vulnerabilities are known"
    ]
    if skipped:
        lines += [f"not looked up, since their data can't be had from here: {', '.join(skipped)}"]
    return (1 if known else 2 if skipped or not number else 0), lines


def looked_up(program: Path, service: str) -> Any:
    """What pip-audit says of the pinned versions, or None where it gets no answer."""
    words = [program, "-s", service, "--disable-pip", "--no-deps", "-r", ROOT / "constraints.txt", "-f", "json"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return None


def main() -> int:
    """Ask one service after the other, until one knows all."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "pip-audit"]
        if subprocess.run(install, capture_output=True, check=False).returncode:
            print("pip-audit can't be installed from here; nothing was looked up")
            return 2
        code, lines = 2, []
        for service in SERVICES:
            code, said = verdict(looked_up(Path(folder) / "bin" / "pip-audit", service))
            lines += [f"{service}: {line}" for line in said]
            if code != 2:
                break
    print(*lines, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
