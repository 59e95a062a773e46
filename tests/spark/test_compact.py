"""Compaction on Spark: the files that ``tidelog compact`` leaves, or the log as it was."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import tidelog
import tidelog.spark
from tidelog.cli.commands.spark_jobs import compact_job
from tidelog.cli.main import main
from tidelog.cli.parser import make_parser
from tidelog.codec.compression import Codec
from tidelog.errors import CleaningAborted, DirectoryLocked, InvalidArgument
from tidelog.spark.jobs.compact import SparkWorkers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.conftest import Validated

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = ROOT / "tests" / "golden" / "data" / "compaction"
SETTINGS: Final = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "0",
}


def filled(path: Path, *, seed: int = 0, batches: int = 120) -> Path:
    """Make a directory of a compacted topic with tombstones, codecs and transactions."""
    rng = random.Random(seed)
    with tidelog.open(path, log_cleaner_enable=False) as logs:
        logs.create_topic("t", 2, config=SETTINGS)
        for number in range(batches):
            records = [
                (-1, b"key-%d" % rng.randrange(200), rng.choice([None, bytes(90)]), ())
                for _ in range(rng.randrange(1, 40))
            ]
            codec = rng.choice([Codec.NONE, Codec.NONE, Codec.LZ4])
            logs.partition("t", number % 2).append_records(records, codec=codec)
            if number % 7 == 0:
                with logs.transaction() as txn:
                    for _, key, value, _ in records:
                        txn.append("t", value, key=key, partition=0)
    return path


def files_in(path: Path) -> dict[str, bytes]:
    """Return all files of a data directory that cleaning may change."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name not in {"meta.properties", ".lock"}
    }


def times_in(path: Path) -> dict[str, int]:
    """Return when each .log file was changed, in ms; not the active ones."""
    return {
        str(file): file.stat().st_mtime_ns // 10**6
        for directory in sorted(path.glob("*-*"))
        for file in sorted(directory.glob("*.log"))[:-1]
    }


def compact_both(spark: SparkSession, path: Path, now_ms: int, **how: Any) -> tuple[Any, Any]:
    """Compact a directory on Spark and a copy of it without; return the files of both."""
    alone = shutil.copytree(path, path.with_name("alone"), dirs_exist_ok=True)
    assert main(["compact", str(alone), "--now", str(now_ms)]) == 0
    done = tidelog.spark.compact(spark, str(path), now_ms=now_ms, min_bytes=0, **how)
    assert {one.why_local for one in done} <= {None, "there is nothing to clean"}
    assert any(one.why_local is None for one in done)
    mine, theirs = times_in(path), times_in(alone)
    assert list(mine.values()) == list(theirs.values())
    return files_in(path), files_in(alone)


@pytest.mark.parametrize("exact_keys", [False, True])
def test_spark_leaves_the_files_that_one_process_leaves(
    spark: SparkSession, tmp_path: Path, exact_keys: bool
) -> None:
    """Names, bytes and checkpoints, of a history with tombstones and transactions, twice."""
    path = filled(tmp_path / "data", seed=int(exact_keys))
    now_ms = time.time_ns() // 10**6
    for later_ms in (0, 5_000):
        with tidelog.open(path, log_cleaner_enable=False) as logs:
            for number in range(20):
                logs.partition("t", number % 2).append_records(
                    [(-1, b"key-%d" % key, b"new", ()) for key in range(150)]
                )
        on_spark, alone = compact_both(
            spark, path, now_ms + later_ms, exact_keys=exact_keys, buckets=3
        )

        assert on_spark == alone
        shutil.rmtree(path.with_name("alone"))


def test_spark_compacts_kafkas_topics_as_one_process_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Those of the golden data, at each of their steps, as if they were never cleaned."""
    for step in ("before", "after", "later"):
        path = tmp_path / step / "data"
        shutil.copytree(GOLDEN / step, path, ignore=shutil.ignore_patterns("dump", "expected"))
        for file in (path, *path.rglob("*")):
            file.chmod(0o755 if file.is_dir() else 0o644)
        (path / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        now_ms = time.time_ns() // 10**6
        alone = shutil.copytree(path, tmp_path / step / "alone")
        policy = ["-o", "cleanup.policy=compact"]
        assert main(["compact", str(alone), "--now", str(now_ms), *policy]) == 0

        done = tidelog.spark.compact(
            spark,
            str(path),
            now_ms=now_ms,
            min_bytes=0,
            settings={"cleanup.policy": "compact"},
        )

        assert [one.why_local for one in done] == [None] * 5
        assert files_in(path) == files_in(alone)


def test_a_small_log_is_cleaned_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The result names the sizes that decide."""
    path = filled(tmp_path / "data")

    done = tidelog.spark.compact(spark, str(path), ["t"], min_bytes=1 << 30)

    assert ["are less than 1,073,741,824" in str(one.why_local) for one in done] == [True, True]
    assert [one.facts.freed_bytes > 0 for one in done] == [True, True]


