"""The pages about one partition: what it is, its batches, transactions, plans, and a check."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.shown_rows import as_json
from tidelog.console.desk import Tried, tried
from tidelog.console.page_links import PartitionLinks
from tidelog.console.paging import paged
from tidelog.console.rendering import Answer, drawing
from tidelog.explain.describe import describe_in
from tidelog.explain.log_transactions import show_transactions
from tidelog.explain.pictures.log_picture import picture_of_facts
from tidelog.explain.pictures.svg_picture import draw_svg
from tidelog.explain.pictures.take_picture import take_part, take_picture
from tidelog.explain.plans.plan_words import late_text, outlook_text
from tidelog.explain.printable_text import begun_by
from tidelog.explain.tables.partition_tables import BATCHES, EPOCHS, PRODUCERS, batch_rows
from tidelog.explain.verify.findings import Severity
from tidelog.explain.verify.verify_directory import check_directory
from tidelog.explain.verify.verify_partition import verify_partition
from tidelog.manager.compaction_plan import compaction_to_plan

if TYPE_CHECKING:
    from tidelog.console.asked import Asked
    from tidelog.console.desk import Desk
    from tidelog.explain.describe import LogFacts
    from tidelog.explain.log_transactions import ShownTransactions
    from tidelog.explain.pictures.log_picture import LogPicture
    from tidelog.explain.tables.system_table import Column, SystemTable
    from tidelog.readonly.missing.damaged_range import DamagedRange
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition

WHOLE_BYTES: Final = 8 << 20
"""A log up to this size is drawn with its batches and what plans would take of it."""
PART_BYTES: Final = 4 << 20
"""This much of a larger one is drawn at a time."""
CHECK_BYTES: Final = 64 << 20
"""A page checks logs up to this size, and plans and lists them whole; commands do any."""
CHECK_PARTITIONS: Final = 2000
"""A page checks the files of a data directory with up to this many partitions, too."""
BATCH_ROWS: Final = 50
SEGMENT_ROWS: Final = 50
LINE_ROWS: Final = 200
"""Rows of a table that a page shows at most."""


class Lines(NamedTuple):
    """A system table on a page; ``is_cut``: it has more rows than are shown."""

    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]
    is_cut: bool


def partition_page(desk: Desk, asked: Asked) -> Answer:
    """Show a partition as ``describe`` does, with its picture."""
    key = asked.key
    facts = desk.ask(key, lambda: _facts(desk, key))
    picture = tried(lambda: desk.ask(key, lambda: _picture(desk, key, facts)))
    segments, surveyed = list(reversed(facts.segments)), desk.survey.of(key)
    growth = None if surveyed is None else surveyed.growth
    return Answer(
        "partition.html",
        {
            **desk.head(key),
            "facts": facts,
            "rows": as_json(facts),
            "held_by": _held_by(facts),
            "picture": _drawn(picture, key),
            "is_brief": facts.size_bytes > WHOLE_BYTES,
            "segments": paged(segments, asked, "topics", *key, size=SEGMENT_ROWS),
            "settings": desk.settings(key.topic),
            "groups": [one for one in desk.groups.positions if one.key == key],
            "growth": growth,
            "growth_line": desk.history.note(("growth", key), growth),
            "command": desk.command("describe", key=key),
        },
    )


def batches_page(desk: Desk, asked: Asked) -> Answer:
    """Show batches from an offset on, drawn and as rows of the system table."""
    key, start = asked.key, asked.number("from") or 0
    found = tried(lambda: desk.ask(key, lambda: _batches(desk, key, start)))
    picture = tried(lambda: desk.ask(key, lambda: _part(desk, key, start)))
    if found.problem is None and found.value[0]:
        start = found.value[0][0][_BASE_OFFSET]
    return Answer(
        "batches.html",
        {
            **desk.head(key),
            "start": start,
            "columns": BATCHES.columns[2:],
            "found": found,
            "picture": _drawn(picture, key),
            "command": desk.command("table batches", key=key),
        },
    )


def transactions_page(desk: Desk, asked: Asked) -> Answer:
    """Show open and aborted transactions as ``txns`` does, and the producers that are known."""
    key = asked.key
    is_whole = _size_bytes(desk, key) <= CHECK_BYTES
    found = tried(lambda: desk.ask(key, lambda: _transactions(desk, key, aborted=is_whole)))
    return Answer(
        "transactions.html",
        {
            **desk.head(key),
            "found": found,
            "open": [] if found.problem else [begun_by(*txn) for txn in found.value.open],
            "is_whole": is_whole,
            "most": LINE_ROWS,
            "producers": _lines(desk, PRODUCERS, key) if is_whole else Tried(None, None),
            "epochs": _lines(desk, EPOCHS, key),
            "command": desk.command("txns", key=key),
        },
    )


def plans_page(desk: Desk, asked: Asked) -> Answer:
    """Show what retention and compaction would take, as ``plan`` does."""
    key = asked.key
    source = desk.tables
    desk.directory.read_checkpoints_again()
    config = desk.config(key.topic)
    retention = tried(lambda: as_json(desk.ask(key, lambda: source.retention(key).of(key))))
    is_whole = _size_bytes(desk, key) <= CHECK_BYTES
    compaction = Tried(None, None)
    if config.problem is None and config.value.is_compacted:
        compaction = tried(lambda: desk.ask(key, lambda: _compaction(desk, key, is_whole=is_whole)))
    return Answer(
        "plans.html",
        {
            **desk.head(key),
            "config": config,
            "retention": retention,
            "outlook": outlook_text,
            "late": late_text,
            "most": LINE_ROWS,
            "compaction": compaction,
            "is_whole": is_whole,
            "commands": [
                desk.command("plan retention", key=key),
                desk.command("plan compaction", key=key),
                desk.command("plan recovery", key=key),
            ],
        },
    )


def check_page(desk: Desk, asked: Asked) -> Answer:
    """Check a partition as ``verify`` does, if it is not too large for a page."""
    key = asked.key
    desk.check_known(key)
    found, is_read = Tried(None, None), _size_bytes(desk, key) <= CHECK_BYTES
    if is_read:
        found = tried(lambda: _check(desk, key))
    return Answer(
        "check.html",
        {
            **desk.head(key),
            "found": found,
            "is_read": is_read,
            "limit": CHECK_BYTES,
            "damage": Severity.DAMAGE,
            "most": LINE_ROWS,
            "command": desk.command("verify", key=key),
        },
    )


_BASE_OFFSET: Final = 3
"""The place of a batch's base offset in the rows of ``_batches``."""


