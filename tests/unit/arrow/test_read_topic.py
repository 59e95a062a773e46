"""Topics as streams of Arrow record batches, and as datasets."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.hidden_damage import damage_before_the_last_index_entry
from tests.machinery.lost_segment import lose_a_segment

import tidelog
from tidelog.arrow import SCHEMA_WITH_HEADERS, TopicDataset, dataset, read, read_table, table_stream
from tidelog.datadir.lock_file import LOCK_FILE
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    CorruptMessage,
    DataLoss,
    InvalidArgument,
    KafkaStorageError,
    OffsetOutOfRange,
    PartitionsElsewhere,
    UnknownTopicOrPartition,
)
from tidelog.testing import damage_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tidelog.readonly.missing.damaged_range import DamagedRange

START_MS = 1_750_000_000_000


@pytest.fixture
def two_partitions(tmp_path: Path) -> Path:
    """Return a directory with records 0 to 99 of a topic, the even ones in partition 0."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 2)
        for numbers in (range(50), range(50, 100)):
            logs.append_all(
                "t",
                [
                    {"value": b"%d" % n, "key": b"k", "timestamp": START_MS + n, "partition": n % 2}
                    for n in numbers
                ],
            )
    return tmp_path


@pytest.mark.parametrize("threads", [1, 2])
def test_a_topic_that_is_created_again_does_not_pass_for_the_old_one(
    two_partitions: Path, threads: int
) -> None:
    """The logs of partitions that come later are opened later, by the same names."""
    found = read(two_partitions, "t", threads=threads)
    with tidelog.open(two_partitions) as logs:
        logs.delete_topic("t")
        logs.create_topic("t", 2)
        for number in range(2):
            logs.append_all("t", [{"value": b"%d" % n, "partition": number} for n in range(200)])

    with pytest.raises(KafkaStorageError, match="t-0 was deleted and created again while"):
        found.read_all()


def values(table: pa.Table | pa.RecordBatchReader) -> list[int]:
    """Return the values as numbers, in order."""
    read_all = table if isinstance(table, pa.Table) else table.read_all()
    return [int(value) for value in read_all["value"].to_pylist()]


def test_all_partitions_come_one_after_the_other(two_partitions: Path) -> None:
    """In order of their numbers; the columns are those of the schema unless some are named."""
    whole = read(two_partitions, "t").read_all()

    assert whole.schema == SCHEMA_WITH_HEADERS
    assert values(whole) == [*range(0, 100, 2), *range(1, 100, 2)]
    assert read(two_partitions, "t", columns=["offset", "key"]).schema.names == ["offset", "key"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("narrow", "expected"),
    [
        ({"partitions": 1}, list(range(1, 100, 2))),
        ({"partitions": [1, 0], "until": START_MS + 4}, [0, 2, 1, 3]),
        ({"since": START_MS + 97}, [98, 97, 99]),
        ({"since": "2025-06-15T15:06:40.098"}, [98, 99]),
        ({"start_offsets": {0: 48}, "end_offsets": {1: 1}}, [96, 98, 1]),
        ({"partitions": 0, "start_offsets": 47, "end_offsets": 49}, [94, 96]),
        ({"since": START_MS + 200}, []),
    ],
)
def test_reads_are_narrowed(
    two_partitions: Path, narrow: dict[str, Any], expected: list[int], threads: int
) -> None:
    """By partition, time (from, inclusive, to, exclusive) and offset."""
    assert values(read(two_partitions, "t", threads=threads, **narrow)) == expected
    assert values(dataset(two_partitions, "t", **narrow).to_table()) == expected


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    "narrow", [{}, {"partitions": 0, "since": START_MS + 60}, {"key": "k"}], ids=str
)
def test_rows_without_columns_are_counted(
    two_partitions: Path, narrow: dict[str, Any], threads: int
) -> None:
    """As PyArrow does when it selects none of a table's columns."""
    whole = read_table(two_partitions, "t", threads=threads, **narrow)
    found = read_table(two_partitions, "t", columns=[], threads=threads, **narrow)

    assert (found.num_rows, found.column_names) == (whole.num_rows, [])


