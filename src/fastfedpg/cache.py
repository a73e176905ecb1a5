"""The user's cache: folders of compiled code that are run later, so nobody else may have put anything there."""

import grp
import os
import pwd
import stat
from pathlib import Path


class NotOurs(OSError):
    """Somebody else could have put code into the cache."""


def private_folder(*names: str) -> Path:
    """A folder below the user's cache, made if need be, that is ours, 0700, and can't be exchanged by anybody else.

    Raises NotOurs where somebody else could write, OSError where we can't, RuntimeError if nobody knows where home is.
    """
    above = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = above.joinpath("fastfedpg", *names).absolute()
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder = folder.resolve()  # from here on without links, which could be turned
    for path in folder.parents:
        about = path.stat()
        exchangeable = _others_write(about) and not about.st_mode & stat.S_ISVTX  # sticky, as /tmp is
        if exchangeable or about.st_uid not in (0, os.geteuid()):
            raise NotOurs(f"{path} {_whose(about)}, who could put another cache into it; XDG_CACHE_HOME names a place")
    about = folder.stat()
    if _others_write(about) or about.st_uid != os.geteuid():
        raise NotOurs(f"{folder} {_whose(about)}; remove it, or name another place by XDG_CACHE_HOME")
    if stat.S_IMODE(about.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder


def is_ours(file: Path) -> bool:
    """Whether a file is one that we wrote and that nobody else can have changed."""
    about = os.lstat(file)
    return stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and not _others_write(about)


def _others_write(about: os.stat_result) -> bool:
    mode = about.st_mode
    return bool(mode & stat.S_IWOTH) or bool(mode & stat.S_IWGRP and not _is_own_group(about.st_gid))


def _is_own_group(gid: int) -> bool:
    """A group of one, named as its user: on many systems it may write all that its user makes."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}


def _whose(about: os.stat_result) -> str:
    mode = f"mode {stat.S_IMODE(about.st_mode):o}"
    return f"may be written by others ({mode})" if _others_write(about) else f"belongs to user {about.st_uid} ({mode})"
