"""A file system that only reads, and whose errors are tidelog's.

Everything that looks without a lock goes through it, so that an error of the disk reaches callers
as ``KafkaStorageError``, and nothing can be changed by mistake. Only ``FileNotFoundError`` passes:
beside a writer a missing file is an answer, which each look treats where it happens.
"""

from __future__ import annotations

import os
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from tidelog.env.files import FileSystem, OpenFile
from tidelog.env.paths import is_uri
from tidelog.env.read_only_file import FileBelow, FilesBelow, ReadOnlyFile
from tidelog.errors import KafkaStorageError, text_or_kind
from tidelog.log.topic_id import (
    PARTITION_METADATA_FILE,
    read_partition_metadata,
    topic_id_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from tidelog.archive.archive_files import ArchiveFiles
    from tidelog.archive.coarse_index import CoarseIndex
    from tidelog.archive.joined_files import JoinedFiles
    from tidelog.archive.open_archives import OpenArchives
    from tidelog.env.files import OpenMode

P = ParamSpec("P")
R = TypeVar("R")


class StorageErrors:
    """Raises every OSError of the body but FileNotFoundError as KafkaStorageError.

    ``path`` is named where the error names no file. It is around each operation of a reader, and a
    generator's context takes longer than some of them.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            reason = error.strerror or text_or_kind(error)
            raise KafkaStorageError(f"{error.filename or self._path}: {reason}") from error


def reading(
    fs: FileSystem, topics: Collection[str] | None = None, number: int | None = None
) -> ReadFiles:
    """Return ``fs`` to be read only; itself if it is already. Others are as of ``ReadFiles``."""
    return fs if isinstance(fs, ReadFiles) else ReadFiles(fs, topics, number)


def _passed_on(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Return a method that does what the same one of ``_below`` does, with the errors of here."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: ANN401 - one of these
        path = self.path if isinstance(self, ReadFile) else str(args[0])
        with StorageErrors(path):
            below = self.at(path)
            found: R = getattr(below, method.__name__)(*args, **kwargs)
            return found

    return call


class ReadFiles(FilesBelow):
    """Reads ``below``; whatever would change it raises InvariantError.

    A path that is the URI of an archive, or leads on from one, is read there. ``topics``: those
    that are looked for in archives, None: all; so one of many need not wait for the others.
    ``number``: only this partition of each, if there is one.
    """

    def __init__(
        self,
        below: FileSystem,
        topics: Collection[str] | None = None,
        number: int | None = None,
    ) -> None:
        super().__init__(below)
        self._topics: Final = topics
        self._number: Final = number
        self._archives: OpenArchives | None = None
        self._claims: dict[str, Mapping[UUID, Sequence[tuple[UUID, int]]]] = {}
        """Partitions with a claim file by topic id, by data directory."""
        self._joined: dict[str, JoinedFiles] = {}

    def at(self, path: str) -> FileSystem:
        """Return where a path is read; FileNotFoundError where there is no archive."""
        if not is_uri(path):
            if not self._joined:
                return self._below
            joined = self._joined.get(path) or self._joined.get(os.path.dirname(path))
            return self._below if joined is None else joined
        return self._in_archive(path)

    def _in_archive(self, path: str) -> ArchiveFiles:
        """Return the archive in which a URI leads; FileNotFoundError if there is none."""
        if self._archives is None:
            from tidelog.archive.open_archives import OpenArchives  # most logs lie on a disk

            self._archives = OpenArchives(self._topics, self._number)
        return self._archives.files_at(path)

    def look_again(self) -> None:
        """Let the next call see archives as they are then, as it sees a disk."""
        self._claims.clear()
        self._joined.clear()
        if self._archives is not None:
            self._archives.look_again()

    def join_archive(self, directory: str, partition: int, *, again: bool = False) -> int:
        """Read a partition's directory together with the archive in which its log begins, if any.

        ``again``: look whether there is one by now. Returns the log start by the archive, 0 without
        one. Raises as ``JoinedFiles``, and as ``read_claim``.
        """
        if is_uri(directory):
            return 0
        data_dir = os.path.dirname(directory)
        if again:
            self._claims.pop(data_dir, None)
        if data_dir not in self._claims and not self._is_unclaimed(directory, partition):
            try:
                self.note_names(data_dir, self.list(data_dir))
            except FileNotFoundError:
                return 0
        if self._claims.get(data_dir) and directory not in self._joined:
            self._join(directory, data_dir, partition)
        return self.archived_start(directory) or 0

    def archived_start(self, directory: str) -> int | None:
        """Return the log start by the archive, as of the last listing of the directory.

        None where the directory does not lie in an archive, and was not joined with one.
        """
        if is_uri(directory):
            with StorageErrors(directory):
                return self._in_archive(directory).start_offset(directory)
        joined = self._joined.get(directory)
        return None if joined is None else joined.start_offset

    def disk_and_archive(self, directory: str) -> tuple[int, int] | None:
        """Return where the disk begins to have all of a log, and where its archive ends.

        None where the directory was not joined with an archive.
        """
        joined = self._joined.get(directory)
        return None if joined is None else joined.disk_and_archive

    def note_names(self, data_dir: str, names: Iterable[str]) -> None:
        """Take note of what a listing of a data directory says about archives; it lists no more."""
        claims = [name for name in names if name.endswith(".archive")]
        if claims:  # most directories have none, and need no more of this
            from tidelog.archive.claim_file import claims_among

            by_topic: dict[UUID, list[tuple[UUID, int]]] = {}
            for part in claims_among(claims):
                by_topic.setdefault(part[0], []).append(part)
            self._claims[data_dir] = by_topic
        else:
            self._claims[data_dir] = {}

    def _is_unclaimed(self, directory: str, partition: int) -> bool:
        """Return whether a partition is known to have no claim file; False: a listing shows that.

        A listing takes longer by far where there are thousands of partitions, of each of which a
        reader may ask this.
        """
        from tidelog.archive.claim_file import claim_file

        topic_id = topic_id_or_none(self, directory)
        if topic_id is None:
            return False
        return not self.exists(claim_file(os.path.dirname(directory), topic_id, partition))

    def _join(self, directory: str, data_dir: str, partition: int) -> None:
        from tidelog.archive.claim_file import claim_file, read_claim
        from tidelog.archive.joined_files import JoinedFiles
        from tidelog.archive.open_archives import archive_at

        topic_id = read_partition_metadata(self, os.path.join(directory, PARTITION_METADATA_FILE))
        beside = () if topic_id is None else self._claims[data_dir].get(topic_id, ())
        if topic_id is None or (topic_id, partition) not in beside:
            return
        part = topic_id, partition
        with StorageErrors(directory):
            claim = read_claim(self._below, claim_file(data_dir, *part))
        if claim.archive is not None:
            archive = archive_at(claim.archive.uri)
            files = JoinedFiles(self._below, directory, archive, part, claim, beside=beside)
            self._joined[directory] = files

    def coarse_index(self, path: str) -> CoarseIndex | None:
        """Return the coarse index of a ``.log`` file in an archive; None for one on a disk."""
        if is_uri(path):
            with StorageErrors(path):
                return self._in_archive(path).coarse_index(path)
        joined = self._joined.get(os.path.dirname(path)) if self._joined else None
        if joined is None:
            return None
        with StorageErrors(path):
            return joined.coarse_index(path)

    def open(self, path: str, mode: OpenMode = "r") -> OpenFile:
        """Open a file, with the caller as its first holder."""
        if mode != "r":
            self.refuse(path)
        with StorageErrors(path):
            return ReadFile(self.at(path).open(path))

    read = _passed_on(FileSystem.read)
    list = _passed_on(FileSystem.list)
    stat = _passed_on(FileSystem.stat)

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or directory."""
        with StorageErrors(path):
            try:
                return self.at(path).exists(path)
            except FileNotFoundError:
                return False

    is_link = _passed_on(FileSystem.is_link)
    real_path = _passed_on(FileSystem.real_path)
    free_bytes = _passed_on(FileSystem.free_bytes)
    total_bytes = _passed_on(FileSystem.total_bytes)


class ReadFile(FileBelow):
    """An open file that is only read; as ``OpenFile``, with the errors of ``ReadFiles``."""

    def hold(self) -> ReadFile:
        """Add a reference and return the file to use and close."""
        with StorageErrors(self.path):
            held = self._below.hold()
        return self if held is self._below else ReadFile(held)

    def at(self, _path: str) -> OpenFile:
        """Return the file below, where all of it is read."""
        return self._below

    def will_read(self, start: int, end: int) -> None:
        """Pass it on to a file that fetches its bytes from somewhere."""
        if isinstance(self._below, ReadOnlyFile):
            with StorageErrors(self.path):
                self._below.will_read(start, end)

    close = _passed_on(OpenFile.close)
    fileno = _passed_on(OpenFile.fileno)
    size = _passed_on(OpenFile.size)
    pread = _passed_on(OpenFile.pread)
    pread_into = _passed_on(OpenFile.pread_into)