@pytest.mark.parametrize(
    ("narrow", "error", "text"),
    [
        ({"columns": ["offsets"]}, InvalidArgument, "no column 'offsets'"),
        ({"columns": "offset"}, InvalidArgument, "columns is a list, as"),
        ({"partitions": 2}, UnknownTopicOrPartition, "no partition 2"),
        ({"partitions": "0"}, InvalidArgument, "partitions is a list, as"),
        ({"start_offsets": 3}, InvalidArgument, "say which, as start_offsets={0: 3}"),
        ({"start_offsets": {7: 3}}, InvalidArgument, "partition 7, which is not read"),
        ({"start_offsets": {0: 51}}, OffsetOutOfRange, "51"),
        ({"end_offsets": {0: 51}}, OffsetOutOfRange, "51"),
        ({"start_offsets": {0: 5}, "end_offsets": {0: 4}}, InvalidArgument, "below the start"),
        ({"isolation": "all"}, InvalidArgument, "isolation 'all'"),
        ({"read_up_to": "end"}, InvalidArgument, "read_up_to 'end'"),
        ({"since": "yesterday"}, InvalidArgument, "not a valid time"),
        ({"threads": 0}, InvalidArgument, "threads"),
    ],
)
def test_a_bad_argument_is_an_error_of_the_call(
    two_partitions: Path, narrow: dict[str, Any], error: type[Exception], text: str
) -> None:
    """Not of the stream that it returns."""
    with pytest.raises(error, match=text):
        read(two_partitions, "t", **narrow)


@pytest.mark.parametrize("door", [read, dataset])
def test_an_unknown_topic_or_directory_is_an_error_of_the_call(
    two_partitions: Path, door: Callable[..., object]
) -> None:
    """Of a stream as of a dataset."""
    with pytest.raises(UnknownTopicOrPartition, match="no topic u"):
        door(two_partitions, "u")
    with pytest.raises(InvalidArgument):
        door(two_partitions / "missing", "t")
    with pytest.raises(InvalidArgument, match="no data directory"):
        door([], "t")


def test_a_topic_of_several_directories_is_read_whole_or_on_request_in_part(
    tmp_path: Path,
) -> None:
    """Its partitions come from all of them; what is elsewhere is an error that names it."""
    disks = [tmp_path / "one", tmp_path / "two"]
    with tidelog.open(*disks) as logs:
        logs.create_topic("t", 2, is_spread=True)
        logs.append_all("t", [{"value": b"0", "partition": 0}, {"value": b"1", "partition": 1}])

    assert values(read(disks, "t")) == [0, 1]
    with pytest.raises(PartitionsElsewhere, match="allow_partial=True"):
        read(disks[0], "t")
    assert len(values(read(disks[0], "t", allow_partial=True))) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_damage_is_a_typed_error_after_all_records_before_it(
    two_partitions: Path, threads: int
) -> None:
    """Of the stream, also in the second partition; the first one is there as a whole."""
    damage_batch(two_partitions, "t", 30, partition=1)
    found = []

    def read_all() -> None:
        for batch in read(two_partitions, "t", threads=threads):
            found.extend(batch["offset"].to_pylist())

    with pytest.raises(CorruptMessage, match=r"offsets 25 to 49, below .* are missing .*t-1/0"):
        read_all()

    assert found == [*range(50), *range(25)]
    with pytest.raises(CorruptMessage):
        dataset(two_partitions, "t").to_table()
    with pytest.raises(CorruptMessage):
        list(dataset(two_partitions, "t").to_batches(filter=ds.field("offset") >= 10))


