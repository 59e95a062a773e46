"""Carries commands out on an open manager: that of a service, or of the command's own process.

Both do the same and return the same values, which are what the command prints.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tidelog.cleaner.rewriting.background_writers import MAX_WRITERS
from tidelog.codec.shown_rows import as_json, list_as_json
from tidelog.codec.uuid_text import format_uuid
from tidelog.config.deletion_settings import DELETION_SETTINGS, say_unknown
from tidelog.config.log_config import LogConfig
from tidelog.datadir.partition_directories import log_bytes
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    KafkaStorageError,
    OffsetOutOfRange,
    StoreNotInstalled,
    TidelogError,
)
from tidelog.manager.on_demand import Terms
from tidelog.segment.filenames import TopicPartition, log_directory_name
from tidelog.service.requests.request_arguments import check_arguments, partitions_of
from tidelog.service.requests.transaction_abort import abort_transaction, check_abort, undo_abort

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tidelog.datadir.catalogue import Topic
    from tidelog.env.files import FileSystem
    from tidelog.env.machine import Machine
    from tidelog.env.scheduler import Scheduler
    from tidelog.service.requests.home import Home


def carry_out(home: Home, command: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Carry a command out; return what it prints, as a value that JSON can hold.

    Moves are not carried out here: they are begun, and then take their time.

    Raises:
        InvalidArgument: these are not the arguments of the command; nothing was done.
        TidelogError, OSError: as the command itself.
    """
    check_arguments(command, arguments)
    return _COMMANDS[command](home, arguments)


def _create(home: Home, arguments: Mapping[str, Any]) -> dict[str, Any]:
    settings = arguments["settings"]
    topic = home.manager.create_topic(
        *(arguments["topic"], arguments["partitions"], settings),
        path=home.path,
        birth=arguments.get("birth"),
    )
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "id": format_uuid(topic.topic_id),
    }


def _create_partitions(home: Home, arguments: Mapping[str, Any]) -> dict[str, Any]:
    topic = home.manager.create_partitions(arguments["topic"], arguments["partitions"])
    return {"topic": topic.name, "partitions": len(topic.partitions)}


def _alter(home: Home, arguments: Mapping[str, Any]) -> dict[str, Any]:
    changes = arguments["settings"], arguments["unset"], arguments.get("follow", ())
    topic = home.manager.alter_topic(arguments["topic"], *changes)
    return {
        "topic": topic.name,
        "settings": dict(topic.config),
        "unknown": list(topic.unknown_settings),
    }


