"""Batches whose lengths are encoded in more bytes than necessary, as no known client does."""

from __future__ import annotations

from tidelog.codec.layout import byte_view
from tidelog.codec.varint import read_varint, write_varint
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import pack_batch
from tidelog.records.record import scan_record


def with_long_key_lengths(batch: bytes) -> bytes:
    """Return an uncompressed batch with keys of less than 64 bytes; each length takes three."""
    header, view = BATCH_HEADER.unpack(batch), byte_view(batch)
    at, body = BATCH_HEADER.size, bytearray()
    for _ in range(header.records_count):
        span = scan_record(view, at, len(batch))
        _, body_at = read_varint(view, at)
        length_at = span.key_at - 1
        length = bytes([batch[length_at] | 0x80, 0x80, 0])
        record = batch[body_at:length_at] + length + batch[span.key_at : span.next_position]
        write_varint(body, len(record))
        body += record
        at = span.next_position
    return pack_batch(header, body)
