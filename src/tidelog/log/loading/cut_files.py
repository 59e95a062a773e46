"""Files that keep what recovery has cut off a log: bytes as they lay there, then a description.

A cut file is a plain file of the data directory, which Kafka ignores. The bytes come first, so that
a whole segment is kept by renaming its file, without space for a copy, and so that any tool for
``.log`` files reads them. The description, a JSON object, and the ``CutFileEnd`` follow them. A
file that a crash left without them holds bytes only: its name has the rest that matters. Kafka has
no such files; it deletes what it cuts.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from tidelog.codec.layout import Layout, Wire
from tidelog.codec.shown_rows import camel_case
from tidelog.codec.uuid_text import format_uuid
from tidelog.errors import CorruptFile, KafkaStorageError
from tidelog.records.batch import INT32_MAX

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.env.files import FileSystem, OpenFile

VERSION: Final = 1
CUT_SUFFIX: Final = ".cut"
MAX_NUMBER: Final = 999_999
MAX_DESCRIPTION_BYTES: Final = 1 << 16
_MAGIC: Final = 0x7469_6465_2E63_7574  # "tide.cut"
_NAME: Final = re.compile(
    r"tidelog\.(?P<topic>[A-Za-z0-9_-]{22}|[0-9a-f]{32})-(?P<partition>\d{1,10})"
    r"\.(?P<offset>\d{20})\.(?P<number>\d{1,6})\.cut"
)


class CutFileEnd(NamedTuple):
    """The last 16 bytes of a cut file."""

    description_bytes: Annotated[int, Wire("i", "size of the JSON object before these bytes")]
    version: Annotated[int, Wire("i", "version of the description, 1")]
    magic: Annotated[int, Wire("q", "the ASCII text `tide.cut`")]


CUT_FILE_END: Final = Layout(CutFileEnd)

_MAX_BYTES: Final = INT32_MAX + MAX_DESCRIPTION_BYTES + CUT_FILE_END.size
"""Most bytes of a cut file: a whole segment and its description."""


class CutName(NamedTuple):
    """What the name of a cut file says.

    ``topic`` is the topic's id in Kafka's form, or a hash of its name where it has none.
    ``from_offset`` is the offset from which the log was cut; ``number`` makes the name unique.
    """

    topic: str
    partition: int
    from_offset: int
    number: int

    @classmethod
    def parse(cls, name: str) -> CutName | None:
        """Return what a file name says; None if it is not that of a cut file."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        topic, partition, offset, number = found.groups()
        return cls(topic, int(partition), int(offset), int(number))

    def __str__(self) -> str:
        return (
            f"tidelog.{self.topic}-{self.partition}.{self.from_offset:020d}.{self.number}"
            f"{CUT_SUFFIX}"
        )


def is_cut_name(name: str) -> bool:
    """Return whether a file name is that of a cut file."""
    return _NAME.fullmatch(name) is not None


def topic_part(topic: str, topic_id: UUID | None) -> str:
    """Return the part of a cut file's name that identifies the topic."""
    if topic_id is not None:
        return format_uuid(topic_id)
    return hashlib.blake2b(topic.encode(), digest_size=16).hexdigest()


class CutDescription(NamedTuple):
    """What a cut file says of the bytes in it, which lay at ``position`` of ``file``.

    ``cut_bytes`` is how many were cut; those beyond the bytes in the cut file were zeros, of which
    the last batch may need some. ``file`` is the name of the ``.log`` file. The segment, or the
    log, ended at ``from_offset`` after the cut.
    """

    topic: str
    partition: int
    topic_id: str | None
    file: str
    position: int
    cut_bytes: int
    from_offset: int
    reason: str
    cut_at_ms: int

    def pack(self) -> bytes:
        """Return the bytes that follow those that are kept."""
        text = json.dumps({camel_case(name): value for name, value in self._asdict().items()})
        data = text.encode()
        return data + CUT_FILE_END.pack(CutFileEnd(len(data), VERSION, _MAGIC))


class CutContent(NamedTuple):
    """Bytes ``[0, size_bytes)`` of a cut file are what was cut; None: it is not described."""

    size_bytes: int
    description: CutDescription | None


def read_content(file: OpenFile) -> CutContent:
    """Read the end of a cut file.

    Raises:
        KafkaStorageError: a newer release wrote the file; nothing is known about it.
        CorruptFile: the description is not valid.
    """
    size_bytes = file.size()
    if size_bytes > _MAX_BYTES:
        raise CorruptFile(f"{file.path} has {size_bytes:,} bytes, more than a segment")
    start = size_bytes - CUT_FILE_END.size
    if start < 0:
        return CutContent(size_bytes, None)
    end = CUT_FILE_END.unpack(file.pread(CUT_FILE_END.size, start))
    if end.magic != _MAGIC:
        return CutContent(size_bytes, None)
    if end.version > VERSION:
        raise KafkaStorageError(
            f"{file.path} has version {end.version}; this release reads up to {VERSION}"
        )
    if end.version < 1 or not 0 < end.description_bytes <= min(start, MAX_DESCRIPTION_BYTES):
        raise CorruptFile(f"{file.path} is damaged: the description at its end is invalid")
    begin = start - end.description_bytes
    try:
        described = _described(json.loads(file.pread(end.description_bytes, begin)))
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptFile(f"{file.path} has a description that is not valid: {error}") from error
    if not begin <= described.cut_bytes <= INT32_MAX:
        raise CorruptFile(f"{file.path} keeps {begin} bytes of {described.cut_bytes} that were cut")
    return CutContent(begin, described)


def is_newer(fs: FileSystem, path: str) -> bool:
    """Return whether a newer release wrote a cut file, so that it is left alone."""
    with closing(fs.open(path)) as file:
        try:
            read_content(file)
        except CorruptFile:
            return False
        except KafkaStorageError:
            return True
    return False


def _described(content: object) -> CutDescription:
    if not isinstance(content, dict):
        raise TypeError("it is not an object")
    values: dict[str, Any] = {
        name: content.get(camel_case(name)) for name in CutDescription._fields
    }
    for name, value in values.items():
        is_text = name in {"topic", "topic_id", "file", "reason"}
        is_absent = value is None and name == "topic_id"
        if not is_absent and type(value) is not (str if is_text else int):
            raise TypeError(f"{camel_case(name)} is {value!r}")
    return CutDescription(**values)
