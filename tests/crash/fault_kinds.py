"""The kinds of faults that a sweep plants at each operation of the file system."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidelog.testing.faults import Operation

SYNCS: Final = frozenset({"sync", "sync_directory"})
NEED_ROOM: Final = frozenset({"open", "pwrite", "write", "truncate", "rename", "make_directory"})
NEED_DESCRIPTOR: Final = frozenset({"open", "read", "list", "lock", "sync_directory"})
CANNOT_FAIL: Final = frozenset({"close", "hold", "is_link"})


class Kind(NamedTuple):
    """A kind of fault: the error, what it can hit, whether it speaks against the disk."""

    name: str
    code: int
    operations: frozenset[str] | None
    is_of_disk: bool = False
    is_short: bool = False

    def can_hit(self, operation: Operation, changing: Collection[Operation]) -> bool:
        """Return whether the operation can fail like this."""
        if operation.name in CANNOT_FAIL:
            return False
        if self.operations is None:
            return operation.name not in SYNCS
        if self.code == errno.ENOSPC and operation not in changing:
            return False  # an existing file was opened
        return operation.name in self.operations

    def error(self, path: str) -> OSError:
        """Return the error that an operation on ``path`` raises."""
        return OSError(self.code, os.strerror(self.code), path)


KINDS: Final = (
    Kind("full disk", errno.ENOSPC, NEED_ROOM),
    Kind("short write", errno.ENOSPC, frozenset({"pwrite", "write"}), is_short=True),
    Kind("no descriptor", errno.EMFILE, NEED_DESCRIPTOR),
    Kind("bad disk", errno.EIO, None, is_of_disk=True),
    Kind("failed fsync", errno.EIO, SYNCS, is_of_disk=True),
)
