"""A topic's records in another number of partitions: each once, those of a key in order."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tests.spark.killed_jobs import kill_thrice

import tidelog
from tidelog.arrow.writing import staged_commit
from tidelog.cli.commands.spark_command import run as run_spark
from tidelog.cli.commands.spark_jobs import repartition_job
from tidelog.cli.parser import make_parser
from tidelog.config.deletion_settings import NEVER_DELETED
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, TidelogError
from tidelog.records.isolation import Isolation
from tidelog.records.partitioner import partition_for_key
from tidelog.spark import Repartitioned, repartition
from tidelog.staging.staged_file import list_staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.conftest import Validated

    from tidelog.records.record import Record

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "data"
SOURCE_PARTITIONS = 3
EACH = 800
"""Records of a partition, a tenth without a key: some tasks of the smallest size."""
FIRST_MS = 1_700_000_000_000


class Copied(NamedTuple):
    """A record, whose value holds its place in the source."""

    key: bytes | None
    value: bytes
    headers: Any
    timestamp: int

    @property
    def place(self) -> tuple[int, int]:
        partition, offset, _ = self.value.split(b" ", 2)
        return int(partition), int(offset)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a directory with the topic t, whose keys lie in several partitions."""
    path = str(tmp_path_factory.mktemp("source"))
    rng = random.Random(7)
    with tidelog.open(path, segment_ms=12_345_678, retention_ms=1) as logs:
        logs.create_topic("t", SOURCE_PARTITIONS, {"retention.ms": "-1"})
        for number in range(SOURCE_PARTITIONS):
            records = [made(rng, number, offset) for offset in range(EACH)]
            for start in range(0, EACH, 20):
                logs.partition("t", number).append_records(records[start : start + 20])
    return path


def made(rng: random.Random, number: int, offset: int) -> tuple[int, bytes | None, bytes, Any]:
    key = b"" if rng.random() < 0.05 else f"key {rng.randrange(60)}".encode()
    headers = [("h", b"%d" % offset), ("none", None)] if rng.random() < 0.3 else []
    value = b"%d %d %s" % (number, offset, rng.randbytes(250))
    return FIRST_MS + rng.randrange(10**9), key if rng.random() < 0.9 else None, value, headers


def records_of(path: str, topic: str) -> list[list[Copied]]:
    """Return the records of each partition, in order."""
    found = []
    with tidelog.open(path) as logs:
        numbers = sorted(logs.topics()[topic].partitions)
    for number in numbers:
        with tidelog.open_read_only(f"{path}/{topic}-{number}") as log:
            found.append(list(map(copy_of, log.records())))
    return found


def copy_of(record: Record) -> Copied:
    """Return what a copy of a record keeps."""
    return Copied(record.key, record.value or b"", tuple(record.headers), record.timestamp)


def all_of(path: str) -> Counter[Copied]:
    """Return the records of the source."""
    return Counter(one for part in records_of(path, "t") for one in part)


def copied(spark: SparkSession, source: str, target: Path, **others: Any) -> Repartitioned:
    given: dict[str, Any] = {"to": "u", "partitions": 7, "to_path": str(target)}
    return repartition(spark, source, "t", **{**given, "max_split_bytes": 1 << 16, **others})


@pytest.mark.parametrize("keyless", ["spread", "source"])
def test_each_record_is_written_once_and_each_key_stays_in_order(
    spark: SparkSession, source: str, tmp_path: Path, keyless: str
) -> None:
    """Whatever the tasks; keys are where Kafka's producers put them, and all else is equal.

    Within a new partition, records have the order of their source partitions and offsets, once for
    those out of place, then for the others.
    """
    seen: list[tuple[int, int]] = []

    done = copied(
        *(spark, source, tmp_path), keyless=keyless, on_progress=lambda *one: seen.append(one)
    )

    after = records_of(str(tmp_path), "u")
    assert (done.records, done.was_done, len(after)) == (SOURCE_PARTITIONS * EACH, False, 7)
    assert Counter(sum(after, [])) == all_of(source)  # noqa: RUF017 - few
    for number, records in enumerate(after):
        order = [(is_in_place(one), one.place) for one in records]
        assert all(one < other for one, other in pairwise(order))
        for one in records:
            if one.key is not None:
                assert partition_for_key(one.key, 7) == number
            elif keyless == "source":
                assert one.place[0] % 7 == number
    assert json.loads(done.next_offsets or "") == {
        "t": {str(n): EACH for n in range(SOURCE_PARTITIONS)}
    }
    ended, tasks = seen[-1]
    assert ended == tasks > SOURCE_PARTITIONS


