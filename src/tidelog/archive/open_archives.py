"""The archives that this process reads, by the paths below their URIs."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final

from tidelog.archive.archive_files import ArchiveFiles
from tidelog.archive.archived_partitions import ArchivedPartitions
from tidelog.env.files import os_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_archives: Final[dict[str, ArchivedPartitions]] = {}
_lock: Final = Lock()


def archive_at(uri: str) -> ArchivedPartitions:
    """Return the archive at a URI, of which the process knows more with each look.

    Raises InvalidArgument for what is not the URI of a store.
    """
    from tidelog.store.object_store import ObjectStore  # noqa: PLC0415 - few reads need a store
    from tidelog.store.store_uri import parse_store_uri  # noqa: PLC0415 - as above

    parsed = parse_store_uri(uri)
    name = str(parsed)
    with _lock:
        if name not in _archives:
            _archives[name] = ArchivedPartitions(ObjectStore(parsed), name)
        return _archives[name]


@dataclass(eq=False, slots=True)
class OpenArchives:
    """Archives as one look sees them: each is pinned when it is first asked for.

    Any thread may use it. ``topics``: those that are looked for, None: all; ``number``:
    only this partition of each, if there is one.
    """

    topics: Collection[str] | None = None
    number: int | None = None
    _views: dict[str, ArchiveFiles] = field(default_factory=dict)

    def look_again(self) -> None:
        """Let the next call see what is there then; files that are open stay as they are."""
        self._views = {}

    def files_at(self, path: str) -> ArchiveFiles:
        """Return the files of the archive that holds a path.

        The root of an archive is the deepest directory that holds topics: a path says no more than
        that it lies there or below. Raises FileNotFoundError if there is no archive, and as
        ``archive_at`` and ``ArchivedPartitions``.
        """
        views = self._views
        for root in views:
            if root == path or path.startswith(f"{root}/"):
                if not views[root].serves(path):  # it was opened for one partition alone
                    views[root] = self._opened(archive_at(root), root)
                return views[root]
        for root in _above(path):
            archive = archive_at(root)
            if archive.exists():
                only = path[len(root) + 1 :].partition("/")[0] or None
                views[root] = self._opened(archive, root, only)
                return views[root]
        raise os_error(errno.ENOENT, path)

    def _opened(
        self, archive: ArchivedPartitions, root: str, only: str | None = None
    ) -> ArchiveFiles:
        return ArchiveFiles(archive, root, only=only, topics=self.topics, number=self.number)


def _above(path: str) -> Iterator[str]:
    """Yield a path and its two parents: no file of a partition lies deeper below a root."""
    root = path.rstrip("/")
    for _ in range(3):
        yield root
        root = root.rpartition("/")[0]
        if root.endswith(("/", ":")):
            return
