"""Federated algorithms: one paper per file, each a factory of a `core.Algorithm`; `tables.py` has a row for each."""

import lazy_loader

from fastfedpg.tables import ALGORITHMS

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["ALGORITHMS"]
