"""Ids of producers are given out once, whatever directory is open, offline or used alone."""

from __future__ import annotations

import errno
import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome

import tidelog
from tidelog.codec.messages.keyed_message import write_value
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.datadir.cluster_metadata.bootstrap import BOOTSTRAP_FILE
from tidelog.errors import CorruptFile, KafkaStorageError
from tidelog.manager.directories.join_directories import join_directories
from tidelog.manager.producer_ids import (
    BLOCK,
    FILE_NAME,
    ProducerIds,
    begin_apart,
    next_block,
    read_reserved,
)
from tidelog.readonly.transactional_id import (
    TRANSACTIONS_TOPIC,
    Transaction,
    transaction_key,
    transaction_record,
    transaction_tombstone,
)
from tidelog.testing import CrashFileSystem, ManualClock, PowerCut, build_batch, damage_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import Enumerated

    from tidelog.embedded.logs import Logs

RANGE = 1 << 40
PATHS = ("/a", "/b", "/c")


class Least(Random):
    """Draws the least number: no process leaves out ids, so that they meet if they can."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return where the range starts."""
        del step
        return 0 if stop is None else start

    def randint(self, a: int, b: int) -> int:
        """Return the least; ``Random`` asks ``randrange`` in some releases only."""
        return self.randrange(a, b + 1)


class Greatest(Least):
    """Draws the greatest number."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return the last one of the range."""
        del step
        return (start if stop is None else stop) - 1


def opened(files: CrashFileSystem, *paths: str, rng: Random | None = None) -> Logs:
    """Open directories; their own ids differ."""
    home = DataHome()
    home.fs = files
    return home.open(paths=paths, rng=rng or Least(repr(paths)))


def drawn(files: CrashFileSystem, paths: Sequence[str], offline: Sequence[str] = ()) -> list[int]:
    """Open directories, some of which fail; return a block of ids and one more."""
    with opened(files, *paths) as logs:
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


def test_no_id_comes_twice_among_directories_that_are_open_in_changing_groups(
    enumerated: Enumerated,
) -> None:
    """An id that one of a group gave out comes from none of it, whatever groups met in between.

    Groups that never met may give out the same ids: neither can know.
    """
    files, rng, paths = CrashFileSystem(), Random(3), [f"/{name}" for name in "abcdef"]
    made_apart(files, *paths)
    seen = {path: set[int]() for path in paths}
    refused = 0
    for _ in range(150):
        group = rng.sample(paths, rng.randint(1, 3))
        offline = rng.sample(group, rng.randrange(len(group)))
        try:
            found = drawn(files, group, offline)
        except KafkaStorageError:
            refused += 1
            continue
        assert not set(found).intersection(*(seen[path] for path in group))
        (source,) = (one for one in group if written(files, one)["next"] == found[-1] + BLOCK)
        seen[source].update(found)
    enumerated("refusals", refused, at_least=20)
    enumerated("producer ids", sum(map(len, seen.values())), at_least=50_000)


def test_a_directory_says_what_is_reserved_and_which_others_have_other_ranges() -> None:
    """Each id of a block is given out before the next block is reserved."""
    files = CrashFileSystem()

    assert drawn(files, ["/a"]) == [*range(BLOCK + 1)]
    with opened(files, "/a") as logs:
        own = format_uuid(logs.manager.directory_id("/a"))
    assert written(files, "/a") == {
        "version": 1,
        "next": 2 * BLOCK,
        "ranges": 1,
        "with": {own: "/a"},
    }


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


def test_directories_keep_their_ranges_from_one_process_to_the_next() -> None:
    """Also beside one whose range has not begun; a broker of Kafka begins after all of its own."""
    files = CrashFileSystem()
    for _ in range(3):
        last = drawn(files, ["/a", "/b"])[-1]

    assert last == 6 * BLOCK - BLOCK
    assert (written(files, "/a")["next"], written(files, "/b")["next"]) == (6 * BLOCK, RANGE)
    with opened(files, "/a", "/b") as logs:
        assert next_block(logs.manager) == 6 * BLOCK


