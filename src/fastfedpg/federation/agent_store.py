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
"""So many runs are remembered. The first to be forgotten is one that was only greeted, or else one that is over."""
INDEX = "index.json"


GREETED, GOES_ON, OVER = "greeted", "goes on", "over"


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
    said: str  # a hash of what the server has said in this round so far, whichever run and round it is


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


def make_folder(folder: Path) -> None:
    """An agent's own folder, if it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; an agent needs a folder to keep its memory in") from None


class AgentStore:
    """A folder with one file for each run. A page is on disk, whole, before its reply leaves.

    The index counts the questions that were ever answered, and has the runs in the order in which they came, each with
    how far it is: no clock says which one is old, and no stranger's greeting pushes out a run that goes on.
    """

    def __init__(self, folder: Path, form: tuple[Any, Any]) -> None:
        self.folder, self.form = folder, form
        self.page: Page | None = None
        self.answered, self.runs = self._index()
        make_folder(folder)

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
        """A new run; of too many one that goes on is never forgotten."""
        known = {name: state for name, state in self.runs.items() if self._path(name).exists()}
        if len(known) >= RUNS:
            old = next((name for state in (GREETED, OVER) for name in known if known[name] == state), None)
            if old is None:
                raise Malformed(f"{RUNS} runs go on here already; this site's owner can remove what one keeps")
            LOG.info("run %s is forgotten", old)
            self._path(old).unlink(missing_ok=True)
            del known[old]
        self.runs = known
        self.note(run, GREETED)
        return self.write(Page(run, declared, site, -1, before, {}))

    def note(self, run: str, state: str, answered: int = 0) -> None:
        """How far a run is, and how many more questions were answered; on disk before anybody hears of it."""
        self.answered += answered
        self.runs[run] = state
        write_secret(self.folder / INDEX, json.dumps({"answered": self.answered, "runs": self.runs}).encode())

    def write(self, page: Page) -> Page:
        """Put a page on the disk; only then it counts."""
        about = {
            "run": page.run,
            "declared": page.declared,
            "site": page.site,
            "round": page.round,
            "before": page.before.memory_hash,
            "after": [[name, done.exchange, done.said] for name, done in page.after.items()],
        }
        arrays = arrays_of("0", page.before[1:])
        for k, done in enumerate(page.after.values(), 1):
            arrays |= arrays_of(str(k), done.kept[1:])
            arrays[f"reply{k}"] = np.frombuffer(done.reply, np.uint8)
        data = wire.pack(about, arrays)
        write_secret(self._path(page.run), hashlib.sha256(data).digest() + data)
        self.page = page
        return page

    def _index(self) -> tuple[int, dict[str, str]]:
        path = self.folder / INDEX
        try:
            table = json.loads(read_bytes(path))
            return int(table["answered"]), {str(k): str(v) for k, v in table["runs"].items()}
        except FileNotFoundError:  # a folder of an earlier version has runs and no index
            return 0, {p.stem: GOES_ON for p in sorted(self.folder.glob("[0-9a-f]*.safetensors"))}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            words = f"{path}: not as it was written ({error}); it counts what this site has answered"
            raise InputError(words) from None

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
                name: Done(exchange, kept(k, name), arrays[f"reply{k}"].tobytes(), said)
                for k, (name, exchange, said) in enumerate(about["after"], 1)
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
