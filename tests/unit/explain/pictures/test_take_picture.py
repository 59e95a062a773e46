"""What is read for the picture of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.cleaning import CleanerHome
from tests.machinery.directory_home import DataHome, record
from tests.machinery.picture_rules import check_picture, check_svg, check_text
from tests.machinery.stored_log import (
    BATCHES,
    LOG_STARTS,
    SIZE,
    VALUES,
    flipped,
    home_with,
    name_of,
)

from tidelog.config.log_config import LogConfig
from tidelog.errors import KafkaStorageError, OffsetOutOfRange
from tidelog.explain.describe import describe_log
from tidelog.explain.pictures.log_picture import (
    MAX_SPANS,
    OTHERS,
    LogPicture,
    picture_of_facts,
    producer_lanes,
)
from tidelog.explain.pictures.svg_picture import draw_svg
from tidelog.explain.pictures.take_picture import take_part, take_picture
from tidelog.explain.plans.plan_terms import Planning
from tidelog.explain.plans.retention_plan import plan_retention
from tidelog.manager.compaction_plan import CleanerLines
from tidelog.readonly.missing.holes import Hole
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from tests.machinery.log_home import LogHome

    from tidelog.env.files import FileSystem
    from tidelog.explain.pictures.log_picture import BatchSpan, SegmentBlock
    from tidelog.log.log import Log
    from tidelog.testing.manual_time import ManualClock

PATH = "/data/t-0"


def picture_of(fs: FileSystem, path: str = PATH, planning: Planning | None = None) -> LogPicture:
    """Return the picture of a partition; it keeps all rules."""
    picture = take_picture(
        lambda on_damage: open_read_only(path, fs=fs, on_damage=on_damage),
        describe_log,
        recovery_point=3,
        planning=planning,
    )
    check_picture(picture)
    check_svg(picture)
    check_text(picture, 40)
    return picture


def planning(config: LogConfig, clock: ManualClock) -> Planning:
    """Return what plans depend on, with a cleaner that has noted nothing."""
    return Planning(config, CleanerLines({}, {}), clock)


def test_batches_lie_at_their_bytes() -> None:
    """Positions count from the first file on; offsets below the log start are not read."""
    home = home_with(BATCHES[:3], BATCHES[3:5])
    home.write(LOG_STARTS, "0\n1\nt 0 1\n")

    picture = picture_of(home.fs)

    assert [(s.start_offset, s.end_offset, s.position, s.size_bytes) for s in picture.spans] == [
        (number, number + 1, number * SIZE, SIZE) for number in range(1, 5)
    ]
    assert [(b.base_offset, b.position, b.segments) for b in picture.blocks] == [
        (0, 0, 1),
        (3, 3 * SIZE, 1),
    ]
    assert [(b.contents and b.contents.records, b.is_active) for b in picture.blocks] == [
        (2, False),
        (2, True),
    ]
    assert (picture.recovery_point, picture.tail_bytes, picture.has_loss) == (3, 0, False)


def test_a_log_without_segments_is_drawn() -> None:
    """There is nothing but the offsets, all 0."""
    picture = picture_of(home_with().fs)

    assert (picture.spans, picture.blocks, picture.total_bytes) == ((), (), 0)
    assert "no bytes" in "".join(check_svg(picture).itertext())


def test_what_lies_behind_damage_is_drawn() -> None:
    """Damaged bytes have a place of their own, with the offsets that are lost."""
    home = home_with([*BATCHES[:2], flipped(BATCHES[2]), *BATCHES[3:4]], BATCHES[4:])

    picture = picture_of(home.fs)

    assert [span.start_offset for span in picture.spans] == [0, 1, 3, 4, 5]
    assert [
        (d.position, d.size_bytes, d.start_offset, d.end_offset, d.byte) for d in picture.damaged
    ] == [(2 * SIZE, SIZE, 2, 3, 2 * SIZE)]
    assert picture.has_loss
    assert "DAMAGED: offset 2 unreadable, 88 bytes" in check_text(picture, 120)


def test_an_unfinished_batch_is_no_loss() -> None:
    """What opening the log would cut off is counted, and not drawn as a batch."""
    picture = picture_of(home_with(BATCHES[:2], tail=BATCHES[2][:30]).fs)

    assert (len(picture.spans), picture.tail_bytes, picture.has_loss) == (2, 30, False)
    assert "UNFINISHED: 30 bytes" in check_text(picture, 120)


def test_a_hole_is_a_loss() -> None:
    """It has no bytes, so it is a mark between two segments."""
    home = home_with(BATCHES[:2])
    home.write(name_of(4), BATCHES[4])
    path = f"{home.path}/t-0"

    picture = take_picture(
        lambda on_damage: open_read_only(path, fs=home.fs, on_damage=on_damage),
        lambda log: describe_log(log, holes=[Hole(2, 4)]),
    )

    check_picture(picture)
    assert picture.has_loss
    assert "LOST: no segment holds offsets 2 to 3" in check_text(picture, 80)
    assert any(each.get("class") == "hole" for each in check_svg(picture).iter())


def txn_home() -> tuple[CleanerHome, Log]:
    """Return a log with a committed, an aborted and an open transaction of three producers."""
    home = CleanerHome()
    log = home.open()
    for producer_id in (1, 2, 3):
        for number in range(3):
            sequence = {"base_sequence": number, "producer_epoch": 0, "transactional": True}
            home.append(log, ("key", number), producer_id=producer_id, **sequence)
        if producer_id < 3:
            home.end_transaction(log, producer_id, commit=producer_id == 1)
    log.update_high_watermark(log.log_end_offset)
    return home, log


def test_transactions_are_those_of_the_log() -> None:
    """Aborted with their markers, open without; committed ones are batches like others."""
    home, log = txn_home()
    log.close()

    picture = picture_of(home.fs, log.directory)

    assert [
        (txn.producer_id, txn.first_offset, txn.last_offset) for txn in picture.transactions
    ] == [(2, 4, 7), (3, 8, None)]
    assert (picture.aborted, picture.opened, picture.producers) == (1, 1, 3)
    assert [lane.producer_id for lane in producer_lanes(picture)] == [1, 2, 3]
    assert "open: producer 3, epoch 0, first offset 8" in check_text(picture, 80)


def damaged_home() -> DataHome:
    """Return a log whose first batch claims a large last offset, and whose second is open."""
    batch = build_batch(
        [record(b"v")],
        base_offset=1,
        leader_epoch=0,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    return home_with([flipped(BATCHES[0], at=25), batch])


def test_damage_before_an_open_transaction_is_drawn_once() -> None:
    """The bytes are read again to find where the transaction began."""
    picture = picture_of(damaged_home().fs)

    assert [(one.position, one.start_offset, one.end_offset) for one in picture.damaged] == [
        (0, 0, 1)
    ]
    assert [txn.first_offset for txn in picture.transactions] == [1]


def test_the_list_of_transactions_reports_no_damage() -> None:
    """The reads of records do."""
    reported: list[object] = []

    with open_read_only(PATH, fs=damaged_home().fs, on_damage=reported.append) as log:
        assert [one.first_offset for one in log.transactions().open] == [1]
        assert reported == []
        assert len(list(log.records())) == 1
    assert len(reported) == 1


def compacted() -> tuple[LogHome, Log, LogConfig]:
    """Return a log in which each key is written twice, over several segments."""
    home = CleanerHome()
    log = home.open()
    for number in range(20):
        home.append(log, (number % 10, number))
    log.update_high_watermark(log.log_end_offset)
    return home, log, log.config


def test_what_compaction_would_drop_is_known_for_each_batch() -> None:
    """The counts of batches add up to those of the plan."""
    home, log, config = compacted()
    log.close()

    picture = picture_of(home.fs, log.directory, planning(config, home.clock))

    plan = picture.compaction
    assert plan is not None
    assert plan.stats is not None
    dropped = {span.start_offset: span.dropped for span in picture.spans}
    assert sum(dropped.values()) == plan.stats.records_read - plan.stats.records_written > 0
    end = plan.end_offset
    assert {offset for offset, count in dropped.items() if count} == set(range(end - 10))
    assert f"drop {end - 10} of {end} records" in check_text(picture, 200)


def test_what_retention_would_delete_is_its_plan() -> None:
    """By the rules and settings of the plan itself."""
    home = DataHome()
    with home.open(overrides={"internal.segment.bytes": "200"}) as directory:
        directory.create_topic("t")
        for number in range(9):
            directory.partition("t", 0).append_records([(number, None, bytes(20), [])])
    config = LogConfig(cleanup_policy=("delete",), retention_bytes=300)

    picture = picture_of(home.fs, planning=planning(config, home.clock))

    plan = plan_retention(lambda: home.read_only("t-0"), config, home.clock)
    assert picture.retention == plan
    assert len(plan.deleted) > 1
    assert f"would delete {len(plan.deleted)} segments" in check_text(picture, 200)


def test_damage_leaves_the_plans_unknown() -> None:
    """The picture says why, and shows all the rest."""
    home = home_with([flipped(BATCHES[0]), *BATCHES[1:3]], BATCHES[3:])
    config = LogConfig(cleanup_policy=("compact",))

    picture = picture_of(home.fs, planning=planning(config, home.clock))

    assert (picture.compaction, picture.compaction_error) != (None, "")
    assert "compaction: unknown, " in check_text(picture, 80)


def test_a_large_log_is_joined() -> None:
    """A thousand segments, and batches of many producers make a picture of bounded size."""
    home = DataHome()
    count, each = 1000, 3
    for number in range(count):
        batches = [
            build_batch(
                [record(VALUES[0])],
                base_offset=number * each + index,
                leader_epoch=0,
                producer_id=number % 40,
                producer_epoch=0,
                base_sequence=number,
            )
            for index in range(each)
        ]
        home.write(name_of(number * each), b"".join(batches))

    picture = picture_of(home.fs)

    assert sum(span.batches for span in picture.spans) == count * each > MAX_SPANS
    assert sum(block.contents.batches for block in picture.blocks if block.contents) == 3000
    lanes = producer_lanes(picture)
    assert [lane.producer_id for lane in lanes][-1] == OTHERS
    assert (sum(lane.producers for lane in lanes), sum(lane.batches for lane in lanes)) == (
        40,
        3000,
    )


def test_many_aborted_transactions_are_joined() -> None:
    """Their number is exact, and none lies outside of what is drawn for it."""
    home = CleanerHome()
    log = home.open()
    for number in range(700):
        home.append(
            log,
            (1, 1),
            producer_id=number % 30,
            producer_epoch=number // 30,
            base_sequence=0,
            transactional=True,
        )
        home.end_transaction(log, number % 30, commit=False, epoch=number // 30)
    log.update_high_watermark(log.log_end_offset)
    log.close()

    picture = picture_of(home.fs, log.directory)

    assert (picture.aborted, sum(txn.count for txn in picture.transactions)) == (700, 700)
    assert len(picture.transactions) < 700


@pytest.mark.parametrize("step", ["retention", "truncation", "append", "deletion"])
def test_a_picture_beside_a_writer_is_right_or_refused(step: str) -> None:
    """The writer acts between the look at the segments and that at the batches."""
    home = DataHome()
    with home.open(overrides={"internal.segment.bytes": "200"}) as directory:
        directory.create_topic("t")
        partition = directory.partition("t", 0)
        for number in range(12):
            partition.append_records([(number, None, bytes(20), [])])
        directory.flush()

        def act() -> None:
            if step == "retention":
                partition.log.delete_records(7)
                partition.log.delete_segments_below_start()
            elif step == "append":
                partition.append_records([(99, None, bytes(50), [])])
            elif step == "truncation":
                home.fs.write(f"{PATH}/{0:020d}.log", b"")
            else:
                directory.delete_topic("t")

        def describe(log: object) -> object:
            facts = describe_log(log)  # type: ignore[arg-type]  # of a protocol's callback
            act()
            return facts

        try:
            picture = take_picture(
                lambda on_damage: open_read_only(PATH, fs=home.fs, on_damage=on_damage),
                describe,  # type: ignore[arg-type]  # as above
            )
        except (KafkaStorageError, OffsetOutOfRange):
            assert step in {"retention", "truncation", "deletion"}
        else:
            check_picture(picture)
            check_svg(picture)
            assert [span.start_offset for span in picture.spans] == sorted(
                span.start_offset for span in picture.spans
            )


def test_a_brief_picture_reads_no_batches() -> None:
    """Segments and offsets only: those of ``describe``."""
    home = home_with(BATCHES[:3], BATCHES[3:])
    with home.read_only("t-0") as log:
        picture = picture_of_facts(describe_log(log), 2)

    check_picture(picture)
    check_svg(picture)
    assert (picture.spans, picture.has_batches, picture.tail_bytes) == ((), False, 0)
    assert "recovery point 2" in check_text(picture, 60)


def part_of(fs: FileSystem, offset: int, max_bytes: int) -> LogPicture:
    """Return the picture of a part of a partition; it keeps all rules."""
    picture = take_part(
        lambda on_damage: open_read_only(PATH, fs=fs, on_damage=on_damage),
        describe_log,
        offset,
        max_bytes,
    )
    check_svg(picture)
    check_text(picture, 40)
    return picture


def test_a_part_of_a_segment_is_drawn_alone() -> None:
    """Its axis begins at its first batch; as many batches as fit, and one at least."""
    fs = home_with(BATCHES[:3], BATCHES[3:6]).fs
    spans = {
        (offset, size): [(s.start_offset, s.position) for s in part_of(fs, offset, size).spans]
        for offset, size in ((0, 2 * SIZE), (1, 99 * SIZE), (4, 1), (0, 2 * SIZE + 5))
    }

    assert spans == {
        (0, 2 * SIZE): [(0, 0), (1, SIZE)],
        (1, 99 * SIZE): [(1, 0), (2, SIZE)],
        (4, 1): [(4, 0)],
        (0, 2 * SIZE + 5): [(0, 0), (1, SIZE)],
    }
    picture = part_of(fs, 1, 99 * SIZE)
    assert (picture.part, picture.total_bytes, picture.unplaced) == ((1, 3), 2 * SIZE, 0)
    assert picture.marks == ()
    assert [mark.offset for mark in part_of(fs, 3, 99 * SIZE).marks] == [6]


def test_a_part_beyond_the_end_is_empty() -> None:
    """Nothing is drawn, and nothing fails; one below the log start begins there."""
    home = home_with(BATCHES[:3])
    home.write(LOG_STARTS, "0\n1\nt 0 1\n")

    assert part_of(home.fs, 3, SIZE).spans == ()
    assert part_of(home.fs, 10**18, SIZE).spans == ()
    assert [span.start_offset for span in part_of(home.fs, 0, SIZE).spans] == [1]


def test_a_part_shows_the_damage_in_it() -> None:
    """At its place on the part's own axis."""
    home = home_with([BATCHES[0], flipped(BATCHES[1]), *BATCHES[2:4]], BATCHES[4:])

    picture = part_of(home.fs, 0, 99 * SIZE)

    assert [span.start_offset for span in picture.spans] == [0, 2, 3]
    assert [(d.position, d.size_bytes, d.start_offset) for d in picture.damaged] == [
        (SIZE, SIZE, 1)
    ]


class Links:
    """Where the shapes of a picture lead."""

    def of_block(self, block: SegmentBlock) -> str:
        """Return a path with characters that markup gives a meaning."""
        return f'/s?a={block.base_offset}&b=<">'

    def of_span(self, span: BatchSpan) -> str:
        """Return the path of a batch."""
        return f"/b?from={span.start_offset}"


def test_shapes_lead_where_a_page_says() -> None:
    """Segments and batches are links; a picture without them has none."""
    picture = picture_of(home_with(BATCHES[:2]).fs)

    drawn = draw_svg([picture], Links())

    assert drawn.count('<a href="/b?from=') == 2
    assert '<a href="/s?a=0&amp;b=&lt;&quot;&gt;" tabindex="-1">' in drawn
    assert "<a " not in draw_svg([picture])
