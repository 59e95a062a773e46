"""What works in which release of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

import tidelog
from tidelog.errors import InvalidArgument
from tidelog.spark.options.source_options import ReadOptions
from tidelog.spark.read.stream_reader import RefusedStreamReader, UnlimitedStreamReader
from tidelog.spark.releases import check_limits, check_release, spark_release
from tidelog.spark.sessions.spark_session import AVAILABLE_NOW, session_conf
from tidelog.spark.source import LogSource

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.spark.read.stream_offsets import Json

SCHEMA = StructType([StructField("partition", IntegerType()), StructField("offset", LongType())])
LIMITS = ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger"]
WITHOUT_LIMITS = [(4, 0), (4, 1)]
WITH_LIMITS = [(4, 2), (4, 3), (5, 0)]


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Return a data directory with three records in each of two partitions."""
    path = str(tmp_path / "data")
    with tidelog.open(path) as logs:
        logs.create_topic("t", 2)
    append(path, 3)
    return path


def append(path: str, count: int) -> None:
    with tidelog.open(path) as logs:
        for number in range(2):
            logs.partition("t", number).append_records([(-1, None, b"v", [])] * count)


def given(path: str, **more: Any) -> dict[str, str]:
    options = {"path": path, "subscribe": "t", "startingOffsets": "earliest"} | more
    return {name: str(value) for name, value in options.items()}


def at(monkeypatch: pytest.MonkeyPatch, release: tuple[int, int]) -> None:
    """Let this process run on another release of Spark."""
    monkeypatch.setattr("pyspark.version.__version__", "{}.{}.7.dev0".format(*release))


