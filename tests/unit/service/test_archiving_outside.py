"""As the history of an archive, with what happens to the directory outside of its service.

The log is truncated, or put back from an older copy, and the archive then follows it; Kafka, or a
tidelog that knows no archives, opens the directory in between; snapshots are made, and the archive
is restored.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from tests.machinery.archives import files_with
from tests.machinery.object_model import ObjectModel
from tests.machinery.samples import sampled
from tests.machinery.scale import scaled
from tests.unit.service.test_archiving_history import (
    DIRECTORIES,
    LINES,
    LOCAL_MS,
    URI,
    Expected,
    History,
    between,
    run_histories,
)

from tidelog.archive import open_archives
from tidelog.archive.archive_files import ArchiveFiles
from tidelog.archive.chain import Chain
from tidelog.archive.open_archives import archive_at
from tidelog.archive.snapshots import snapshot_uri
from tidelog.errors import InvalidArgument
from tidelog.manager.archiving import ArchiveTerms, archive_log, snapshot_log
from tidelog.manager.restore import RestoredTopic, restore
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.conftest import Enumerated

    from tidelog.testing.crash_files import CrashFileSystem

KEY: Final = TopicPartition("t", 0)
ENDED: Final = ".kafka_cleanshutdown"


class OutsideHistory(History):
    """The same topic and archive, and what others do to them."""

    def __init__(self, seed: int, store: ObjectModel) -> None:
        self.older: tuple[UUID | None, CrashFileSystem, Expected] | None = None
        self.made = 0
        super().__init__(seed, store)

    def acts(self) -> list[Callable[[], None]]:
        """Add the acts of others."""
        own = (self.truncate, self.copy_away, self.put_back, self.let_kafka_in)
        return [*super().acts(), *own, *own, self.snapshot, self.restore]

    def truncate(self) -> None:
        log = self.manager.partition("t", 0).log
        local = [at for at in self.expected.records if at >= log.local_log_start_offset]
        # No transaction is cut in two: those take several offsets in a row, and one for a marker.
        plain = [at for at in local if b"txn" not in self.expected.records[at][1]]
        if not plain:
            return
        end = self.rng.choice(plain)
        self.manager.truncation.truncate_to({KEY: end})
        self.expected.records = between(self.expected.records, 0, end)
        self.expected.aborted &= self.expected.records.keys()
        self.follow(takes_over=False)

    def follow(self, *, takes_over: bool) -> None:
        """Remove from the archive what the log no longer has: ``tidelog archive --truncate``."""
        assert self.manager.tasks.archiving is not None
        self.manager.tasks.archiving.run()  # refused, unless the archive has all that was lost
        terms = ArchiveTerms(takes_over=takes_over, truncates=True, follows_start=True)
        archive_log(self.manager, KEY, self.store, terms)

    def copy_away(self) -> None:
        """Copy the directories of a service that has ended."""
        self.manager.close()
        fs = self.home.fs.copied(self.rng.getrandbits(30), clock=self.home.clock)
        self.manager = self.open()
        self.older = self.manager.topic("t").topic_id, fs, deepcopy(self.expected)

    def put_back(self) -> None:
        """Put the copy in the place of the directories; what the log lost the archive loses."""
        if self.older is None or self.older[0] != self.manager.topic("t").topic_id:
            return
        deleted_to = self.expected.deleted_to
        self.manager.close()
        _, self.home.fs, self.expected = self.older
        self.older = None
        self.manager = self.open()
        self.follow(takes_over=True)
        assert self.manager.tasks.archiving is not None
        for _ in range(2):  # the service learns of it in its next pass, the second after a claim
            self.manager.tasks.archiving.run()
        # The archive may know of a deletion that came after the copy.
        start = self.manager.partition("t", 0).log.log_start_offset
        self.expected.deleted_to = max(self.expected.deleted_to, min(deleted_to, start))

    def let_kafka_in(self) -> None:
        """Let somebody write, roll and delete who does not know that there is an archive.

        It leaves the files of tidelog alone, and writes its own checkpoints by what is on the disk.
        """
        fs = self.home.fs
        self.manager.close()
        claims = self.claims()
        for claim in claims:
            fs.rename(claim, f"{claim}.hidden")
        self.manager = self.home.open()
        self.append()
        log = self.manager.partition("t", 0).log
        if self.rng.random() < 0.3:
            log.roll()
        if self.rng.random() < 0.5:
            self.home.clock.advance(self.rng.choice([0, LOCAL_MS]))
            log.retain(None, replace(log.config, remote_storage_enable=False))
        if self.rng.random() < 0.2:
            self.delete()
        self.manager.close()
        for claim in claims:
            fs.rename(f"{claim}.hidden", claim)
        path = self.rng.choice(DIRECTORIES)
        for name in (ENDED, LINES):
            if self.rng.random() < 0.3 and name in self.home.files(path):
                fs.delete(f"{path}/{name}")
        self.manager = self.open()
        # What it has deleted is deleted if its checkpoint has it, or nobody else does.
        log, kept = self.manager.partition("t", 0).log, self.expected.records
        self.expected.deleted_to = min(self.expected.deleted_to, log.log_start_offset)
        if log.archived is not None and log.log_start_offset < log.local_log_start_offset:
            chain = Chain(self.store, self.manager.topic("t").topic_id, 0, self.rng)
            gone = range(chain.read().end, log.local_log_start_offset)
            self.expected.records = {at: one for at, one in kept.items() if at not in gone}
            self.expected.aborted &= self.expected.records.keys()

    def snapshot(self) -> None:
        """Snapshot the log, unless it begins in the archive; it is read as it was."""
        self.made += 1
        uri = snapshot_uri(URI, f"n{self.made}")
        store = ObjectModel(Random(self.made))
        store.name = uri
        files_with(store, uri)
        log = self.manager.partition("t", 0).log
        if log.log_start_offset < log.local_log_start_offset:
            with pytest.raises(InvalidArgument, match="are in its archive alone"):
                snapshot_log(self.manager, KEY, store)
            del open_archives._archives[uri]
            return
        done = snapshot_log(self.manager, KEY, store)
        files = ArchiveFiles(archive_at(uri), uri)
        with open_directory_read_only(uri, fs=files).open("t", 0) as alone:
            first = alone.log_start_offset
            last = max(first, alone.visible_end(committed=True))
            found = self.listed(alone, first, last, True)
        assert last <= max(first, done.archive_end_offset) <= max(first, log.last_stable_offset)
        assert found == between(self.records(is_committed=True), first, last)
        del open_archives._archives[uri]

    def restore(self) -> None:
        """Restore the archive: all of it is there, as the archive has it."""
        open_archives._archives[URI]._states.clear()
        found = self.archived()
        if found is None:
            return
        self.made += 1
        target, home = f"/restored-{self.made}", self.home
        topic = RestoredTopic("t", found.topic_id, {}, {}, {0: found})
        restore(self.store, [topic], target, fs=home.fs, rng=self.rng, scheduler=home.scheduler)
        with open_directory_read_only(target, fs=home.fs).open("t", 0) as log:
            first = max(log.log_start_offset, self.manager.partition("t", 0).log.log_start_offset)
            last = max(first, log.visible_end(committed=True))
            records = self.listed(log, first, last, True)
        assert records == between(self.records(is_committed=True), first, last)


@pytest.mark.parametrize("block", sampled(range(2), 1))
def test_nothing_is_lost_by_what_others_do(
    block: int, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """Histories with truncations, older copies, other programs, snapshots and restores."""
    seeds = range(block * 100, block * 100 + scaled(2))
    run_histories(seeds, monkeypatch, enumerated, OutsideHistory)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10, 18))
def test_nothing_is_lost_by_what_others_do_in_many_histories(
    block: int, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """As above, of other seeds."""
    seeds = range(block * 100, block * 100 + scaled(10))
    run_histories(seeds, monkeypatch, enumerated, OutsideHistory)
