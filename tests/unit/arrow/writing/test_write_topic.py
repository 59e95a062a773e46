"""Tables of several libraries as records of topics, all of them once."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from tidelog import arrow
from tidelog.arrow.schema import HEADER_TYPE, TIMESTAMP_TYPE
from tidelog.arrow.writing import json_column, staged_commit, write_plan
from tidelog.env.system_files import SystemFiles
from tidelog.errors import (
    CommitUnfinished,
    DirectoryLocked,
    InvalidArgument,
    InvalidConfig,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    MessageTooLarge,
    TransactionMismatch,
    UnknownTopicOrPartition,
)
from tidelog.staging.directory import CommitPoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_DESCRIPTOR = OSError(errno.EMFILE, "too many open files")
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
ROWS = pa.table(
    {
        "key": ["k", None, "k"],
        "value": ["a", "b", None],
        "timestamp": pa.array([NOON] * 3, TIMESTAMP_TYPE),
        "headers": pa.array([None, [("h", b"1")], [("h", None)]], pa.list_(HEADER_TYPE)),
    }
)


def rows_of(path: Path, topic: str = "t", *names: str) -> list[dict[str, Any]]:
    names = names or ("key", "value", "timestamp", "headers")
    found: list[dict[str, Any]] = arrow.read(path, topic, columns=names).read_all().to_pylist()
    return found


def test_a_repeat_stages_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its rows are not even asked for, and the line says what was committed."""
    arrow.write(tmp_path, "t", ROWS, "x")

    def rows() -> Iterator[pa.RecordBatch]:
        pytest.fail("no row of a repeat is needed")
        yield from ROWS.to_batches()

    again = arrow.write(tmp_path, "t", pa.RecordBatchReader.from_batches(ROWS.schema, rows()), "x")

    assert (again.is_repeat, again.total) == (True, 3)
    [line] = [line for line in caplog.messages if line.startswith("table-write-skipped")]
    assert "txn=x" in line
    assert not [one.name for one in tmp_path.iterdir() if "staged" in one.name]
    with pytest.raises(TransactionMismatch):
        arrow.write(tmp_path, "u", ROWS, "x")


def test_rows_are_records_with_all_their_fields(tmp_path: Path) -> None:
    """A null value is a tombstone; text becomes its UTF-8."""
    done = arrow.write(tmp_path / "new", "t", ROWS)

    assert (done.total, done.records, done.is_repeat) == (3, {"t": 3}, False)
    header = {"key": "h", "value": b"1"}
    assert rows_of(tmp_path / "new") == [
        {"key": b"k", "value": b"a", "timestamp": NOON, "headers": None},
        {"key": None, "value": b"b", "timestamp": NOON, "headers": [header]},
        {"key": b"k", "value": None, "timestamp": NOON, "headers": [header | {"value": None}]},
    ]
    assert not [name for name in os.listdir(tmp_path / "new") if name.endswith(".staged")]


def of_pandas(table: pa.Table) -> object:
    pytest.importorskip("pandas")
    return table.to_pandas()


def of_polars(table: pa.Table) -> object:
    return pytest.importorskip("polars").from_arrow(table)


def of_duckdb(table: pa.Table) -> object:
    return pytest.importorskip("duckdb").from_arrow(table)


def of_parquet(table: pa.Table) -> object:
    pq.write_table(table, "rows.parquet")
    return ds.dataset("rows.parquet")


@pytest.mark.parametrize(
    "made",
    [
        pa.Table.to_reader,
        lambda table: table.to_batches()[0],
        lambda table: ds.dataset(table).scanner(),
        of_parquet,
        of_pandas,
        of_polars,
        of_duckdb,
    ],
    ids=["reader", "batch", "scanner", "dataset", "pandas", "polars", "duckdb"],
)
def test_tables_of_any_library_are_taken(
    tmp_path: Path, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has types of its own for the same text, bytes and times."""
    monkeypatch.chdir(tmp_path)
    table = ROWS.drop_columns(["headers"])
    arrow.write(tmp_path / "data", "t", made(table))

    found = arrow.read(tmp_path / "data", "t", columns=table.schema.names).read_all()
    assert found.to_pylist() == [
        {
            name: row[name] and (row[name] if name == "timestamp" else row[name].encode())
            for name in row
        }
        for row in table.to_pylist()
    ]


def test_a_topic_is_copied_with_its_partitions(tmp_path: Path) -> None:
    """What was read is written; offsets are assigned again."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t", 3)
        for number in range(9):
            logs.append("t", b"%d" % number, partition=number % 3)

    arrow.write(tmp_path, "copy", arrow.dataset(tmp_path, "t"), partitions=3)

    columns = ("partition", "offset", "value", "timestamp")
    assert rows_of(tmp_path, "copy", *columns) == rows_of(tmp_path, "t", *columns)