def test_a_dataset_sees_what_was_appended_since(two_partitions: Path) -> None:
    """Each scan looks at the logs as they are then."""
    found = dataset(two_partitions, "t")
    before = found.count_rows()
    with tidelog.open(two_partitions) as logs:
        logs.append("t", b"100", partition=0)

    assert (before, found.count_rows()) == (100, 101)
    assert found.head(3).num_rows == 3
    assert found.head(1000).num_rows == 101


def test_a_dataset_computes_columns_and_narrows_itself(two_partitions: Path) -> None:
    """Columns may be expressions, filters add up, and PyArrow writes it as files."""
    found = dataset(two_partitions, "t").filter(ds.field("offset") < 10)
    twice = {"twice": ds.field("offset") + ds.field("offset")}

    table = found.to_table(columns=twice, filter=ds.field("partition") == 1)

    assert table["twice"].to_pylist() == list(range(0, 20, 2))
    assert found.filter(ds.field("offset") >= 5).count_rows() == 10
    ds.write_dataset(found, two_partitions / "lake", format="parquet")
    assert ds.dataset(two_partitions / "lake").count_rows() == 20
    assert pa.table(found).num_rows == 20


def test_a_scanner_has_the_columns_and_batches_that_it_is_given(two_partitions: Path) -> None:
    """Columns may be computed; an option that PyArrow's scanners lack is an error."""
    found = dataset(two_partitions, "t")

    small = list(found.scanner(["offset"], batch_size=7).to_batches())
    twice = found.scanner({"twice": ds.field("offset") + ds.field("offset")})

    assert {len(batch) for batch in small} == {7, 1}
    assert sum(map(len, small)) == found.scanner().count_rows() == 100
    assert twice.projected_schema.names == twice.to_table().column_names == ["twice"]
    assert found.scanner(["offset"]).head(3)["offset"].to_pylist() == [0, 1, 2]
    with pytest.raises(InvalidArgument, match="a scan has the options batch_size, "):
        found.scanner(batch_rows=7)


@pytest.mark.parametrize("bound", [7.5, pa.scalar(7.5, pa.float64()), pa.scalar(7.5, pa.float32())])
def test_offsets_may_be_compared_with_a_fraction(two_partitions: Path, bound: Any) -> None:
    """Such as a mean, which no offset equals; the range is narrowed to the next ones."""
    found, offset = dataset(two_partitions, "t"), ds.field("offset")

    assert found.count_rows(filter=offset < bound) == 2 * 8
    assert found.count_rows(filter=offset >= bound) == 2 * 42


def test_a_dataset_refuses_what_it_does_not_offer(two_partitions: Path) -> None:
    """With an error that says what to do instead; PyArrow's own methods know files only."""
    found = dataset(two_partitions, "t")
    own = {name for name in vars(ds.Dataset) if not name.startswith("_")}
    assert own <= set(vars(TopicDataset)), "a method of PyArrow that would crash the process"
    refused = ("take", "sort_by", "join", "join_asof", "replace_schema", "get_fragments")
    for name in refused:
        with pytest.raises(InvalidArgument, match=f"no {name}: "):
            getattr(found, name)()


def test_a_filter_chooses_what_is_read(two_partitions: Path) -> None:
    """Damage outside of the offsets and partitions that a filter leaves is not read."""
    damage_batch(two_partitions, "t", 30, partition=1)
    found = dataset(two_partitions, "t")

    assert found.count_rows(filter=ds.field("partition") == 0) == 50
    assert found.count_rows(filter=ds.field("partition").isin([0, 5])) == 50
    assert found.count_rows(filter=ds.field("offset") < 20) == 40
    with pytest.raises(CorruptMessage):
        found.count_rows(filter=ds.field("partition") >= 0)


def test_a_filter_that_compares_with_nan_leaves_no_row_out(two_partitions: Path) -> None:
    """Nothing is above or below it, so a negated comparison holds for all rows."""
    found, nan = dataset(two_partitions, "t"), float("nan")

    assert found.count_rows(filter=~(ds.field("offset") <= nan)) == 100
    assert found.count_rows(filter=~(ds.field("offset") > nan) & (ds.field("offset") < 3)) == 6
    assert found.count_rows(filter=ds.field("offset") <= nan) == 0


