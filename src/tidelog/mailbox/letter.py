"""One file by which a process asks the holder of a data directory to act; a rename decides.

```text
                    ┌──── free: its claimant has ended, and it may be done again ────┐
                    ▼                                                                │
    leave ──▶ WAITING ──claim: the holder──▶ CLAIMED ──act──▶ answer ──▶ ANSWERED ──▶ forget
                 │ withdraw: the process that asks ──▶ gone, durably
                 └ expire: the holder, past the deadline ──▶ WITHDRAWN ──▶ forget
```

A claim, a withdrawal and an expiry each need the file in WAITING, so one of them succeeds. Kinds of
letters differ in their names and contents, and in whether a claim whose claimant has ended may be
freed: a commit may, since its transaction's id shows whether it was made; a request is done at most
once, so its claim is durable before anything is done, and nobody takes it up again.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from tidelog.codec.checkpoint_file import TEMPORARY_SUFFIX, replace_file
from tidelog.datadir.versioned_file import read_versioned
from tidelog.env.renamed_files import delete_if_there, rename_if_there
from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.env.files import FileSystem

T = TypeVar("T")


class State(Enum):
    """How far a letter is, by the suffix of its file."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"


LEFT: Final = (State.ANSWERED, State.WITHDRAWN)
"""The states of a letter that nobody acts on any more."""


class Names:
    """The names of one kind of letters: ``stem``, a pattern without groups, and a suffix a state.

    ``delayed`` and ``ignored`` are logged, with path and reason, about files that cannot be read or
    changed, for now or at all.
    """

    def __init__(
        self, stem: str, suffixes: Mapping[State, str], *, delayed: str, ignored: str
    ) -> None:
        self.suffixes: Final = suffixes
        self.delayed: Final = delayed
        self.ignored: Final = ignored
        self._states = {suffix: state for state, suffix in suffixes.items()}
        endings = "|".join(map(re.escape, self._states))
        temporary = re.escape(TEMPORARY_SUFFIX)
        self._pattern = re.compile(rf"({stem})({endings})((?:{temporary})*)", re.ASCII)

    def find(self, names: Iterable[str]) -> dict[str, set[State]]:
        """Return the letters among the names in a data directory: by stem, the states of each."""
        found: dict[str, set[State]] = {}
        for matched in filter(None, map(self._pattern.fullmatch, names)):
            if not matched[3]:
                found.setdefault(matched[1], set()).add(self._states[matched[2]])
        return found

    def is_left(self, name: str) -> bool:
        """Return whether nobody but the process that asked may need a file, if even that one."""
        matched = self._pattern.fullmatch(name)
        if matched is None:
            return False
        return bool(matched[3]) or self._states[matched[2]] in LEFT


@dataclass(frozen=True, slots=True)
class Letter:
    """The files of one letter in a data directory; ``stem`` is their name without a suffix."""

    names: ClassVar[Names]

    fs: FileSystem
    data_dir: str
    stem: str

    def path(self, state: State) -> str:
        """Return the path of the file in a state."""
        return os.path.join(self.data_dir, self.stem + self.names.suffixes[state])

    def is_in(self, state: State) -> bool:
        """Return whether there is a file in this state; raises OSError."""
        return self.fs.exists(self.path(state))

    # The steps of the process that asks

    def prepare(self, content: bytes) -> None:
        """Write the letter, durably, under a name that nobody looks for."""
        replace_file(self.fs, self.path(State.WAITING) + TEMPORARY_SUFFIX, content)

    def place(self) -> None:
        """Make what was prepared WAITING, not durably yet; after an OSError it is not."""
        path = self.path(State.WAITING)
        self.fs.rename(path + TEMPORARY_SUFFIX, path)

    def withdraw(self) -> bool:
        """Take the letter back, durably, unless it was claimed; return whether that was in time.

        Without the sync a power cut could bring it back, for the next holder to act on. Raises
        OSError.
        """
        if not delete_if_there(self.fs, self.path(State.WAITING)):
            return False
        self.fs.sync_directory(self.data_dir)
        return True

    def forget(self) -> None:
        """Delete what is left of a letter that was answered or withdrawn; raises OSError.

        Its answer goes last: if a power cut brought the claim back without it, a letter that may
        be done again would be.
        """
        self.delete(State.WAITING, State.CLAIMED)
        self.fs.sync_directory(self.data_dir)
        with suppress(OSError):  # else a later sweep deletes them
            self.delete(*(one for one in LEFT if one in self.names.suffixes))

    # The steps of the holder

    def read(
        self, state: State, newest: int, parse: Callable[[Any], T], max_bytes: int | None = None
    ) -> T:
        """Return what ``parse`` makes of a file, as ``read_versioned``, whose errors it raises.

        Raises KafkaStorageError for a link, as it could lead out of the directory, and for a file
        of more than ``max_bytes``.
        """
        path = self.path(state)
        if self.fs.is_link(path):
            raise KafkaStorageError(f"{path} is a link")
        if max_bytes is not None and (size := self.fs.stat(path).size_bytes) > max_bytes:
            raise KafkaStorageError(f"{path} has {size:,} bytes; {max_bytes:,} are allowed")
        return read_versioned(self.fs, path, newest, parse)

    def change(self, source: State, target: State) -> bool:
        """Rename the letter; return whether it was in ``source`` until now. Not durable yet."""
        return rename_if_there(self.fs, self.path(source), self.path(target))

    def answer(self, content: bytes) -> None:
        """Write the answer durably, then delete the claim. Raises OSError."""
        replace_file(self.fs, self.path(State.ANSWERED), content)
        self.delete(State.CLAIMED)

    def delete(self, *states: State) -> None:
        """Delete the files in these states, those that are there. Not durable yet."""
        for state in states:
            delete_if_there(self.fs, self.path(state))
