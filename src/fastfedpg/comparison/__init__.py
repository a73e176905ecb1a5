"""Several runs side by side: one budget, one table, and no more claims than the numbers bear."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
