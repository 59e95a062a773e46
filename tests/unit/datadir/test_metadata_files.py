"""The small files that describe a directory."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.codec.uuid_text import format_uuid, parse_uuid
from tidelog.datadir.metadata_files import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    RESERVED_DIRECTORY_IDS,
    CleanShutdown,
    MetaProperties,
    read_clean_shutdown,
    read_meta_properties,
    write_clean_shutdown,
    write_meta_properties,
)
from tidelog.errors import KafkaStorageError
from tidelog.testing import CrashFileSystem

PATH = "/data/file"
ID = UUID("8394ba52-0359-434d-8442-68cf2d512b5a")
ID_TEXT = "g5S6UgNZQ02EQmjPLVErWg"

# As Kafka 4.3.1 wrote it.
META_PROPERTIES = b"""#
#Sat Nov 21 09:53:36 UTC 2026
node.id=1
directory.id=zYMZiY_L7dfQf0vt0y6dKw
version=1
cluster.id=dGlkZTAwMDAwMDAwMDAwMQ
"""


@pytest.fixture
def fs() -> CrashFileSystem:
    fs = CrashFileSystem()
    fs.make_directory("/data")
    return fs


def test_reserved_directory_ids_are_the_first_three_numbers() -> None:
    """Kafka's protocol gives them a meaning."""
    assert [
        directory_id.int
        for directory_id in (DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DIRECTORY_LOST)
    ] == [0, 1, 2]
    assert len(RESERVED_DIRECTORY_IDS) == 3


def test_meta_properties_are_read_and_written_back_to_the_byte(fs: CrashFileSystem) -> None:
    """Keys stay in the order of Kafka's file, and comments are kept."""
    fs.write(PATH, META_PROPERTIES)

    meta = read_meta_properties(fs, PATH)
    assert meta is not None
    write_meta_properties(fs, PATH, meta)

    assert (meta.version, meta.node_id, meta.cluster_id) == (1, 1, "dGlkZTAwMDAwMDAwMDAwMQ")
    assert meta.directory_id == parse_uuid("zYMZiY_L7dfQf0vt0y6dKw")
    assert fs.read(PATH) == META_PROPERTIES


def test_a_directory_id_is_added_and_nothing_else_changed() -> None:
    """Unknown keys and comments survive."""
    meta = MetaProperties.parse(b"# mine\nversion=1\nnode.id=5\ncluster.id=c\nkey=value\n")

    changed = meta.with_directory_id(ID)

    assert changed.format() == (
        f"# mine\nnode.id=5\ndirectory.id={ID_TEXT}\nversion=1\ncluster.id=c\nkey=value\n".encode()
    )


def test_meta_properties_before_kraft_call_the_node_a_broker() -> None:
    """Version 0, the default, requires neither id."""
    meta = MetaProperties.parse(b"broker.id=3\n")

    assert meta == MetaProperties(version=0, node_id=3)
    assert meta.format() == b"broker.id=3\nversion=0\n"
    assert MetaProperties.parse(b"") == MetaProperties(version=0)


@pytest.mark.parametrize(
    "text",
    [
        "version=2\nnode.id=1\ncluster.id=c",
        "version=one",
        "version=1\ncluster.id=c",
        "version=1\nnode.id=1",
        "version=1\nbroker.id=1\ncluster.id=c",
        "version=1\nnode.id=x\ncluster.id=c",
        "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=short",
        f"version=1\nnode.id=1\ncluster.id=c\ndirectory.id={format_uuid(DIRECTORY_LOST)}",
        "version=\\u",
    ],
)
def test_malformed_meta_properties_are_a_storage_error(fs: CrashFileSystem, text: str) -> None:
    """Such a directory is not ours to write; the error names the file."""
    fs.write(PATH, text.encode())

    with pytest.raises(KafkaStorageError, match=PATH):
        read_meta_properties(fs, PATH)


def test_missing_files_are_none(fs: CrashFileSystem) -> None:
    """The caller decides what a missing file means."""
    assert read_meta_properties(fs, PATH) is None
    assert read_clean_shutdown(fs, PATH) is None


def test_the_clean_shutdown_mark_is_one_line_of_json(fs: CrashFileSystem) -> None:
    """The bytes are Kafka's."""
    write_clean_shutdown(fs, PATH, CleanShutdown(broker_epoch=3))

    assert fs.read(PATH) == b'{"version":0,"brokerEpoch":3}'
    assert CleanShutdown(broker_epoch=3) == read_clean_shutdown(fs, PATH)


def test_unknown_keys_of_the_clean_shutdown_mark_are_ignored(fs: CrashFileSystem) -> None:
    """A later version may add keys."""
    fs.write(PATH, b'{"version":7,"brokerEpoch":3,"more":[]}')

    assert CleanShutdown(broker_epoch=3) == read_clean_shutdown(fs, PATH)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"brokerEpoch":"3"}',
        b'{"brokerEpoch":true}',
        b"\xff",
        b"[" * 100000,
    ],
)
def test_an_unreadable_clean_shutdown_mark_still_counts(fs: CrashFileSystem, data: bytes) -> None:
    """Its existence is what counts; brokers before 3.7 left it empty."""
    fs.write(PATH, data)

    assert CleanShutdown(broker_epoch=-1) == read_clean_shutdown(fs, PATH)
