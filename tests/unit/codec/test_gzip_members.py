"""GZIP as java.util.zip writes and reads it."""

from __future__ import annotations

import gzip
import importlib.util
import sys
import zlib
from typing import TYPE_CHECKING

import pytest

from tidelog.codec import gzip_members
from tidelog.errors import CorruptMessage, MessageTooLarge

if TYPE_CHECKING:
    from types import ModuleType

LIMIT = 1 << 20
TEXT = b"flint vapor heron zephyr willow cedar larch ridge " * 40


@pytest.fixture(params=["isal", "zlib"])
def members(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Provide the module as it is with isal installed, and without."""
    if request.param == "isal":
        return gzip_members
    monkeypatch.setitem(sys.modules, "isal", None)
    spec = importlib.util.find_spec("tidelog.codec.gzip_members")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(module: ModuleType, data: bytes, limit: int = LIMIT) -> bytes:
    found: bytes = module.decompress(memoryview(data), limit, 2)
    return found


def test_one_member_is_written_that_any_gzip_reader_accepts() -> None:
    """The default level is zlib's own, -1."""
    area = gzip_members.compress(memoryview(TEXT), None, 2)

    assert gzip.decompress(area) == TEXT
    assert area == gzip_members.compress(memoryview(TEXT), -1, 2)


def test_either_library_reads_what_the_other_wrote(members: ModuleType) -> None:
    """Where isal has no wheel, zlib replaces it without a difference."""
    assert read(members, zlib.compress(TEXT, 9, 31)) == TEXT
    with pytest.raises(CorruptMessage):
        read(members, b"\x1f\x8b\x08")
    with pytest.raises(CorruptMessage):
        read(members, zlib.compress(TEXT, 9, 15))
    with pytest.raises(MessageTooLarge):
        read(members, zlib.compress(TEXT, 9, 31), 10)


def test_concatenated_members_are_one_stream(members: ModuleType) -> None:
    """As Java's reader, it continues with the next member, large or empty."""
    parts = [TEXT, b"", bytes(3_000_000), b"end"]
    area = b"".join(zlib.compress(part, 6, 31) for part in parts)

    assert b"".join(parts) == read(members, area, 4_000_000)


def test_the_limit_counts_all_members(members: ModuleType) -> None:
    """A bomb cannot evade the limit by being split into members."""
    area = zlib.compress(bytes(100), 6, 31) * 3

    assert bytes(300) == read(members, area, 300)
    with pytest.raises(MessageTooLarge):
        read(members, area, 299)


@pytest.mark.parametrize(
    "rest", [b"\x00", b"no member at all, but more than 26 bytes", b"\x1f\x8b"]
)
def test_trailing_bytes_that_are_not_a_member_are_ignored(rest: bytes) -> None:
    """Java's reader treats them as padding."""
    assert read(gzip_members, zlib.compress(TEXT, 6, 31) + rest) == TEXT


def test_a_further_truncated_member_is_corrupt(members: ModuleType) -> None:
    """Bytes that start like a member must be a complete one."""
    member = zlib.compress(TEXT, 6, 31)

    with pytest.raises(CorruptMessage, match="truncated"):
        read(members, member + member[:-1])


@pytest.mark.parametrize("from_end", [1, 5, 8])
def test_checksum_and_size_of_the_trailer_are_checked(members: ModuleType, from_end: int) -> None:
    """A member whose trailer does not match its content is corrupt."""
    area = bytearray(zlib.compress(TEXT, 6, 31))
    area[-from_end] ^= 1

    with pytest.raises(CorruptMessage):
        read(members, bytes(area))


def test_a_flood_of_empty_members_is_read_in_small_chunks() -> None:
    """Twenty thousand members of twenty bytes do not copy the rest of the data each time."""
    assert read(gzip_members, zlib.compress(b"", 6, 31) * 20_000, 0) == b""


@pytest.mark.parametrize("is_whole", [True, False])
def test_many_tiny_members_are_read_in_linear_time(
    members: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    is_whole: bool,
) -> None:
    """No member but the first is given much more than it consists of, since it copies the rest."""
    area = memoryview(zlib.compress(b"x", 6, 31) * 5000)
    given: list[int] = []
    really_read = members._read

    def read_counted(member: object, data: memoryview, *limits: int) -> bytes:
        given.append(len(data))
        part: bytes = really_read(member, data, *limits)
        return part

    monkeypatch.setattr(members, "_read", read_counted)
    monkeypatch.setattr(members, "_read_piece", lambda *args: read_counted(*args, LIMIT))
    parts = [members.decompress(area, LIMIT, 2)] if is_whole else members.pieces(area, LIMIT)

    assert b"".join(parts) == b"x" * 5000
    assert (len(given), max(given[1:])) == (5000, 4096)
