"""The text of ``meta.properties`` and ``.kafka_cleanshutdown``, which describe a data directory.

Wrong content raises a KafkaStorageError that names the file; as in Kafka, the caller takes the
directory offline. Kafka: ``MetaProperties`` and ``CleanShutdownFileHandler``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.codec.checkpoint_file import parse_java_integer, read_if_there, replace_file
from tidelog.codec.java_properties import comments_of, format_properties, parse_properties
from tidelog.codec.uuid_text import format_uuid, parse_uuid
from tidelog.errors import CorruptFile, InvalidArgument, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.files import FileSystem

META_PROPERTIES_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

DIRECTORY_MIGRATING: Final = UUID(int=0)
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
DIRECTORY_LOST: Final = UUID(int=2)
RESERVED_DIRECTORY_IDS: Final = frozenset(
    {DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DIRECTORY_LOST}
)
"""Ids reserved by Kafka's protocol; no directory has one of them. Source: Kafka DirectoryId."""

UNKNOWN_BROKER_EPOCH: Final = -1
_CLEAN_SHUTDOWN_VERSION: Final = 0


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
    data = read_if_there(fs, path)
    if data is None:
        return None
    try:
        return MetaProperties.parse(data)
    except ValueError as error:
        raise CorruptFile(f"{path} is malformed: {error}") from error


def known_meta_properties(fs: FileSystem, data_dir: str) -> MetaProperties | None:
    """Return whose a data directory is; None if the file is missing or cannot be read."""
    try:
        return read_meta_properties(fs, os.path.join(data_dir, META_PROPERTIES_FILE))
    except (KafkaStorageError, InvalidArgument):
        return None


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
    data = read_if_there(fs, path)
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