def _delete(home: Home, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Delete topics one after the other, until one cannot be deleted.

    One that is deleted though a disk failed counts as deleted; the error is raised at the end.
    """
    manager = home.manager

    def left_of(some: Iterable[Topic]) -> list[Topic]:
        # By their ids: clients may delete a topic meanwhile, and make one of the same name.
        ids = {topic.topic_id for topic in manager.topics().values()}
        return [topic for topic in some if topic.topic_id in ids]

    topics = [manager.topic(name) for name in dict.fromkeys(arguments["topics"])]
    deleted = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "sizeBytes": _size_bytes(home.machine.fs, manager.live_dirs, topic),
        }
        for topic in topics
    ]
    errors: list[TidelogError] = []
    for topic, row in zip(topics, deleted, strict=True):
        try:
            manager.delete_topic(topic.name, topic.topic_id)
        except KafkaStorageError as error:
            errors.append(error)
            if left_of([topic]):
                break
        except TidelogError as error:
            errors.append(error)
            break
        home.report(row)
    left = [topic.name for topic in left_of(topics)]
    # All names are checked first, so that the same request again would be refused.
    again = f"not deleted: {', '.join(left)}; delete {'them' if left[1:] else 'it'} alone"
    _raise_any(errors, [again] if 0 < len(left) < len(topics) else [], of="topics")
    return deleted


def _size_bytes(fs: FileSystem, data_dirs: list[str], topic: Topic) -> int:
    """Return the bytes of all segments of a topic in these directories."""
    names = [log_directory_name(topic.name, number) for number in topic.partitions]
    paths = (os.path.join(data_dir, name) for data_dir in data_dirs for name in names)
    return sum(log_bytes(fs, path) for path in paths)  # what only an archive has goes later


def _delete_records(home: Home, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Delete the records below an offset; if one partition refuses, in none."""
    manager, before, terms = home.manager, arguments["before"], _terms(arguments)
    keys = partitions_of(arguments)
    for key in keys:
        config = manager.on_demand.config_with(key.topic, terms)
        try:
            manager.partition(*key).log.check_delete_records(before, config)
        except OffsetOutOfRange as error:
            named = error.of_log(str(key))
            raise InvalidArgument(f"{named}; nothing was deleted") from error
    try:
        return _each(
            home, keys, lambda key: as_json(manager.on_demand.delete_records(key, before, terms))
        )
    finally:
        manager.on_demand.keep_deleted(keys)


def _retain(home: Home, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Retain the logs whose policy is known; a limit is applied even where it is unknown.

    Topics of unknown policy are left out with a note; InvalidArgument if they are named, or if
    there are no others.
    """
    terms, keys = _terms(arguments), partitions_of(arguments)
    topics = {key.topic for key in keys}
    configs = {name: home.manager.on_demand.config_with(name, terms) for name in topics}
    unknown = sorted(name for name, config in configs.items() if not config.is_policy_known)
    notes = []
    if any(name in DELETION_SETTINGS for name in terms.overrides):
        terms = terms._replace(limits_unknown=True)
    elif unknown:
        reason = say_unknown(unknown)
        if arguments["are_named"] or topics == set(unknown):
            raise InvalidArgument(reason)
        notes.append(f"{reason}; until then nothing of it is deleted")
        keys = [key for key in keys if key.topic not in unknown]
    on_demand = home.manager.on_demand
    logs = _each(home, keys, lambda key: as_json(on_demand.retain_log(key, terms)), notes)
    notes += filter(None, (on_demand.why_kept(key, terms) for key in keys))
    return {"logs": logs, "notes": notes}


def _recover(home: Home, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Cut the logs that take no appends, each at its damage; the others are only looked at."""
    from tidelog.manager.recovered_log import (  # noqa: PLC0415 - few logs are damaged
        RecoveryNotes,
        recovered_log,
    )

    manager, keep = home.manager, arguments["keep"]

    def recover(key: TopicPartition) -> dict[str, Any]:
        notes = RecoveryNotes()
        seen = manager.partition(*key).log.high_watermark
        log = manager.recover_log(*key, keep=keep, watcher=notes)
        return recovered_log(key, log, notes, high_watermark=seen).packed()

    return _each(home, partitions_of(arguments), recover)


def _roll(home: Home, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    on_demand = home.manager.on_demand
    return _each(home, partitions_of(arguments), lambda key: as_json(on_demand.roll_log(key)))


def _compact(home: Home, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    terms = _terms(arguments)
    with _writers(home.machine) as scheduler:

        def compact(key: TopicPartition) -> dict[str, Any]:
            on_demand = home.manager.on_demand
            done = on_demand.compact(key, scheduler=scheduler, leaves_unknown=True, terms=terms)
            return as_json(done[key])

        return _each(home, partitions_of(arguments), compact)


def _archive(home: Home, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copy what is closed; topics that cannot be archived are left out with a note.

    InvalidArgument if they are named, or if there are no others.
    """
    from tidelog.archive.snapshots import snapshot_uri  # noqa: PLC0415 - other commands need no store
    from tidelog.manager.archiving import (  # noqa: PLC0415 - other commands need no store
        ArchiveTerms,
        NewNames,
        archive_log,
        check_place,
        missing_in_snapshot,
        snapshot_log,
        why_left_out,
        why_not_archived,
        why_not_in_snapshot,
    )

    check_place(arguments["to"], home.manager.shared.log_dirs)
    terms, keys, snapshot = _terms(arguments), partitions_of(arguments), arguments["snapshot"]
    refused: dict[str, str | None]
    if snapshot is None:
        configs = {key.topic: home.manager.on_demand.config_with(key.topic, terms) for key in keys}
        refused = {name: why_not_archived(name, config) for name, config in configs.items()}
    else:
        refused = dict.fromkeys(key.topic for key in keys)
        for key in keys:
            refused[key.topic] = refused[key.topic] or why_not_in_snapshot(home.manager, key)
    notes = [f"{name}: {reason}" for name, reason in sorted(refused.items()) if reason is not None]
    if notes and (arguments["are_named"] or len(notes) == len(refused)):
        raise InvalidArgument("; ".join(notes))
    keys = [key for key in keys if refused[key.topic] is None]
    if snapshot is not None:
        store = home.manager.shared.stores.opened(snapshot_uri(arguments["to"], snapshot))
        keys = missing_in_snapshot(home.manager, keys, store)
        rows = _each(home, keys, lambda key: as_json(snapshot_log(home.manager, key, store)), notes)
        for row in rows:
            key = TopicPartition(row["topic"], row["partition"])
            log = home.manager.partition(*key).log
            notes += filter(None, (why_left_out(key, log, row["archiveEndOffset"]),))
        return {"logs": rows, "notes": notes}
    store = home.manager.shared.stores.opened(arguments["to"])
    how = ArchiveTerms(*(arguments[name] for name in ArchiveTerms._fields))
    names = NewNames(store, {key.topic: home.manager.topic(key.topic).topic_id for key in keys})

    def archive(key: TopicPartition) -> dict[str, Any]:
        names.check(key.topic)
        return as_json(archive_log(home.manager, key, store, how))

    return {"logs": _each(home, keys, archive, notes), "notes": notes}


def _each(
    home: Home,
    keys: Iterable[TopicPartition],
    act: Callable[[TopicPartition], dict[str, Any]],
    notes: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Act on one log after the other, and report each; return what was done.

    A log that fails does not keep the others waiting: its error is raised at the end, with the
    errors of other logs, and ``notes``, which the result would have held.
    """
    rows: list[dict[str, Any]] = []
    errors: list[KafkaStorageError | CorruptMessage] = []
    for key in keys:
        try:
            rows.append(act(key))
        except StoreNotInstalled:
            raise  # no log can be archived
        except (KafkaStorageError, CorruptMessage) as error:
            errors.append(error)
            continue
        home.report(rows[-1])
    _raise_any(errors, notes)
    return rows


def _raise_any(
    errors: Sequence[TidelogError], notes: Sequence[str] = (), of: str = "partitions"
) -> None:
    """Raise all errors as one, with ``notes`` on what else there is to know; nothing if none.

    What several have in common is said once; ``of`` is what there are several of.
    """
    if len(errors) == 1 and not notes:
        raise errors[0]
    if errors:
        texts = Counter(map(str, errors))  # a store that refuses one log refuses all
        said = [f"{text} ({count} {of})" if count > 1 else text for text, count in texts.items()]
        raise KafkaStorageError("; ".join([*said, *notes])) from errors[0]


def _list_moves(home: Home, _arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list_as_json(home.manager.moves())


def _cancel_moves(home: Home, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Cancel the moves of these partitions; if one of them is not being moved, none.

    A partition that has moved by the time that its turn comes is reported so.
    """
    keys = partitions_of(arguments)
    moving = {(move.topic, move.partition) for move in home.manager.moves()}
    idle = [str(key) for key in keys if key not in moving]
    if idle:
        raise InvalidArgument(f"{', '.join(idle)}: not being moved; nothing was cancelled")
    for key in keys:
        home.manager.cancel_move(*key)
        home.report({"topic": key.topic, "partition": key.partition})
    return [{"topic": key.topic, "partition": key.partition} for key in keys]


def _throttle_moves(home: Home, arguments: Mapping[str, Any]) -> dict[str, Any]:
    home.manager.throttle_moves(arguments["bytes_per_second"])
    return {"limitBytesPerSecond": arguments["bytes_per_second"]}


@contextmanager
def _writers(machine: Machine) -> Iterator[Scheduler | None]:
    """Start threads that write and flush cleaned segments while the cleaner reads on."""
    if machine.start_threads is None:
        yield None
        return
    threads = machine.start_threads(MAX_WRITERS, "tidelog-compact")
    try:
        yield threads
    finally:
        threads.shutdown()


def _terms(arguments: Mapping[str, Any]) -> Terms:
    """Return the terms of a command; raise InvalidConfig for overrides that are not settings."""
    LogConfig().with_overrides(arguments["settings"])
    return Terms(arguments["now_ms"], arguments["settings"], arguments.get("server_properties"))


_COMMANDS: Final[dict[str, Callable[[Home, Mapping[str, Any]], Any]]] = {
    "create": _create,
    "alter": _alter,
    "create-partitions": _create_partitions,
    "delete": _delete,
    "delete-records": _delete_records,
    "retain": _retain,
    "recover": _recover,
    "roll": _roll,
    "compact": _compact,
    "archive": _archive,
    "list-moves": _list_moves,
    "cancel-moves": _cancel_moves,
    "throttle-moves": _throttle_moves,
    "abort-transaction": abort_transaction,
    "check-abort": check_abort,
    "undo-abort": undo_abort,
}
