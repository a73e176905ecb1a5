"""Closed forms are asked of the loop, which defines an algorithm; of the simulation in the part `long`.

That both are one algorithm is what the table holds (`test_conformance.py`), row by row; each simulation is a program
of its own to compile.
"""

from pathlib import Path

import pytest

from fastfedpg import simulate

HERE = Path(__file__).parent
KEPT = ("test_conformance.py", "test_the_compromise")
"""The table itself; and the golden compromises, whose loops take minutes and are in the part `claims`."""


@pytest.hookimpl(tryfirst=True)  # before marks choose what is run
def pytest_collection_modifyitems(items):
    for item in items:
        given = getattr(item, "callspec", None)
        here = item.path.parent == HERE and not any(words in item.nodeid for words in KEPT)
        if here and given is not None and simulate in given.params.values():
            item.add_marker(pytest.mark.long)
