"""The checker that the import hook of conftest.py puts on every function: an int is as good as a float."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
