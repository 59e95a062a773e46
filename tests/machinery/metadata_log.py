"""Metadata of a cluster as a controller writes it, for tests of what reads it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from tidelog.codec.uuid_text import parse_uuid
from tidelog.codec.varint import write_unsigned_varint
from tidelog.datadir.cluster_metadata.metadata_records import (
    FRAME_VERSION,
    RecordType,
    ResourceType,
)
from tidelog.records.builder import build_batch
from tidelog.records.control import CONTROL_KEY, ControlKey, ControlType
from tidelog.segment.filenames import log_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from uuid import UUID

    from tidelog.env.files import FileSystem

NO_TAGS: Final = b"\0"
CREATED_MS: Final = 1_700_000_000_000


def message(number: int, fields: bytes = b"", *, version: int = 0, tags: bytes = NO_TAGS) -> bytes:
    """Return the value of a metadata record."""
    out = bytearray()
    for part in (FRAME_VERSION, number, version):
        write_unsigned_varint(out, part)
    return bytes(out) + fields + tags


def text(value: str | None) -> bytes:
    """Return a compact string."""
    out = bytearray()
    data = b"" if value is None else value.encode()
    write_unsigned_varint(out, 0 if value is None else len(data) + 1)
    return bytes(out) + data


def topic(name: str, topic_id: UUID) -> bytes:
    """Return a TopicRecord."""
    return message(RecordType.TOPIC, text(name) + topic_id.bytes)


def partition(topic_id: UUID, number: int) -> bytes:
    """Return the head of a PartitionRecord of version 2, with some bytes of the rest."""
    head = number.to_bytes(4) + topic_id.bytes
    return message(RecordType.PARTITION, head + bytes(6), version=2)


def removal(topic_id: UUID) -> bytes:
    """Return a RemoveTopicRecord."""
    return message(RecordType.REMOVE_TOPIC, topic_id.bytes)


def setting(
    name: str, value: str | None, resource: str = "", kind: int = ResourceType.TOPIC
) -> bytes:
    """Return a ConfigRecord."""
    head = kind.to_bytes(1)
    return message(RecordType.CONFIG, head + text(resource) + text(name) + text(value))


def feature(name: str, level: int) -> bytes:
    """Return a FeatureLevelRecord."""
    tail = level.to_bytes(2)
    return message(RecordType.FEATURE_LEVEL, text(name) + tail)


def control(kind: ControlType, value: bytes, base_offset: int) -> bytes:
    """Return a batch with one control record."""
    key = CONTROL_KEY.pack(ControlKey(0, kind))
    records = [(CREATED_MS, key, value, ())]
    return build_batch(records, base_offset=base_offset, control=True, leader_epoch=1)


def leader_change(voters: int, base_offset: int) -> bytes:
    """Return the batch with which the leader of a quorum of this many voters begins."""
    each = b"".join(number.to_bytes(4) + NO_TAGS for number in range(1, voters + 1))
    array = bytes([voters + 1]) + each
    value = bytes(2) + (1).to_bytes(4) + array + array + NO_TAGS
    return control(ControlType.LEADER_CHANGE, value, base_offset)


def metadata_log(batches: Sequence[Sequence[bytes]], *, voters: int = 1, start: int = 0) -> bytes:
    """Return a log that begins at offset ``start`` with a leader, then has these batches."""
    out, offset = leader_change(voters, start), start + 1
    for values in batches:
        records = [(CREATED_MS, None, value, ()) for value in values]
        out += build_batch(records, base_offset=offset, leader_epoch=1)
        offset += len(values)
    return out


def metadata_snapshot(values: Sequence[bytes], *, is_whole: bool = True) -> bytes:
    """Return a snapshot; one that is not whole lacks its footer."""
    records = [(CREATED_MS, None, value, ()) for value in values]
    out = control(ControlType.SNAPSHOT_HEADER, bytes(2) + bytes(8) + NO_TAGS, 0)
    out += build_batch(records, base_offset=1, leader_epoch=1) if values else b""
    footer = control(ControlType.SNAPSHOT_FOOTER, bytes(2) + NO_TAGS, 1 + len(values))
    return out + footer if is_whole else out


def write_metadata(
    fs: FileSystem, data_dir: str, log: bytes, *, start: int = 0, **snapshots: bytes
) -> None:
    """Write a metadata partition; ``s12=...`` is the snapshot that ends before offset 12."""
    path = os.path.join(data_dir, "__cluster_metadata-0")
    fs.make_directory(path)
    fs.write(log_file(path, start), log)
    for name, data in snapshots.items():
        fs.write(os.path.join(path, f"{int(name[1:]):020}-{1:010}.checkpoint"), data)


def add_cluster_metadata(data: Path) -> None:
    """Let a broker have used the directory: its metadata names a setting of topic t."""
    content = json.loads((data / "tidelog.topics.json").read_text("utf-8"))
    values = []
    for one in content["topics"]:
        topic_id = parse_uuid(one["id"])
        values += [topic(one["name"], topic_id), partition(topic_id, 0)]
    values.append(setting("retention.ms", "77", "t"))
    path = data / "__cluster_metadata-0"
    path.mkdir(exist_ok=True)
    (path / f"{0:020d}.log").write_bytes(metadata_log([values]))
