"""The command line as the tests call it."""

from fastfedpg import cli


def command(*words) -> int:
    """The exit code of `fastfedpg …`."""
    try:
        return cli.main([str(w) for w in words])
    except SystemExit as stop:
        return stop.code
