"""The pages about records: a list from an offset on, searched in bounded steps, and one record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.console.desk import tried
from tidelog.console.page_links import partition_link
from tidelog.console.record_texts import WHOLE_BYTES, ShownRecord, shown_record
from tidelog.console.rendering import Answer
from tidelog.readonly.chosen_records import RecordFilter
from tidelog.records.json.json_record import Encoding, bytes_from_text
from tidelog.records.partitioner import partition_for_key

if TYPE_CHECKING:
    from tidelog.console.asked import Asked
    from tidelog.console.desk import Desk
    from tidelog.readonly.missing.damaged_range import DamagedRange
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.record import Record
    from tidelog.segment.filenames import TopicPartition

PAGE_RECORDS: Final = 50
SEARCHED_BYTES: Final = 16 << 20
"""This much of a log is searched for one page; a link continues from there."""
_SHARE_BYTES: Final = 1 << 20
_SEARCH: Final = ("time", "until", "key", "encoding", "text", "committed")


class Found(NamedTuple):
    """What a page of records shows.

    ``next_offset`` is where the next page begins; None: the end is reached. ``is_cut``: there may
    be more in what was not searched yet.
    """

    records: list[ShownRecord]
    start: int
    next_offset: int | None
    is_cut: bool
    ends: tuple[int, int]
    skipped: list[DamagedRange]


def records_page(desk: Desk, asked: Asked) -> Answer:
    """Show records from an offset or a time on; those that a search finds, if there is one."""
    key = asked.key
    desk.check_known(key)
    wanted, start, since_ms = _wanted(asked), asked.number("from"), asked.time("time", desk.clock)
    until_ms = asked.time("until", desk.clock)
    wanted = wanted._replace(since_ms=since_ms, until_ms=until_ms)
    found = tried(lambda: desk.ask(key, lambda: _find(desk, key, wanted, start)))
    search = {name: asked.text(name) for name in _SEARCH}
    usual = _usual_partition(desk, key, wanted.key)
    links: dict[str, str | None] = {"earlier": None, "later": None, "newest": None}
    if found.problem is None:
        shown: Found = found.value
        if shown.start > shown.ends[0]:
            before = max(shown.start - PAGE_RECORDS, shown.ends[0])
            links["earlier"] = partition_link(key, "records", **search, from_=before)
        if shown.next_offset is not None:
            links["later"] = partition_link(key, "records", **search, from_=shown.next_offset)
            links["newest"] = partition_link(key, "records", **search)
    return Answer(
        "records.html",
        {
            **desk.head(key),
            "found": found,
            "search": search,
            "start": asked.text("from"),
            "is_search": any(search[name] for name in ("time", "until", "key", "text")),
            "links": links,
            "limit": SEARCHED_BYTES,
            "encodings": list(Encoding),
            "usual": usual,
            "usual_link": None if usual is None else partition_link(usual, "records", **search),
            "command": desk.command("cat", *_options(search, start), key=key),
        },
    )


def _options(search: dict[str, str], start: int | None) -> list[str]:
    """Return the options of ``tidelog cat`` that find the same records."""
    values = {
        "--from": "" if start is None else str(start),
        "--since": search["time"],
        "--until": search["until"],
        "--key": search["key"],
        "--encoding": search["encoding"] if search["key"] else "",
        "--grep": re.escape(search["text"]),
        "--isolation": "read_committed" if search["committed"] else "",
    }
    # With the sign of equality: a key may begin with a dash.
    return [f"{option}={value}" for option, value in values.items() if value]


def _usual_partition(
    desk: Desk, key: TopicPartition, wanted: bytes | None
) -> TopicPartition | None:
    """Return the partition where clients put records of this key, if it is another one."""
    if wanted is None:
        return None
    number = partition_for_key(wanted, len(desk.directory.topic(key.topic).partitions))
    return None if number == key.partition else key._replace(partition=number)


def record_page(desk: Desk, asked: Asked) -> Answer:
    """Show one record as a whole, up to a limit."""
    key, offset = asked.key, asked.offset
    desk.check_known(key)
    found = tried(lambda: desk.ask(key, lambda: _record_at(desk, key, offset)))
    command = desk.command("cat", key=key)
    return Answer(
        "record.html",
        {
            **desk.head(key),
            "offset": offset,
            "found": found,
            "command": f"{command} --from {offset} --to {offset + 1}",
        },
    )


def _wanted(asked: Asked) -> RecordFilter:
    encoding = Encoding(asked.choice("encoding", [str(one) for one in Encoding]))
    key, text = asked.text("key"), asked.text("text")
    return RecordFilter(
        key=bytes_from_text(key, encoding, "key") if key else None,
        pattern=re.compile(re.escape(text.encode())) if text else None,
        committed=asked.flag("committed"),
    )


def _find(desk: Desk, key: TopicPartition, wanted: RecordFilter, start: int | None) -> Found:
    skipped: list[DamagedRange] = []
    with desk.open(key, skipped.append) as log:
        first, end = log.log_start_offset, log.visible_end(committed=wanted.committed)
        begin = _begin(log, wanted, start, end)
        begin = min(max(begin, first), max(end, first))
        records, reached = _search(log, wanted, begin, end)
    is_full = len(records) == PAGE_RECORDS
    next_offset = records[-1].offset + 1 if is_full else reached
    return Found(
        [shown_record(record) for record in records],
        begin,
        next_offset if next_offset < end else None,
        not is_full and reached < end,
        (first, end),
        skipped,
    )


def _begin(log: ReadOnlyLog, wanted: RecordFilter, start: int | None, end: int) -> int:
    """Return where to begin: where it is asked for, at a time, or with the newest records."""
    if start is not None:
        return start
    if wanted.since_ms is not None and end > log.log_start_offset:
        found = log.offset_at(max(wanted.since_ms, 0), end)
        return end if found is None else found.offset
    is_search = (wanted.key, wanted.pattern, wanted.until_ms) != (None, None, None)
    return log.log_start_offset if is_search else max(end - PAGE_RECORDS, log.log_start_offset)


def _search(
    log: ReadOnlyLog, wanted: RecordFilter, begin: int, end: int
) -> tuple[list[Record], int]:
    """Return the first records that are wanted, and up to where was searched, in bounded work."""
    found: list[Record] = []
    reached, left = begin, SEARCHED_BYTES
    while reached < end and left > 0:
        for share in _shares(log, reached, end):
            for columns in wanted.records(log, share.start_offset, share.end_offset):
                for record in columns.records():
                    found.append(record)
                    if len(found) == PAGE_RECORDS:
                        return found, record.offset + 1
            reached = share.end_offset
            left -= max(share.size_bytes, 1)
            if left <= 0:
                break
    return found, reached


def _shares(log: ReadOnlyLog, start: int, end: int) -> list[Any]:
    """Cut what follows in the segment of an offset into shares; indexes of others are not read."""
    for segment, following in zip(log.segments, [*log.segments[1:], None], strict=True):
        stop = end if following is None else min(following.base_offset, end)
        if segment.base_offset <= start < stop or start < segment.base_offset < end:
            return log.splits(start, stop, _SHARE_BYTES)
    return log.splits(start, end, _SHARE_BYTES)


def _record_at(desk: Desk, key: TopicPartition, offset: int) -> ShownRecord | None:
    with desk.open(key) as log:
        if not log.log_start_offset <= offset < log.log_end_offset:
            return None
        for record in log.records(offset, offset + 1):
            return shown_record(record, WHOLE_BYTES)
    return None