@pytest.mark.parametrize("codec", ["uncompressed", "zstd", "gzip"])
def test_threads_change_nothing(tmp_path: Path, codec: str) -> None:
    """Order and records are the same, though batches decompress to more than is kept ahead."""
    with tidelog.open(tmp_path, compression_type=codec) as logs:
        logs.create_topic("t")
        logs.append_all("t", (b"%d" % n + bytes(200_000) for n in range(600)))

    one, two = (read(tmp_path, "t", threads=threads, columns=["offset"]) for threads in (1, 2))

    assert one.read_all().to_pylist() == two.read_all().to_pylist()
    assert sum(len(batch) for batch in read(tmp_path, "t")) == 600


@pytest.fixture
def stale(tmp_path: Path) -> Path:
    """Return a directory whose checkpoint names a high watermark of 3, below the end of 10."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append_all("t", (b"%d" % n for n in range(10)))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    return tmp_path


def test_records_above_a_stale_high_watermark_are_warned_of(stale: Path) -> None:
    """Readers do not see what a broker that crashed had not acknowledged, unless they ask."""
    with pytest.warns(UserWarning, match=r"7 offsets .* from 3 on of t-0, .*read_up_to='logEnd'"):
        assert read_table(stale, "t", on_damage=print).num_rows == 3
    with pytest.warns(UserWarning, match="7 offsets above the high watermark"):
        dataset(stale, "t")


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({"read_up_to": "highWatermark"}, 3),
        ({"read_up_to": "high_watermark"}, 3),
        ({"read_up_to": "logEnd"}, 10),
        ({"read_up_to": "log_end"}, 10),
        ({"isolation": "log_end"}, 10),
        ({"isolation": "logEnd"}, 10),
        ({"end_offsets": 2}, 2),
        ({"end_offsets": {0: 2}}, 2),
    ],
)
def test_who_says_where_to_end_is_not_warned(stale: Path, how: dict[str, Any], found: int) -> None:
    """Words may be written as Python writes them, or as Kafka's settings are."""
    assert read_table(stale, "t", **how).num_rows == found


def test_a_high_watermark_that_a_writer_will_raise_is_no_warning(stale: Path) -> None:
    """A broker writes its checkpoint every few seconds, and there is always more meanwhile."""
    lock = SYSTEM_FILES.lock(str(stale / LOCK_FILE))
    try:
        assert read_table(stale, "t").num_rows == 3
    finally:
        lock.release()


KEYS = (None, b"", b"k", b"other", "é".encode())


@settings(max_examples=60, deadline=None)  # the first one loads the decoder
@given(data=st.data(), threads=st.integers(1, 2))
def test_only_the_last_records_and_those_of_a_key(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, threads: int
) -> None:
    """Of each partition, counted among the records that match, also with a filter on top."""
    path = tmp_path_factory.mktemp("data")
    records = data.draw(
        st.lists(
            st.tuples(st.sampled_from(KEYS), st.integers(0, 9), st.integers(0, 1)), max_size=40
        )
    )
    key = data.draw(st.sampled_from((None, "é", *KEYS[1:])))
    last = data.draw(st.none() | st.integers(0, 12))
    since = data.draw(st.none() | st.integers(0, 10))
    until = data.draw(st.none() | st.integers(0, 10))
    with tidelog.open(path) as logs:
        logs.create_topic("t", 2)
        for number, (one, time, partition) in enumerate(records):
            logs.append("t", b"%d" % number, key=one, timestamp=time, partition=partition)

    wanted: dict[int, list[int]] = {0: [], 1: []}
    for number, (one, time, partition) in enumerate(records):
        sought = key.encode() if isinstance(key, str) else key
        is_timely = (since is None or time >= since) and (until is None or time < until)
        if is_timely and sought in {None, one}:
            wanted[partition].append(number)
    expected = [each for numbers in wanted.values() for each in _last(numbers, last)]
    narrow: Any = {"key": key, "last": last, "since": since, "until": until}

    found = read_table(path, "t", columns=["value"], threads=threads, **narrow)
    assert values(found) == expected
    scanned = dataset(path, "t", **narrow).to_table(["value"], ds.field("partition") == 1)
    assert values(scanned) == _last(wanted[1], last)


