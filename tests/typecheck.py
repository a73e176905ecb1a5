"""The checker that the import hook of conftest.py puts on every function: an int is as good as a float."""

import inspect

from beartype import BeartypeConf, beartype

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
_known = {}


def check(stub):
    """A function's checker is made once, however often a factory makes that function anew.

    What jaxtyping hands over has the function's name and signature, and nothing else of it.
    """
    key = stub.__module__, stub.__qualname__, str(inspect.signature(stub))
    if key not in _known:
        _known[key] = _checked(stub)
    return _known[key]
