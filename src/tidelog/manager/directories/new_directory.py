"""A data directory that is made beside its place and renamed once it is complete.

So nothing unfinished has its name. A restoration and a rescue make one. Kafka has neither.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import replace_file, write_checkpoint
from tidelog.datadir.catalogue import Catalogue, write_catalogue
from tidelog.datadir.metadata_files import (
    META_PROPERTIES_FILE,
    read_meta_properties,
    write_meta_properties,
)
from tidelog.datadir.offset_checkpoints import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE
from tidelog.datadir.partition_directories import random_id
from tidelog.errors import InvalidArgument
from tidelog.manager.directories.log_dir import make_directories, new_identity
from tidelog.manager.lifecycle.deletion_queue import remove_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random
    from typing import Self
    from uuid import UUID

    from tidelog.datadir.catalogue import Topic
    from tidelog.datadir.metadata_files import MetaProperties
    from tidelog.env.files import FileLock, FileSystem


class NewDirectory:
    """The directory beside ``target``, whose name ends in ``beside`` while it is unfinished.

    A file in it, the mark, names the source that it is made from; another is locked from ``begin``
    on until the ``with`` is left: a second call would write into the files of the first one, or
    remove them. Raises InvalidArgument unless there is nothing at the target, or an empty
    directory, and not a link.
    """

    def __init__(self, fs: FileSystem, target: str, beside: str) -> None:
        if fs.is_link(target):
            raise InvalidArgument(f"{target} is a link: name the directory that it is to lead to")
        if fs.exists(target) and (not fs.stat(target).is_directory or fs.list(target)):
            raise InvalidArgument(f"there is something at {target}: name a path with nothing")
        self.path: Final = target + beside
        self._fs: Final = fs
        self._target: Final = target
        self._mark: Final = f"tidelog{beside}"
        self._lock_file: Final = f"{self._mark}.lock"
        self._lock: FileLock | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._unlock()

    def begin(self, source: str, *, what: str, continues: bool) -> None:
        """Make it, for a source; ``continues`` with one that an earlier call has left for it.

        Without that the earlier one is removed. Raises InvalidArgument if what is there is not
        ``what`` such calls leave, or the target is a mount point; DirectoryLocked if one of them
        still runs.
        """
        fs, path = self._fs, self.path
        self._check_replaceable()
        make_directories(fs, path)
        self._check(source, what, continues=continues)  # in a directory of others no file is made
        self._take_lock()
        is_begun = self._check(source, what, continues=continues)
        if not continues:
            remove_directory(fs, path, last=self._mark)  # by that it is known
            make_directories(fs, path)
            self._take_lock()
        if not (is_begun and continues):
            replace_file(fs, os.path.join(path, self._mark), os.fsencode(source))

    def _check_replaceable(self) -> None:
        """Raise InvalidArgument for a mount point: else all would be copied before it is refused.

        An empty directory is replaced at the end, which is tried here.
        """
        if self._fs.exists(self._target):
            try:
                self._fs.delete_directory(self._target)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                text = f"{self._target} is a mount point: name a directory in it"
                raise InvalidArgument(text) from error
            self._fs.make_directory(self._target)

    def _check(self, source: str, what: str, *, continues: bool) -> bool:
        """Return whether there is more than the mark; raise InvalidArgument as ``begin``."""
        fs, path, mark = self._fs, self.path, os.path.join(self.path, self._mark)
        is_begun = not all(name.startswith(self._mark) for name in fs.list(path))
        is_known = fs.exists(mark) and (not continues or fs.read(mark) == os.fsencode(source))
        if is_begun and not is_known:
            raise InvalidArgument(f"{path} is not of {what}: remove it, or name another target")
        return is_begun

    def _take_lock(self) -> None:
        """Lock the directory; again after the file was deleted with all others."""
        self._unlock()
        self._lock = self._fs.lock(os.path.join(self.path, self._lock_file))

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def identified(self, rng: Random, like: MetaProperties | None = None) -> UUID:
        """Return its id, which an earlier call may have given to it.

        A new one is of the cluster and node of ``like``, as far as those are known.
        """
        path = os.path.join(self.path, META_PROPERTIES_FILE)
        meta = read_meta_properties(self._fs, path)
        if meta is None or meta.directory_id is None:
            meta = new_identity(rng, meta or like).with_directory_id(random_id(rng))
            write_meta_properties(self._fs, path, meta)
        assert meta.directory_id is not None
        return meta.directory_id

    def describe(
        self,
        topics: Sequence[Topic],
        starts: Mapping[tuple[str, int], int],
        ends: Mapping[tuple[str, int], int],
    ) -> None:
        """Write what is about all logs: where they start and end, and the catalogue."""
        write_checkpoint(self._fs, os.path.join(self.path, HIGH_WATERMARK_FILE), ends)
        write_checkpoint(self._fs, os.path.join(self.path, LOG_START_OFFSET_FILE), starts)
        write_catalogue(self._fs, self.path, Catalogue().with_topics(topics))

    def put_in_place(self) -> None:
        """Give it its name, durably; then delete the mark."""
        fs, target = self._fs, self._target
        if fs.exists(target):
            fs.delete_directory(target)
        fs.rename(self.path, target)
        try:
            fs.sync_directory(os.path.dirname(target))
        except BaseException:
            # A repetition would be refused, since there is something at the target.
            with suppress(OSError):
                fs.rename(target, self.path)
            raise
        # Last: without it nobody would know whose the directory beside the target is. At the
        # target, where it stays if the disk fails now, it does no harm.
        with suppress(OSError):
            for name in (self._lock_file, self._mark):
                fs.delete(os.path.join(target, name))
            fs.sync_directory(target)
