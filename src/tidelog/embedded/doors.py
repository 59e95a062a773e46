"""Opening data directories on this machine: for as long as a program runs, or for a moment.

Here the real disk, clock, threads and random numbers are chosen; everything below is given them.
"""

from __future__ import annotations

import os
import random
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.open_door import OpenDoor
from tidelog.codec.given_values import check_flags, listed
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.sources import broker_config, from_keywords, from_mapping
from tidelog.datadir.broker_properties import read_broker_properties
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.datadir.partition_directories import is_partition_directory
from tidelog.embedded.drawings import drawing
from tidelog.embedded.lock_wait import wait_here
from tidelog.embedded.logs import Door, Logs
from tidelog.embedded.read_only_logs import ReadOnlyLogs
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.descriptors import raise_descriptor_limit
from tidelog.env.machine import Machine, brief_machine
from tidelog.env.moments import check_ms
from tidelog.env.paths import absolute_path, absolute_place, absolute_places
from tidelog.env.scheduler import ThreadScheduler, start_threads
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.env.unix_sockets import is_listened_in
from tidelog.env.waiting import sleep_ms
from tidelog.errors import DirectoryLocked, InvalidArgument, InvalidTopic
from tidelog.log.loading.load_watch import SILENT
from tidelog.manager.directories.log_dir import check_outside
from tidelog.manager.log_manager import LogManager
from tidelog.readonly.absent_partitions import BY_ARGUMENT
from tidelog.readonly.directory_files import DirectoryFiles
from tidelog.readonly.read_files import reading
from tidelog.readonly.read_only_directory import ReadOnlyDirectory
from tidelog.readonly.read_only_directory import (
    open_directory_read_only as readonly_directory,
)
from tidelog.readonly.read_only_log import open_read_only
from tidelog.service.log_service import LogService
from tidelog.service.requests.request_client import WAIT_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from tidelog.config.sources import SettingValue
    from tidelog.env.files import FileSystem
    from tidelog.env.machine import ControlledClock
    from tidelog.env.paths import Paths
    from tidelog.log.loading.load_watch import LoadWatcher
    from tidelog.manager.mirror import MirroredPartition
    from tidelog.manager.mirror_ranges import StageRanges
    from tidelog.readonly.read_only_log import ReadOnlyLog


def open_logs(
    path: str | os.PathLike[str],
    *more: str | os.PathLike[str],
    config: Mapping[str, SettingValue] = NO_SETTINGS,
    overrides: Mapping[str, SettingValue] = NO_SETTINGS,
    server_properties: str | os.PathLike[str] | None = None,
    wait_ms: int = WAIT_MS,
    clock: ControlledClock | None = None,
    files: FileSystem = SYSTEM_FILES,
    **settings: object,
) -> Logs:
    """Open a data directory, or several, with all logs in it, for reading and writing.

    Retention, compaction, flushes and checkpoints run in background until it is closed.

    >>> with tidelog.open("data", retention_ms=3_600_000) as logs:
    ...     topic = logs.create_topic("tides", exist_ok=True)
    ...     logs.append("tides", b"high at 06:12", key=b"Brest")
    Appended(partition=0, offset=0)

    Args:
        path: the directory that holds the partition directories; created if missing, which is
            logged.
        more: further data directories; a new topic is created in the one with the fewest logs.
        config: settings under Kafka's names, of the broker or for topics that set none;
            ``log.dirs`` has no effect.
        overrides: topic settings that take precedence over a topic's own, until this is closed.
        server_properties: the file of the broker that wrote the directories; it gives settings to
            the topics that the broker wrote, and to no others.
        wait_ms: how long to wait, in ms, while another process writes there that neither others can
            join nor is Kafka, so that it soon ends; 0: not at all.
        clock: for tests: a clock that they advance, as ``tidelog.testing.ManualClock``; background
            work runs as it does, on the thread that advances it.
        files: for tests: a disk that they control, as ``tidelog.testing.CrashFileSystem``.
        settings: as ``config``, with underscores for dots: ``retention_ms=3_600_000``.

    Raises:
        DirectoryLocked: another process, Kafka or tidelog, writes there.
        InvalidConfig: names every bad setting.
        InvalidArgument: this is a file or the directory of one partition, a path is not one,
            ``wait_ms`` is below 0, or ``server_properties`` is malformed.
        OSError: ``server_properties`` cannot be read.
        InvalidTopic: a directory in it is not named as a partition's.
        KafkaStorageError: a disk failed, or a file that says what is there cannot be read.
        UnsupportedPlatform: this platform lacks the locks that writing needs.
    """
    paths = [absolute_path(one) for one in (path, *more)]
    check_no_files(files, paths)
    broker = broker_config({**from_mapping(config), **from_keywords(settings)}, paths)
    properties = _properties_in(server_properties)
    if properties is not None:
        broker = broker.with_server_properties(properties)
    start = partial(start_logs, broker, overrides=from_mapping(overrides), clock=clock, files=files)
    check_ms("wait_ms", wait_ms)
    is_real = clock is None and files is SYSTEM_FILES
    return wait_here(wait_ms).opened(start) if is_real else start()


