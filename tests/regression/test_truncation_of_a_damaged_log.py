"""A truncation to an offset where the log is damaged."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.machinery.log_home import LogHome

from tidelog.errors import CorruptMessage
from tidelog.testing import build_batch

BATCH = build_batch([(1, b"key", b"value", ())])


def test_it_drops_no_segment() -> None:
    """The log end stays the same, so nothing below it may be missing."""
    home = LogHome(internal_segment_bytes=2 * len(BATCH))
    log = home.open()
    for _ in range(6):
        log.append_as_leader(BATCH)
    with closing(home.fs.open(f"{home.directory}/00000000000000000002.log", "w")) as file:
        file.pwrite(bytes(4), 8)

    with pytest.raises(CorruptMessage):
        log.truncate_to(3)

    assert log.segments.base_offsets == [0, 2, 4]
    assert log.log_end_offset == 6
