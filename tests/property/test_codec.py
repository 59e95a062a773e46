"""Round trips of every encoding in ``tidelog.codec``, and typed errors for any bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.scale import examples

from tidelog.codec import varint
from tidelog.codec.checkpoint_file import read_checkpoint, write_checkpoint
from tidelog.codec.compression import Codec, compress, decompress
from tidelog.codec.java_properties import format_properties, parse_properties
from tidelog.codec.uuid_text import format_uuid, parse_uuid
from tidelog.datadir.metadata_files import MetaProperties
from tidelog.errors import CorruptMessage, InvalidArgument, InvalidRecord, MessageTooLarge
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from uuid import UUID

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
codecs = st.sampled_from(Codec)
magics = st.sampled_from([0, 1, 2])
plains = st.one_of(
    st.binary(max_size=500),
    st.builds(bytes.__mul__, st.binary(max_size=20), st.integers(0, 20_000)),
)
topics = st.text("abcXYZ019._-", min_size=1, max_size=20)


@given(before=st.binary(max_size=5), small=int32s, large=int64s, after=st.binary(max_size=5))
def test_numbers_come_back_from_among_other_bytes(
    before: bytes, small: int, large: int, after: bytes
) -> None:
    """A number reads back as written, whatever lies around it."""
    out = bytearray(before)
    varint.write_varint(out, small)
    varint.write_varlong(out, large)
    out += after

    first, at = varint.read_varint(out, len(before))
    second, end = varint.read_varlong(out, at)

    assert (small, large, len(out) - len(after)) == (first, second, end)


@given(data=st.binary(max_size=12), at=st.integers(0, 12))
def test_any_bytes_are_a_number_in_range_or_invalid(data: bytes, at: int) -> None:
    """Reading stays within the bytes and within the width."""
    with suppress(InvalidRecord):
        value, end = varint.read_varint(data, at)
        assert -(2**31) <= value < 2**31
        assert at < end <= min(at + 5, len(data))
    with suppress(InvalidRecord):
        value, end = varint.read_varlong(data, at)
        assert -(2**63) <= value < 2**63
        assert at < end <= min(at + 10, len(data))


@given(codec=codecs, plain=plains, magic=magics)
@settings(deadline=None, max_examples=examples(200))
def test_compressed_bytes_come_back(codec: Codec, plain: bytes, magic: int) -> None:
    """Every codec is tried, at a limit that just suffices."""
    area = compress(codec, plain, magic=magic)

    assert plain == decompress(codec, area, magic=magic, limit=len(plain))


@given(
    codec=codecs,
    plain=st.binary(max_size=200),
    cuts=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 8), st.binary(max_size=8))),
)
@settings(deadline=None, max_examples=examples(200))
def test_damaged_bytes_give_a_typed_error_or_bytes_within_the_limit(
    codec: Codec, plain: bytes, cuts: list[tuple[int, int, bytes]]
) -> None:
    """Bytes are removed from a compressed area or inserted into it."""
    area = bytearray(compress(codec, plain))
    for at, size, instead in cuts:
        area[at : at + size] = instead

    with suppress(CorruptMessage, MessageTooLarge):
        assert len(decompress(codec, area, limit=1000)) <= 1000


def test_codecs_work_on_several_threads_at_once() -> None:
    """Contexts that libraries cannot share among threads are not shared."""
    plains = [bytes([number]) * 5000 + b"tail" * number for number in range(200)]

    def back(plain: bytes) -> bool:
        return all(plain == decompress(codec, compress(codec, plain)) for codec in Codec)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(back, plains))


@given(offsets=st.dictionaries(st.tuples(topics, st.integers(0, 2**31 - 1)), int64s, max_size=20))
def test_checkpoints_come_back(offsets: dict[tuple[str, int], int]) -> None:
    """This holds for any topics, partitions and offsets."""
    fs = CrashFileSystem()

    write_checkpoint(fs, "/file", offsets)

    assert offsets == read_checkpoint(fs, "/file")


@given(properties=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=8))
def test_properties_come_back(properties: dict[str, str]) -> None:
    """This holds for any keys and values, in order."""
    read = parse_properties(format_properties(properties))

    assert list(properties.items()) == list(read.items())


@given(
    data=st.one_of(st.binary(max_size=60), st.text("ab=:#!\\ \n\ru0", max_size=60).map(str.encode))
)
def test_any_bytes_are_properties_or_invalid(data: bytes) -> None:
    """What is parsed and formatted again parses to the same."""
    with suppress(InvalidArgument):
        properties = parse_properties(data)
        assert properties == parse_properties(format_properties(properties))


@given(
    cluster_id=st.text(max_size=30),
    node_id=int32s,
    directory_id=st.none() | st.uuids().filter(lambda value: value.int > 2),
    other=st.dictionaries(st.text("xyz. ", min_size=1), st.text(), max_size=3),
)
def test_meta_properties_come_back(
    cluster_id: str, node_id: int, directory_id: UUID | None, other: dict[str, str]
) -> None:
    """This covers known and unknown keys, and comments."""
    meta = MetaProperties(
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=directory_id,
        other=other,
        comments=("#", "#Sat Nov 21 09:53:36 UTC 2026"),
    )

    assert meta == MetaProperties.parse(meta.format())


@given(value=st.uuids())
def test_ids_come_back(value: UUID) -> None:
    """Every id has one text form."""
    assert value == parse_uuid(format_uuid(value))