def test_another_directory_in_the_place_of_one_that_is_known_is_not_taken_for_it() -> None:
    """Where ``/b`` is missing, ``/c`` may have any ids."""
    files = CrashFileSystem()
    drawn(files, ["/a", "/b"])
    made_apart(files, "/a", "/c")

    with pytest.raises(KafkaStorageError, match="/c was never open together"):
        drawn(files, ["/a", "/c"], ["/c"])
    with pytest.raises(KafkaStorageError, match="was never open together"):
        drawn(files, ["/a", "/b", "/c"], ["/b"])


def test_what_was_known_of_others_is_forgotten_with_the_range_that_differed_from_theirs() -> None:
    """``/a`` and ``/b`` differ, until each gets a third range, beside others that have theirs."""
    files = CrashFileSystem()
    made_apart(files, "/a", "/b", "/c", "/d", "/e")
    for pair in (["/a", "/b"], ["/e", "/d"], ["/d", "/b"], ["/c", "/a"]):
        drawn(files, pair)

    assert [written(files, path)["next"] // RANGE for path in ("/a", "/b")] == [2, 2]
    for offline in ("/a", "/b"):
        with pytest.raises(KafkaStorageError, match="was never open together"):
            drawn(files, ["/a", "/b"], [offline])


def test_a_power_cut_while_ranges_are_given_out_leaves_none_to_two(enumerated: Enumerated) -> None:
    """Nobody counts on ranges that differ before they do."""
    cuts = 0
    while True:
        files = CrashFileSystem(cuts)
        seen = made_apart(files, "/a", "/b")
        logs = opened(files, "/a", "/b")
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


def test_a_process_leaves_out_some_of_sixteen_thousand_blocks() -> None:
    """A copy begins at one of as many places, and a range lasts for 100,000 processes."""
    files = CrashFileSystem()
    drawn(files, ["/a"])
    with opened(files, "/a", rng=Greatest(1)) as logs:
        ids = ProducerIds(logs.manager)
        found = [ids.next() for _ in range(BLOCK + 1)]

    skipped = found[0] // BLOCK - 2
    assert skipped + 1 == 16_384
    assert RANGE // (skipped * BLOCK // 2) > 100_000
    assert found == [*range(found[0], found[0] + BLOCK + 1)]


def test_the_ids_of_a_new_directory_begin_where_its_range_does() -> None:
    """No client has one yet that a copy of it could give out again."""
    files = CrashFileSystem()
    drawn(files, ["/a", "/b"])
    with opened(files, "/b", rng=Greatest(1)) as logs:
        assert ProducerIds(logs.manager).next() == RANGE


def test_what_a_file_says_was_given_out_need_not_end_a_block() -> None:
    """The next one begins after its last id, for a broker of Kafka too."""
    files = CrashFileSystem()
    drawn(files, ["/a"])
    files.write(f"/a/{FILE_NAME}", b'{"version": 1, "next": 7001}')

    with opened(files, "/a") as logs:
        assert next_block(logs.manager) == 8000
        assert ProducerIds(logs.manager).next() == 8000


def test_a_range_ends_before_the_next_one_begins() -> None:
    """Also where its last block would end with it: the next id would be of the range above."""
    files, end = CrashFileSystem(), 125 * RANGE
    assert end % BLOCK == 0
    drawn(files, ["/a"])
    reserved = b'{"version": 1, "next": %d, "ranges": 200}' % (end - 2 * BLOCK)
    files.write(f"/a/{FILE_NAME}", reserved)

    with opened(files, "/a") as logs:
        ids = ProducerIds(logs.manager)
        assert [ids.next() for _ in range(BLOCK)][-1] == end - BLOCK - 1
        with pytest.raises(KafkaStorageError, match="of producers of /a are used up"):
            ids.next()
    assert drawn(files, ["/a"])[0] == 200 * RANGE


def test_ids_are_below_2_to_the_62() -> None:
    """No cluster has assigned one above it: the next one would soon be out of range."""
    files = CrashFileSystem()
    drawn(files, ["/a"])
    reserved = b'{"version": 1, "next": %d, "ranges": %d}'
    files.write(f"/a/{FILE_NAME}", reserved % (2**62 - 1, 2**22 - 1))
    with pytest.raises(KafkaStorageError, match="all ids of producers are used up"):
        drawn(files, ["/a"])

    files.write(f"/a/{FILE_NAME}", reserved % (4000, 2**22 - 1))
    made_apart(files, "/a", "/b")
    drawn(files, ["/a", "/b"])
    assert written(files, "/b")["next"] == 2**62 - RANGE


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


def test_ids_begin_after_those_that_the_coordinator_has_noted() -> None:
    """Whose producers may have written nothing, or have other ids by now."""
    files = CrashFileSystem()
    named = Transaction("x", 4321, 0, 60_000)
    version_1 = {
        "producerId": 6000,
        "previousProducerId": 1,
        "nextProducerId": 7321,
        "producerEpoch": 1,
        "transactionTimeoutMs": 1,
        "transactionStatus": 0,
        "transactionPartitions": None,
        "transactionStartTimestampMs": 1,
        "transactionLastUpdateTimestampMs": 1,
    }
    for records, first in (
        ([transaction_record(named, 1)], 5000),
        ([(1, transaction_key("x"), write_value("transaction", 0, 1, version_1), ())], 8000),
    ):
        with opened(files, "/a") as logs:
            if TRANSACTIONS_TOPIC not in logs.manager.topics():
                logs.create_topic(TRANSACTIONS_TOPIC)
            for record in (transaction_tombstone("y", 1), *records):
                logs.partition(TRANSACTIONS_TOPIC, 0).append(build_batch([record]))
            assert next_block(logs.manager) == first
            assert ProducerIds(logs.manager).next() == first


@pytest.mark.parametrize(
    "unknown",
    [(transaction_key("y"), b"\x7f\xff"), (transaction_key("y"), b""), (b"\0\x07", b"\0\0")],
    ids=["a newer version", "malformed", "another kind"],
)
def test_ids_that_the_coordinator_has_noted_in_other_words_may_be_any_of_a_brokers(
    unknown: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """So a broker begins far above them all, and no other range is drawn from there."""
    files = CrashFileSystem()
    known = transaction_record(Transaction("x", 4321, 0, 60_000), 1)
    with opened(files, "/a") as logs:
        logs.create_topic(TRANSACTIONS_TOPIC)
        for record in ((1, *unknown, ()), known):
            logs.partition(TRANSACTIONS_TOPIC, 0).append(build_batch([record]))
        left = RANGE - 4321
        assert next_block(logs.manager) == (4321 + left // 4) // BLOCK * BLOCK + BLOCK
        assert ProducerIds(logs.manager).next() == RANGE
    assert caplog.text.count(f"producer-ids-not-known log={TRANSACTIONS_TOPIC}-0") == 1


def test_an_id_that_a_broker_never_comes_to_keeps_none_from_it() -> None:
    """Any client may write one; after it, the broker would soon be in the range above its own."""
    files, last = CrashFileSystem(), RANGE - 2**30
    with tidelog.open("/a", files=files, clock=ManualClock()) as logs:
        logs.create_topic("t")
        record = (logs.manager.machine.clock.now_ms(), None, b"v", ())
        for producer_id, first in (
            (0, BLOCK),
            (RANGE - 1, BLOCK),
            (last, BLOCK),
            (last - 1, last // BLOCK * BLOCK + BLOCK),
        ):
            batch = build_batch(
                [record], producer_id=producer_id, producer_epoch=0, base_sequence=0
            )
            logs.partition("t", 0).append(batch)
            assert next_block(logs.manager) == first


def test_of_a_log_that_cannot_be_read_only_the_range_is_known() -> None:
    """That is Kafka's, or one that was given out: known ones stay, and new ones are above both."""
    files, found = CrashFileSystem(), []
    record = transaction_record(Transaction("x", 4321, 0, 60_000), 1)
    for paths in (["/a"], ["/a"], ["/a", "/b"], ["/a", "/b"]):
        with opened(files, *paths) as logs:
            if TRANSACTIONS_TOPIC not in logs.manager.topics():
                logs.create_topic(TRANSACTIONS_TOPIC)
            offset = logs.partition(TRANSACTIONS_TOPIC, 0).append_records([record]).first_offset
            damage_batch("/a", TRANSACTIONS_TOPIC, offset, files=files)
            found.append(ProducerIds(logs.manager).next())

    assert [one // RANGE for one in found] == [1, 1, 2, 2]
    assert written(files, "/b")["next"] == 3 * RANGE


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


def test_a_copy_draws_from_a_range_far_above_those_that_are_given_out_in_their_order() -> None:
    """At random, from as many: two copies of a directory hardly get the same one."""
    files = CrashFileSystem()
    drawn(files, ["/a"])
    found = []
    for rng in (Least(1), Greatest(1)):
        files.delete(f"/a/{FILE_NAME}")
        begin_apart(files, "/a", rng)
        found.append(written(files, "/a"))

    assert [one["next"] for one in found] == [2**60, 2**61 - RANGE]
    assert [one["ranges"] * RANGE for one in found] == [2**60 + RANGE, 2**61]
    assert [one["with"] for one in found] == [{}, {}]


def test_a_broker_begins_where_kafka_does_if_no_id_of_its_range_was_given_out() -> None:
    """Whatever was given out of other ranges."""
    files = CrashFileSystem()
    drawn(files, ["/a", "/b"])
    for path in ("/b", "/new"):
        with opened(files, path) as logs:
            assert next_block(logs.manager) == 0


@pytest.mark.parametrize(
    ("rng", "first"),
    [(Least(1), RANGE // 4 // BLOCK * BLOCK), (Greatest(1), RANGE // 2 // BLOCK * BLOCK)],
)
def test_a_broker_that_gets_a_mirror_leaves_out_a_quarter_to_half_of_its_range(
    rng: Random, first: int
) -> None:
    """Far above what its source gave out; and as far from the end, for a mirror of its own."""
    files = CrashFileSystem()
    files.make_directory("/a")
    begin_apart(files, "/a", Least(1))
    with opened(files, "/a", rng=rng) as logs:
        assert next_block(logs.manager) == first + BLOCK


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


@pytest.mark.parametrize("rng", [*map(Random, range(8)), Least(8), Greatest(8)])
def test_a_broker_that_gets_a_mirror_of_a_broker_begins_far_above_its_ids(rng: Random) -> None:
    """Also where that one had got a mirror, too: its producers may have any id soon after those."""
    home, greatest = DataHome(), 3 * RANGE // 8
    home.fs.make_directory(home.path)
    begin_apart(home.fs, home.path, rng)
    with home.open(rng=rng) as logs:
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


@pytest.mark.parametrize(
    "more", ["", ', "next": -1', ', "next": 1, "ranges": 5e9', f', "next": {2**62}']
)
def test_a_malformed_file_is_an_error(more: str) -> None:
    """Nothing is known of what was given out."""
    files = CrashFileSystem()
    drawn(files, ["/a"])
    files.write(f"/a/{FILE_NAME}", b'{"version": 1%s}' % more.encode())
    with pytest.raises(CorruptFile, match=FILE_NAME):
        read_reserved(files, "/a")
    with opened(files, "/a") as logs, pytest.raises(CorruptFile, match=FILE_NAME):
        ProducerIds(logs.manager).next()
