"""The look of a holder for the letters of one kind in its data directories."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tidelog.errors import KafkaStorageError
from tidelog.log.directory_guard import NO_RESOURCES, NO_SPACE
from tidelog.mailbox.letter import Letter, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidelog.env.files import FileSystem

_log = logging.getLogger(__name__)
L = TypeVar("L", bound=Letter)


class Look(Generic[L]):
    """Lets ``act`` answer letters, one at a time; an error of a file says nothing about the disk.

    The next pass tries again after a full disk or a lack of descriptors, and after no other error:
    the letter may be one of a newer release, or somebody else's file.
    """

    def __init__(
        self, fs: FileSystem, kind: type[L], act: Callable[[L, set[State]], object]
    ) -> None:
        self._fs: Final = fs
        self._kind: Final = kind
        self._act: Final = act
        self._settled: dict[str, set[str]] = {}
        """Letters that are not looked at again while their files are there, by directory."""

    def look(self, data_dir: str, names: Iterable[str]) -> None:
        """Let each letter among ``names`` be answered that is not settled."""
        found = self._kind.names.find(names)
        settled = self._settled[data_dir] = self._settled.get(data_dir, set()) & found.keys()
        for stem, states in sorted(found.items()):
            if stem not in settled:
                self._act_safely(self._kind(self._fs, data_dir, stem), states)

    def _act_safely(self, letter: L, states: set[State]) -> None:
        names, path = letter.names, letter.path(State.WAITING)
        try:
            self._act(letter, states)
        except FileNotFoundError:
            pass  # withdrawn meanwhile
        except (OSError, KafkaStorageError) as error:
            if isinstance(error, OSError) and error.errno in NO_SPACE | NO_RESOURCES:
                _log.warning(names.delayed, path, error)
                return
            _log.warning(names.ignored, path, error)
            self.settle(letter)
        except Exception as error:  # noqa: BLE001 - no letter may stop those after it
            _log.error(names.ignored, path, repr(error))
            self.settle(letter)

    def look_again(self, letter: L) -> None:
        """Look at a settled letter in the next pass: its waiter has ended."""
        self._settled.get(letter.data_dir, set()).discard(letter.stem)

    def settle(self, letter: L) -> None:
        """Look at a letter no more while its files are there: it is answered, or nobody can."""
        self._settled[letter.data_dir].add(letter.stem)
