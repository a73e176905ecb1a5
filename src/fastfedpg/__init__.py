"""Federated and multi-task policy gradients: Fast-FedPG and its rivals, one definition for every runtime.

Names are loaded when they are first asked for, so that importing the package costs nothing until JAX is needed. They
are listed in `__init__.pyi`; what is not there may change.
"""

import sys
from importlib.metadata import version

import lazy_loader

if sys.platform == "win32":
    raise ImportError("fastfedpg runs on Linux and macOS; on Windows in WSL 2, since it locks folders as Unix does")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = version("fastfedpg")
__all__ += ["__version__"]
