"""What `make audit` makes of an answer: silence is never good news."""

import pytest

import audit

SAFE = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("found", "code", "says"),
    [
        (None, 2, "nothing was looked up"),
        ({"dependencies": []}, 2, "0 of 0"),
        ({"dependencies": [SAFE]}, 0, "1 of 1 dependencies were looked up; 0 vulnerabilities"),
        ({"dependencies": [SAFE, UNKNOWN]}, 2, "not looked up, since their data can't be had from here: c"),
        ({"dependencies": [SAFE, BAD, UNKNOWN]}, 1, "b 2: CVE-1, mended in 3"),
    ],
)
def test_verdicts(found, code, says):
    got, lines = audit.verdict(found)
    assert got == code
    assert says in "\n".join(lines)
