"""Ids of producers are given out once, whatever directory is open, offline or used alone."""

from __future__ import annotations

import errno
import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome

import tidelog
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.datadir.cluster_metadata.bootstrap import BOOTSTRAP_FILE
from tidelog.errors import KafkaStorageError
from tidelog.manager.directories.join_directories import join_directories
from tidelog.manager.producer_ids import (
    BLOCK,
    FILE_NAME,
    ProducerIds,
    begin_apart,
    next_block,
)
from tidelog.testing import CrashFileSystem, ManualClock, PowerCut, build_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import Enumerated

RANGE = 1 << 40
PATHS = ("/a", "/b", "/c")


def drawn(files: CrashFileSystem, paths: Sequence[str], offline: Sequence[str] = ()) -> list[int]:
    """Open directories, some of which fail; return a block of ids and one more."""
    with tidelog.open(*paths, files=files, clock=ManualClock()) as logs:
        for path in offline:
            logs.manager.take_dir_offline(path, OSError(errno.EIO, "it failed"))
        ids = ProducerIds(logs.manager)
        return [ids.next() for _ in range(BLOCK + 1)]


def made_apart(files: CrashFileSystem, *paths: str) -> set[int]:
    """Let each directory be used alone, the last one most, and then belong together; return ids."""
    seen = {one for path in paths for one in drawn(files, [path])}
    seen.update(drawn(files, paths[-1:]))
    join_directories(paths, fs=files, rng=Random(1))
    return seen


def written(files: CrashFileSystem, path: str) -> Any:
    """Return what the file of a directory says."""
    return json.loads(files.read(f"{path}/{FILE_NAME}"))


def test_no_id_comes_twice(enumerated: Enumerated) -> None:
    """Whichever of the directories are configured, and whichever of these are offline."""
    files, rng = CrashFileSystem(), Random(3)
    seen = set(drawn(files, PATHS))
    for _ in range(60):
        paths = rng.sample(PATHS, rng.randint(1, 3))
        offline = rng.sample(paths, rng.randrange(len(paths)))
        found = drawn(files, paths, offline)
        assert not seen & set(found)
        seen.update(found)
        if rng.random() < 0.2:
            files.power_cut("none")
    enumerated("producer ids", len(seen), at_least=50_000)


def test_a_directory_that_was_never_met_keeps_producers_waiting_until_it_is() -> None:
    """What was given out there is not known. Then each has a range of its own."""
    files = CrashFileSystem()
    seen = made_apart(files, "/a", "/b")
    assert len(seen) == 2 * (BLOCK + 1)

    for offline in ("/a", "/b"):
        with pytest.raises(KafkaStorageError, match=f"{offline} was never open together"):
            drawn(files, ["/a", "/b"], [offline])

    found = drawn(files, ["/a", "/b"])
    assert not set(found) & seen
    assert written(files, "/b")["next"] == RANGE
    assert drawn(files, ["/a", "/b"], ["/a"])[0] == RANGE


def test_another_directory_in_the_place_of_one_that_is_known_is_not_taken_for_it() -> None:
    """Where ``/b`` is missing, ``/c`` may have any ids."""
    files = CrashFileSystem()
    drawn(files, ["/a", "/b"])
    made_apart(files, "/a", "/c")

    with pytest.raises(KafkaStorageError, match="/c was never open together"):
        drawn(files, ["/a", "/c"], ["/c"])
    with pytest.raises(KafkaStorageError, match="was never open together"):
        drawn(files, ["/a", "/b", "/c"], ["/b"])


def test_a_power_cut_while_ranges_are_given_out_leaves_none_to_two(enumerated: Enumerated) -> None:
    """Nobody counts on ranges that differ before they do."""
    cuts = 0
    while True:
        files = CrashFileSystem(cuts)
        seen = made_apart(files, "/a", "/b")
        logs = tidelog.open("/a", "/b", files=files, clock=ManualClock())
        files.crash_after(cuts)
        try:
            ProducerIds(logs.manager).next()
            break
        except PowerCut:
            files.power_cut("none")
        finally:
            files.mend()
            logs.manager.abandon()
        cuts += 1
        for offline in ("/a", "/b"):
            try:
                found = drawn(files, ["/a", "/b"], [offline])
            except KafkaStorageError:
                continue
            for _ in range(3):  # by another process meanwhile
                found += drawn(files, [offline])
            assert not seen & set(found)
            assert len(set(found)) == len(found)
            seen.update(found)
    enumerated("power cuts", cuts, at_least=5)


def test_a_copy_that_is_put_back_gives_out_other_ids() -> None:
    """Clients may have those that the lost directory has given out since it was copied."""
    home = DataHome()
    with home.open(rng=Random(1)) as logs:
        assert ProducerIds(logs.manager).next() == 0
    copy = home.copied(1)

    found = []
    for one, rng in ((home, Random(2)), (copy, Random(3))):
        with one.open(rng=rng) as logs:
            found.append(ProducerIds(logs.manager).next())

    assert len(set(found)) == 2
    assert all(one in range(BLOCK, RANGE, BLOCK) for one in found)


