"""The one place where a failed disk becomes a typed error.

It knows a data directory as one log sees it: online or failed. Kafka:
``LocalLog.maybeHandleIOException`` and ``LogDirFailureChannel``.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final, TypeGuard

from tidelog.env.files import WRONG_KIND
from tidelog.errors import KafkaStorageError, TidelogError, text_or_kind
from tidelog.segment.undo import UndoFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors after which the disk still serves what it holds; writing may work again later.

The last is of a file that reaches a limit of its own, such as ``ulimit -f``.
"""

NO_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of the process or the system that say nothing about the disk; all may work again later."""

PASSING: Final = NO_SPACE | NO_RESOURCES | WRONG_KIND
"""Errors that do not take a directory offline: after the last ones it is a single entry that is
not what its name promises."""


def lacks_space(error: BaseException) -> bool:
    """Whether an error, or the one that caused it, is one of ``NO_SPACE``."""
    return _errno_of(error) in NO_SPACE


def lacks_resources(error: BaseException) -> bool:
    """Whether an error, or the one that caused it, is one of ``NO_RESOURCES``."""
    return _errno_of(error) in NO_RESOURCES


def may_pass(error: BaseException) -> bool:
    """Whether an error, or the one that caused it, is a full disk, or one of ``NO_RESOURCES``."""
    return lacks_space(error) or lacks_resources(error)


def is_passing(error: BaseException) -> bool:
    """Whether an error, or the one that caused it, is one of ``PASSING``."""
    return _errno_of(error) in PASSING


def _errno_of(error: BaseException) -> int | None:
    cause = error if isinstance(error, OSError) else error.__cause__
    return cause.errno if isinstance(cause, OSError) else None


def is_interrupt(error: BaseException) -> bool:
    """Whether an error may come at any line: a handler of a signal may raise anything.

    KeyboardInterrupt is one, and so are MemoryError and a TimeoutError without a number.
    """
    if isinstance(error, OSError):
        return error.errno is None
    return not isinstance(error, TidelogError)


def _is_failed_disk(error: BaseException) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and not is_interrupt(error) and error.errno not in PASSING


class DirectoryGuard:
    """Turns ``OSError`` into ``KafkaStorageError`` for all that one log does on its disk.

    ``on_failure`` is called with the data directory (not the log's own) and the error, each time
    it is the disk that fails, for another reason than being full; from then on the log is offline.
    The log alone is offline, and ``on_failure`` not called, after an error of ``PASSING``, or none
    of the disk at all, such as an interrupt, that stopped a change half-way. ``log`` is the log's
    topic-partition, which errors name.
    """

    def __init__(
        self,
        data_directory: str,
        on_failure: Callable[[str, OSError], None] | None = None,
        *,
        log: str | None = None,
    ) -> None:
        self.data_directory = data_directory
        self._log = log
        self._on_failure = on_failure
        self._failure: BaseException | None = None

    @property
    def is_offline(self) -> bool:
        """Whether the directory or the log has failed; it stays so until it is opened again."""
        return self._failure is not None

    @property
    def needs_reopening(self) -> bool:
        """Whether the log alone is offline, in the middle of a change: opening mends it."""
        return self._failure is not None and not _is_failed_disk(self._failure)

    def check_online(self) -> None:
        """Raise KafkaStorageError if the directory or the log has failed before."""
        failure = self._failure
        if failure is None:
            return
        if self.needs_reopening:
            cause = text_or_kind(failure)
            raise self.error(f"a change was not completed: {cause}; the log must be reopened")
        raise self.error(f"{self.data_directory} is offline: {failure}")

    def error(self, reason: str) -> KafkaStorageError:
        """Return an error that names the log."""
        error = KafkaStorageError(reason)
        return error if self._log is None else error.of_log(self._log)

    def take_offline(self, error: BaseException) -> None:
        """Let every later use of the log fail; notify the directory's owner if its disk failed."""
        if self._failure is None or self.needs_reopening:
            self._failure = error
        if self._on_failure is not None and _is_failed_disk(error):
            self._on_failure(self.data_directory, error)

    def watch(self, doing: str, *, must_finish: bool = False) -> AbstractContextManager[None]:
        """Run the body; an OSError in it is raised as KafkaStorageError, named by ``doing``.

        The errors of ``PASSING`` leave the log online: the body has put it back as it was, or what
        it left behind does no harm. A sync is never the source of one, unless no descriptor is left
        to sync a directory with: whatever else makes it fail is raised as EIO. Any other error
        takes the directory offline.

        Args:
            doing: what the body does, for error messages.
            must_finish: any error takes the log offline, one of ``PASSING`` and an interrupt too,
                as the body may have stopped half-way and only opening the log again makes it
                whole. UndoFailed always does.
        """
        return _Watch(self, doing, must_finish=must_finish)


class _Watch:
    """What ``watch`` returns; a class, as every append makes one."""

    __slots__ = ("_doing", "_guard", "_must_finish")

    def __init__(self, guard: DirectoryGuard, doing: str, *, must_finish: bool) -> None:
        self._guard = guard
        self._doing = doing
        self._must_finish = must_finish

    def __enter__(self) -> None:
        self._guard.check_online()

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        if error is None:
            return
        guard = self._guard
        if self._must_finish or _is_failed_disk(error) or isinstance(error, UndoFailed):
            guard.take_offline(error)
        if isinstance(error, OSError) and not is_interrupt(error):
            reason = f"{self._doing} failed in {guard.data_directory}: {error}"
            raise guard.error(reason) from error
