"""How errors of ours reach Spark."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.errors import InvalidArgument, TidelogError
from tidelog.spark.options.table_options import TableOptions
from tidelog.spark.plain_errors import HIDE_TRACEBACK, plain_errors
from tidelog.spark.read.table_reader import TableReader, table_columns

if TYPE_CHECKING:
    from pathlib import Path


IN_WORKER = "PYTHON_WORKER_FACTORY_SECRET"


@plain_errors()
def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "is_hidden"), [(InvalidArgument("no topic"), True), (ValueError("a fault"), False)]
)
def test_a_worker_reports_our_errors_without_traceback(
    error: Exception, is_hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of the program keeps its traceback, and so does any error outside of a worker."""
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    monkeypatch.delenv(IN_WORKER, raising=False)
    with pytest.raises(type(error)):
        fail(error)
    assert not is_set(HIDE_TRACEBACK)

    monkeypatch.setenv(IN_WORKER, "something")
    with pytest.raises(type(error)):
        fail(error)
    assert is_set(HIDE_TRACEBACK) == is_hidden


def test_a_task_that_reads_a_table_reports_our_errors_without_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as that of a directory that was deleted since the query was planned."""
    path = tmp_path / "data"
    with tidelog.open(path) as logs:
        logs.create_topic("t", 1)
    options = TableOptions.parse({"path": str(path), "table": "segments"})
    reader = TableReader(options, table_columns("segments"))
    tasks = reader.partitions()
    shutil.rmtree(path)
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    monkeypatch.setenv(IN_WORKER, "something")

    with pytest.raises(TidelogError):
        list(reader.read(tasks[0]))

    assert is_set(HIDE_TRACEBACK)


def is_set(name: str) -> bool:
    return bool(os.environ.get(name))
