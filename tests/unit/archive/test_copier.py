"""Closed segments of a log are archived once, by the log that has claimed the archive."""

from __future__ import annotations

import os
import shutil
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.archives import TOPIC, LogOfFiles, files_with
from tests.machinery.object_model import ObjectModel, Stopping
from tests.machinery.scale import examples

import tidelog
from tidelog.archive import copier as copier_module
from tidelog.archive.chain import Chain
from tidelog.archive.claim_file import (
    ClaimFile,
    Digest,
    KnownArchive,
    claim_file,
    leftovers,
    read_claim,
)
from tidelog.archive.copier import REMOVED_MS, Copier
from tidelog.archive.deltas import Claim
from tidelog.archive.segment_object import segment_facts
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    ArchiveDiverged,
    ArchiveOvertaken,
    CorruptFile,
    CorruptMessage,
    StoreError,
    StoreUnavailable,
)
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.testing import damage_batch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Enumerated

    from tidelog.archive.segment_object import SegmentFacts
    from tidelog.env.files import FileSystem

ROOT = "s3://lake/logs"


def append(path: Path, count: int, text: str = "value") -> None:
    with tidelog.open(path, config={"internal.segment.bytes": 800}) as logs:
        logs.create_topic("t", exist_ok=True)
        for number in range(count):
            logs.append("t", f"{text} {number} ".encode() * 5, timestamp=1000)