def _last(numbers: list[int], count: int | None) -> list[int]:
    return numbers if count is None else numbers[max(len(numbers) - count, 0) :]


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3000), max_size=60),
    portion=st.integers(1, 5000),
    first=st.integers(1, 5000),
    codec=st.sampled_from(["uncompressed", "gzip", "zstd"]),
    isolation=st.sampled_from(["read_committed", "read_uncommitted"]),
)
def test_compressed_batches_are_decoded_in_portions(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    portion: int,
    first: int,
    codec: str,
    isolation: str,
) -> None:
    """On threads ahead of the reader; all rows come once and in order."""
    path = tmp_path_factory.mktemp("data")
    with tidelog.open(path) as logs:
        logs.create_topic("t", config={"compression.type": codec})
        for number, size in enumerate(sizes):
            logs.append("t", b"%d" % number, key=b"k" * size)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table_stream, "PORTION_BYTES", portion)
        patched.setattr(table_stream, "AHEAD_BYTES", 2 * portion)
        patched.setattr(table_stream, "_FIRST_BYTES", first)
        found = read_table(path, "t", threads=2, isolation=isolation)

    assert values(found) == [*range(len(sizes))]
    assert [len(key) for key in found["key"].to_pylist()] == sizes


def test_damage_is_an_error_after_the_last_records_before_it(tmp_path: Path) -> None:
    """A reader does not know what lies past it in the newest segment."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        for number in range(5):
            logs.append("t", b"%d" % number)
    damage_batch(tmp_path, "t", 3)

    found = read(tmp_path, "t", last=2, threads=1)
    assert found.read_next_batch()["value"].to_pylist() == [b"1", b"2"]
    with pytest.raises(CorruptMessage):
        found.read_next_batch()


@pytest.mark.parametrize("threads", [1, 2])
def test_damage_that_hides_what_is_committed_is_an_error_after_the_records_before_it(
    tmp_path: Path, threads: int
) -> None:
    """A log beside its writer ends well, but no marker after the damage is known."""
    damage_before_the_last_index_entry(tmp_path)
    committed: dict[str, Any] = {"isolation": "read_committed", "threads": threads}
    found: list[int] = []

    def read_all(batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            found.extend(batch["offset"].to_pylist())

    with pytest.raises(CorruptMessage, match="on_damage=print skips it"):
        read_all(read(tmp_path, "t", **committed))
    assert found == [0, 1, 2]
    topic = dataset(tmp_path, "t", **committed)
    for reaching in (ds.field("offset") >= 2, ds.field("offset") == 5):
        with pytest.raises(CorruptMessage):
            topic.to_table(filter=reaching)
    assert topic.count_rows(filter=ds.field("offset") < 3) == 3
    assert read_table(tmp_path, "t", end_offsets=3, **committed).num_rows == 3
    skipping = read_table(tmp_path, "t", on_damage=lambda _: None, **committed)
    assert values(skipping) == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_lost_segment_is_an_error_unless_it_is_skipped(tmp_path: Path, threads: int) -> None:
    """Where a read comes to the place of the segment."""
    lose_a_segment(tmp_path)
    some: dict[str, Any] = {"columns": ["offset"], "threads": threads}
    found: list[DamagedRange] = []

    with pytest.raises(DataLoss, match=r"t-0 has no offsets \[1, 2\).*on_damage=print skips it"):
        read_table(tmp_path, "t", **some)
    topic = dataset(tmp_path, "t", threads=threads)
    with pytest.raises(DataLoss):
        topic.count_rows(filter=ds.field("offset") != 1)
    assert topic.count_rows(filter=ds.field("offset") >= 2) == 2
    assert read_table(tmp_path, "t", end_offsets=1, **some)["offset"].to_pylist() == [0]
    rows = read_table(tmp_path, "t", on_damage=found.append, **some)
    assert rows["offset"].to_pylist() == [0, 2, 3]
    assert [(each.start_offset, each.end_offset) for each in found] == [(1, 2)]


def test_compaction_leaves_gaps_between_segments(tmp_path: Path) -> None:
    """No file need be lost there."""
    lose_a_segment(tmp_path, "compact")

    assert read_table(tmp_path, "t")["offset"].to_pylist() == [0, 2, 3]


@pytest.mark.parametrize("threads", [1, 2])
def test_damage_is_skipped_and_reported_if_it_is_asked_for(tmp_path: Path, threads: int) -> None:
    """Each time that the records are read; what is readable comes in order."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 2)
        for number in range(10):
            logs.append("t", b"%d" % number, partition=number % 2)
    damage_batch(tmp_path, "t", 2)
    found: list[DamagedRange] = []

    rows = read_table(tmp_path, "t", threads=threads, on_damage=found.append)
    assert values(rows) == [0, 2, 6, 8, 1, 3, 5, 7, 9]
    assert [(each.start_offset, each.end_offset) for each in found] == [(2, 3)]
    last = read_table(tmp_path, "t", last=3, threads=threads, on_damage=found.append)
    assert values(last) == [2, 6, 8, 5, 7, 9]
    topic = dataset(tmp_path, "t", on_damage=found.append)
    assert topic.count_rows(filter=ds.field("partition") == 0) == 4
    assert len(found) == 3
    with pytest.raises(CorruptMessage, match=r"on_damage=print skips it.*`tidelog rescue`"):
        read_table(tmp_path, "t", threads=threads)
    with pytest.raises(CorruptMessage, match="on_damage=print skips it"):
        dataset(tmp_path, "t").to_table()


