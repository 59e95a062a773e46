"""How errors of ours reach Spark."""

from __future__ import annotations

import os

import pytest

from tidelog.errors import InvalidArgument
from tidelog.spark.plain_errors import HIDE_TRACEBACK, IN_WORKER, plain_errors


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

    monkeypatch.setenv(IN_WORKER, "PYTHON_WORKER")
    with pytest.raises(type(error)):
        fail(error)
    assert is_set(HIDE_TRACEBACK) == is_hidden


def is_set(name: str) -> bool:
    return bool(os.environ.get(name))