def test_a_missing_partition_is_named(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], validated: Validated
) -> None:
    """The others are compacted, and the exit code is 1."""
    path = filled(tmp_path / "data")
    shutil.rmtree(path / "t-1")
    arguments = make_parser(["spark"]).parse_args(["spark", "compact", str(path), "--json"])

    assert compact_job.run(arguments, spark) == 1

    out, err = capsys.readouterr()
    done = [json.loads(line) for line in out.splitlines()]
    assert "t-1" in err
    assert done[-1]["counts"]["missing"] == 1
    assert "t-0" in [f"{row['topic']}-{row['partition']}" for row in done[:-1]]
    validated("spark compact", done)


def test_a_dry_run_says_what_would_be_done(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], validated: Validated
) -> None:
    """By the command: the numbers of the cleaning that follows; a writer may be at work."""
    path = filled(tmp_path / "data")
    # Timestamps are rewritten against a time that depends on now, and take more bytes later on.
    now = ["--now", str(time.time_ns() // 10**6)]
    words = ["spark", "compact", str(path), *now, "--local-below", "0", "--json"]
    parser = make_parser(["spark"])
    with tidelog.open(path, log_cleaner_enable=False):
        before = files_in(path)
        assert compact_job.run(parser.parse_args([*words, "--dry-run"]), spark) == 0
        assert before == files_in(path)
        with pytest.raises(DirectoryLocked):
            tidelog.spark.compact(spark, str(path))
    planned = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert compact_job.run(parser.parse_args(words), spark) == 0

    done = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert planned == done
    assert done[-1]["counts"]["freedBytes"] > 0
    validated("spark compact", done)
    assert compact_job.run(parser.parse_args(words[:-1]), spark) == 0
    assert "nothing to clean" in capsys.readouterr().out


def test_a_log_that_changes_under_it_stays_as_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment that is changed after it was hashed, or after it was rewritten."""
    for number, step in enumerate(("find_superseded", "rewrite")):
        path = filled(tmp_path / f"data-{number}", batches=40)
        before = files_in(path)
        changed = min((path / "t-0").glob("*.log"))
        data, real = changed.read_bytes(), getattr(SparkWorkers, step)

        def then_change(
            *args: Any, real: Any = real, changed: Path = changed, data: bytes = data
        ) -> Any:
            found = real(*args)
            changed.write_bytes(data[: len(data) // 2])
            return found

        with monkeypatch.context() as patch:
            patch.setattr(SparkWorkers, step, then_change)
            with pytest.raises(CleaningAborted, match=changed.name):
                tidelog.spark.compact(spark, str(path), min_bytes=0)

        changed.write_bytes(data)
        after = files_in(path)
        assert [name for name in after if name.endswith((".deleted", ".cleaned"))] == []
        assert all(after[name] == data for name, data in before.items() if name.endswith(".log"))


KILLED = """
import os, signal, sys
import tidelog.spark
from tidelog.spark import session
from tidelog.spark.jobs.compact import SparkWorkers

real = SparkWorkers.rewrite
def die(*args):
    real(*args)
    os.kill(os.getpid(), signal.SIGKILL)
SparkWorkers.rewrite = die
spark = session(**{"spark.master": "local[2]"})
tidelog.spark.compact(spark, sys.argv[1], min_bytes=0)
"""


@pytest.mark.slow
def test_a_killed_job_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    """What its tasks wrote is deleted when the log is opened next."""
    path = filled(tmp_path / "data", batches=40)
    before = files_in(path)

    killed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, str(path)],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = set(files_in(path)) - set(before)
    assert [name for name in left if name.endswith(".deleted")]
    with tidelog.open(path, log_cleaner_enable=False):
        pass
    after = files_in(path)
    assert [name for name in after if name.endswith(".deleted")] == []
    logs = {name: data for name, data in before.items() if name.endswith(".log")}
    assert {name: data for name, data in after.items() if name.endswith(".log")} == logs


def test_a_session_of_spark_connect_is_refused(tmp_path: Path) -> None:
    """With what to use instead."""
    unusable = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()

    with pytest.raises(InvalidArgument, match="Spark Classic"):
        tidelog.spark.compact(unusable, str(tmp_path))
