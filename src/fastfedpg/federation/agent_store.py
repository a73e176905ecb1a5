"""What an agent keeps: its memory from before the round and after each of its exchanges, with the replies it gave."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError

from fastfedpg.errors import InputError
from fastfedpg.federation import wire
from fastfedpg.federation.wire import Malformed
from fastfedpg.files import read_bytes, write_secret
from fastfedpg.runtime.pytrees import arrays_of, restored

LOG = logging.getLogger("fastfedpg.agent")
RUNS = 8
"""So many runs are remembered; the oldest is forgotten first."""


class Kept(NamedTuple):
    """An agent's memory, by its name: the algorithm's part and the oracle's."""

    memory_hash: str
    memory: Any
    own: Any


class Done(NamedTuple):
    """An exchange that was answered."""

    exchange: str
    kept: Kept
    reply: bytes


class Page(NamedTuple):
    """One run: the memory that counts, and the exchanges of a round that may come to count, by their memories' names.

    A round that is begun again with other agents asks an exchange again, with another message: both answers are kept,
    since a late copy of the first question may come after the second.
    """

    run: str
    declared: dict[str, Any]
    site: str  # what the site has settled for itself, as a hash
    round: int  # of the last exchange, -1 before the first
    before: Kept
    after: dict[str, Done]


class AgentStore:
    """A folder with one file for each run. A page is on disk, whole, before its reply leaves."""

    def __init__(self, folder: Path, form: tuple[Any, Any]) -> None:
        self.folder, self.form = folder, form
        self.page: Page | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise InputError(f"{folder}: {error.strerror}; an agent needs a folder to keep its memory in") from None

    def open(self, run: str, declared: dict[str, Any], site: str) -> Page | None:
        """What is known of a run; nothing, if it is new."""
        if self.page is None or self.page.run != run:
            path = self._path(run)
            if not path.exists():
                return None
            self.page = self._read(path, run)
        if self.page.declared != declared:
            raise Malformed(f"run {run} was begun here with other settings; start a new run")
        if self.page.site != site:
            raise Malformed(f"this site's own settings are not those that it began run {run} with; start a new run")
        return self.page

    def begin(self, run: str, declared: dict[str, Any], site: str, before: Kept) -> Page:
        """A new run; the oldest of too many is forgotten."""
        page = self.write(Page(run, declared, site, -1, before, {}))
        files = sorted(self.folder.glob("[0-9a-f]*.safetensors"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in files[RUNS:]:
            LOG.info("run %s is forgotten", old.stem)
            old.unlink(missing_ok=True)
        return page

    def write(self, page: Page) -> Page:
        """Put a page on the disk; only then it counts."""
        about = {
            "run": page.run,
            "declared": page.declared,
            "site": page.site,
            "round": page.round,
            "before": page.before.memory_hash,
            "after": [[name, done.exchange] for name, done in page.after.items()],
        }
        arrays = arrays_of("0", page.before[1:])
        for k, done in enumerate(page.after.values(), 1):
            arrays |= arrays_of(str(k), done.kept[1:])
            arrays[f"reply{k}"] = np.frombuffer(done.reply, np.uint8)
        data = wire.pack(about, arrays)
        write_secret(self._path(page.run), hashlib.sha256(data).digest() + data)
        self.page = page
        return page

    def _path(self, run: str) -> Path:
        return self.folder / f"{run}.safetensors"

    def _read(self, path: Path, run: str) -> Page:
        try:
            data = read_bytes(path)
            if hashlib.sha256(data[32:]).digest() != data[:32]:
                raise ValueError("it is not what was written")
            about, arrays = wire.unpack(data[32:])
            kept = lambda k, name: Kept(name, *restored(str(k), self.form, arrays))
            after = {
                name: Done(exchange, kept(k, name), arrays[f"reply{k}"].tobytes())
                for k, (name, exchange) in enumerate(about["after"], 1)
            }
            before = kept(0, about["before"])
            page = Page(about["run"], about["declared"], about["site"], int(about["round"]), before, after)
            if page.run != run:
                raise ValueError(f"it is of run {page.run}")
            return page
        except (
            OSError,
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
            SafetensorError,
            json.JSONDecodeError,
        ) as error:
            raise Malformed(f"the memory of run {run} can't be read: {getattr(error, 'strerror', error)}") from None
