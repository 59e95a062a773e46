"""Which markers the abort of a micro-batch deletes."""

from __future__ import annotations

import os
import shutil
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import tidelog
from tidelog.arrow.writing.write_plan import make_plan, marker_note
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import MissingStreamBatches
from tidelog.records.builder import build_batch
from tidelog.spark.options.source_options import SinkOptions
from tidelog.spark.write.stream_writer import LogStreamWriter, markers_of_batch
from tidelog.spark.write.task_write import stage_task
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.marker import MAX_MARKER_BYTES, MarkerVisits, make_marker
from tidelog.staging.staged_file import attempt_of, list_staged
from tidelog.staging.staged_folder import LocalFolder
from tidelog.staging.stream_batch import StreamBatch

if TYPE_CHECKING:
    from pathlib import Path

VALUES = StructType([StructField("value", BinaryType())])


def marker(path: Path, seed: int, stream: StreamBatch | None) -> str:
    """Make a marker that tasks of a micro-batch have visited; None: no task has."""
    name = make_marker(SYSTEM_FILES, str(path), "m", Random(seed))
    if stream is not None:
        MarkerVisits(SYSTEM_FILES, str(path), name, SYSTEM_CLOCK, marker_note(stream))
    return name


def test_an_abort_without_messages_deletes_the_marker_of_its_own_batch(tmp_path: Path) -> None:
    """No task has succeeded to say its name; those of earlier tries of the batch go, too."""
    ours = [marker(tmp_path, seed, StreamBatch("q", 12)) for seed in (1, 2)]
    marker(tmp_path, 3, StreamBatch("q", 1))

    assert markers_of_batch(str(tmp_path), "m", 12) == sorted(ours)
    assert markers_of_batch(str(tmp_path), "m", 2) == []


def test_an_abort_without_messages_deletes_what_killed_tasks_staged(tmp_path: Path) -> None:
    """A task that was killed after its file was made could not say so."""
    given = {"path": str(tmp_path), "topic": "t"}
    options = SinkOptions.parse(given, is_stream=True)
    writer = LogStreamWriter(options, given, VALUES)
    (name,) = list_staged(SYSTEM_FILES, str(tmp_path))
    stream = StreamBatch("q", 3)
    MarkerVisits(SYSTEM_FILES, str(tmp_path), name, SYSTEM_CLOCK, marker_note(stream))
    killed = BundleWriter(
        LocalFolder(SYSTEM_FILES, str(tmp_path)),
        stream.txn,
        rng=Random(2),
        attempt=attempt_of(name),
    )
    killed.append("t", 0, build_batch([(0, None, b"a", ())]))
    killed.finish()

    writer.abort([None], 3)

    assert list_staged(SYSTEM_FILES, str(tmp_path)) == []


@pytest.mark.parametrize("other", [StreamBatch("p", 5), None], ids=["visited", "not visited"])
def test_an_abort_deletes_no_marker_that_may_be_of_another_stream(
    tmp_path: Path, other: StreamBatch | None
) -> None:
    """Of one with the same options, whose tasks may be at work; the sweep deletes both later."""
    marker(tmp_path, 1, StreamBatch("q", 5))
    marker(tmp_path, 2, other)

    assert markers_of_batch(str(tmp_path), "m", 5) == []


def test_a_marker_that_no_task_has_visited_is_deleted_if_it_is_the_only_one(tmp_path: Path) -> None:
    """The job has failed before its first task began."""
    (name,) = (marker(tmp_path, 1, None),)
    assert markers_of_batch(str(tmp_path), "m", 5) == [name]

    marker(tmp_path, 2, None)
    assert markers_of_batch(str(tmp_path), "m", 5) == []


def test_a_batch_that_is_missing_is_found_by_the_next_also_after_batches_without_rows(
    tmp_path: Path,
) -> None:
    """As Spark calls the sink: for each number, with the messages of its tasks."""
    data = tmp_path / "data"

    def offered(batch_id: int, *rows: bytes, **more: str) -> None:
        given = {"path": str(data), "topic": "t", "checkpointLocation": "c"} | more
        options = SinkOptions.parse(given, is_stream=True)
        plan = make_plan(options, {"value": 0}, "markers")
        stream = StreamBatch("q", batch_id)
        batches = [pa.RecordBatch.from_pydict({"value": [row]}) for row in rows]
        task = stage_task(
            *(options, plan, iter(batches)),
            txn=stream.txn,
            task_number=0,
            stream=stream,
        )
        LogStreamWriter(options, given, None).commit([task], batch_id)

    for batch_id in (0, 1):
        offered(batch_id)
    offered(2, b"a")
    shutil.copytree(data, tmp_path / "copy")
    for batch_id, rows in ((3, [b"b"]), (4, [])):
        offered(batch_id, *rows)
    shutil.rmtree(data)
    (tmp_path / "copy").rename(data)

    for rows in ([b"c"], []):
        with pytest.raises(MissingStreamBatches, match=r"batch 5 of stream q .* batch 2"):
            offered(5, *rows)
    offered(5, b"c", acceptMissingBatches="true")
    offered(6, b"d")

    with tidelog.open_read_only(data / "t-0") as log:
        assert [record.value for record in log.records()] == [b"a", b"c", b"d"]


def test_a_note_is_smaller_than_a_batch() -> None:
    """Else a marker would be taken for a file with records."""
    note = marker_note(StreamBatch("12345678-1234-1234-1234-123456789012", 2**63 - 1))

    assert len(note) <= MAX_MARKER_BYTES


def test_the_writers_of_a_stream_agree_on_its_markers(tmp_path: Path) -> None:
    """Spark makes one for the tasks and another one to commit, both with all options given."""
    given = {"path": str(tmp_path), "topic": "t", "checkpointLocation": str(tmp_path / "c")}
    options = SinkOptions.parse(given, is_stream=True)
    LogStreamWriter(options, given, VALUES)
    assert len(os.listdir(tmp_path)) == 1

    upper = {name.upper(): value for name, value in given.items()}
    LogStreamWriter(options, given | {"checkpointLocation": "other"}, None).abort([None], 0)
    assert len(os.listdir(tmp_path)) == 1
    LogStreamWriter(options, upper, None).abort([None], 0)
    assert os.listdir(tmp_path) == []
