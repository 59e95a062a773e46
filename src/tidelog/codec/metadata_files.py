"""The small files that say what a directory is.

Owns the text of ``partition.metadata``, ``meta.properties`` and ``.kafka_cleanshutdown``, and that
of ids. Must not know which directories there are. Kafka: ``PartitionMetadataFile``,
``MetaProperties``, ``CleanShutdownFileHandler`` and ``Uuid``.

A file whose content is wrong is a KafkaStorageError that names it: as Kafka does, the owner takes
the directory offline.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.codec.checkpoint_file import parse_java_integer, replace_file, split_lines
from tidelog.codec.java_properties import comments_of, format_properties, parse_properties
from tidelog.errors import CorruptFile, InvalidArgument, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.files import FileSystem

PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

ZERO_ID: Final = UUID(int=0)
"""No topic has this id."""

DIRECTORY_MIGRATING: Final = UUID(int=0)
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
DIRECTORY_LOST: Final = UUID(int=2)
RESERVED_DIRECTORY_IDS: Final = frozenset(
    {DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DIRECTORY_LOST}
)
"""Words of Kafka's protocol, which no directory has. Source: Kafka DirectoryId."""

UNKNOWN_BROKER_EPOCH: Final = -1
_METADATA_VERSION: Final = 0
_CLEAN_SHUTDOWN_VERSION: Final = 0
_ID_TEXT: Final = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?", re.ASCII)
_FIELD_SEPARATOR: Final = re.compile(r":[ \t\n\x0b\f\r]+")


def format_uuid(value: UUID) -> str:
    """Return an id as Kafka writes it: 22 signs of URL-safe base64. Source: Kafka Uuid."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> UUID:
    """Read an id in Kafka's form, its padding optional; InvalidArgument if it is none."""
    if not _ID_TEXT.fullmatch(text):
        raise InvalidArgument(f"{text!r} is no id of 16 bytes in URL-safe base64")
    return UUID(bytes=urlsafe_b64decode(text[:22] + "=="))


def read_partition_metadata(fs: FileSystem, path: str) -> UUID | None:
    """Return the topic id in ``partition.metadata``; None where there is no such file.

    Raises:
        KafkaStorageError: the content is wrong, or the id is zero.

    Source: Kafka PartitionMetadataReadBuffer.
    """
    data = _read(fs, path)
    if data is None:
        return None
    try:
        lines = split_lines(data.decode())
        version = parse_java_integer(_field(lines, 0), bits=32)
        if version < _METADATA_VERSION:
            raise KafkaStorageError(f"{path} is of unknown version {version}")
        topic_id = parse_uuid(_field(lines, 1))
    except ValueError as error:
        raise CorruptFile(f"{path} is malformed: {error}") from error
    if topic_id == ZERO_ID:
        raise CorruptFile(f"{path} holds the zero id, which no topic has")
    return topic_id


def write_partition_metadata(fs: FileSystem, path: str, topic_id: UUID) -> None:
    """Replace ``partition.metadata`` durably; InvalidArgument for the zero id."""
    if topic_id == ZERO_ID:
        raise InvalidArgument("the zero id is no topic's")
    text = f"version: {_METADATA_VERSION}\ntopic_id: {format_uuid(topic_id)}"
    replace_file(fs, path, text.encode())


def _field(lines: list[str], number: int) -> str:
    line = lines[number] if number < len(lines) else ""
    parts = _FIELD_SEPARATOR.split(line)
    if len(parts) != 2:
        raise InvalidArgument(f"line {number + 1} is {line[:80]!r}")
    return parts[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """What ``meta.properties`` says about a data directory. Source: Kafka MetaProperties.

    ``version`` 0 calls the node ``broker.id`` and may lack both ids; 1 has both. ``other`` keeps
    the keys not known here, and ``comments`` the comment lines, so that a rewrite loses nothing.
    """

    version: int = 1
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: UUID | None = None
    other: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.version not in {0, 1}:
            raise InvalidArgument(f"unknown version {self.version}")
        if self.version == 1 and (self.cluster_id is None or self.node_id is None):
            raise InvalidArgument("version 1 needs cluster.id and node.id")
        if self.directory_id in RESERVED_DIRECTORY_IDS:
            raise InvalidArgument(f"directory.id {self.directory_id} is reserved")

    @classmethod
    def parse(cls, data: bytes) -> MetaProperties:
        """Read the file's bytes; InvalidArgument where they do not hold."""
        properties = parse_properties(data)
        version = parse_java_integer(properties.pop("version", "0"), bits=32)
        node_id = properties.pop(_NODE_KEYS[version], None) if version in _NODE_KEYS else None
        directory_id = properties.pop("directory.id", None)
        return cls(
            version=version,
            cluster_id=properties.pop("cluster.id", None),
            node_id=None if node_id is None else parse_java_integer(node_id, bits=32),
            directory_id=None if directory_id is None else parse_uuid(directory_id),
            other=properties,
            comments=comments_of(data),
        )

    def format(self) -> bytes:
        """Return the bytes of the file."""
        known = {
            _NODE_KEYS[self.version]: None if self.node_id is None else str(self.node_id),
            "directory.id": None if self.directory_id is None else format_uuid(self.directory_id),
            "version": str(self.version),
            "cluster.id": self.cluster_id,
        }
        properties = {key: value for key, value in known.items() if value is not None}
        return format_properties(properties | dict(self.other), self.comments)

    def with_directory_id(self, directory_id: UUID) -> MetaProperties:
        """Return the same with another ``directory.id``; InvalidArgument for a reserved one."""
        return replace(self, directory_id=directory_id)


_NODE_KEYS: Final = {0: "broker.id", 1: "node.id"}


def read_meta_properties(fs: FileSystem, path: str) -> MetaProperties | None:
    """Read ``meta.properties``; None where there is no such file.

    Raises:
        KafkaStorageError: the content is wrong.
    """
    data = _read(fs, path)
    if data is None:
        return None
    try:
        return MetaProperties.parse(data)
    except ValueError as error:
        raise CorruptFile(f"{path} is malformed: {error}") from error


def write_meta_properties(fs: FileSystem, path: str, properties: MetaProperties) -> None:
    """Replace ``meta.properties`` durably."""
    replace_file(fs, path, properties.format())


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanShutdown:
    """The mark of an orderly shutdown: that the file exists says so, whatever it holds.

    ``broker_epoch`` is -1 where it is not known. Source: Kafka CleanShutdownFileHandler.
    """

    broker_epoch: int = UNKNOWN_BROKER_EPOCH


def read_clean_shutdown(fs: FileSystem, path: str) -> CleanShutdown | None:
    """Read ``.kafka_cleanshutdown``; None where there is no such file.

    Content that does not read, as the empty file that Kafka wrote before 3.7, has no epoch.
    """
    data = _read(fs, path)
    if data is None:
        return None
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return CleanShutdown()
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    if isinstance(epoch, int) and not isinstance(epoch, bool):
        return CleanShutdown(broker_epoch=epoch)
    return CleanShutdown()


def write_clean_shutdown(fs: FileSystem, path: str, mark: CleanShutdown) -> None:
    """Write ``.kafka_cleanshutdown`` durably; it appears in one step."""
    content = {"version": _CLEAN_SHUTDOWN_VERSION, "brokerEpoch": mark.broker_epoch}
    replace_file(fs, path, json.dumps(content, separators=(",", ":")).encode())


def _read(fs: FileSystem, path: str) -> bytes | None:
    try:
        return fs.read(path)
    except FileNotFoundError:
        return None