@pytest.fixture
def store() -> Stopping:
    return Stopping(0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    append(path, 40)
    return path


def copier(store: ObjectModel, path: Path, **how: bool) -> Copier:
    return Copier(SYSTEM_FILES, store, LogOfFiles(path), store.rng, **how)


def check_archived(store: ObjectModel, path: Path) -> int:
    """Compare what the archive holds with the log; return how many records that is."""
    end = LogOfFiles(path).closed_segments()[-1].end_offset
    with tidelog.open_read_only(path / "t-0") as log:
        expected = [*log.records(0, end)]
    files = files_with(store, ROOT)
    with open_directory_read_only(ROOT, fs=files).open("t", 0) as log:
        assert [*log.records()] == expected
    state = Chain(store, TOPIC, 0, Random(0)).read()
    kept = {f"{TOPIC}/0/{entry.name}" for entry in state.entries}
    assert kept <= store.objects.keys()
    return len(expected)


def test_what_is_closed_is_copied_once(store: ObjectModel, data: Path) -> None:
    """By one process after the other; each claims the archive."""
    one = copier(store, data)
    assert [entry.base_offset for entry in one.copy()] == [
        segment.base_offset for segment in LogOfFiles(data).closed_segments()
    ]
    count = check_archived(store, data)
    assert one.copy() == []
    append(data, 40)
    assert one.copy()
    append(data, 40)
    two = copier(store, data)
    assert two.copy()

    assert check_archived(store, data) > count + 40
    objects = [name for name in store.objects if "/s/" in name]
    assert len(objects) == len(two.state.entries) == len(LogOfFiles(data).closed_segments())
    assert two.state.claim_epoch == 2
    with pytest.raises(ArchiveOvertaken, match="another process has claimed the archive of t-0"):
        one.copy()


def test_a_copy_of_a_directory_does_not_write_its_archive(
    store: ObjectModel, data: Path, tmp_path: Path
) -> None:
    """Unless it takes over; then the other one stops."""
    first = copier(store, data)
    first.copy()
    shutil.copytree(data, tmp_path / "copy")
    append(data, 20)
    append(tmp_path / "copy", 20, "other")
    with pytest.raises(ArchiveDiverged, match="--continue claims it"):
        copier(store, tmp_path / "copy").copy()

    taken = copier(store, tmp_path / "copy", takes_over=True)
    assert taken.copy()
    check_archived(store, tmp_path / "copy")
    with pytest.raises(ArchiveOvertaken):
        first.copy()
    with pytest.raises(ArchiveDiverged):
        copier(store, data).copy()
    with pytest.raises(ArchiveDiverged, match="holds other records than the log"):
        copier(store, data, takes_over=True).copy()


def test_an_archive_to_which_nothing_is_added_stays_cheap_to_read(
    store: ObjectModel, data: Path
) -> None:
    """Each start of a service claims it: those versions are summed up, too, 32 in one object."""
    for _ in range(100):
        copier(store, data, claims_first=True).copy()
    before = store.requests

    state = Chain(store, TOPIC, 0, Random(0)).read()

    assert state.version >= 100
    assert store.requests - before <= 3 + 31 + 20


def test_a_log_has_several_archives(store: ObjectModel, data: Path) -> None:
    """Each with its own claims; one that cannot be reached keeps nobody from another."""
    other = ObjectModel(Random(1))
    other.name = "memory://other"
    gone = ObjectModel(Random(2), chance=1.0)
    gone.name = "memory://gone"
    for _ in range(2):
        for each in (store, other):
            assert copier(each, data).copy()
        with pytest.raises(StoreUnavailable):
            copier(gone, data).copy()
        append(data, 20)

    check_archived_to(store, data)
    check_archived_to(other, data)


def check_archived_to(store: ObjectModel, data: Path) -> None:
    copier(store, data).copy()
    check_archived(store, data)


def test_a_claim_that_comes_late_is_ours(data: Path) -> None:
    """Though others were drawn since."""
    store = ObjectModel(Random(0))
    copier(store, data).copy()
    chain = Chain(store, TOPIC, 0, Random(0))
    before = chain.read()
    for seed in range(1, 4):
        with pytest.raises(StoreUnavailable):
            copier(Refusing(store, seed), data, claims_first=True).copy()
    drawn = read_claim(SYSTEM_FILES, claim_file(str(data), TOPIC, 0)).drawn[store.name]
    assert (len(drawn), drawn[-1]) == (4, before.incarnation)
    chain.commit(before, (Claim(drawn[2], "t", {}),), 2)

    assert copier(store, data, claims_first=True).copy() == []
    drawn = read_claim(SYSTEM_FILES, claim_file(str(data), TOPIC, 0)).drawn[store.name]
    assert before.incarnation in drawn
    assert chain.read().incarnation == drawn[0]


class Refusing(ObjectModel):
    """Another's objects, of which none can be created; whether it was is unknown."""

    def __init__(self, other: ObjectModel, seed: int) -> None:
        super().__init__(Random(seed))
        self.objects = other.objects

    def create(self, name: str, data: bytes) -> bool:
        raise StoreUnavailable(f"{name}: {len(data)}")


def test_a_take_over_that_failed_does_not_pass_for_ours(
    store: ObjectModel, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try must say so again."""
    copier(store, data).copy()
    shutil.copytree(data, tmp_path / "copy")

    def fail(*_: object) -> bool:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(store, "create", fail)
        with pytest.raises(StoreUnavailable):
            copier(store, tmp_path / "copy", takes_over=True).copy()
    with pytest.raises(ArchiveDiverged, match="--continue"):
        copier(store, tmp_path / "copy").copy()
    append(data, 20)
    assert copier(store, data).copy()


def test_a_log_that_lost_records_does_not_continue(
    store: ObjectModel, data: Path, tmp_path: Path
) -> None:
    """The archive has what it lost."""
    shutil.copytree(data, tmp_path / "old")
    append(data, 60)
    copier(store, data).copy()

    with pytest.raises(ArchiveDiverged, match="truncated, or restored from an older copy"):
        copier(store, tmp_path / "old", takes_over=True).copy()


@pytest.mark.parametrize("is_in_front", [False, True])
def test_a_segment_that_was_lost_before_it_was_archived_is_skipped(
    store: ObjectModel, data: Path, *, is_in_front: bool
) -> None:
    """A power cut may take it and leave those around it; what is archived stays in the log."""
    copier(store, data).copy()
    end = Chain(store, TOPIC, 0, Random(0)).read().end
    append(data, 60)
    after = next(one for one in LogOfFiles(data).closed_segments() if one.base_offset > end)
    for segment in LogOfFiles(data).closed_segments():
        if segment.base_offset == end or (is_in_front and segment.base_offset < end):
            (data / "t-0" / f"{segment.base_offset:020}.log").unlink()

    assert copier(store, data).copy()[0].base_offset == after.base_offset
    state = copied(store, LogOfFiles(data)).state

    assert [(one.start, one.end) for one in state.skips] == [(end, after.base_offset)]
    files = files_with(store, ROOT)
    with open_directory_read_only(ROOT, fs=files).open("t", 0) as log:
        offsets = [record.offset for record in log.records()]
    assert offsets == [*range(end), *range(after.base_offset, state.end)]


def test_a_longer_segment_of_the_same_offset_is_another(
    store: ObjectModel, data: Path, tmp_path: Path
) -> None:
    """It holds offsets after the end of the archived one, which a damaged one might, too."""
    copier(store, data).copy()
    with tidelog.open(tmp_path / "other", config={"internal.segment.bytes": 2000}) as logs:
        logs.create_topic("t")
        for number in range(60):
            logs.append("t", f"value {number} ".encode() * 5, timestamp=1000)

    with pytest.raises(ArchiveDiverged, match="holds other records"):
        copier(store, tmp_path / "other", takes_over=True).copy()


@pytest.mark.parametrize("archived_end", [0, 20, 30, 40, 50])
def test_only_what_is_archived_was_deleted_here(archived_end: int) -> None:
    """Before a gap lies what a deletion has left, if the archive has what is missing there."""
    digests = {base: Digest(1, 1, 1, 1, base + 10) for base in (0, 10, 20, 40)}
    claim = ClaimFile(1, digests=digests, archive=KnownArchive(ROOT, 0, archived_end))

    assert leftovers([0, 10, 20, 30, 40], claim) == 0
    assert leftovers([0, 10, 40, 50], claim) == (2 if archived_end >= 40 else 0)


@pytest.mark.parametrize("new", [0, 1, 5, 400])
@pytest.mark.parametrize("is_copy", [False, True])
def test_a_log_that_began_again_does_not_take_its_archive_over(
    store: ObjectModel, data: Path, tmp_path: Path, *, is_copy: bool, new: int
) -> None:
    """Neither from itself nor from another directory, however far it has come since.

    Its first segment may be active still: then no closed segment differs from the archive's.
    """
    copier(store, data).copy()
    directory = tmp_path / "copy" if is_copy else data
    if is_copy:
        shutil.copytree(data, directory)
    shutil.rmtree(directory / "t-0")
    with tidelog.open(directory) as logs:
        for number in range(new):
            logs.append("t", f"new {number}".encode(), timestamp=1000)
    before = dict(store.objects)

    for takes_over in (True, is_copy):  # without a claim that a copy lacks, the other one is named
        with pytest.raises(ArchiveDiverged, match="lost, truncated, or restored"):
            copier(store, directory, takes_over=takes_over).copy()

    assert store.objects == before


def test_a_log_without_records_does_not_continue_an_archive_without_segments(
    store: ObjectModel, data: Path
) -> None:
    """All that the archive had has expired: its next record still follows those."""
    end = LogOfFiles(data).closed_segments()[-1].end_offset
    copied(store, LogOfFiles(data, first=end), follows_start=True)
    shutil.rmtree(data / "t-0")
    with tidelog.open(data) as logs:
        logs.append("t", b"new", timestamp=1000)

    for truncates in (False, True):  # there is nothing that could be removed
        with pytest.raises(ArchiveDiverged, match=r"it ends at 1\. Name another archive"):
            copied(store, LogOfFiles(data), takes_over=True, truncates=truncates)


def test_what_was_deleted_before_it_was_archived_is_skipped(store: ObjectModel, data: Path) -> None:
    """So that copying continues; the archive says which offsets are missing, and why."""
    copier(store, data).copy()
    end = Chain(store, TOPIC, 0, Random(0)).read().end
    append(data, 80)
    first = next(one for one in LogOfFiles(data).closed_segments() if one.base_offset > end + 10)
    for segment in LogOfFiles(data).closed_segments():
        if segment.base_offset < first.base_offset:
            (data / "t-0" / f"{segment.base_offset:020}.log").unlink()

    state = copied(store, LogOfFiles(data, first=first.base_offset)).state

    assert [(one.start, one.end) for one in state.skips] == [(end, first.base_offset)]
    assert state.start == 0
    assert state.end == LogOfFiles(data).closed_segments()[-1].end_offset
    files = files_with(store, ROOT)
    with open_directory_read_only(ROOT, fs=files).open("t", 0) as log:
        offsets = [record.offset for record in log.records()]
    assert offsets == [*range(end), *range(first.base_offset, state.end)]


def test_the_archive_keeps_what_the_log_deletes_unless_it_follows(
    store: ObjectModel, data: Path
) -> None:
    """The start of the log may lie in a segment that is archived, or above all of them."""
    copier(store, data).copy()
    second = LogOfFiles(data).closed_segments()[1]
    start = second.base_offset + 2
    assert copied(store, LogOfFiles(data, first=start)).state.start == 0

    assert copied(store, LogOfFiles(data, first=start), follows_start=True).state.start == start
    files = files_with(store, ROOT)
    with open_directory_read_only(ROOT, fs=files).open("t", 0) as log:
        assert next(iter(log.records())).offset == start
    append(data, 80)
    last = LogOfFiles(data).closed_segments()[-1]
    for segment in LogOfFiles(data).closed_segments()[:-1]:
        (data / "t-0" / f"{segment.base_offset:020}.log").unlink()
    above = LogOfFiles(data, first=last.base_offset + 1)
    assert copied(store, above, follows_start=True).state.start == last.base_offset + 1
    with open_directory_read_only(ROOT, fs=files).open("t", 0) as log:
        found = [record.offset for record in log.records()]
    assert found == [*range(last.base_offset + 1, last.end_offset)]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_cleaning_is_noted_where_the_disk_has_all_that_is_archived(
    store: ObjectModel, data: Path, *, is_whole: bool
) -> None:
    """Else a segment that only the archive has may be as it was before that cleaning."""
    copier(store, data).copy()
    append(data, 40)
    (data / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    first, second = LogOfFiles(data).closed_segments()[:2]
    if not is_whole:
        (data / "t-0" / f"{first.base_offset:020}.log").unlink()
    log = LogOfFiles(data, first=0 if is_whole else second.base_offset)

    assert copied(store, log).state.cleaned_end == (5 if is_whole else 0)


@pytest.mark.parametrize("is_cleaned_since", [True, False])
def test_a_cleaning_before_a_copy_that_was_stopped_is_noted_by_the_next_copy(
    store: ObjectModel, data: Path, *, is_cleaned_since: bool
) -> None:
    """Though only the archive has the first segments by then; not how far one since has come."""
    append(data, 60)
    first, second, third = LogOfFiles(data).closed_segments()[:3]
    line = second.base_offset + 1
    (data / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {line}\n")

    def stop(_: int) -> None:
        if stopped.state.end:
            raise KeyboardInterrupt

    stopped = copier(store, data)
    with pytest.raises(KeyboardInterrupt):
        stopped.copy(stop)
    assert stopped.state.end == second.base_offset
    (data / "t-0" / f"{first.base_offset:020}.log").unlink()
    if is_cleaned_since:
        (data / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {third.end_offset}\n")

    found = copied(store, LogOfFiles(data, first=second.base_offset))

    assert found.state.cleaned_end == line


def test_a_damaged_checkpoint_of_the_cleaner_keeps_nothing_from_being_copied(
    store: ObjectModel, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A service runs on with it; how far the log was cleaned is then not known."""
    (data / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 x\n")

    assert copied(store, LogOfFiles(data)).state.cleaned_end == 0

    check_archived(store, data)
    assert any("checkpoint-reset" in message for message in caplog.messages)


def copied(store: ObjectModel, log: LogOfFiles, **how: Any) -> Copier:
    one = Copier(SYSTEM_FILES, store, log, store.rng, **how)
    one.copy()
    return one


def test_orphans_of_earlier_claims_are_swept(store: ObjectModel, data: Path) -> None:
    """Those of the current claim may be in use; what has another name is not ours."""
    first = copier(store, data)
    first.copy()
    prefix = f"{TOPIC}/0/"
    orphan, other = f"s/{0:020}-1-{'a' * 32}", [f"s/{0:020}-2-{'a' * 32}", "s/notes.txt", "x/y"]
    for name in (orphan, *other):
        store.put(prefix + name, [b"records"], 7)
    assert first.sweep(0) == 0

    second = copier(store, data)
    second.copy()
    before = set(store.objects)
    assert second.sweep(0) == 1

    assert before - set(store.objects) == {prefix + orphan}
    check_archived(store, data)


def test_what_was_removed_is_swept_a_day_later(
    store: Stopping, data: Path, enumerated: Enumerated
) -> None:
    """By the store's clock; a process that ends in between leaves the rest to the next."""
    copier(store, data).copy()
    bases = [one.base_offset for one in LogOfFiles(data).closed_segments()]
    log = LogOfFiles(data, first=bases[3] + 1)
    one = copied(store, log, follows_start=True)
    removed = dict(one.state.removed)
    assert [entry.base_offset for entry in removed.values()] == bases[:3]
    kept = dict(store.objects)
    stops = 0
    while True:
        store.objects = dict(kept)
        # Of an archive as it was before:
        one = copied(store, log, takes_over=True, claims_first=True)
        newest = f"{TOPIC}/0/m/{one.state.version:020}"
        store.times[newest] = REMOVED_MS - 1
        assert one.sweep(0) == 0
        assert store.objects.keys() >= {f"{TOPIC}/0/{name}" for name in removed}
        store.times[newest] = REMOVED_MS
        store.left = stops + 1
        try:
            assert one.sweep(0) == 3
        except KeyboardInterrupt:
            stops += 1
            store.left = 0
            one = copied(store, log, claims_first=True)
            store.times[f"{TOPIC}/0/m/{one.state.version:020}"] = REMOVED_MS
            one.sweep(0)
        else:
            break
        finally:
            names = {name.partition("/s/")[2] for name in store.objects if "/s/" in name}
            assert names.isdisjoint(name[2:] for name in removed)
            state = Chain(store, TOPIC, 0, Random(0)).read()
            assert (state.removed, state.removed_in) == ({}, {})
            store.times.clear()
    with open_directory_read_only(ROOT, fs=files_with(store, ROOT)).open("t", 0) as found:
        assert next(iter(found.records())).offset == bases[3] + 1
    enumerated("requests before or after which a sweep ended", stops, at_least=5)


def test_a_claim_reads_only_segments_that_were_written_since(
    store: ObjectModel, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that runs each hour must not read all that it has archived."""
    read: list[int] = []
    facts = segment_facts

    def noted(fs: FileSystem, directory: str, base: int, end: int) -> SegmentFacts:
        read.append(base)
        return facts(fs, directory, base, end)

    copier(store, data).copy()
    monkeypatch.setattr(copier_module, "segment_facts", noted)
    second = LogOfFiles(data).closed_segments()[1]
    path = data / "t-0" / f"{second.base_offset:020}.log"
    assert copier(store, data).copy() == []
    assert read == []

    os.utime(path, ns=(0, 0))
    assert copier(store, data).copy() == []
    assert read == [second.base_offset]
    content = path.read_bytes()
    os.utime(path, ns=(0, 10**15))
    path.write_bytes(content[:-1] + b"?")
    with pytest.raises((ArchiveDiverged, CorruptMessage)):
        copier(store, data).copy()


def test_what_the_disk_gave_up_is_no_longer_noted_beside_the_log(
    store: ObjectModel, data: Path
) -> None:
    """A service copies for years: its notes are as long as the disk's part of the log."""
    one = copier(store, data)
    one.copy()
    path = claim_file(str(data), TOPIC, 0)
    closed = [segment.base_offset for segment in LogOfFiles(data).closed_segments()]
    assert [*read_claim(SYSTEM_FILES, path).digests] == closed
    for base in closed[:-1]:
        for file in (data / "t-0").glob(f"{base:020}.*"):
            file.unlink()
    append(data, 20)

    assert one.copy()
    now = [segment.base_offset for segment in LogOfFiles(data).closed_segments()]
    assert [*read_claim(SYSTEM_FILES, path).digests] == now


def test_indexes_that_were_built_again_are_no_other_history(store: ObjectModel, data: Path) -> None:
    """Nor is a leader epoch that the log start has passed: records are compared, by checksum."""
    copier(store, data).copy()
    for path in (data / "t-0").glob("*.index"):
        path.write_bytes(b"")
    (data / "t-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    append(data, 20)

    assert copier(store, data).copy()
    check_archived(store, data)


def test_a_damaged_segment_stops_the_copy_before_it(store: ObjectModel, data: Path) -> None:
    """Sound segments before it are in the archive."""
    second = LogOfFiles(data).closed_segments()[1]
    damage_batch(data, "t", second.base_offset)

    with pytest.raises(CorruptMessage):
        copier(store, data).copy()
    assert Chain(store, TOPIC, 0, Random(0)).read().end == second.base_offset


def test_the_first_segment_may_begin_before_the_log(store: ObjectModel, data: Path) -> None:
    """As after delete-records in its middle."""
    log = LogOfFiles(data, first=3)

    Copier(SYSTEM_FILES, store, log, store.rng).copy()

    files = files_with(store, ROOT)
    with open_directory_read_only(ROOT, fs=files).open("t", 0) as found:
        assert next(iter(found.records())).offset == 3


def test_a_process_may_end_at_any_request(data: Path, enumerated: Enumerated) -> None:
    """The next one copies what is not committed, and nothing twice."""
    stops = 0
    while True:
        store = Stopping(stops + 1)
        claim = claim_file(str(data), TOPIC, 0)
        if SYSTEM_FILES.exists(claim):
            SYSTEM_FILES.delete(claim)
        try:
            copier(store, data).copy()
        except KeyboardInterrupt:
            stops += 1
        else:
            break
        copier(store, data).copy()
        check_archived(store, data)

    enumerated("requests before or after which a process ended", stops, at_least=10)


def test_a_store_that_fails_often_gets_all_in_the_end(data: Path, enumerated: Enumerated) -> None:
    """With answers lost and writes that come late; the same process tries again."""
    failures = 0
    for seed in range(examples(20)):
        store = ObjectModel(Random(seed), chance=0.35)
        claim = claim_file(str(data), TOPIC, 0)
        if SYSTEM_FILES.exists(claim):
            SYSTEM_FILES.delete(claim)
        one = copier(store, data)
        while True:
            try:
                one.copy()
                break
            except (StoreUnavailable, ArchiveOvertaken):
                failures += 1
                store.tick()
                one = copier(store, data) if store.rng.random() < 0.5 else one
        store.settle()
        check_archived(store, data)

    enumerated("failures", failures, at_least=6)


def test_a_claim_file_of_others_is_refused(store: ObjectModel, data: Path) -> None:
    """Nothing is archived by it."""
    path = claim_file(str(data), TOPIC, 0)
    copier(store, data).copy()
    known = read_claim(SYSTEM_FILES, path)
    incarnation = Chain(store, TOPIC, 0, Random(0)).read().incarnation
    assert known.drawn_since(store.name, incarnation) == (incarnation,)
    assert known.drawn_since("s3://other", incarnation) is None
    for content in (b"", b"{}", b'{"version": 1, "incarnation": 5}', b"\xff"):
        SYSTEM_FILES.write(path, content)
        with pytest.raises(CorruptFile):
            copier(store, data).copy()
    SYSTEM_FILES.write(path, b'{"version": 3}')
    with pytest.raises(tidelog.TidelogError, match="this tidelog reads up to 2"):
        copier(store, data).copy()
    assert isinstance(StoreError("x"), tidelog.TidelogError)


def test_an_archive_is_truncated_when_told_to(
    store: ObjectModel, data: Path, tmp_path: Path
) -> None:
    """To what it has in common with the log, at the end of a segment; then copying continues.

    The objects stay for a day, for readers that have begun before.
    """
    shutil.copytree(data, tmp_path / "old")
    append(data, 60)
    before = [entry.name for entry in copier(store, data).copy()]
    append(tmp_path / "old", 90, "other")
    log = LogOfFiles(tmp_path / "old")

    with pytest.raises(ArchiveDiverged, match="holds other records"):
        copied(store, log, takes_over=True)
    one = copied(store, log, takes_over=True, truncates=True)

    kept = [entry.name for entry in one.state.entries]
    gone = set(before) - set(kept)
    assert one.truncated == len(gone)
    assert 0 < len(gone) < len(before)
    assert kept[: len(before) - len(gone)] == before[: len(before) - len(gone)]
    assert one.state.truncated == gone == one.state.removed.keys()
    assert check_archived(store, tmp_path / "old") > 60
    assert {name.partition("0/")[2] for name in store.objects} >= gone
    again = copied(store, log, truncates=True, claims_first=True)
    assert (again.truncated, again.state.version) == (0, one.state.version + 1)
    store.times[f"{TOPIC}/0/m/{again.state.version:020}"] = REMOVED_MS
    assert again.sweep(0) == len(gone)
    assert check_archived(store, tmp_path / "old") > 60


@pytest.mark.parametrize("closed", [0, 1, 3])
def test_an_archive_is_truncated_to_what_a_shorter_log_has(
    store: ObjectModel, data: Path, closed: int
) -> None:
    """Its last segment is active; it may be the only one."""
    copier(store, data).copy()
    bases = [one.base_offset for one in LogOfFiles(data).closed_segments()]
    for path in sorted((data / "t-0").glob("*.log"))[closed + 1 :]:
        path.unlink()
    if closed:
        with pytest.raises(ArchiveDiverged, match="truncated, or restored"):
            copied(store, LogOfFiles(data))
    one = copied(store, LogOfFiles(data), truncates=True)

    assert [entry.base_offset for entry in one.state.entries] == bases[:closed]
    assert one.state.end == bases[closed]


def test_a_log_that_begins_in_its_archive_is_not_truncated_below_the_disk(
    store: ObjectModel, data: Path, tmp_path: Path
) -> None:
    """The archive alone has those records."""
    shutil.copytree(data, tmp_path / "other")
    copied(store, LogOfFiles(data))
    directory = tmp_path / "other"
    shutil.rmtree(directory)
    append(directory, 40, "other, and longer")
    for base in [one.base_offset for one in LogOfFiles(directory).closed_segments()][:3]:
        (directory / "t-0" / f"{base:020}.log").unlink()
    before = dict(store.objects)
    log = LogOfFiles(directory)
    with pytest.raises(ArchiveDiverged, match="would lose the records in between"):
        copied(store, log, takes_over=True, truncates=True)
    assert store.objects == before
