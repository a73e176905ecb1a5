"""How much memory there is, and whether something fits into it, before any of it is taken. Without JAX."""

from pathlib import Path

from fastfedpg.errors import InputError


def check_fits(what: str, size: int, instead: str) -> None:
    """Refuse what needs more bytes than there are; nothing is said where that isn't known."""
    there = available()
    if there is not None and size > there:
        raise InputError(f"{what} needs {said(size)} of memory, and {said(there)} are available; {instead}")


def said(size: int) -> str:
    """A number of bytes in words."""
    if size >= 2**40:
        return f"{size / 2**40:,.1f} TB" if size < 2**70 else f"{float(size // 2**40):.3g} TB"
    return f"{size / 2**30:,.1f} GB" if size >= 2**30 / 10 else f"{size / 2**20:,.0f} MB"


def available() -> int | None:
    """Bytes that this process may still take: the machine's, or what its control group leaves; None if not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        there = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None
    return int(max(min(there, *_left_by_groups()), 0))


def mappings() -> int:
    """Parts of the address space that this process has; the system gives it 65,530, whatever memory there is."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def _left_by_groups(system: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> list[float]:
    """What each control group above this process leaves of its limit (version 2); pages that can be dropped count."""
    left = [float("inf")]
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return left
    name = next((line[3:].strip("/") for line in lines if line.startswith("0::")), None)
    if name is None:
        return left
    folder = system / name
    for group in (folder, *folder.parents):
        if not group.is_relative_to(system):
            break
        try:
            limit, used = (int((group / f"memory.{x}").read_text()) for x in ("max", "current"))
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            left.append(limit - used + int(stat.get("inactive_file", 0)))
        except (OSError, ValueError):  # no such file, or no limit: "max"
            continue
    return left
