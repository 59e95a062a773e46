"""The lock of a data directory, against the one that Kafka's Java takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.errors import DirectoryLocked

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.conftest import Java, Kafka

pytestmark = pytest.mark.compat

PROGRAM = "HoldLock"


def test_what_java_has_locked_is_refused(java: Java, tmp_path: Path) -> None:
    """A directory that a Java process holds is not opened; the error names the process."""
    with java.started(PROGRAM, str(tmp_path / ".lock")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"

        with pytest.raises(DirectoryLocked) as caught:
            tidelog.open(tmp_path)

    assert caught.value.pid == process.pid


def test_java_is_refused_what_we_have_locked(java: Java, tmp_path: Path) -> None:
    """Java gets no lock while a data directory is open here, and gets it after that."""
    with tidelog.open(tmp_path), java.started(PROGRAM, str(tmp_path / ".lock")) as process:
        assert process.stdout is not None
        while_open = process.stdout.readline()

    with java.started(PROGRAM, str(tmp_path / ".lock")) as process:
        assert process.stdout is not None
        afterwards = process.stdout.readline()

    assert (while_open, afterwards) == ("refused\n", "locked\n")


def test_kafka_does_not_start_on_what_we_have_open(kafka: Kafka) -> None:
    """A broker gives up on a directory that is open here."""
    with (
        tidelog.open(kafka.directory),
        kafka.java.started("kafka.Kafka", str(kafka.properties)) as process,
    ):
        printed, _ = process.communicate(timeout=180)

    assert process.returncode != 0
    assert "Failed to acquire lock on file .lock" in printed
