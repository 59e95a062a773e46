"""The file that holds the topic id of a log."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.codec.uuid_text import ZERO_ID, format_uuid
from tidelog.errors import InvalidArgument, KafkaStorageError
from tidelog.log.topic_id import read_partition_metadata, write_partition_metadata
from tidelog.testing import CrashFileSystem

PATH = "/data/file"
ID = UUID("8394ba52-0359-434d-8442-68cf2d512b5a")
ID_TEXT = "g5S6UgNZQ02EQmjPLVErWg"


@pytest.fixture
def fs() -> CrashFileSystem:
    fs = CrashFileSystem()
    fs.make_directory("/data")
    return fs


def test_partition_metadata_is_two_lines_without_a_final_line_end(fs: CrashFileSystem) -> None:
    """The bytes are Kafka's."""
    write_partition_metadata(fs, PATH, ID)

    assert fs.read(PATH) == f"version: 0\ntopic_id: {ID_TEXT}".encode()
    assert read_partition_metadata(fs, PATH) == ID


@pytest.mark.parametrize("version", [0, 1, 2**31 - 1])
def test_partition_metadata_of_a_later_version_is_read(fs: CrashFileSystem, version: int) -> None:
    """A downgrade must not lose the topic's id; what follows the second line is ignored."""
    fs.write(PATH, f"version: {version}\ntopic_id: {ID_TEXT}\nmore: 1\n".encode())

    assert read_partition_metadata(fs, PATH) == ID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0",
        "version: 0\n",
        f"version:0\ntopic_id: {ID_TEXT}",
        f"version 0\ntopic_id: {ID_TEXT}",
        f"version: 0: 1\ntopic_id: {ID_TEXT}",
        f"version: -1\ntopic_id: {ID_TEXT}",
        f"version: x\ntopic_id: {ID_TEXT}",
        "version: 0\ntopic_id: short",
        "version: 0\ntopic_id: \xff",
        f"vers\xefon: 0\ntopic_id: {ID_TEXT}",
        f"version: 0\ntopic_id: {format_uuid(ZERO_ID)}",
    ],
)
def test_malformed_partition_metadata_is_a_storage_error(fs: CrashFileSystem, text: str) -> None:
    """Kafka takes the directory offline; the error names the file."""
    fs.write(PATH, text.encode("latin-1"))

    with pytest.raises(KafkaStorageError, match=PATH):
        read_partition_metadata(fs, PATH)


def test_the_zero_id_is_never_written(fs: CrashFileSystem) -> None:
    """It means that the topic has no id."""
    with pytest.raises(InvalidArgument):
        write_partition_metadata(fs, PATH, ZERO_ID)

    assert read_partition_metadata(fs, PATH) is None
