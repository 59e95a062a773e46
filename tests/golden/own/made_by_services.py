"""Directories that services left: in order, because they were killed, or after a power cut.

Runs on the base commit only, see ``make_own_golden.py``.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from made_by_damage import hurt_directory, hurt_marked_directory
from made_by_hand import FIRST_MS, SEED, SMALL, died, save_all, send, stage
from tidelog.manager.metrics_file import MetricsFiles
from tidelog.records.origin import AppendOrigin
from tidelog.testing.manager_home import ManagerHome

from tidelog.codec.compression import Codec
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.log.log import Log
    from tidelog.service.log_service import LogService

ROOT = "/srv/tidelog"
MINUTE_MS = 60_000
COMPACT = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
BROKER: dict[str, Any] = {
    "log_cleaner_enable": True,
    "log_cleaner_dedupe_buffer_size": 2 << 20,
    "transaction_partition_verification_enable": False,
}


def home_of(*names: str, seed: int = SEED) -> ManagerHome:
    """Return a machine with empty data directories of these names and Kafka's settings."""
    plain = {"internal_segment_bytes": None, "segment_index_bytes": 4096, "retention_ms": -1}
    return ManagerHome(*(f"{ROOT}/{name}" for name in names), seed=seed, **plain)


def serve(home: ManagerHome) -> LogService:
    """Start a service that has every kind of topic, with retention and cleaning done."""
    manager = home.open(**BROKER)
    create = manager.create_topic
    create("aged", 1, {**SMALL, "retention.ms": str(10 * MINUTE_MS)})
    create("latest", 1, COMPACT)
    create("gone", 2, SMALL)
    create("moved", 1, COMPACT)
    for name in ("aged", "gone"):
        send(manager, name, 0, 8)
    send_keyed(manager, "latest", 30)
    send_keyed(manager, "moved", 30)
    home.clock.advance(20 * MINUTE_MS)
    manager.delete_topic("gone")
    source = manager.partition("moved", 0).log.directory
    other = next(path for path in home.paths if not source.startswith(path))
    manager.move_partition("moved", 0, other)
    create("flights", 4, SMALL)
    create("quiet", 2)
    create("altered", 1, {"compression.type": "zstd"})
    create("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    create("trimmed", 1, SMALL)
    create("ledger", 1, SMALL)
    create("epochs", 1, SMALL)
    for number in range(4):
        send(manager, "flights", number, 9)
    for name in ("aged", "altered", "stamped", "trimmed"):
        send(manager, name, 0, 8)
    manager.alter_topic("altered", {"max.message.bytes": "50000", "segment.ms": "86400000"})
    manager.alter_topic("altered", {"compression.type": "gzip"}, ["max.message.bytes"])
    send(manager, "altered", 0, 3)
    send_keyed(manager, "latest", 9)
    manager.partition("trimmed", 0).log.delete_records(7)
    write_ledger(manager)
    write_epochs(manager)
    home.clock.advance(3 * MINUTE_MS)
    return manager


def send_keyed(manager: LogService, name: str, batches: int) -> None:
    """Append to a compacted topic: few keys, again and again, and now and then a tombstone."""
    rng = Random(f"{SEED} {name}")
    target = manager.partition(name, 0)
    now_ms = manager.parts.machine.clock.now_ms()
    for count in range(batches):
        value = None if count % 7 == 6 else b"value %d of a key" % count
        target.append_records([(now_ms, b"key %d" % rng.randrange(4), value, ())])


def in_transaction(log: Log, now_ms: int, producer: int, *, ends: bool | None, first: int) -> None:
    """Append three batches of a transaction; ``ends`` commits it, aborts it or leaves it open."""
    for number in range(3):
        records = [(now_ms, b"account %d" % producer, b"amount %d" % number, ())]
        fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": first + number}
        log.append_as_leader(build_batch(records, transactional=True, **fields))
    if ends is not None:
        marker = build_marker(
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            is_commit=ends,
            timestamp=now_ms,
        )
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)
    log.update_high_watermark(log.log_end_offset)


def write_ledger(manager: LogService) -> None:
    """Transactions of four producers: committed, aborted twice, still open."""
    log, now_ms = manager.partition("ledger", 0).log, manager.parts.machine.clock.now_ms()
    in_transaction(log, now_ms, 1000, ends=True, first=0)
    in_transaction(log, now_ms, 1001, ends=False, first=0)
    in_transaction(log, now_ms, 1000, ends=False, first=3)
    in_transaction(log, now_ms, 1002, ends=None, first=0)
    in_transaction(log, now_ms, 1003, ends=True, first=0)


def write_epochs(manager: LogService) -> None:
    """A log of three leader epochs."""
    log = manager.partition("epochs", 0).log
    for epoch in (0, 3, 7):
        log.maybe_assign_epoch(epoch, log.log_end_offset)
        send(manager, "epochs", 0, 4)


def write_service(target: Path) -> None:
    """``service-a``, ``service-b``: two directories of one service, left in order."""
    home = home_of("service-a", "service-b")
    serve(home).shutdown(broker_epoch=7)
    save_all(home, target)


