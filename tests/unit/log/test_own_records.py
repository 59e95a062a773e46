"""Records of the program itself: appended as accepted, under the rules for batches from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.codec.compression import Codec
from tidelog.errors import InvalidArgument, InvalidRecord, InvalidTimestamp, MessageTooLarge
from tidelog.records.builder import build_batch
from tidelog.records.validation.own_records import OwnRecords

if TYPE_CHECKING:
    from tidelog.records.validation.rejection import Rejection

NOW_MS = 1_700_000_000_000
RECORDS: list[Any] = [
    (NOW_MS + at % 3, b"key%d" % at, b"value" * at, (("name", b"x"),)) for at in range(5)
]
SETTINGS: dict[str, dict[str, Any]] = {
    "as they come": {},
    "compressed": {"compression_type": "gzip"},
    "uncompressed": {"compression_type": "uncompressed"},
    "append time": {"message_timestamp_type": "LogAppendTime"},
    "append time, compressed": {
        "message_timestamp_type": "LogAppendTime",
        "compression_type": "lz4",
    },
    "compacted": {"cleanup_policy": ("compact",)},
    "rolling": {"internal_segment_bytes": 1024},
}


def refused(home: LogHome, given: Any) -> tuple[object, ...]:
    """Return what an append that is refused leaves: its error, what it counted, and the file."""
    counted: list[tuple[Rejection, int]] = []
    errors = InvalidRecord, InvalidTimestamp, MessageTooLarge
    with home.open() as log, pytest.raises(errors) as raised:
        log.append_as_leader(given, on_rejected=lambda *what: counted.append(what))
    faults = getattr(raised.value, "record_errors", None)
    return raised.type, str(raised.value), faults, counted, home.read("0" * 20 + ".log")


def batch_of(records: list[Any], codec: Codec = Codec.NONE) -> bytes:
    return build_batch(records, codec=codec)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=["plain", "lz4"])
@pytest.mark.parametrize("settings", list(SETTINGS.values()), ids=list(SETTINGS))
def test_own_records_are_stored_as_a_client_s_batch_of_them(
    settings: dict[str, Any], codec: Codec
) -> None:
    """Every file and every offset is the same, whether the records come built or not."""
    homes = LogHome(**settings), LogHome(**settings)
    for home, is_own in zip(homes, (True, False), strict=True):
        with home.open() as log:
            for count in (1, 5, 2, 5):
                given: Any = OwnRecords(RECORDS[:count], codec) if is_own else None
                log.append_as_leader(given or batch_of(RECORDS[:count], codec), 3)

    own, outside = homes
    assert own.files() == outside.files()
    assert [own.read(name) for name in own.files()] == [outside.read(n) for n in outside.files()]


BROKEN: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "no key": ({"cleanup_policy": ("compact",)}, [RECORDS[0], (NOW_MS, None, b"v", ())]),
    "too old": ({"message_timestamp_before_max_ms": 10}, [(NOW_MS - 50, b"k", b"v", ())]),
    "too new": ({"message_timestamp_after_max_ms": 10}, [(NOW_MS + 50, b"k", b"v", ())]),
    "two rules": (
        {"cleanup_policy": ("compact",), "message_timestamp_after_max_ms": 10},
        [(NOW_MS, None, b"v", ()), (NOW_MS + 50, b"k", b"v", ())],
    ),
    "too large": ({"max_message_bytes": 100}, RECORDS),
}


@pytest.mark.parametrize(("settings", "records"), list(BROKEN.values()), ids=list(BROKEN))
def test_own_records_break_the_same_rules(settings: dict[str, Any], records: list[Any]) -> None:
    """Error, text, the records at fault and what is counted: all as for a client's batch."""
    own = refused(LogHome(**settings), OwnRecords(records))
    outside = refused(LogHome(**settings), batch_of(records))

    assert own == outside


def test_own_records_follow_settings_that_change_before_the_append() -> None:
    """A batch that was built under other settings is built again, and checked again."""
    home = LogHome()
    with home.open() as log:
        plain, keyless = OwnRecords(RECORDS), OwnRecords([(NOW_MS, None, b"v", ())])
        log.prepare(plain)
        log.prepare(keyless)
        log.update_config(LogHome(compression_type="gzip", cleanup_policy=("compact",)).config)

        info = log.append_as_leader(plain)

        with pytest.raises(InvalidRecord):
            log.append_as_leader(keyless)
        assert info.source_codec is Codec.GZIP
        assert [value for _, value in all_values(log)] == [record[2] for record in RECORDS]


def test_no_own_records_append_nothing() -> None:
    """As an append without bytes."""
    with LogHome().open() as log:
        info = log.append_as_leader(OwnRecords([]))

        assert (info.is_empty, log.log_end_offset) == (True, 0)


def test_own_records_that_no_batch_can_hold_are_refused() -> None:
    """A timestamp beyond an int64 is the caller's mistake, whatever the topic's rules."""
    with LogHome().open() as log, pytest.raises(InvalidArgument, match="timestamp"):
        log.append_as_leader(OwnRecords([(2**70, b"k", b"v", ())]))
