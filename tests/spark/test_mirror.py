"""A mirror by Spark's tasks: the batches of its source, all at once or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tests.machinery.batches_of_logs import batches_of
from tests.spark.killed_jobs import kill_thrice

import tidelog
from tidelog.cli.commands.spark_jobs import mirror_job
from tidelog.cli.parser import make_parser
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import DirectoryLocked, InvalidArgument
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.spark import mirror
from tidelog.staging.staged_file import list_staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.conftest import Validated

pytestmark = pytest.mark.spark

PARTITIONS = 3
EACH = 3000
SMALLEST_SPLIT = 1 << 16


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a directory with a topic of three partitions, each of a few segments."""
    path = str(tmp_path_factory.mktemp("source"))
    config = {"internal.segment.bytes": "200000", "retention.ms": "-1"}
    with tidelog.open(path) as logs:
        logs.create_topic("t", PARTITIONS, config)
        fill(logs, 0, EACH)
    return path


def fill(logs: tidelog.Logs, first: int, end: int) -> None:
    """Append records with offsets ``[first, end)`` to each partition."""
    for number in range(PARTITIONS):
        for start in range(first, end, 50):
            logs.partition("t", number).append_records(
                [(-1, b"%d" % at, bytes(200), ()) for at in range(start, start + 50)]
            )


def batches(path: str) -> list[bytes]:
    """Return the batches of all partitions below their high watermarks, byte for byte."""
    logs = open_directory_read_only(path, fs=SYSTEM_FILES).logs()
    return [batch for log in logs for batch in batches_of(log)]


def test_a_mirror_by_tasks_has_the_batches_of_its_source(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    """As many tasks as the size asks for; a plan has the same counts, a second run has none."""
    target = str(tmp_path / "copy")
    seen: list[tuple[int, int]] = []

    plan = mirror(spark, source, target, dry_run=True, max_split_bytes=SMALLEST_SPLIT)
    assert not Path(target).exists()
    done = mirror(
        *(spark, source, target),
        max_split_bytes=SMALLEST_SPLIT,
        on_progress=lambda ended, tasks: seen.append((ended, tasks)),
    )

    assert done == plan
    assert batches(target) == batches(source)
    assert len(batches(source)) == sum(one.batches for one in done) == PARTITIONS * EACH // 50
    ended, tasks = seen[-1]
    assert ended == tasks > PARTITIONS
    assert [one.batches for one in mirror(spark, source, target)] == [0] * PARTITIONS
    assert list_staged(SYSTEM_FILES, target) == []
    with pytest.raises(InvalidArgument, match="tasks of at most 7 bytes are too small"):
        mirror(spark, source, str(tmp_path / "other"), max_split_bytes=7)


def test_a_target_in_use_and_a_damaged_source_change_nothing(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    """The one is refused at once; the other fails a task, and the message names the byte."""
    target, damaged = tmp_path / "copy", tmp_path / "damaged"
    with tidelog.open(damaged) as logs:
        logs.create_topic("t", PARTITIONS)
        fill(logs, 0, EACH)
    log = damaged / "t-2" / f"{0:020d}.log"
    stored = bytearray(log.read_bytes())
    stored[len(stored) // 2] ^= 1
    log.write_bytes(stored)

    words = r"the CRC of a batch is wrong at .*/t-2/0+\.log"
    with tidelog.open(target), pytest.raises(DirectoryLocked):
        mirror(spark, source, str(target))
    with pytest.raises((PySparkException, Py4JJavaError), match=words):
        mirror(spark, str(damaged), str(target), max_split_bytes=SMALLEST_SPLIT)

    assert batches(str(target)) == []
    assert list_staged(SYSTEM_FILES, str(target)) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_mirror_that_was_killed_is_repeated(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    """At any moment, with its JVM: nothing of it is there, or all; a repeat copies the rest."""
    target = tmp_path / "copy"
    for _ in kill_thrice(["mirror", source, "--to", str(target)], target):
        found = batches(str(target)) if target.exists() else []
        assert found in ([], batches(source))

    mirror(spark, source, str(target))

    assert batches(str(target)) == batches(source)
    assert list_staged(SYSTEM_FILES, str(target)) == []


def test_the_command_prints_what_was_copied(
    spark: SparkSession,
    source: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    validated: Validated,
) -> None:
    """As text and as JSON, in the form of ``tidelog mirror``."""
    words = ["spark", "mirror", source, "--to", str(tmp_path / "copy")]

    def run(*more: str) -> list[str]:
        args = make_parser(["spark"]).parse_args([*words, *more])
        assert mirror_job.run(args, spark) == 0
        return capsys.readouterr().out.splitlines()

    plan, done, again = run("--dry-run"), run("t"), run("--json")

    assert plan[0].startswith("t-0: would copy [0, 3,000), 60 batches, ")
    assert done[2].startswith("t-2: copied [0, 3,000), 60 batches, ")
    assert len(validated("spark mirror", map(json.loads, again))) == PARTITIONS + 1