@pytest.mark.parametrize("release", [*WITHOUT_LIMITS, *WITH_LIMITS])
def test_the_release_is_that_of_pyspark(
    release: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any with Python data sources is taken."""
    at(monkeypatch, release)

    assert spark_release() == release
    check_release(release)


def test_a_release_without_python_data_sources_is_refused() -> None:
    """The error says which it is, and which it may be."""
    with pytest.raises(InvalidArgument, match=r"Spark 3\.5 has no .* needs Spark 4\.0 to 4\.3"):
        check_release((3, 5))


@pytest.mark.parametrize("release", WITHOUT_LIMITS)
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_refused_where_spark_does_not_say_where_a_batch_begins(
    release: tuple[int, int], name: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the option, the release, and the one that it needs."""
    at(monkeypatch, release)

    reader = LogSource(given(data, **{name: 2})).streamReader(SCHEMA)

    assert isinstance(reader, RefusedStreamReader)
    with pytest.raises(InvalidArgument, match=rf"{name} needs Spark 4\.2 .* Spark 4\.\d does not"):
        reader.initialOffset()
    assert type(LogSource(given(data)).streamReader(SCHEMA)) is UnlimitedStreamReader


@pytest.mark.parametrize("release", WITH_LIMITS)
def test_limits_are_taken_by_later_releases(
    release: tuple[int, int], data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them."""
    pytest.importorskip("pyspark.sql.streaming.datasource")
    from tidelog.spark.read.limited_stream_reader import LimitedStreamReader

    at(monkeypatch, release)

    reader = LogSource(given(data, **dict.fromkeys(LIMITS, 2))).streamReader(SCHEMA)

    assert type(reader) is LimitedStreamReader
    check_limits(LIMITS, release)


@pytest.mark.parametrize("release", [*WITHOUT_LIMITS, *WITH_LIMITS])
def test_a_session_reads_all_that_is_available(
    release: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a setting of Spark's where a source cannot do so by itself."""
    at(monkeypatch, release)

    assert session_conf().get(AVAILABLE_NOW) == ("true" if release in WITHOUT_LIMITS else None)


class OldSpark:
    """A query as Spark 4.0 and 4.1 run it, in the order of its calls.

    ``latestOffset`` is not passed where the batch begins, and is called first: only then does a new
    query ask for its initial offset. With ``availableNow`` all batches end where it was at first.
    """

    def __init__(self, path: str, **more: Any) -> None:
        self.reader = UnlimitedStreamReader(ReadOptions.parse_stream(given(path, **more)), SCHEMA)
        self.rows: list[tuple[int, int]] = []

    def batch(self, start: Json | None) -> Json:
        """Plan a batch and run it; return its end. ``start`` is None in a new query."""
        end = self.reader.latestOffset()
        self.run(start, end)
        return end

    def run(self, start: Json | None, end: Json) -> None:
        """Run a batch that was planned, perhaps before a restart."""
        begin = self.reader.initialOffset() if start is None else start
        if begin == end:
            return
        for task in self.reader.partitions(begin, end):
            for rows in self.reader.read(task):
                columns = rows.to_pydict()
                self.rows += zip(columns["partition"], columns["offset"], strict=True)


def expected(end: int, first: int = 0) -> list[tuple[int, int]]:
    return [(number, offset) for number in range(2) for offset in range(first, end)]


def test_a_batch_has_all_that_is_available(data: str) -> None:
    """Nothing new gives the same end, so that Spark runs no batch."""
    query = OldSpark(data)
    end = query.batch(None)
    assert query.reader.latestOffset() == end
    append(data, 2)

    query.batch(end)

    assert sorted(query.rows) == expected(5)


def test_a_new_query_begins_where_it_was_planned(data: str) -> None:
    """Records that come before Spark asks where it begins are not left out."""
    query = OldSpark(data, startingOffsets="latest")
    end = query.reader.latestOffset()
    append(data, 2)

    query.run(None, end)
    query.batch(end)

    assert sorted(query.rows) == expected(5, 3)


@pytest.mark.parametrize("is_available_now", [True, False])
@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_first_batch_that_is_repeated_has_the_same_rows(
    data: str, starting: str, is_available_now: bool
) -> None:
    """Whatever the initial offset is by now; and what follows is read once."""
    before = OldSpark(data, startingOffsets=starting)
    end = before.reader.latestOffset()
    before.run(None, end)
    append(data, 2)
    after = OldSpark(data, startingOffsets=starting)
    bound = after.reader.latestOffset() if is_available_now else None

    after.run(None, end)
    assert sorted(after.rows) == sorted(before.rows)
    after.run(end, after.reader.latestOffset() if bound is None else bound)

    assert sorted(after.rows) == expected(5, 0 if starting == "earliest" else 3)


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_query_that_starts_again_goes_on_where_it_was(data: str, starting: str) -> None:
    """Its last batch was committed, so nothing is repeated, and no batch says where it begins."""
    end = OldSpark(data, startingOffsets=starting).batch(None)
    append(data, 2)
    after = OldSpark(data, startingOffsets=starting)

    later = after.batch(end)
    again = OldSpark(data, startingOffsets=starting)
    again.run(end, later)  # not committed: it is repeated
    append(data, 1)
    again.batch(later)

    assert sorted(after.rows) == expected(5, 3)
    assert sorted(again.rows) == expected(6, 3)


def test_after_a_restart_a_topic_without_news_gives_no_rows(data: str) -> None:
    """Spark may plan a batch of them."""
    end = OldSpark(data).batch(None)
    after = OldSpark(data)

    after.batch(end)

    assert after.rows == []


LACKING = '{"t": {"0": 1}}'


def test_starting_offsets_that_lack_a_partition_are_refused(data: str) -> None:
    """Of a new query; one with the offsets mended may continue its checkpoint."""
    query = OldSpark(data, startingOffsets=LACKING)
    end = query.reader.latestOffset()
    with pytest.raises(InvalidArgument, match="startingOffsets"):
        query.run(None, end)

    mended = OldSpark(data, startingOffsets='{"t": {"0": 1, "1": 2}}')
    mended.run(None, end)

    assert sorted(mended.rows) == [(0, 1), (0, 2), (1, 2)]


def test_a_query_that_starts_again_needs_no_starting_offsets(data: str) -> None:
    """Partitions may have been added since."""
    end = OldSpark(data).batch(None)
    append(data, 1)
    after = OldSpark(data, startingOffsets=LACKING)

    after.batch(end)

    assert sorted(after.rows) == expected(4, 3)
