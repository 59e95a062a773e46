"""Transactions whose files are staged, as a process makes them that does not hold the directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.records.builder import build_batch
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.commit import Transaction
from tidelog.staging.staged_folder import LocalFolder
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.staging.directory import CommitPoint
    from tidelog.staging.journal import NewTopic
    from tidelog.staging.ready import ReadyFiles, ReadyManifest
    from tidelog.staging.stream_batch import StreamBatch


def stage(
    fs: FileSystem,
    data_dir: str,
    txn: str,
    values: Mapping[tuple[str, int], Sequence[bytes]],
    *,
    rng: Random,
    topic_ids: Mapping[str, UUID],
    new_topics: Sequence[NewTopic] = (),
    is_named: bool = True,
    stream: StreamBatch | None = None,
) -> Transaction:
    """Stage a batch of values for each partition; return the transaction."""
    bundle = BundleWriter(LocalFolder(fs, data_dir), txn, rng=rng)
    for (topic, partition), some in values.items():
        bundle.append(topic, partition, build_batch([(-1, None, value, ()) for value in some]))
    runs = tuple(bundle.finish())
    return Transaction(txn, is_named, runs, tuple(new_topics), dict(topic_ids), stream)


def leave(files: ReadyFiles, manifest: ReadyManifest) -> None:
    """Leave a manifest for the holder of the directory, durably."""
    files.prepare(manifest.encoded())
    files.place()
    files.fs.sync_directory(files.data_dir)


def power_cut_at(moment: CommitPoint) -> Callable[[CommitPoint], None]:
    """Return what ends the process at a moment of a commit: a value for ``on_point``."""

    def end(point: CommitPoint) -> None:
        if point is moment:
            raise PowerCut

    return end
