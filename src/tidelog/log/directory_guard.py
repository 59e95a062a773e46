"""The one place where a failed disk becomes a typed error.

Owns the state of a data directory as one log sees it: online or failed. Must not know what was
being done, only its name. Kafka: ``LocalLog.maybeHandleIOException`` and ``LogDirFailureChannel``.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors after which the disk still serves what it holds; writing may work again later."""


class DirectoryGuard:
    """Turns ``OSError`` into ``KafkaStorageError`` for all that one log does on its disk.

    ``on_failure`` is called with the data directory (not the log's own) and the error, each time
    the disk fails in a way that a full disk does not explain; from then on the log is offline.
    """

    def __init__(
        self, data_directory: str, on_failure: Callable[[str, OSError], None] | None = None
    ) -> None:
        self.data_directory = data_directory
        self._on_failure = on_failure
        self._failure: OSError | None = None

    @property
    def is_offline(self) -> bool:
        """Whether the directory has failed; it stays so until the log is opened anew."""
        return self._failure is not None

    def check_online(self) -> None:
        """Raise KafkaStorageError if the directory has failed before."""
        if self._failure is not None:
            raise KafkaStorageError(f"{self.data_directory} is offline: {self._failure}")

    def take_offline(self, error: OSError) -> None:
        """Let every later use fail, and tell the owner of the directory."""
        self._failure = self._failure or error
        if self._on_failure is not None:
            self._on_failure(self.data_directory, error)

    def watch(self, doing: str, *, is_sync: bool = False) -> AbstractContextManager[None]:
        """Run the body; an OSError in it is raised as KafkaStorageError, named by ``doing``.

        A full disk leaves the directory online: the body has put the log back as it was, or what
        it left behind does no harm. Any other error takes it offline; so does any error at all
        with ``is_sync``: after a failed fsync nobody knows what the disk holds.
        """
        return _Watch(self, doing, is_sync)


class _Watch:
    """What ``watch`` returns; a class, as every append makes one."""

    __slots__ = ("_doing", "_guard", "_is_sync")

    def __init__(self, guard: DirectoryGuard, doing: str, is_sync: bool) -> None:  # noqa: FBT001 - called once, above
        self._guard = guard
        self._doing = doing
        self._is_sync = is_sync

    def __enter__(self) -> None:
        self._guard.check_online()

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        if isinstance(error, OSError):
            guard = self._guard
            if self._is_sync or error.errno not in NO_SPACE:
                guard.take_offline(error)
            reason = f"{self._doing} failed in {guard.data_directory}: {error}"
            raise KafkaStorageError(reason) from error
