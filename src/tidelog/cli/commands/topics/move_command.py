"""``tidelog move``: move partitions to another data directory, here or by the running service.

Also: list the moves in flight, cancel them, and limit how fast they copy.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tidelog.cli.arguments import either, whole
from tidelog.cli.options import (
    DIRECTORY,
    JSON,
    PARTITION,
    Command,
    argument,
    exclusive,
    target_option,
)
from tidelog.cli.terminal import print_counts, print_message, print_row
from tidelog.codec.shown_rows import list_as_json
from tidelog.datadir.lock_file import check_not_held, writer_of
from tidelog.errors import InvalidArgument, KafkaStorageError, UnknownTopicOrPartition
from tidelog.explain.printable_text import format_bytes, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tidelog.cli.partition_choice import Place
    from tidelog.cli.progress import Task
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.embedded.logs import Logs
    from tidelog.manager.log_manager import LogManager
    from tidelog.segment.filenames import TopicPartition

LOOK_MS: Final = 100
"""How often a move that this process makes is looked at."""
_NEVER_MS: Final = 1 << 40
"""Longer than any move takes: 34 years."""


COMMAND: Final = Command(
    "move",
    "move partitions of a topic to another data directory",
    (
        *DIRECTORY,
        argument("topic", metavar="TOPIC", nargs="?", help="needed to move, and to cancel"),
        target_option("data directory to move to; a running service must have it in its log.dirs"),
        PARTITION,
        exclusive(
            argument("--list", action="store_true", dest="is_list", help="list moves in flight"),
            argument(
                "--cancel",
                action="store_true",
                help="give moves in flight up: the partitions stay as they are, the copies are"
                " deleted",
            ),
        ),
        argument(
            "--throttle",
            type=either(whole(1), none=0),
            metavar="RATE",
            help="bytes per second that all moves of the process copy at most; none: as"
            " replica.alter.log.dirs.io.max.bytes.per.second says",
        ),
        JSON,
    ),
    epilog="If a service is running on the directory, it moves them itself, while it serves\n"
    "reads and appends. --list, --cancel and --throttle then concern its moves; without a\n"
    "service, --list and --cancel concern those that the next one would continue, for which\n"
    "--to names the directory of the copies.",
)


def run(args: Namespace) -> int:
    """Do one of the four; ``--throttle`` may stand alone, or with a move."""
    if args.throttle is not None and (args.is_list or args.cancel):
        raise InvalidArgument("--throttle is for a move, or alone: leave --list and --cancel out")
    if args.is_list:
        return _list(args)
    if args.cancel:
        return _cancel(args)
    if args.target is not None:
        return _move(args)
    if args.throttle is None:
        raise InvalidArgument("give --to DIR to move, or --list, --cancel or --throttle")
    if args.topic is not None:
        raise InvalidArgument(
            "--throttle alone takes no TOPIC, since it limits all moves of the service: leave"
            f" {args.topic} out, or give --to DIR to move it"
        )
    return _throttle(args)


def _move(args: Namespace) -> int:
    """Move the partitions, one after another; a running service is asked to do it."""
    from tidelog.cli.serving.service_requests import asked
    from tidelog.embedded.doors import check_no_files
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.segment.filenames import numbers_by_topic

    source, target = os.path.abspath(args.directory), os.path.abspath(args.target)
    if args.topic is None:
        raise InvalidArgument("name the TOPIC to move")
    places = _places(args, source, target)
    check_no_files(SYSTEM_FILES, [target])
    if args.throttle is not None:
        limit = {"bytes_per_second": args.throttle or None}
        asked("throttle-moves", source, limit, partial(check_not_held, source))
    numbers = numbers_by_topic(place.key for place in places)
    arguments = {"partitions": numbers, "target": target}
    here = partial(_move_here, places, source, target, args.throttle)
    asked(args.command, source, arguments, here, _looking(places, source, target))
    for place in places:
        row = {"topic": place.topic, "partition": place.partition, "directory": target}
        print_row(args, row, printable(f"{place.key}: moved to {target}"))
    print_counts(args, partitions=len(places))
    _report_cuts(args.topic, {place.key for place in places}, source, target)
    return 0


def _places(args: Namespace, source: str, target: str) -> list[Place]:
    """Return the partitions to move; InvalidArgument if they are at the target."""
    from tidelog.cli.partition_choice import choose_partitions
    from tidelog.env.system_files import SYSTEM_FILES

    def chosen_in(path: str) -> list[Place]:
        which = [args.topic], args.partition
        chosen = choose_partitions(SYSTEM_FILES, [path], *which, allow_partial=True)
        if not chosen.places:
            raise UnknownTopicOrPartition("; ".join(map(str, chosen.missing)))
        return chosen.places

    try:
        places, is_there = chosen_in(source), source == target
    except UnknownTopicOrPartition as error:
        try:
            places, is_there = chosen_in(target), True  # the same move was done before
        except (InvalidArgument, UnknownTopicOrPartition):
            raise error from None
    if is_there:
        raise InvalidArgument(f"--to {args.target}: the partitions are there already")
    return places


def _report_cuts(topic: str, keys: Collection[TopicPartition], source: str, target: str) -> None:
    """Name what recoveries cut off these logs: it stays, and is lost with an emptied disk."""
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.missing.salvage import find_cut_files
    from tidelog.readonly.read_only_directory import open_directory_read_only

    found = find_cut_files(open_directory_read_only(source, fs=SYSTEM_FILES, accept=None))
    count = sum((cut.topic, cut.partition) in keys for cut in found)
    if count:
        files = "1 file stays" if count == 1 else f"{count} files stay"
        shown = shlex.join(["tidelog", "salvage", topic, "-d", source, "-d", target])
        text = f"{files} in {source} with what recoveries cut off {topic}: {shown} lists it"
        print_message("move", printable(text))


def _move_here(places: list[Place], source: str, target: str, throttle: int | None) -> None:
    """Move them in this process, which locks the directories; delete the originals at once."""
    from tidelog.cli.progress import current_line, showing_load
    from tidelog.embedded.doors import start_logs

    config = moving_config(source, target)
    with showing_load() as load:
        opened = start_logs(
            config,
            on_locked=load.begin,
            should_stop=load.should_stop,
            # What starts meanwhile would end instead of waiting: it takes a process that others can
            # join for one that stays.
            make_door=lambda _: None,
        )
    with opened as logs:
        if throttle:
            logs.manager.throttle_moves(throttle)
        logs.manager.check_room_to_move([place.key for place in places], target)
        try:
            for place in places:
                with current_line().task(f"moving {place.key}") as task:
                    _move_one(logs, place.key, target, task)
        finally:
            # Also the copy of a move that was given up: it may be what fills the disk.
            logs.manager.delete_renamed_logs()


def moving_config(source: str, target: str) -> BrokerConfig:
    """Return the settings of a process that only moves: no log is compacted and nothing expires.

    Neither the service that usually holds the directories, nor its settings, are known here.
    """
    from dataclasses import replace

    from tidelog.config.sources import broker_config

    return replace(
        broker_config({"log.segment.delete.delay.ms": "0"}),
        log_dirs=(source, target),
        log_cleaner_enable=False,
        log_initial_task_delay_ms=_NEVER_MS,
    )


def _move_one(logs: Logs, key: TopicPartition, target: str, task: Task) -> None:
    """Move one partition, and show how far it is."""

    def show() -> None:
        for move in logs.manager.moves():
            if (move.topic, move.partition) == key:
                task.show(move.done_bytes, total=move.total_bytes)

    logs.move_partition(*key, target, wait=False)
    logs.manager.wait_for_move(*key, LOOK_MS, show)
    if os.path.dirname(logs.partition(*key).log.directory) != target:
        raise KafkaStorageError(f"{key} was not moved: {logs.manager.why_not_moved(*key)}")


def _looking(places: Sequence[Place], source: str, target: str) -> Callable[[Task], None]:
    """Return what shows how far a service is: by the bytes of the logs and of their copies."""
    from tidelog.datadir.partition_directories import log_bytes
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.manager.lifecycle.move_status import moves_in_files

    sizes = {place.key: log_bytes(SYSTEM_FILES, place.path) for place in places}
    what = f"moving {places[0].topic} by the service that holds {source}"

    def look(task: Task) -> None:
        with suppress(OSError):  # they are being renamed
            moving = moves_in_files(SYSTEM_FILES, [source, target])
            done = {(move.topic, move.partition): move.done_bytes for move in moving}
            for key, size in sizes.items():
                if key not in done and not SYSTEM_FILES.exists(os.path.join(source, str(key))):
                    done[key] = size
            copied = sum(done.get(key, 0) for key in sizes)
            task.show(copied, total=sum(sizes.values()), what=what)

    return look


def _list(args: Namespace) -> int:
    """List the moves of a service, or those that wait for one; 0 also if there are none."""
    source = os.path.abspath(args.directory)
    rows = _moving(args, source)
    for row in rows:
        print_row(args, row, printable(_as_text(row)))
    print_counts(args, moves=len(rows))
    if not rows:
        text = f"no moves in flight in {source}"
        if args.target is None and writer_of(source) is None:
            # The source does not say where its copies lie.
            text += "; without a service, name the directory of the copies with --to"
        print_message(args.command, text)
    return 0


def _moving(args: Namespace, source: str) -> list[dict[str, Any]]:
    """Return the moves of a service, or those that wait for one, of what is named."""
    from tidelog.cli.serving.service_requests import asked
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.manager.lifecycle.move_status import moves_in_files

    def here() -> list[dict[str, Any]]:
        check_not_held(source)
        return list_as_json(moves_in_files(SYSTEM_FILES, _directories(args, source)))

    return [
        row
        for row in asked("list-moves", source, {}, here)
        if args.topic in {None, row["topic"]} and args.partition in {None, row["partition"]}
    ]


def _directories(args: Namespace, source: str) -> list[str]:
    """Return the directories that the command line names, the source first."""
    target = None if args.target is None else os.path.abspath(args.target)
    return [source] if target in {None, source} else [source, str(target)]


def _as_text(row: Mapping[str, Any]) -> str:
    done, total, limit = row["doneBytes"], row["totalBytes"], row["limitBytesPerSecond"]
    amount = format_bytes(done) + (f" of {format_bytes(total)}" if total is not None else "")
    parts = [f"{row['topic']}-{row['partition']}: {amount} copied", f"to {row['to']}"]
    if row["from"] is not None:
        parts.insert(1, f"from {row['from']}")
    text = f"{' '.join(parts)}, {row['state']}"
    if row["state"] in {"copying", "throttled"}:
        text += f", {format_bytes(row['bytesPerSecond'])}/s"
    if limit is not None:
        text += f", limit {format_bytes(limit)}/s"
    return f"{text}: {row['reason']}" if row["reason"] else text


def _cancel(args: Namespace) -> int:
    """Cancel the moves of a topic, or of one partition."""
    from tidelog.cli.serving.service_requests import perform
    from tidelog.embedded.doors import open_to_change

    if args.topic is None:
        raise InvalidArgument("name the TOPIC whose moves are to be cancelled")
    source = os.path.abspath(args.directory)
    numbers = sorted(row["partition"] for row in _moving(args, source))
    if not numbers:
        raise InvalidArgument(f"no partition of {args.topic} is being moved: see --list")

    def opened() -> AbstractContextManager[LogManager]:
        """Lock the directories, where an earlier service has left copies."""
        check_not_held(source)
        if args.target is None:
            raise InvalidArgument("without a service, --to must name the directory of the copies")
        return open_to_change(*_directories(args, source))

    rows = perform("cancel-moves", source, {"partitions": {args.topic: numbers}}, opened)
    for row in rows:
        name = printable(f"{row['topic']}-{row['partition']}")
        print_row(args, row, f"{name}: the move was cancelled")
    print_counts(args, partitions=len(rows))
    return 0


def _throttle(args: Namespace) -> int:
    """Limit the moves of the running service."""
    from tidelog.cli.serving.service_requests import asked

    source = os.path.abspath(args.directory)

    def refuse() -> NoReturn:
        check_not_held(source)
        raise InvalidArgument(f"no service runs on {source}, so nothing is being moved")

    arguments = {"bytes_per_second": args.throttle or None}
    row = asked("throttle-moves", source, arguments, refuse)
    limit = f"at most {format_bytes(args.throttle)}/s" if args.throttle else "as the settings say"
    print_row(args, row, f"moves together copy {limit}")
    return 0
