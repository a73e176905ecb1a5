"""`python -m fastfedpg`: the command."""

from fastfedpg.entry import main

if __name__ == "__main__":
    main()
