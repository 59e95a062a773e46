"""``tidelog offsets``: print a partition's offsets, or the one that goes with a time."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.parser import READ_COMMITTED
from tidelog.cli.partition_choice import find_places
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.log.offset_lookup import OffsetTarget
from tidelog.readonly.read_only_log import ReadUpTo, open_read_only
from tidelog.readonly.time_lookup import find_offset

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.readonly.read_only_log import ReadOnlyLog

_TARGETS: Final = {
    "earliest": OffsetTarget.EARLIEST,
    "latest": OffsetTarget.LATEST,
    "max-timestamp": OffsetTarget.MAX_TIMESTAMP,
}


def run(args: Namespace) -> int:
    """Print a JSON line a partition; return 1 if one is damaged at its end."""
    topics = [] if args.topic is None else [args.topic]
    is_damaged = False
    for place in find_places(SYSTEM_FILES, args.directory, topics, args.partition):
        with open_read_only(place.path, fs=SYSTEM_FILES) as log:
            answer = _all_offsets(log, args) if args.at is None else _offset_at(log, args)
            print(json.dumps({"topic": place.topic, "partition": place.partition, **answer}))
            if log.damage is not None:
                is_damaged = True
                sys.stdout.flush()
                print(f"tidelog offsets: {log.damage}", file=sys.stderr)
    return int(is_damaged)


def _all_offsets(log: ReadOnlyLog, args: Namespace) -> dict[str, Any]:
    return {
        "logStartOffset": log.log_start_offset,
        "highWatermark": log.high_watermark,
        "lastStableOffset": log.last_stable_offset(ReadUpTo(args.up_to)),
        "logEndOffset": log.log_end_offset,
    }


def _offset_at(log: ReadOnlyLog, args: Namespace) -> dict[str, Any]:
    up_to = ReadUpTo(args.up_to)
    is_committed = args.isolation == READ_COMMITTED
    end = log.last_stable_offset(up_to) if is_committed else log.end_offset(up_to)
    found = find_offset(log, _TARGETS.get(args.at, args.at), end, fs=SYSTEM_FILES)
    if found is None:
        return {"offset": None, "timestamp": None, "leaderEpoch": None}
    timestamp = None if found.timestamp < 0 else found.timestamp
    return {"offset": found.offset, "timestamp": timestamp, "leaderEpoch": found.leader_epoch}