def is_in_place(one: Copied) -> bool:
    """Say whether a record is where its key's hash puts it in the source."""
    return one.key is None or partition_for_key(one.key, SOURCE_PARTITIONS) == one.place[0]


def grown(path: Path, *counts: int) -> None:
    """Append each key twice, and records without one, with each number of partitions."""
    with tidelog.open(path) as logs:
        for count in counts:
            if count == counts[0]:
                logs.create_topic("t", count)
            else:
                logs.create_partitions("t", count)
            logs.append_all("t", [(b"k%d" % number, b"%02d" % count) for number in range(40)] * 2)
            logs.append_all("t", [(None, b"%02d" % count)] * 30)


def test_keys_stay_in_order_after_partitions_were_added(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """So the newest value is the last one; each record is written once, those without a key too."""
    grown(tmp_path, 8, 12)

    done = repartition(spark, tmp_path, "t", to="u", partitions=16)

    values: dict[bytes | None, list[bytes]] = {}
    for one in sum(records_of(str(tmp_path), "u"), []):  # noqa: RUF017 - few
        values.setdefault(one.key, []).append(one.value)
    assert Counter(values.pop(None)) == {b"08": 30, b"12": 30}
    assert len(values) == 40
    assert all(found == [b"08"] * 2 + [b"12"] * 2 for found in values.values())
    assert (done.records, done.unordered) == (220, 0)
    assert "key-order-unknown" not in caplog.text


def test_it_is_logged_that_partitions_were_added_several_times(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By a dry run, too: which of the old records of a key are older cannot be seen."""
    grown(tmp_path, 4, 8, 12)

    dry, done = (
        repartition(spark, tmp_path, "t", to="u", partitions=16, dry_run=is_dry)
        for is_dry in (True, False)
    )

    assert (dry.records, dry.keyless, done.records) == (330, 90, 330)
    assert dry.unordered == done.unordered
    line = f"key-order-unknown topic=t to=u records={done.unordered}"
    assert [one for one in caplog.messages if one.startswith("key-order")] == [line, line]


@pytest.mark.parametrize("shows", [False, True])
def test_its_jobs_are_described_in_the_pages_of_spark(
    spark: SparkSession, source: str, tmp_path: Path, shows: bool
) -> None:
    """With directories and topics; other jobs of the thread keep their own description."""
    spark.sparkContext.setJobDescription("mine")
    on_progress = (lambda *_: None) if shows else None
    try:
        copied(spark, source, tmp_path, on_progress=on_progress)
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]  # removes it

    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    described = {str(jobs.apply(number).description()) for number in range(jobs.size())}
    assert f"Some(tidelog repartition t in {source} to u)" in described


def test_a_repeat_does_nothing(spark: SparkSession, source: str, tmp_path: Path) -> None:
    """Nor does a dry run, which counts; a repeat reports what was committed before.

    Where the first run ended is not known to it: a read from where the source ends now would miss
    what it has got since.
    """
    dry = copied(spark, source, tmp_path / "new", dry_run=True)
    assert not (tmp_path / "new").exists()
    first = copied(spark, source, tmp_path / "new", config={"segment.bytes": "1048576"})
    second = copied(spark, source, tmp_path / "new")

    assert first.next_offsets is not None
    assert (second.next_offsets, second.ends) == (None, None)
    records = sum(map(len, records_of(str(tmp_path / "new"), "u")))
    keyless = sum(one.key is None for part in records_of(source, "t") for one in part)
    assert (dry.is_dry_run, dry.records, dry.keyless) == (True, records, keyless)
    assert first.records == second.records == records == SOURCE_PARTITIONS * EACH
    assert (first.was_done, second.was_done) == (False, True)
    assert first.txn_id == second.txn_id == dry.txn_id
    with tidelog.open(tmp_path / "new") as logs:
        new = logs.topic("u")
    assert new.config == {"retention.ms": "-1", "segment.bytes": "1048576"}
    with tidelog.open(source) as logs:
        assert new.birth == logs.topic("t").birth


@pytest.mark.parametrize("at", ["CHECKED", "COMMITTED", "PLACED"])
def test_a_repartition_whose_commit_fails_is_repeated(
    spark: SparkSession, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Before the commit point nothing of it is written, after it all; a repeat adds no record."""

    def stop(point: object) -> None:
        if getattr(point, "name", "") == at:
            raise RuntimeError(at)

    with monkeypatch.context() as patch:
        patch.setattr(staged_commit, "reached", stop)
        with pytest.raises(RuntimeError, match=at):
            copied(spark, source, tmp_path / "new")
    done = copied(spark, source, tmp_path / "new")

    assert done.was_done == (at != "CHECKED")
    assert Counter(sum(records_of(str(tmp_path / "new"), "u"), [])) == all_of(source)  # noqa: RUF017 - few
    assert list_staged(SYSTEM_FILES, str(tmp_path / "new")) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_repartition_that_was_killed_is_repeated(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    """At any moment, with its JVM: a repeat writes all, or finds that all is written."""
    path = tmp_path / "new"
    words = ["-d", source, "--to", "u", "--partitions", "7", "--to-dir", str(path)]
    for _ in kill_thrice(["repartition", "t", *words], path):
        pass

    copied(spark, source, path)

    assert Counter(sum(records_of(str(path), "u"), [])) == all_of(source)  # noqa: RUF017 - few


@pytest.mark.parametrize("isolation", list(Isolation)[:2])
def test_a_topic_that_kafka_wrote_is_read_as_its_consumers_read_it(
    spark: SparkSession, tmp_path: Path, isolation: Isolation
) -> None:
    """Aborted and open transactions are left out by default; nothing of the copy is deleted."""
    source = str(GOLDEN / "transactions")
    is_committed = isolation is Isolation.READ_COMMITTED
    given: dict[str, Any] = {} if is_committed else {"isolation": isolation}
    expected: Counter[Copied] = Counter()
    for number in (0, 1):
        with tidelog.open_read_only(f"{source}/txn-mix-{number}") as log:
            end = log.last_stable_offset() if is_committed else log.high_watermark
            expected.update(map(copy_of, log.records(0, end, committed=is_committed)))

    done = repartition(
        *(spark, source, "txn-mix"), to="u", partitions=3, to_path=str(tmp_path), **given
    )

    assert Counter(one for part in records_of(str(tmp_path), "u") for one in part) == expected
    assert done.records == expected.total() > 0
    with tidelog.open(tmp_path) as logs:
        assert dict(logs.topics()["u"].config) == NEVER_DELETED


def test_a_compacted_target_refuses_records_without_a_key(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    """As the sink does; options that the job sets itself are refused, too."""
    with pytest.raises((PySparkException, Py4JJavaError), match="has no key, but the topic is"):
        copied(spark, source, tmp_path, config={"cleanup.policy": "compact"})
    assert list_staged(SYSTEM_FILES, str(tmp_path)) == []
    with pytest.raises(InvalidArgument, match="option txnid is set by the repartition itself"):
        copied(spark, source, tmp_path, options={"txnid": "x"})


def test_the_command_prints_what_was_written(
    spark: SparkSession,
    source: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    validated: Validated,
) -> None:
    """As text and as JSON; an error of a task is one line."""
    words = ["spark", "repartition", "t", "-d", source, "--to", "u", "--partitions", "4"]
    words += ["--to-dir", str(tmp_path)]

    def run(*more: str) -> list[str]:
        args = make_parser(["spark"]).parse_args([*words, *more])
        assert repartition_job.run(args, spark) == 0
        return capsys.readouterr().out.splitlines()

    dry, written, repeated = run("--dry-run"), run(), run("--json")

    assert dry[0].startswith("t (3 partitions) to u (4 partitions): 2,400 records would be written")
    assert written[0].startswith("t (3 partitions) to u (4 partitions): 2,400 records written")
    row, counts = map(json.loads, repeated)
    assert len(validated("spark repartition", [row, counts])) == 2
    assert (row["records"], row["wasDone"], row["nextOffsets"]) == (2400, True, None)
    assert run() == [
        "t (3 partitions) to u (4 partitions): nothing to do, 2,400 records written before",
        "  records that t got after that run had begun are not read",
    ]


def test_the_command_prints_an_error_of_a_task_as_one_line(
    spark: SparkSession, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of the error of ours that Spark reports, without the frames of its workers."""
    words = ["spark", "repartition", "t", "-d", source, "--to", "u", "--partitions", "4"]
    words += ["--to-dir", str(tmp_path), "-o", "cleanup.policy=compact"]
    args = make_parser(["spark"]).parse_args(words)
    monkeypatch.setattr("tidelog.spark.session", lambda **_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)

    with pytest.raises(TidelogError, match=r"^row \d+ has no key, but the topic is compacted"):
        run_spark(args)
