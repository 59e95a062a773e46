"""Records of magic 0 and 1, which other libraries still write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.old_batches import build_old
from tests.machinery.scale import examples
from tests.machinery.strategies import payloads

from tidelog.records.batch import NO_TIMESTAMP, TimestampType
from tidelog.records.decoding.record_columns import decode
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tests.interop.conftest import Library

    from tidelog.codec.compression import Codec

    Form = tuple[Library, int, Codec]
    OldRecord = tuple[int, bytes | None, bytes | None]

SOME = settings(max_examples=examples(25), deadline=None)
RECORDS = st.lists(st.tuples(st.integers(0, 2**62), payloads(), payloads()), min_size=1, max_size=6)


@SOME
@given(sent=RECORDS)
def test_we_read_the_old_records_of_others(old_form: Form, sent: list[OldRecord]) -> None:
    """The records are the same, plain or in a compressed wrapper."""
    library, magic, codec = old_form

    data = library.build_old(magic, codec, sent)

    found = walk(data, check_crc=True)
    assert (found.error, found.next_position) == (None, len(data))
    assert rows(magic, sent) == [
        (each.offset, each.timestamp, each.timestamp_type, each.key, each.value)
        for each in decode(data, found.batches).records()
    ]


def rows(
    magic: int, sent: list[OldRecord]
) -> list[tuple[int, int, TimestampType, bytes | None, bytes | None]]:
    """Return what a reader should see."""
    kind = TimestampType.CREATE_TIME if magic else TimestampType.NO_TIMESTAMP_TYPE
    return [
        (offset, timestamp if magic else NO_TIMESTAMP, kind, key, value)
        for offset, (timestamp, key, value) in enumerate(sent)
    ]


@SOME
@given(sent=RECORDS)
def test_others_read_the_old_records_that_tests_write(
    old_form: Form, sent: list[OldRecord]
) -> None:
    """Other libraries accept the old batches that our tests build."""
    library, magic, codec = old_form

    data = build_old(magic, sent, base_offset=100, codec=codec)

    found = [record for batch in library.batches(data) for record in library.records(batch)]
    assert [(row[0] + 100, *row[3:]) for row in rows(magic, sent)] == [
        (record.offset, record.key, record.value) for record in found
    ]