def test_rows_may_name_their_topics(tmp_path: Path) -> None:
    """Without a topic; with one the column is ignored."""
    table = pa.table({"topic": ["a", "b", "a"], "value": ["1", "2", "3"]})

    assert arrow.write(tmp_path, None, table).records == {"a": 2, "b": 1}
    assert arrow.write(tmp_path, "c", table).records == {"c": 3}
    assert rows_of(tmp_path, "a", "value") == [{"value": b"1"}, {"value": b"3"}]


def test_a_repeat_is_skipped_and_other_topics_are_refused(tmp_path: Path) -> None:
    """By the id alone, as in Spark's writes."""
    first = arrow.write(tmp_path, "t", ROWS, "daily")
    again = arrow.write(tmp_path, "t", ROWS.slice(1), "daily")

    assert (first.is_repeat, again.is_repeat, again.total) == (False, True, 3)
    assert len(rows_of(tmp_path)) == 3
    with pytest.raises(TransactionMismatch):
        arrow.write(tmp_path, "u", ROWS, "daily")


def test_no_rows_make_the_topic_and_keep_the_id(tmp_path: Path) -> None:
    """Once it exists, a write without rows and id changes nothing."""
    nothing = ROWS.slice(0, 0)
    assert arrow.write(tmp_path, "t", nothing, partitions=2).total == 0
    before = sorted(os.listdir(tmp_path))
    assert arrow.write(tmp_path, "t", nothing).records == {}
    assert sorted(os.listdir(tmp_path)) == before
    assert arrow.write(tmp_path, "t", nothing, "x").is_repeat is False
    assert arrow.write(tmp_path, "t", ROWS, "x").is_repeat is True


def test_a_directory_that_a_write_makes_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its name may be mistyped, which nothing else shows to a program that writes once."""
    new = tmp_path / "dtaa"

    for _ in range(2):
        arrow.write(new, "t", ROWS)

    made = [record for record in caplog.records if "data-directory-created" in record.msg]
    assert [record.getMessage() for record in made] == [f"data-directory-created path={new}"]
    assert made[0].levelname == "WARNING"


def test_a_new_topic_has_the_settings_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are for a new topic only, which a warning says where another value is asked for."""
    arrow.write(tmp_path, "t", ROWS, config={"retention.ms": 5}, partitions=2, compression="zstd")
    with tidelog.open(tmp_path) as logs:
        assert logs.topic("t").config == {"retention.ms": "5"}
        assert len(logs.topic("t").partitions) == 2

    arrow.write(tmp_path, "t", ROWS, config={"retention.ms": 5})
    assert not [message for message in caplog.messages if "settings-ignored" in message]
    arrow.write(tmp_path, "t", ROWS, config={"retention.ms": 6, "segment.ms": 604_800_000})
    assert "settings-ignored: retention.ms: topic t exists already" in caplog.messages
    with pytest.raises(InvalidArgument, match=r"topic t has 2 partitions.*do not ask for 3"):
        arrow.write(tmp_path, "t", ROWS, partitions=3)


@pytest.mark.parametrize(
    ("error", "words", "arguments"),
    [
        (InvalidArgument, "is not a table", {"table": [{"value": "a"}]}),
        (InvalidArgument, "column price is not a field", {"table": pa.table({"price": [1]})}),
        (InvalidArgument, "no topic is named", {"topic": None}),
        (InvalidArgument, "partitions must be a number from 1 on", {"partitions": 0}),
        (InvalidArgument, "batch_bytes must be", {"batch_bytes": 1}),
        (InvalidArgument, "buffer_bytes must be", {"buffer_bytes": 1}),
        (InvalidArgument, "timeout_ms must be", {"timeout_ms": -1}),
        (InvalidArgument, "rar", {"compression": "rar"}),
        (InvalidArgument, "blank", {"txn": " "}),
        (InvalidArgument, "not a path", {"directory": ""}),
        (InvalidTopic, "a/b", {"topic": "a/b"}),
        (InvalidConfig, "retention.ms", {"config": {"retention.ms": "soon"}}),
    ],
)
def test_bad_arguments_are_refused_before_a_file_is_made(
    tmp_path: Path, error: type[Exception], words: str, arguments: dict[str, Any]
) -> None:
    """With a typed error that names the argument."""
    given = {"directory": tmp_path / "data", "topic": "t", "table": ROWS} | arguments

    with pytest.raises(error, match=words):
        arrow.write(**given)
    assert os.listdir(tmp_path) == []


