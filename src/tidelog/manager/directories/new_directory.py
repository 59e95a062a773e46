"""A data directory that is made beside its place and renamed once it is complete.

So nothing unfinished has its name. A restoration and a rescue make one. Kafka has neither.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import replace_file
from tidelog.errors import InvalidArgument
from tidelog.manager.directories.log_dir import make_directories
from tidelog.manager.lifecycle.deletion_queue import remove_directory

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem


class NewDirectory:
    """The directory beside ``target``, whose name ends in ``beside`` while it is unfinished.

    A file in it, the mark, names the source that it is made from. Raises InvalidArgument unless
    there is nothing at the target, or an empty directory.
    """

    def __init__(self, fs: FileSystem, target: str, beside: str) -> None:
        if fs.exists(target) and (not fs.stat(target).is_directory or fs.list(target)):
            raise InvalidArgument(f"there is something at {target}: name a path with nothing")
        self.path: Final = target + beside
        self._fs: Final = fs
        self._target: Final = target
        self._mark: Final = f"tidelog{beside}"

    def begin(self, source: str, *, what: str, continues: bool) -> None:
        """Make it, for a source; ``continues`` with one that an earlier call has left for it.

        Without that the earlier one is removed. Raises InvalidArgument if what is there is not
        ``what`` such calls leave.
        """
        fs, path, mark = self._fs, self.path, os.path.join(self.path, self._mark)
        make_directories(fs, path)
        names = fs.list(path)
        is_begun = not all(name.startswith(self._mark) for name in names)
        is_known = fs.exists(mark) and (not continues or fs.read(mark) == os.fsencode(source))
        if is_begun and not is_known:
            raise InvalidArgument(f"{path} is not of {what}: remove it, or name another target")
        if names and not continues:
            remove_directory(fs, path, last=self._mark)  # by that it is known
            make_directories(fs, path)
        if not (is_begun and continues):
            replace_file(fs, mark, os.fsencode(source))

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
            fs.delete(os.path.join(target, self._mark))
            fs.sync_directory(target)
