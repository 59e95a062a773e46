"""The text of ``partition.metadata``, ``meta.properties`` and ``.kafka_cleanshutdown``.

These small files describe a directory, by ids in Kafka's base64 form. Wrong content raises a
KafkaStorageError that names the file; as in Kafka, the caller takes the directory offline.

Kafka: ``PartitionMetadataFile``, ``MetaProperties``, ``CleanShutdownFileHandler`` and ``Uuid``.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.codec.checkpoint_file import (
    parse_java_integer,
    read_small_file,
    replace_file,
    split_lines,
)
from tidelog.codec.java_properties import comments_of, format_properties, parse_properties
from tidelog.env.files import WRONG_KIND
from tidelog.errors import CorruptFile, InvalidArgument, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.files import FileSystem

PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

ZERO_ID: Final = UUID(int=0)
"""The zero id; no topic has it."""

DIRECTORY_MIGRATING: Final = UUID(int=0)
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
DIRECTORY_LOST: Final = UUID(int=2)
RESERVED_DIRECTORY_IDS: Final = frozenset(
    {DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DIRECTORY_LOST}
)
"""Ids reserved by Kafka's protocol; no directory has one of them. Source: Kafka DirectoryId."""

UNKNOWN_BROKER_EPOCH: Final = -1
_METADATA_VERSION: Final = 0
_CLEAN_SHUTDOWN_VERSION: Final = 0
_ID_TEXT: Final = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?", re.ASCII)
_FIELD_SEPARATOR: Final = re.compile(r":[ \t\n\x0b\f\r]+")


def format_uuid(value: UUID) -> str:
    """Format an id as Kafka does: 22 characters of URL-safe base64. Source: Kafka Uuid."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> UUID:
    """Parse an id in Kafka's form, padding optional; InvalidArgument if it is not valid."""
    if not _ID_TEXT.fullmatch(text):
        raise InvalidArgument(f"{text!r} is not a 16-byte id in URL-safe base64")
    return UUID(bytes=urlsafe_b64decode(text[:22] + "=="))


def read_partition_metadata(fs: FileSystem, path: str) -> UUID | None:
    """Return the topic id in ``partition.metadata``; None if the file does not exist.

    Raises:
        KafkaStorageError: the content is wrong, the id is zero, or this is not a regular file.

    Source: Kafka PartitionMetadataReadBuffer.
    """
    try:
        data = _read(fs, path)
    except OSError as error:
        if error.errno not in WRONG_KIND:
            raise
        raise CorruptFile(f"{path} is not a regular file") from error
    if data is None:
        return None
    try:
        lines = split_lines(data.decode())
        version = parse_java_integer(_field(lines, 0), bits=32)
        if version < _METADATA_VERSION:
            raise KafkaStorageError(f"{path} has unknown version {version}")
        topic_id = parse_uuid(_field(lines, 1))
    except ValueError as error:
        raise CorruptFile(f"{path} is malformed: {error}") from error
    if topic_id == ZERO_ID:
        raise CorruptFile(f"{path} holds the zero id, which is not a topic id")
    return topic_id


def write_partition_metadata(fs: FileSystem, path: str, topic_id: UUID) -> None:
    """Replace ``partition.metadata`` durably; InvalidArgument for the zero id."""
    if topic_id == ZERO_ID:
        raise InvalidArgument("the zero id is not a topic id")
    text = f"version: {_METADATA_VERSION}\ntopic_id: {format_uuid(topic_id)}"
    replace_file(fs, path, text.encode())


def _field(lines: list[str], number: int) -> str:
    line = lines[number] if number < len(lines) else ""
    parts = _FIELD_SEPARATOR.split(line)
    if len(parts) != 2:
        raise InvalidArgument(f"unexpected line {number + 1}: {line[:80]!r}")
    return parts[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of a data directory's ``meta.properties``. Source: Kafka MetaProperties.

    Version 0 stores the node id as ``broker.id`` and may lack both ids; version 1 has both.
    ``other`` keeps unknown keys and ``comments`` the comment lines, so that a rewrite loses
    nothing.
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
        """Parse the file's bytes; InvalidArgument if the content is not valid."""
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

    @property
    def is_nameless(self) -> bool:
        """Whether directory, cluster and node are all missing, as only damage leaves them."""
        return self.directory_id is None and self.cluster_id is None and self.node_id is None

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
        """Return a copy with this ``directory.id``; InvalidArgument for a reserved id."""
        return replace(self, directory_id=directory_id)


_NODE_KEYS: Final = {0: "broker.id", 1: "node.id"}


def read_meta_properties(fs: FileSystem, path: str) -> MetaProperties | None:
    """Read ``meta.properties``; None if the file does not exist.

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
    """The mark of an orderly shutdown: it counts if the file exists, whatever its content.

    ``broker_epoch`` is -1 if it is not known. Source: Kafka CleanShutdownFileHandler.
    """

    broker_epoch: int = UNKNOWN_BROKER_EPOCH


def read_clean_shutdown(fs: FileSystem, path: str) -> CleanShutdown | None:
    """Read ``.kafka_cleanshutdown``; None if the file does not exist.

    Unreadable content, such as the empty file that Kafka wrote before 3.7, has no epoch.
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
    """Write ``.kafka_cleanshutdown`` durably and atomically."""
    content = {"version": _CLEAN_SHUTDOWN_VERSION, "brokerEpoch": mark.broker_epoch}
    replace_file(fs, path, json.dumps(content, separators=(",", ":")).encode())


def _read(fs: FileSystem, path: str) -> bytes | None:
    try:
        return read_small_file(fs, path)
    except FileNotFoundError:
        return None