def check_no_files(fs: FileSystem, paths: Iterable[str]) -> None:
    """Raise InvalidArgument for a data directory that is a file: a service takes it offline."""
    for path in paths:
        try:
            is_file = fs.exists(path) and not fs.stat(path).is_directory
        except OSError:
            continue  # opening it says why it is offline
        if is_file:
            raise InvalidArgument(f"{path} is a file, not a directory")


def start_logs(
    config: BrokerConfig,
    *,
    overrides: Mapping[str, str] = NO_SETTINGS,
    clock: ControlledClock | None = None,
    files: FileSystem = SYSTEM_FILES,
    on_halt: Callable[[], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_locked: Callable[[LogService], None] | None = None,
    make_door: Callable[[LogService], Door | None] | None = None,
) -> Logs:
    """Open the directories of ``log.dirs`` on this machine; as ``open_logs``.

    ``on_halt`` is called, on some thread, when no directory is left. ``on_locked`` is called once
    the directories are locked, before their logs are loaded. ``make_door`` lets clients in at the
    end, or nobody if it returns None; without it other programs of this machine can join. Raises
    StartAborted, too, soon after ``should_stop``, which is called on any thread, has returned True.
    """
    raise_descriptor_limit()
    rng = random.SystemRandom()
    threads: ThreadScheduler | None = None
    if clock is None:
        threads = ThreadScheduler(config.scheduler_threads)
        machine = Machine(files, SYSTEM_CLOCK, threads, rng, sleep_ms, start_threads)
    else:
        scheduler = clock.scheduler()
        machine = Machine(files, clock, scheduler, rng, clock.advance, new_bell=clock.bell)
    is_real = clock is None and files is SYSTEM_FILES
    manager = logs = None
    # All is in one block: an interrupt between two would leave the directories locked.
    try:
        manager = LogService(config, machine, overrides=overrides, on_halt=on_halt)
        if threads is not None:
            threads.start()
        if on_locked is not None:
            on_locked(manager)
        manager.startup(should_stop)
        logs = Logs(manager, threads)
        if make_door is not None or is_real:
            logs.door = (make_door or OpenDoor)(manager)
        return logs  # noqa: TRY300 - an interrupt here closes them, too
    except BaseException as error:
        if manager is None and isinstance(error, DirectoryLocked):
            error.lets_join = files is SYSTEM_FILES and is_listened_in(os.path.dirname(error.path))
        _undo(manager, threads, logs)
        raise


def _undo(manager: LogService | None, threads: ThreadScheduler | None, logs: Logs | None) -> None:
    """Close what was opened of a service's logs."""
    if logs is not None:
        logs.close()
    elif manager is not None:
        try:
            if threads is not None:
                threads.shutdown()
        finally:
            manager.abandon()


def open_briefly(
    path: str | os.PathLike[str],
    *,
    overrides: Mapping[str, str] = NO_SETTINGS,
    watcher: LoadWatcher = SILENT,
) -> Logs:
    """Open a data directory to write to a few of its logs, and lock it until it is closed.

    Each log is loaded when it is first asked for, and nothing runs in background; so a directory of
    thousands of logs costs no more than the logs used. Arguments and errors as ``open_logs``.
    ``watcher`` is notified of how far recoveries and commits are.
    """
    manager = None
    try:
        # Outside of this block an interrupt after the call would leave the directory locked.
        manager = open_to_change(absolute_path(path), overrides=overrides, watcher=watcher)
        return Logs(manager)
    except BaseException:
        if manager is not None:
            manager.abandon()
        raise


def open_to_change(
    path: str,
    *more: str,
    fs: FileSystem = SYSTEM_FILES,
    overrides: Mapping[str, str] = NO_SETTINGS,
    watcher: LoadWatcher = SILENT,
    server_properties: dict[str, str] | None = None,
) -> LogManager:
    """Lock data directories, given by absolute paths, to change their topics; as ``open_briefly``.

    Leaving the ``with`` of the manager closes it. ``server_properties`` are those of the broker
    that wrote the directories.
    """
    check_no_files(fs, (path, *more))
    settings = BrokerConfig(log_dirs=(path, *more), server_properties=server_properties)
    machine = brief_machine(fs, SYSTEM_CLOCK)
    return LogManager(settings, machine, overrides=overrides, watcher=watcher)


def mirror_directory(
    source: Paths,
    target: str | os.PathLike[str],
    *,
    topics: Collection[str] = (),
    server_properties: str | os.PathLike[str] | None = None,
    allow_partial: bool = False,
) -> list[MirroredPartition]:
    """Copy what is new of topics into another data directory, at the same offsets.

    All of it is in the target, or nothing; a call that was cut off can be repeated. The source is
    only read, beside its writer if it has one.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.append_all("tides", [b"high", b"low"])
    2
    >>> [copied.end_offset for copied in tidelog.mirror("data", "copy")]
    [2]

    Args:
        source: a data directory, or a list of several that belong together.
        target: the data directory of the mirror; created if missing.
        topics: the topics to mirror; none: all, internal ones included.
        server_properties: the file of the broker that wrote the source, for settings of its topics.
        allow_partial: copy what is there of topics that are, in part, in other data directories.

    Raises:
        DirectoryLocked: a process writes to the target.
        OSError: ``server_properties`` cannot be read.
        InvalidArgument: the source is not a data directory, or is the target, in it or around it.
        PartitionsElsewhere: partitions of the topics are in other data directories.
        Other errors as ``Mirror.run``.
    """
    opened = open_source(source, server_properties, allow_partial=allow_partial)
    return mirror_topics(opened, absolute_path(target), topics)


def open_source(
    source: Paths,
    server_properties: str | os.PathLike[str] | None = None,
    *,
    allow_partial: bool = False,
) -> ReadOnlyDirectory:
    """Open the source of a mirror; arguments and errors as ``mirror_directory``."""
    check_flags(allow_partial=allow_partial)
    given = _properties_in(server_properties)
    accept = None if allow_partial else BY_ARGUMENT
    return ReadOnlyDirectory(
        *absolute_places(source),
        fs=SYSTEM_FILES,
        server_properties=given,
        accept=accept,
        asks_holder=True,
    )


def mirror_topics(
    source: ReadOnlyDirectory,
    target: str,
    topics: Collection[str] = (),
    *,
    fs: FileSystem = SYSTEM_FILES,
    watcher: LoadWatcher = SILENT,
    is_plan: bool = False,
    stage: StageRanges | None = None,
    on_read: Callable[[str, int, int], None] = lambda *_: None,
) -> list[MirroredPartition]:
    """Run a mirror into ``target``, an absolute path, which is locked until this returns.

    ``fs`` is where the target lies; the others and errors as ``mirror_directory`` and ``Mirror``.
    """
    from tidelog.manager.mirror import Mirror  # noqa: PLC0415 - few programs mirror

    check_outside(source, fs, target)
    chosen = listed("topics", topics)
    for topic in chosen:
        source.topic(topic)
    with open_to_change(target, fs=fs, watcher=watcher) as manager:
        mirror = Mirror(source, manager, target, is_plan=is_plan, stage=stage, on_read=on_read)
        return mirror.run(chosen)


def open_log_read_only(path: str | os.PathLike[str]) -> ReadOnlyLog:
    """Open one partition directory to read it; takes no lock and changes nothing.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.append_all("tides", [b"high", b"low"])
    2
    >>> with tidelog.open_read_only("data/tides-0") as log:
    ...     log.high_watermark
    ...     [record.value for record in log.records(1)]
    2
    [b'low']

    Raises:
        InvalidTopic: the directory is not named <topic>-<partition>, or is a data directory.
        UnknownTopicOrPartition: there is no such directory.
        KafkaStorageError: a checkpoint file beside it cannot be read, or the disk failed.
    """
    place = absolute_place(path)
    files = reading(SYSTEM_FILES)
    if files.exists(place) and DirectoryFiles(place, files).has_files_of_its_own():
        raise InvalidTopic(f"{place} is a data directory: use open_directory_read_only")
    log = open_read_only(place, fs=SYSTEM_FILES)
    above = partial(readonly_directory, os.path.dirname(place), fs=SYSTEM_FILES, accept=None)
    return log.drawn_by(drawing(log, above, log.topic, log.partition))


def open_directory_read_only(
    path: str | os.PathLike[str],
    *more: str | os.PathLike[str],
    server_properties: str | os.PathLike[str] | None = None,
    allow_partial: bool = False,
) -> ReadOnlyLogs:
    """Open a data directory, or several as one, to read topics; takes no lock, changes nothing.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.append_all("tides", [b"high", b"low"])
    ...     beside = tidelog.open_directory_read_only("data")
    ...     [record.value for record in beside.read("tides")]
    2
    [b'high', b'low']

    Args:
        path: the directory that holds the partition directories.
        more: further data directories of the same service or broker. The partitions of a topic come
            from all of them; a read of a topic that has others raises ``PartitionsElsewhere``.
        server_properties: the file of the broker that wrote it, for the settings of its topics.
        allow_partial: read topics without the partitions that are in other data directories.

    Raises:
        InvalidArgument: there is no such directory, it is that of one partition, or
            ``server_properties`` is malformed.
        KafkaStorageError: the disk failed.
        OSError: ``server_properties`` cannot be read.
    """
    check_flags(allow_partial=allow_partial)
    paths = [absolute_place(one) for one in (path, *more)]
    files = reading(SYSTEM_FILES)
    for data_dir in paths:
        if files.exists(data_dir) and is_partition_directory(files.list(data_dir)):
            raise InvalidArgument(
                f"{data_dir} is the directory of one partition: use open_read_only"
            )
    return ReadOnlyLogs(
        *paths,
        fs=SYSTEM_FILES,
        clock=SYSTEM_CLOCK,
        wait_ms=sleep_ms,
        server_properties=_properties_in(server_properties),
        accept=None if allow_partial else BY_ARGUMENT,
    )


def _properties_in(path: str | os.PathLike[str] | None) -> dict[str, str] | None:
    """Return what a broker's ``server.properties`` sets; None without a file."""
    return None if path is None else read_broker_properties(SYSTEM_FILES, absolute_place(path))
