"""Problems by name whose numbers are known, each defined exactly by its docstring."""
