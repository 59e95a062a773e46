"""A write and another process that holds the directory."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

import tidelog
from tidelog.codec.compression import Codec
from tidelog.codec.metadata_files import PARTITION_METADATA_FILE, write_partition_metadata
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import DirectoryLocked
from tidelog.spark.options.source_options import WriteOptions
from tidelog.spark.write.batch_writer import check_not_busy, known_topics, open_when_free
from tidelog.testing import metadata_log as made

if TYPE_CHECKING:
    from pathlib import Path


def options(path: Path, **others: str) -> WriteOptions:
    return WriteOptions.parse({"path": str(path), "topic": "t"} | others)


def test_a_write_to_a_directory_in_use_fails_before_its_tasks_work(tmp_path: Path) -> None:
    """Unless the user asks to wait for the lock at the commit."""
    check_not_busy(options(tmp_path))
    with tidelog.open(tmp_path), pytest.raises(DirectoryLocked):
        check_not_busy(options(tmp_path))
    with tidelog.open(tmp_path):
        check_not_busy(options(tmp_path, commitTimeoutMs="1000"))


def test_the_commit_waits_for_the_lock(tmp_path: Path) -> None:
    """It opens the directory once the other writer closes it, or fails after the timeout."""
    logs = tidelog.open(tmp_path)
    with pytest.raises(DirectoryLocked):
        open_when_free(options(tmp_path, commitTimeoutMs="10"))
    waits: list[int] = []

    def close(wait_ms: int) -> None:
        waits.append(wait_ms)
        logs.close()

    with open_when_free(options(tmp_path), close) as opened:
        assert opened.topics() == {}
    assert len(waits) == 1


def test_tasks_make_batches_by_the_settings_of_the_broker(tmp_path: Path) -> None:
    """Those in the cluster's metadata beside the partitions hold, as they do at the commit."""
    one = UUID(int=1)
    records = [made.topic("t", one), made.setting("compression.type", "gzip", "t")]
    made.write_metadata(SYSTEM_FILES, str(tmp_path), made.metadata_log([records]))
    quorum = tmp_path / "__cluster_metadata-0" / "quorum-state"
    quorum.write_text('{"currentVoters":[{"voterId":1}]}')
    (tmp_path / "t-0").mkdir()
    write_partition_metadata(SYSTEM_FILES, str(tmp_path / "t-0" / PARTITION_METADATA_FILE), one)

    plan = known_topics(options(tmp_path))["t"]
    with tidelog.open(tmp_path) as logs:
        config = logs.config_of("t")

    assert (plan.partitions, plan.form.codec) == (1, Codec.GZIP)
    assert config.compression_type == "gzip"