def test_files_of_older_versions_name_one_range_for_all() -> None:
    """The first directory keeps it, and the others get their own."""
    files = CrashFileSystem()
    drawn(files, ["/a", "/b"])
    for path in ("/a", "/b"):
        files.write(f"{path}/{FILE_NAME}", b'{"version": 1, "next": 7000}')

    assert drawn(files, ["/a", "/b"])[0] in range(7000, RANGE, BLOCK)
    assert written(files, "/b")["next"] == RANGE


def test_ids_begin_after_those_in_the_logs() -> None:
    """In the range of the directory; others say nothing of it."""
    files = CrashFileSystem()
    with tidelog.open("/a", files=files, clock=ManualClock()) as logs:
        logs.create_topic("t")
        now_ms = logs.manager.machine.clock.now_ms()
        for producer_id in (4321, 5 * RANGE + 3, RANGE + 1):
            batch = build_batch(
                [(now_ms, None, b"v", ())],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
            )
            logs.partition("t", 0).append(batch)
        found = ProducerIds(logs.manager).next()
        assert found in range(5000, RANGE, BLOCK)
        assert next_block(logs.manager) == found + BLOCK

    drawn(files, ["/a", "/b"])
    assert written(files, "/b")["next"] == 2 * RANGE


@pytest.mark.parametrize("name", ["__cluster_metadata-0/00000000000000000000.log", BOOTSTRAP_FILE])
def test_beside_a_broker_of_kafka_ids_are_of_a_range_that_it_never_draws_from(name: str) -> None:
    """Its controller does not see what is given out here, and would give it out again.

    So the first range is left to it, also by a directory that has drawn from it before.
    """
    files = CrashFileSystem()
    seen = set(drawn(files, ["/a", "/b"]))
    files.make_directory("/a/__cluster_metadata-0")
    files.write(f"/a/{name}", b"")

    with pytest.raises(KafkaStorageError):
        drawn(files, ["/a", "/b"], ["/b"])
    found = drawn(files, ["/a", "/b"])
    assert min(found) >= RANGE
    assert not seen & set(found)
    assert written(files, "/a")["next"] // RANGE != written(files, "/b")["next"] // RANGE
    assert min(drawn(files, ["/a", "/b"], ["/b"])) >= RANGE
    with tidelog.open("/a", "/b", files=files, clock=ManualClock()) as logs:
        assert next_block(logs.manager) < RANGE


def test_a_broker_that_gets_a_mirror_begins_above_the_ids_of_its_source() -> None:
    """They need not be in the logs that it gets."""
    files = CrashFileSystem()
    drawn(files, ["/b"])
    files.make_directory("/a")
    begin_apart(files, "/a", Random(1))
    begin_apart(files, "/b", Random(1))  # it has a range
    for path, is_mirror in (("/a", True), ("/b", False)):
        with tidelog.open(path, files=files, clock=ManualClock()) as logs:
            assert (next_block(logs.manager) >= RANGE // 4) == is_mirror
            assert next_block(logs.manager) < RANGE // 2 + BLOCK


@pytest.mark.parametrize("seed", range(8))
def test_a_broker_that_gets_a_mirror_of_a_broker_begins_far_above_its_ids(seed: int) -> None:
    """Also where that one had got a mirror, too: its producers may have any id soon after those."""
    home, greatest = DataHome(), 3 * RANGE // 8
    home.fs.make_directory(home.path)
    begin_apart(home.fs, home.path, Random(seed))
    with home.open(rng=Random(seed)) as logs:
        logs.create_topic("t")
        now_ms = logs.manager.machine.clock.now_ms()
        record = (now_ms, None, b"v", ())
        batch = build_batch([record], producer_id=greatest, producer_epoch=0, base_sequence=0)
        logs.partition("t", 0).append(batch)

        assert greatest + RANGE // 8 < next_block(logs.manager) < RANGE


def test_topics_of_a_broker_keep_its_range_where_its_metadata_lies_elsewhere() -> None:
    """In ``metadata.log.dir``, which need not be known here."""
    files = CrashFileSystem()
    with tidelog.open("/a", files=files, clock=ManualClock()) as logs:
        logs.create_topic("t")
    files.delete(f"/a/{CATALOGUE_FILE}")

    assert min(drawn(files, ["/a"])) >= RANGE


@pytest.mark.parametrize("more", ["", ', "next": -1', ', "next": 1, "ranges": 5e9'])
def test_a_malformed_file_is_an_error(more: str) -> None:
    """Nothing is known of what was given out."""
    files = CrashFileSystem()
    drawn(files, ["/a"])
    files.write(f"/a/{FILE_NAME}", b'{"version": 1%s}' % more.encode())
    with pytest.raises(KafkaStorageError, match=FILE_NAME):
        drawn(files, ["/a"])
