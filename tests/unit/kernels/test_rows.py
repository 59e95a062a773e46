"""The constants that kernels use are those of the declared formats."""

from __future__ import annotations

from tidelog.kernels import rows
from tidelog.records.batch import (
    BATCH_HEADER,
    BATCH_PREFIX,
    LOG_OVERHEAD,
    MIN_RECORD_LENGTH,
)


def test_positions_in_a_batch_are_those_of_the_layout() -> None:
    """Header sizes and the CRC's start are the same in kernels and in the declaration."""
    constants = (rows.LOG_OVERHEAD, rows.PREFIX_BYTES, rows.HEADER_BYTES, rows.CRC_FROM)

    declared = (LOG_OVERHEAD, BATCH_PREFIX.size, BATCH_HEADER.size, 21)
    assert declared == constants
    assert BATCH_HEADER.offsets["attributes"] == rows.CRC_FROM
    assert MIN_RECORD_LENGTH == rows.SMALLEST_LENGTH


def test_every_error_status_has_a_text() -> None:
    """Each negative status has an error text."""
    statuses = {
        value
        for name, value in vars(rows).items()
        if name.startswith(("BAD_", "MISSING_", "BYTES_", "NULL_", "TOO_"))
    }

    assert set(rows.STATUS_TEXT) == statuses
