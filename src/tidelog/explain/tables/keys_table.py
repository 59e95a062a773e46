"""The system table of the largest and the most frequent keys."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tidelog.explain.keys.key_counts import CAPACITY, SHOWN_BYTES, KeyCounts
from tidelog.explain.tables.system_table import PLACE, Column, ColumnType, SystemTable
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.records.json.json_record import Encoding, bytes_as_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.explain.keys.key_counts import KeyCount
    from tidelog.explain.tables.system_table import Row, TableSource
    from tidelog.segment.filenames import TopicPartition

_TEXT, _INT, _LONG = ColumnType.TEXT, ColumnType.INT, ColumnType.LONG

TOP: Final = 20
"""How many keys are listed by records, and how many by bytes."""
_CHARACTER_BYTES: Final = 4
"""Bytes that a character has at most."""


def _keys(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    with source.open(key) as log:
        counts = KeyCounts(random.SystemRandom(), with_kernels=use_kernels(log.size_bytes))
        for columns in log.columns(log.log_start_offset, log.log_end_offset):
            counts.add(columns)
    total, keyless = counts.total, counts.keyless
    if not total.records.most:
        return
    yield _row(key, "all", total)
    if keyless is not None:
        yield _row(key, "no key", keyless)
    for one in counts.top(TOP):
        yield _row(key, "key", one)


def _row(place: TopicPartition, kind: str, found: KeyCount) -> Row:
    text, encoding = _shown(found)
    return (
        *(*place, kind, text, encoding, found.key_size),
        *(*found.records, *found.sizes),
        *(found.superseded_records, found.superseded_bytes, found.is_exact),
        *(found.rank_by_bytes, found.rank_by_records, found.last_offset),
    )


def _shown(found: KeyCount) -> tuple[str | None, str | None]:
    if found.key is None or found.key_size is None:
        return None, None
    if found.key_size > len(found.key):
        # The last character may be cut in two.
        cut = found.key.decode(errors="ignore")
        if len(found.key) - len(cut.encode()) < _CHARACTER_BYTES:
            return cut, str(Encoding.UTF8)
    text, encoding = bytes_as_text(found.key, Encoding.UTF8)
    return text, str(encoding)


KEYS: Final = SystemTable(
    "keys",
    f"a key among the {TOP} with the most bytes or the {TOP} with the most records of a partition;"
    " or all records, or those without a key",
    (
        *PLACE,
        Column("kind", _TEXT, "all: of all records; no key: of those without one; key: of one key"),
        Column(
            "key", _TEXT, f"the key, or its first {SHOWN_BYTES} bytes; null: no single key", True
        ),
        Column("keyEncoding", _TEXT, "how the key is written: utf8 or base64; null: as key", True),
        Column("keySize", _LONG, "bytes of the whole key; null: as key", True),
        Column("records", _LONG, "number of records, at least"),
        Column("recordsAtMost", _LONG, "number of records, at most"),
        Column("bytes", _LONG, "bytes of their keys and values, uncompressed, at least"),
        Column("bytesAtMost", _LONG, "the same, at most"),
        Column("supersededRecords", _LONG, "records before the last one of their key, at least"),
        Column("supersededBytes", _LONG, "bytes of those, at least"),
        Column(
            "isExact",
            ColumnType.BOOLEAN,
            f"whether the numbers are exact, as with up to {CAPACITY:,} different keys",
        ),
        Column("rankByBytes", _INT, "its place by bytesAtMost, from 1; null: below the last", True),
        Column(
            "rankByRecords", _INT, "its place by recordsAtMost, from 1; null: below the last", True
        ),
        Column("lastOffset", _LONG, "offset of the last record"),
    ),
    of_partition=_keys,
)