def write_killed_service(target: Path) -> None:
    """``service-killed-a``, ``-b``: the same, killed with everything under way."""
    home = home_of("service-killed-a", "service-killed-b", seed=SEED + 2)
    manager = serve(home)
    MetricsFiles(manager).start()
    manager.create_topic("stuck", 1, COMPACT)
    send_keyed(manager, "stuck", 20)
    manager.flush()
    spoil(home, manager.partition("stuck", 0).log)
    manager.create_topic("doomed", 2, SMALL)
    send(manager, "doomed", 0, 4)
    manager.create_topic("wanted", 1, SMALL)
    send(manager, "wanted", 0, 6)
    source, _ = place_and_other(home, manager, "wanted")
    home.clock.advance(11 * MINUTE_MS)  # ``stuck`` fails, ``aged`` ages
    manager.delete_topic("doomed")
    send(manager, "flights", 0, 5)
    send(manager, "flights", 1, 2)
    send(manager, "aged", 0, 6, now_ms=home.clock.now_ms() - 20 * MINUTE_MS)
    send(manager, "aged", 0, 3)
    manager.tasks.cleanup_logs()
    log = manager.partition("ledger", 0).log
    in_transaction(log, home.clock.now_ms(), 1003, ends=None, first=3)
    stage(home, source, "flights")
    stage(home, source, "wanted", finishes=False)
    home.restart()
    save_all(home, target)


def place_and_other(home: ManagerHome, manager: LogService, topic: str) -> tuple[str, str]:
    """Return the data directory of a topic's partition 0, and the other one."""
    directory = manager.partition(topic, 0).log.directory
    first, second = home.paths
    return (first, second) if directory.startswith(f"{first}/") else (second, first)


def spoil(home: ManagerHome, log: Log) -> None:
    """Flip a byte of a log's first segment, so that it cannot be cleaned."""
    path = f"{log.directory}/00000000000000000000.log"
    data = bytearray(home.fs.read(path))
    data[len(data) // 2] ^= 0xFF
    home.fs.write(path, bytes(data))


def with_flights(home: ManagerHome) -> LogService:
    """Return a service with two topics, spread over both directories."""
    manager = home.open(log_cleaner_enable=False)
    for name in ("flights", "other"):
        manager.create_topic(name, 2, SMALL)
        for number in range(2):
            send(manager, name, number, 9, codec=Codec.NONE)
    manager.flush()
    return manager


def move_flights(manager: LogService) -> None:
    """Move a partition from the first directory to the second; it is done when this returns."""
    first, second = manager.live_dirs
    found = next(n for n in (0, 1) if manager.partition("flights", n).log.directory[:-10] == first)
    manager.move_partition("flights", found, second)
    manager.parts.machine.sleep_ms(0)  # which lets its tasks run


def write_dead_services(target: Path) -> None:
    """``moving``, ``swapping``, ``altering``, ``dropping``: a service died in the midst of it."""
    acts: dict[str, tuple[Any, tuple[str, str, int]]] = {
        # A part of the copy was made; the partition lies where it lay.
        "moving": (move_flights, ("open", ".log", 2)),
        # The catalogues name the new place; the copy is not renamed yet.
        "swapping": (move_flights, ("rename", "-future", 0)),
        # The first directory's catalogue has a later revision than the second's.
        "altering": (
            lambda one: one.alter_topic("flights", {"retention.ms": "86400000"}),
            ("rename", "-b/tidelog.topics.json.tmp", 0),
        ),
        # The catalogues say "deleted"; one of two directories is renamed.
        "dropping": (lambda one: one.delete_topic("other"), ("rename", "/other-1", 0)),
    }
    for name, (act, fatal) in acts.items():
        make = partial(home_of, f"{name}-a", f"{name}-b", seed=SEED + 3)
        save_all(died(make, with_flights, act, fatal), target)


def write_power_cut(target: Path) -> None:
    """``power-cut-a``, ``-b``: the power failed; of what was not synced some is there, torn."""
    home = home_of("power-cut-a", "power-cut-b", seed=SEED + 4)
    manager = with_flights(home)
    for number in range(2):
        send(manager, "flights", number, 7, codec=Codec.NONE)
        send(manager, "other", number, 3)
    home.fs.power_cut("any")
    save_all(home, target)


def write_damaged(target: Path) -> None:
    """``damaged``, ``damaged-marked``: the same damage without and with a mark of a clean end."""
    for name, partitions, hurt in (
        ("damaged", 16, hurt_directory),
        ("damaged-marked", 10, hurt_marked_directory),
    ):
        home = home_of(name, seed=SEED + 5)
        manager = home.open(log_cleaner_enable=False)
        manager.create_topic("hurt", partitions, SMALL)
        for number in range(partitions):
            producer = {"producer_id": 7, "producer_epoch": 0, "codec": Codec.NONE}
            for sequence in range(14):
                given = [(FIRST_MS + sequence, b"key", b"value %d" % sequence * 4, ())]
                batch = build_batch(given, base_sequence=sequence, **producer)
                manager.partition("hurt", number).append(batch)
                if sequence == 6:
                    manager.partition("hurt", number).log.flush()
        manager.tasks.checkpoint_recovery_points()
        manager.tasks.checkpoint_high_watermarks()
        if name == "damaged":
            home.restart()
        else:
            manager.shutdown()
        save_all(home, target)
        hurt(target / name)
