"""``tidelog txns abort``: end an open transaction by an abort marker, or take that back."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.cli.options import DIRECTORY_VARIABLE
from tidelog.cli.partition_choice import choose_partitions
from tidelog.cli.serving.service_requests import asked, perform
from tidelog.cli.terminal import print_line
from tidelog.codec.shown_rows import as_json
from tidelog.config.log_config import LogConfig
from tidelog.datadir.lock_file import check_not_held, has_writer
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import (
    CannotUndo,
    InvalidArgument,
    InvalidTopic,
    RequestFailed,
    RequestNotTaken,
)
from tidelog.explain.printable_text import counted, format_time
from tidelog.explain.transactional_ids import coordinated_in
from tidelog.readonly.snapshot_log import answer_at_once
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC
from tidelog.segment.filenames import TopicPartition, parse_topic_partition
from tidelog.service.requests.transaction_abort import (
    check_none_missing,
    check_undo,
    coordinated,
    plan_of,
    read_record,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from tidelog.cli.partition_choice import ChosenPartitions, Place
    from tidelog.log.producers.abort_plan import AbortPlan


def run_abort(args: Namespace) -> int:
    """Print the plan, or carry it out; beside a service that does it."""
    key = _partition(args)
    chosen = choose_partitions(SYSTEM_FILES, args.directories, [key.topic], key.partition)
    if not chosen.places:
        chosen.report_missing(args.command)
        return 1
    [place] = chosen.places
    data_dir = os.path.dirname(place.path)
    if args.undo:
        _undo(args, key, chosen, place)
        return 0
    _check_uncoordinated(chosen, args.producer_id, key)
    plan = answer_at_once(
        lambda: chosen.open(place),
        LogConfig(),
        SYSTEM_CLOCK,
        lambda log: plan_of(key, log, args.producer_id),
    )
    records = _count_records(chosen, place, plan)
    row: Mapping[str, Any] = as_json(plan)
    if args.execute:
        row = perform(
            "abort-transaction",
            data_dir,
            {
                "partitions": {key.topic: [key.partition]},
                "producer_id": plan.producer_id,
                "first_offset": plan.first_offset,
            },
        )
    _print(args, {**row, "records": records, "executed": args.execute})
    return 0


def _partition(args: Namespace) -> TopicPartition:
    """Return the partition that the command line names."""
    words = args.topics[1:]
    if len(words) == 1:
        with suppress(InvalidTopic):  # it speaks of a directory
            return parse_topic_partition(words[0])
    raise InvalidArgument(
        f"txns abort takes one TOPIC-PARTITION, and -d DIR or {DIRECTORY_VARIABLE}"
    )


def _check_uncoordinated(chosen: ChosenPartitions, producer_id: int, key: TopicPartition) -> None:
    """Raise InvalidArgument or KafkaStorageError, also for a plan, as ``abort_transaction`` does.

    That one sees only the directory of the partition, this one all that are given.
    """
    known = coordinated_in(chosen.directory, producer_id, key)
    if known is not None:
        paths = [path for path in chosen.directory.paths if has_writer(path)]
        for path in paths:
            _ask_holder(path, producer_id, key)
        # None: it was not asked, as Kafka, or a process of an earlier release.
        is_broker = None if any(map(has_writer, paths)) else False
        raise coordinated(known, key, SYSTEM_CLOCK.now_ms(), is_broker=is_broker)
    missing = (gone.key for gone in chosen.directory.missing)
    check_none_missing([gone for gone in missing if gone.topic == TRANSACTIONS_TOPIC])


def _ask_holder(path: str, producer_id: int, key: TopicPartition) -> None:
    """Raise what the process that has a directory says of a transaction: it may be a broker."""
    arguments = {"partitions": {key.topic: [key.partition]}, "producer_id": producer_id}
    with suppress(RequestNotTaken):
        try:
            asked("check-abort", path, arguments, partial(check_not_held, path))
        except RequestFailed as error:
            if f"the transaction of producer {producer_id} in {key}" in error.text:
                raise


def _count_records(chosen: ChosenPartitions, place: Place, plan: AbortPlan) -> int:
    """Count the records of the transaction that are in the log."""
    count = 0
    with chosen.open(place) as log:
        start = max(plan.first_offset, log.log_start_offset)
        if start >= plan.marker_offset:
            return 0
        for piece in log.pieces(start, plan.marker_offset, check_crc=False):
            batches = piece.batches
            is_own = (batches.producer_id == plan.producer_id) & (batches.last_offset >= start)
            count += int(batches.records_count[is_own].sum())
    return count


def _print(args: Namespace, row: Mapping[str, Any]) -> None:
    """Print what is, or would be, written, and what readers see from then on."""
    if args.json:
        print_line(json.dumps(row))
        return
    is_done = row["executed"]
    name = f"{row['topic']}-{row['partition']}"
    verb = "appended" if is_done else "would append"
    print_line(
        f"{name}: {verb} an abort marker of 78 bytes at offset {row['markerOffset']:,}, producer"
        f" {row['producerId']}, epoch {row['producerEpoch']}, coordinator epoch"
        f" {row['coordinatorEpoch']}"
    )
    print_line(
        f"  the transaction: {counted(row['records'], 'record')} from offset"
        f" {row['firstOffset']:,} on, which readers of committed records never see"
    )
    before, after = row["lastStableOffset"], row["lastStableOffsetAfter"]
    verb = "went" if is_done else "goes"
    print_line(f"  the last stable offset {verb} from {before:,} to {after:,}")
    if is_done:
        print_line(f"  tidelog txns abort {name} --undo takes it back, until the next append")
    else:
        print_line("nothing was written; --execute writes the marker")


def _undo(args: Namespace, key: TopicPartition, chosen: ChosenPartitions, place: Place) -> None:
    """Print whether the last marker can be taken back, or take it back."""
    data_dir = os.path.dirname(place.path)
    arguments = {"partitions": {key.topic: [key.partition]}}
    record = None
    if args.execute:
        row = perform("undo-abort", data_dir, arguments)
    else:
        record = read_record(SYSTEM_FILES, data_dir, key)
        if record is None:
            raise CannotUndo(f"no abort of a transaction in {key} is known")
        with chosen.open(place) as log:
            start, _ = log.disk_and_archive or (log.log_start_offset, 0)
            check_undo(key, record, start, log.log_end_offset)
        row = {**record.plan, "lastStableOffsetAfter": record.plan["lastStableOffset"]}
    if args.json:
        print_line(json.dumps({**row, "executed": args.execute}))
        return
    verb = "truncated" if args.execute else "would truncate"
    print_line(
        f"{key}: {verb} the abort marker at offset {row['markerOffset']:,}; the transaction of"
        f" producer {row['producerId']} {'is' if args.execute else 'would be'} open again from"
        f" offset {row['firstOffset']:,} on"
    )
    if record is not None:
        when = format_time(record.time_ms)
        print_line(f"  written {when}; readers of committed records that have come past it stay")
        print_line("nothing was changed; --execute takes it back")
