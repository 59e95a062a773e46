"""Tables built straight from the bytes of batches equal the decoder's, for any bytes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from tidelog.arrow.decode import ArrowDecoder
from tidelog.arrow.schema import SCHEMA, SCHEMA_WITH_HEADERS, select
from tidelog.codec.compression import Codec
from tidelog.codec.crc32c import crc32c
from tidelog.errors import InvalidTimestamp, KafkaError
from tidelog.records.batch import TimestampType
from tidelog.records.builder import build_batch
from tidelog.records.decoding.bounded_decode import decode_bounded
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.records.batch_columns import BatchColumns

CASES = 1_200
CRC_AT, CRC_FROM, RECORDS_AT = 17, 21, 61
SCHEMAS = (SCHEMA_WITH_HEADERS, SCHEMA, select(["offset", "key"]), select(["timestamp", "value"]))
NUMBERS = (0, 1, 2, 7, 0x7F, 0x80, 0xFF)

pytestmark = pytest.mark.usefixtures("kernels")


def some_bytes(rng: Random) -> bytes | None:
    return rng.choice((None, b"", rng.randbytes(rng.randrange(70)), rng.randbytes(1_100)))


def some_batch(rng: Random, base_offset: int) -> bytes:
    """Build a batch of any kind whose records have any content."""
    headers = (("name", b"x"), ("", None)) if rng.random() < 0.2 else ()
    made = [
        (rng.randrange(10**13), some_bytes(rng), some_bytes(rng), headers)
        for _ in range(rng.randrange(1, 8))
    ]
    append_time = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "max_timestamp": 77}
    kinds: list[dict[str, Any]] = [{}, {}, {}, {}, append_time, {"codec": Codec.GZIP}]
    return build_batch(made, base_offset=base_offset, **rng.choice(kinds))


def damaged(rng: Random, batch: bytes) -> bytes:
    """Change bytes of the records, the count or the attributes, and correct the CRC."""
    changed = bytearray(batch)
    for _ in range(rng.randrange(3)):
        at = rng.randrange(RECORDS_AT, len(changed)) if rng.random() < 0.8 else rng.choice((22, 60))
        changed[at] = rng.choice((*NUMBERS, rng.randrange(256)))
    changed[CRC_AT:CRC_FROM] = crc32c(bytes(changed[CRC_FROM:])).to_bytes(4, "big")
    return bytes(changed)


def read_tables(tables: Iterable[pa.RecordBatch], schema: pa.Schema) -> tuple[pa.Table, Any]:
    """Return the rows before an error, and the error."""
    made, error = [], None
    try:
        for table in tables:
            table.validate(full=True)
            made.append(table)
    except (KafkaError, InvalidTimestamp) as refused:
        error = type(refused), refused.args
    return pa.Table.from_batches(made, schema), error


def decoded(
    data: Any, batches: BatchColumns, schema: pa.Schema, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    decoder = ArrowDecoder(schema, "flights", 3)
    for group in decode_bounded(data, batches):
        yield from decoder.tables(group, start, end)


def test_hostile_batches_become_the_decoder_s_rows_or_its_error() -> None:
    """Rows, nulls and errors are the same, and do not change when the buffer is reused."""
    rng = Random(61)
    for case in range(CASES):
        starts = [100 + 10 * index for index in range(rng.randrange(1, 4))]
        data = b"".join(damaged(rng, some_batch(rng, start)) for start in starts)
        start, end = rng.choice(((0, 2**62), (100, 150), (103, 2**62), (0, 112)))
        schema = rng.choice(SCHEMAS)
        batches = walk(data).batches
        expected = read_tables(
            decoded(np.frombuffer(data, np.uint8), batches, schema, start, end), schema
        )
        buffer = np.frombuffer(bytearray(data), np.uint8)

        made = ArrowDecoder(schema, "flights", 3).tables_of(buffer, batches, start, end)
        rows, error = read_tables(made, schema)
        buffer[:] = 0xEE

        assert (case, expected[1]) == (case, error)
        assert rows.equals(expected[0]), case