LONG_AGO = pa.array([0, -1], pa.timestamp("s", "UTC"))


@pytest.mark.parametrize(
    ("error", "second"),
    [
        (InvalidRecord, {"key": pa.array(["k", None])}),
        (UnknownTopicOrPartition, {"partition": pa.array([0, 7])}),
        (InvalidTimestamp, {"timestamp": LONG_AGO}),
        (MessageTooLarge, {"value": pa.array(["a", "b" * 2000])}),
    ],
)
def test_a_bad_row_leaves_nothing_behind(
    tmp_path: Path, error: type[Exception], second: dict[str, pa.Array]
) -> None:
    """Not even the rows before it, nor a staged file."""
    one = {"key": pa.array(["k"]), "value": pa.array(["a"])}
    arrow.write(
        tmp_path, "t", pa.table(one), config={"cleanup.policy": "compact", "max.message.bytes": 999}
    )
    before = sorted(os.listdir(tmp_path))
    two = {"key": pa.array(["k", "k"]), "value": pa.array(["a", "b"])}

    with pytest.raises(error):
        arrow.write(tmp_path, "t", pa.table(two | second))
    assert sorted(os.listdir(tmp_path)) == before
    assert len(rows_of(tmp_path)) == 1


def failing() -> Iterator[pa.RecordBatch]:
    yield from ROWS.to_batches()
    raise KeyboardInterrupt


def test_a_table_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its own error, or an interrupt, comes through."""
    arrow.write(tmp_path, "t", ROWS)
    before = sorted(os.listdir(tmp_path))

    with pytest.raises(KeyboardInterrupt):
        arrow.write(tmp_path, "t", pa.RecordBatchReader.from_batches(ROWS.schema, failing()), "x")
    assert sorted(os.listdir(tmp_path)) == before
    assert arrow.write(tmp_path, "t", ROWS, "x").is_repeat is False


@pytest.mark.parametrize("point", CommitPoint)
def test_an_interrupt_at_any_point_of_the_commit_leaves_all_or_nothing(
    tmp_path: Path, point: CommitPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeat with the same id adds the rows only where they are not in."""
    arrow.write(tmp_path, "t", ROWS)

    def stop(at: object) -> None:
        if at is point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(staged_commit, "reached", stop)
        with pytest.raises(KeyboardInterrupt):
            arrow.write(tmp_path, "t", ROWS, "x")

    assert len(rows_of(tmp_path)) in {3, 6}
    assert arrow.write(tmp_path, "t", ROWS, "x").is_repeat is (point is not CommitPoint.CHECKED)
    assert len(rows_of(tmp_path)) == 6
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".staged")]


class _FewDescriptors(SystemFiles):
    """A disk that lists nothing any more once a commit has come to a moment."""

    is_out = False

    def list(self, path: str) -> list[str]:
        """Return the names in a directory."""
        if self.is_out:
            raise NO_DESCRIPTOR
        return super().list(path)


@pytest.mark.parametrize("point", [CommitPoint.COMMITTED, CommitPoint.CLEANED])
def test_a_write_that_is_committed_says_so_whatever_its_clean_up_meets(
    tmp_path: Path, point: CommitPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any other error a program would write the rows again."""
    fs, is_unfinished = _FewDescriptors(has_posix=True), point is CommitPoint.COMMITTED

    def run_out(at: object) -> None:
        fs.is_out |= at is point
        if fs.is_out and is_unfinished:
            raise NO_DESCRIPTOR

    with monkeypatch.context() as patched:
        patched.setattr(staged_commit, "SYSTEM_FILES", fs)
        patched.setattr(staged_commit, "reached", run_out)
        with pytest.raises(CommitUnfinished) if is_unfinished else nullcontext():
            assert arrow.write(tmp_path, "t", ROWS).total == 3

    with tidelog.open(tmp_path):
        assert len(rows_of(tmp_path)) == 3


def test_kafka_holds_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It commits for nobody: an error at once, without a time to wait."""
    with tidelog.open(tmp_path):
        monkeypatch.setattr(write_plan, "program_of", lambda _: "java")
        with pytest.raises(DirectoryLocked):
            arrow.write(tmp_path, "t", ROWS)


@settings(max_examples=20, deadline=None)  # the first one imports Arrow's writers
@given(
    sizes=st.lists(st.integers(0, 60_000), min_size=1, max_size=60),
    partitions=st.integers(1, 5),
    codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
)
def test_rows_come_once_and_in_order_whatever_the_sizes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], partitions: int, codec: str
) -> None:
    """One large batch is written in slices; rows of a key stay in order."""
    path = tmp_path_factory.mktemp("data")
    values = [b"%06d" % number + b"v" * size for number, size in enumerate(sizes)]
    keys = [b"%d" % (number % 7) for number in range(len(sizes))]
    table = pa.table({"key": keys, "value": values})

    done = arrow.write(
        path, "t", table, partitions=partitions, compression=codec, buffer_bytes=1 << 20
    )

    assert done.total == len(values)
    found = rows_of(path, "t", "key", "value")
    assert sorted(row["value"] for row in found) == values
    for key in set(keys):
        of_key = [row["value"] for row in found if row["key"] == key]
        assert of_key == sorted(of_key)


