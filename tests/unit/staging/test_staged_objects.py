"""Staged files on a store: what tasks put there is what the driver commits, once."""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.object_model import ObjectModel

from tidelog.errors import (
    DirectoryNotShared,
    InvalidArgument,
    KafkaStorageError,
    ObjectNotFound,
    StoreUnavailable,
)
from tidelog.records.builder import build_batch
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.staged_file import attempt_of, new_attempt, staged_name
from tidelog.staging.staged_objects import StagedObjects, StoreVisits, staged_uri, sweep_staged
from tidelog.staging.staged_run import RunLimits, StagedRun, check_run

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH = build_batch([record(b"v" * 20)])
SIZE = len(BATCH)
DIRECTORY = UUID(int=7)
DAY_MS = 24 * 3_600_000
LIMITS = RunLimits(1 << 20, needs_keys=False, is_stamped=False)


def objects(chance: float = 0.0) -> tuple[ObjectModel, StagedObjects]:
    """Return a store, and the staged objects of a transaction there."""
    store = ObjectModel(Random(1), chance)
    return store, StagedObjects("memory://staged", store)


def put(at: StagedObjects, attempt: str | None = None, count: int = 3) -> Sequence[StagedRun]:
    """Stage batches for two partitions; a task writes each batch as soon as it has it."""
    writer = BundleWriter(at, "x", rng=Random(f"{attempt}{count}"), buffer_bytes=1, attempt=attempt)
    for number in range(count):
        writer.append("t", number % 2, BATCH, segment_bytes=SIZE)
    return writer.finish()


def home() -> DataHome:
    """Return an empty data directory."""
    made = DataHome()
    made.fs.make_directory(made.path)
    return made


def test_what_tasks_put_becomes_files_that_a_commit_takes() -> None:
    """Each run has the digest that its task has computed; no partition has an object of its own."""
    store, at = objects()
    runs = put(at)
    assert sorted({run.name for run in runs}) == sorted(store.objects)
    assert len(store.objects) == 1

    data = home()
    at.download(data.fs, data.path, runs)

    for run in runs:
        check_run(data.fs, data.path, run, LIMITS)
    assert sum(run.records for run in runs) == 3


def test_objects_are_of_a_size_that_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that writes more makes several, and runs stay in order."""
    store, at = objects()
    monkeypatch.setattr(StagedObjects, "max_bytes", 2 * SIZE)
    runs = put(at, count=9)

    assert [len(data) for data in store.objects.values()] == [2 * SIZE] * 4 + [SIZE]
    order = [(list(store.objects).index(run.name), run.position) for run in runs]
    assert order == sorted(order)
    assert [run.partition for run in runs] == [0, 1] * 4 + [0]


def test_a_task_whose_store_fails_stages_nothing() -> None:
    """Its error is typed; a put that comes late is an orphan, which a sweep deletes."""
    store, at = objects()
    store.chance = 1.0
    with pytest.raises(StoreUnavailable):
        put(at)
    assert store.objects == {}
    store.chance = 0.0
    store.late = [one for one in store.late if one.data is not None]
    store.settle()
    assert len(sweep_staged("", DIRECTORY, DAY_MS, DAY_MS + 1, store)) == 1
    assert store.objects == {}


def test_a_truncated_object_is_found_by_the_commit() -> None:
    """The store says that it is there; its bytes are not those that were put."""
    store, at = objects()
    runs = put(at)
    (name,) = store.objects
    store.objects[name] = store.objects[name][:-1]
    data = home()
    at.download(data.fs, data.path, runs)

    with pytest.raises(KafkaStorageError, match="does not match its manifest"):
        check_run(data.fs, data.path, runs[-1], LIMITS)


def test_an_object_that_is_gone_is_named() -> None:
    """Nothing is made of it in the directory."""
    store, at = objects()
    runs = put(at)
    store.objects.clear()
    data = home()
    with pytest.raises(ObjectNotFound, match=runs[0].name):
        at.download(data.fs, data.path, runs)
    assert data.fs.list(data.path) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_a_disk_that_fails_is_reported_and_keeps_no_part(code: int) -> None:
    """At each operation, as where a task stages there itself."""
    _, at = objects()
    runs, failed = put(at), 0
    while True:
        data = home()
        data.fs.fail_at(failed, OSError(code, "failed"))
        try:
            at.download(data.fs, data.path, runs)
        except KafkaStorageError:
            assert data.fs.list(data.path) == []
            failed += 1
        else:
            break
    assert failed >= 3


def test_an_end_deletes_the_objects_of_its_own_attempts(caplog: pytest.LogCaptureFixture) -> None:
    """Those of another attempt, which may still commit, stay; a failure is only logged."""
    store, at = objects()
    marker, other = (staged_name("x", Random(seed)) for seed in (1, 2))
    at.make_marker(marker)
    put(at, attempt_of(marker))
    kept = {run.name for run in put(at, attempt_of(other))}

    at.delete([marker])
    assert set(store.objects) == kept

    store.chance = 1.0
    at.delete([other])
    assert "staged-objects-not-deleted" in caplog.text


def test_a_task_sees_the_store_of_its_driver_or_stops() -> None:
    """At its beginning it may be another store; at its end the write may be over."""
    _, at = objects()
    marker = staged_name("x", Random(1))
    with pytest.raises(DirectoryNotShared, match="not the store that the driver sees"):
        StoreVisits(at, marker)
    at.make_marker(marker)
    visits = StoreVisits(at, marker)
    visits.visit()
    at.delete([marker])
    with pytest.raises(DirectoryNotShared, match="the driver has ended the write"):
        visits.visit()


def test_a_sweep_deletes_what_attempts_have_left_for_long() -> None:
    """An attempt is as old as its newest object; what is not a staged file stays."""
    store = ObjectModel(Random(1))
    old, young = new_attempt(Random(1)), new_attempt(Random(2))
    names = [f"hash/{staged_name('x', Random(n), attempt)}" for n, attempt in enumerate([old, old])]
    alive = [f"hash/{staged_name('x', Random(n), young)}" for n in (3, 4)]
    strange = ["hash/notes.txt", "README"]
    for name in [*names, *alive, *strange]:
        store.objects[name] = b"."
        store.times[name] = 1000
    store.times[alive[1]] = 1000 + DAY_MS

    assert sweep_staged("", DIRECTORY, DAY_MS, 1000 + DAY_MS, store) == []
    deleted = sweep_staged("", DIRECTORY, DAY_MS, 1001 + DAY_MS, store)

    assert sorted(deleted) == sorted(names)
    assert sorted(store.objects) == sorted([*alive, *strange])


def test_transactions_and_directories_have_folders_of_their_own() -> None:
    """None sees the objects of another; a URI without a store is refused."""
    made = {
        staged_uri(uri, directory, txn)
        for uri in ("s3://lake/a", "s3://lake/b/")
        for directory in (DIRECTORY, UUID(int=8))
        for txn in ("x", "y")
    }
    assert len(made) == 8
    assert all("/staged/" in uri and "//" not in uri.removeprefix("s3://") for uri in made)
    with pytest.raises(InvalidArgument, match="not the URI of a store"):
        staged_uri("/data", DIRECTORY, "x")
