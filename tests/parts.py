"""`make test-all`: every part of the tests one after the other, and how long each took.

python tests/parts.py [PART …] [-- what pytest is given]
"""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from limits import PARTS

QUICK = "quick"
ALONE = ("federation", "kills", "devices")
"""Parts that start processes of their own, and measure what they do by the clock: one worker."""


def words(part: str) -> list[str]:
    """What pytest is given for a part."""
    chosen = " or ".join(PARTS)
    workers = ["-n", "0"] if part in ALONE else ["-n", "2", "--dist", "loadfile"]
    return [*workers, "-m", f"not ({chosen})" if part == QUICK else part]


def main(given: list[str]) -> int:
    """The exit code: 0 where every part passed."""
    asked, more = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    known = (QUICK, *PARTS)
    if unknown := [part for part in asked if part not in known]:
        print(f"unknown part {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    report, code = [], 0
    os.environ.setdefault("PROPERTY_SEED", str(secrets.randbits(31)))
    for part in asked or known:
        start = time.monotonic()
        root = Path(__file__).parents[1]
        done = subprocess.run([sys.executable, "-m", "pytest", *words(part), *more], cwd=root, check=False)
        seed = f"  PROPERTY_SEED={os.environ['PROPERTY_SEED']}" if part == "properties" else ""
        report.append(
            f"{part:12} {time.monotonic() - start:6.0f} s  {'passed' if done.returncode == 0 else 'FAILED'}{seed}"
        )
        code = code or done.returncode
    print("", *report, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