def _facts(desk: Desk, key: TopicPartition) -> LogFacts:
    with desk.open(key) as log:
        return _described(desk, log)


def _described(desk: Desk, log: ReadOnlyLog) -> LogFacts:
    facts = describe_in(desk.directory, log, ids=desk.tables.ids)
    if facts.has_loss:
        desk.notice(facts.damage or str(facts.holes[0]))
    return facts


def _held_by(facts: LogFacts) -> str:
    held_by = facts.last_stable_offset_held_by
    return "" if held_by is None else begun_by(*held_by)


def _size_bytes(desk: Desk, key: TopicPartition) -> int:
    """Return the size of a log as the survey has found it, or as it is."""
    surveyed = desk.survey.of(key)
    if surveyed is not None and surveyed.listed is not None:
        return surveyed.size_bytes
    measured = tried(lambda: desk.ask(key, lambda: _facts(desk, key).size_bytes))
    return measured.value if measured.problem is None else 0


def _picture(desk: Desk, key: TopicPartition, facts: LogFacts) -> LogPicture:
    """Return the picture of a log: with batches and plans, as the command draws it, if small."""
    source = desk.tables
    point = source.recovery_point(key)
    if facts.size_bytes > WHOLE_BYTES:
        return picture_of_facts(facts, point)
    is_planned = desk.config(key.topic).problem is None
    return take_picture(
        partial(desk.open, key),
        partial(_described, desk),
        recovery_point=point,
        planning=source.planning(key) if is_planned else None,
    )


def _part(desk: Desk, key: TopicPartition, start: int) -> LogPicture:
    return take_part(partial(desk.open, key), partial(_described, desk), start, PART_BYTES)


def _drawn(picture: Tried, key: TopicPartition) -> Tried:
    if picture.problem is not None:
        return picture
    return Tried(drawing(draw_svg([picture.value], PartitionLinks(key))), None)


def _batches(
    desk: Desk, key: TopicPartition, start: int
) -> tuple[list[tuple[Any, ...]], int | None, list[DamagedRange]]:
    """Return rows of batches, the offset where the next ones begin, and what was skipped."""
    skipped: list[DamagedRange] = []
    rows: list[tuple[Any, ...]] = []
    with desk.open(key, skipped.append) as log:
        bases = [segment.base_offset for segment in log.segments]
        end = log.log_end_offset
        first = min(max(start, log.log_start_offset), end)
        for piece in log.pieces(first, end, piece_bytes=1 << 18):
            rows += (row[2:] for row in batch_rows(key, bases, piece.batches))
            if len(rows) > BATCH_ROWS:
                return rows[:BATCH_ROWS], rows[BATCH_ROWS][_BASE_OFFSET], skipped
    return rows, None, skipped


def _transactions(desk: Desk, key: TopicPartition, *, aborted: bool) -> ShownTransactions:
    with desk.open(key) as log:
        found = show_transactions(log, desk.tables.ids, aborted=aborted)
    if found.damage is not None:
        desk.notice(found.damage)
    return found


def _compaction(desk: Desk, key: TopicPartition, *, is_whole: bool) -> dict[str, Any]:
    """Return how the cleaner stands with a log and, of a small one, what a cleaning would drop."""
    compaction = compaction_to_plan(desk.clock) if is_whole else None
    return as_json(desk.tables.compaction_of(key, partial(desk.open, key), compaction))


def _check(desk: Desk, key: TopicPartition) -> dict[str, Any]:
    directory = desk.directory
    result = verify_partition(
        desk.fs,
        directory.partition_path(*key),
        clock=desk.clock,
        is_compacted=desk.tables.topic(key.topic).is_compacted,
    )
    is_small = desk.survey.total <= CHECK_PARTITIONS
    path = directory.part_of(*key).path
    around = [
        located.finding
        for located in (check_directory(desk.fs, path) if is_small else ())
        if located.key == key
    ]
    findings = [*result.findings, *around]
    damaged = next((one for one in findings if one.severity is Severity.DAMAGE), None)
    if damaged is None:
        desk.survey.seen.forget(key)
    else:
        desk.note_damage(key, f"{damaged.path}: {damaged.what}")
    return {
        "findings": findings,
        "checked": as_json(result.checked),
        "is_all": is_small,
    }


def _lines(desk: Desk, table: SystemTable, key: TopicPartition) -> Tried:
    def read() -> Lines:
        found = islice(table.partition_rows(desk.tables, key), LINE_ROWS + 1)
        rows = [row[2:] for row in found]
        return Lines(table.columns[2:], rows[:LINE_ROWS], len(rows) > LINE_ROWS)

    return tried(read)