@pytest.mark.parametrize("door", [read, read_table, dataset])
def test_a_signature_has_what_narrows_a_read(door: Any) -> None:
    """So that help and completion of a notebook show it, with its defaults."""
    found = inspect.signature(door).parameters

    narrow = ("partitions", "since", "until", "start_offsets", "end_offsets", "key", "last")
    assert {*narrow, "isolation", "read_up_to", "allow_partial", "on_damage"} <= set(found)
    assert (found["last"].default, found["isolation"].default) == (None, "read_uncommitted")
    assert not {"narrow", "on_unread", "skipping"} & set(found)


@pytest.mark.parametrize("door", [read, read_table, dataset])
@pytest.mark.parametrize(
    ("given", "hint"), [("start_offset", "did you mean start_offsets="), ("limit", "until, start")]
)
def test_an_unknown_argument_leads_to_the_right_one(
    two_partitions: Path, door: Any, given: str, hint: str
) -> None:
    """Under the name of the function that was called."""
    error = rf"{door.__name__}\(\) has no argument {given}=; .*{hint}"

    with pytest.raises(TypeError, match=error):
        door(two_partitions, "t", **{given: 1})


@pytest.mark.parametrize("door", [read, read_table, dataset])
def test_a_read_is_of_one_topic(two_partitions: Path, door: Any) -> None:
    """A list of topics is refused by a typed error."""
    with pytest.raises(InvalidArgument, match=r"of one topic, by its name, not of \['t', 'u'\]"):
        door(two_partitions, ["t", "u"])


@pytest.mark.parametrize("narrow", [{"last": -1}, {"last": True}, {"last": "1"}, {"key": 5}])
def test_a_bad_choice_is_refused(two_partitions: Path, narrow: Any) -> None:
    """Before a file is opened."""
    with pytest.raises(InvalidArgument, match=next(iter(narrow))):
        read_table(two_partitions, "t", **narrow)