BAD_JSON = [
    (pa.array([b"bytes"]), "row 0, column json: the value cannot be written as JSON: .*bytes"),
    (pa.array([NOON], TIMESTAMP_TYPE), "row 0, column json: .*datetime"),
    (pa.array([1.5, float("nan")]), "row 1, column json: .*"),
    (pa.array([{"a": 1.5}, None, {"a": float("inf")}]), "row 2, column json: .*"),
    (pa.array([1], pa.timestamp("ns")), "column json: "),
    (pa.array([10**15], pa.timestamp("s")), "rows from 0 on, column json: .*too large"),
]


@pytest.mark.parametrize(("column", "why"), BAD_JSON, ids=str)
def test_what_json_cannot_express_is_an_error_with_its_row(
    tmp_path: Path, column: pa.Array, why: str
) -> None:
    """Nothing of the table is written, whichever row it is."""
    with pytest.raises(InvalidArgument, match=why):
        arrow.write(tmp_path, "t", pa.table({"json": column}))

    with pytest.raises(UnknownTopicOrPartition):
        rows_of(tmp_path)


def test_a_value_is_given_once(tmp_path: Path) -> None:
    """A table has ``value`` or ``json``, and one of it."""
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["json", "JSON"])
    both = pa.table({"json": [1], "value": ["v"]})

    with pytest.raises(InvalidArgument, match="several columns are named json"):
        arrow.write(tmp_path, "t", twice)
    with pytest.raises(InvalidArgument, match="are the same field of a record; drop one"):
        arrow.write(tmp_path, "t", both)


MAP = pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize("kind", [MAP, pa.list_(MAP), pa.struct([("a", pa.struct([("b", MAP)]))])])
def test_a_map_is_refused_wherever_it_is(tmp_path: Path, kind: pa.DataType) -> None:
    """PyArrow gives its entries as pairs, of which JSON would make lists."""
    with pytest.raises(InvalidArgument, match="column json holds a map"):
        arrow.write(tmp_path, "t", pa.table({"json": pa.array([], kind)}))


@pytest.mark.parametrize("rows_at_once", [2, 10_000])
def test_a_column_of_any_type_is_written_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    """Null is a tombstone, a null within a value is not."""
    monkeypatch.setattr(json_column, "_ROWS", rows_at_once)
    columns = {
        "structs": pa.array([{"a": [1, None], "b": "ü"}, None, {"a": None, "b": None}]),
        "texts": pa.array(["a", None, ""]).dictionary_encode(),
        "numbers": pa.array([1, None, -2]),
        "decimals": pa.array([{"n": [Decimal("9.50")]}, None, {"n": [Decimal(10**30)]}]),
    }
    for topic, column in columns.items():
        table = pa.table({"key": ["1", "2", "3"], "Json": column})
        arrow.write(tmp_path, topic, table)

    found = {topic: [row["value"] for row in rows_of(tmp_path, topic)] for topic in columns}
    assert found == {
        "structs": ['{"a":[1,null],"b":"ü"}'.encode(), None, b'{"a":null,"b":null}'],
        "texts": [b'"a"', None, b'""'],
        "numbers": [b"1", None, b"-2"],
        "decimals": [b'{"n":[9.5]}', None, b'{"n":[1%s]}' % (b"0" * 30)],
    }
    assert [row["key"] for row in rows_of(tmp_path, "numbers")] == [b"1", b"2", b"3"]


def test_a_decimal_that_no_float_is_is_refused(tmp_path: Path) -> None:
    """Readers of JSON would round it; a text has all digits."""
    table = pa.table({"json": [Decimal("0.5"), Decimal("0.1234567890123456789")]})
    with pytest.raises(InvalidArgument, match=r"row 1, column json: .*789 has more digits"):
        arrow.write(tmp_path, "t", table)
