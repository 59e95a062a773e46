"""The snapshot files of a directory."""

from __future__ import annotations

from tests.machinery.log_home import LogHome

from tidelog.log.producers.snapshot_files import SnapshotFiles


def test_a_snapshot_is_renamed_before_it_is_deleted() -> None:
    """It is forgotten at once, its file goes later.

    Scenario: ProducerStateManagerTest.testRemoveAndMarkSnapshotForDeletion
    """
    home = LogHome()
    snapshots = SnapshotFiles(home.directory, home.fs)
    snapshots.write(5, [], sync=True)

    path = snapshots.mark_deleted(5)

    assert path == f"{home.directory}/{5:020d}.snapshot.deleted"
    assert home.files() == [f"{5:020d}.snapshot.deleted"]
    assert snapshots.offsets == []


def test_a_snapshot_that_is_gone_cannot_be_renamed() -> None:
    """It is forgotten all the same; nobody waits for a file that is not there.

    Scenario: ProducerStateManagerTest.testRemoveAndMarkSnapshotForDeletionAlreadyDeleted
    """
    home = LogHome()
    snapshots = SnapshotFiles(home.directory, home.fs)
    snapshots.write(5, [], sync=True)
    home.fs.delete(f"{home.directory}/{5:020d}.snapshot")

    assert snapshots.mark_deleted(5) is None
    assert snapshots.offsets == []
