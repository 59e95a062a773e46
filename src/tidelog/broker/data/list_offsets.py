"""ListOffsets and OffsetForLeaderEpoch. Kafka: ``ReplicaManager.fetchOffset``."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.client_request import MANY, Refusal, at_once_or_not
from tidelog.broker.data.fetch import ISOLATIONS, check_epoch, end_of_epoch
from tidelog.broker.partitions import partition_at_once
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError
from tidelog.log.reading.offset_lookup import OffsetTarget, TimestampedOffset
from tidelog.manager.whole_log import offset_at
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.data.archive_reads import ArchiveReads
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition

_UNKNOWN: Final = -1
_TARGET_VERSIONS: Final = {
    OffsetTarget.MAX_TIMESTAMP: 7,
    OffsetTarget.EARLIEST_LOCAL: 8,
    OffsetTarget.LATEST_TIERED: 9,
    OffsetTarget.EARLIEST_PENDING_UPLOAD: 11,
}
"""From which version on ListOffsets may ask for an end below ``OffsetTarget.EARLIEST``."""


class OffsetQueries:
    """Finds offsets for times, for the ends of logs, and where leader epochs end."""

    def __init__(self, manager: LogManager, archive: ArchiveReads) -> None:
        self._manager = manager
        self._archive = archive

    def list_offsets(self, request: Request) -> Answer:
        """ListOffsets; on a thread where a time is looked up in the files, or in an archive."""
        asked = [
            (TopicPartition(topic["name"], one["partitionIndex"]), one["timestamp"])
            for topic in request.values["topics"]
            for one in topic["partitions"]
        ]
        find = partial(self._find, request)
        if any(time >= 0 and self._begins_in_archive(key) for key, time in asked):
            return self._archive.run(find)
        are_ends = all(time in {OffsetTarget.LATEST, OffsetTarget.EARLIEST} for _, time in asked)
        return at_once_or_not(find, takes_long=not are_ends or len(asked) > MANY)

    def _begins_in_archive(self, key: TopicPartition) -> bool:
        log = self._manager.shared.registry.current(key)
        return log is not None and log.log_start_offset < log.local_log_start_offset

    def _find(self, request: Request) -> dict[str, Any]:
        isolation = ISOLATIONS[request.values["isolationLevel"] == 1]
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        self._partition(request, topic["name"], one, isolation)
                        for one in topic["partitions"]
                    ],
                }
                for topic in request.values["topics"]
            ]
        }

    def _partition(
        self, request: Request, topic: str, given: dict[str, Any], isolation: Isolation
    ) -> dict[str, Any]:
        number, target = given["partitionIndex"], given["timestamp"]
        try:
            is_later = target < OffsetTarget.EARLIEST
            if is_later and request.version < _TARGET_VERSIONS.get(target, math.inf):
                raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"{target} names no end of a log")
            partition = partition_at_once(self._manager, topic, number)
            check_epoch(partition, given["currentLeaderEpoch"])
            found = self._offset(partition, target, isolation)
        except KafkaError as error:
            return {"partitionIndex": number, "errorCode": int(error.code)}
        if found is None:
            return {"partitionIndex": number}
        epoch = found.leader_epoch
        return {
            "partitionIndex": number,
            "timestamp": found.timestamp,
            "offset": found.offset,
            "leaderEpoch": _UNKNOWN if epoch is None else epoch,
        }

    def _offset(
        self, partition: Partition, target: int, isolation: Isolation
    ) -> TimestampedOffset | None:
        log = partition.log
        is_committed = isolation is Isolation.READ_COMMITTED
        end = log.last_stable_offset if is_committed else log.high_watermark
        if target == OffsetTarget.LATEST:
            return TimestampedOffset(_UNKNOWN, end, partition.leader_epoch)
        if target == OffsetTarget.EARLIEST and log.log_start_offset < log.local_log_start_offset:
            return TimestampedOffset(_UNKNOWN, log.log_start_offset, None)  # its archive has it
        if target == OffsetTarget.LATEST_TIERED:
            archived = log.archived
            if archived is None or archived.end <= archived.start:
                return TimestampedOffset(_UNKNOWN, _UNKNOWN, None)
            last = archived.end - 1
            return TimestampedOffset(_UNKNOWN, last, log.epochs.epoch_for_offset(last))
        if target == OffsetTarget.EARLIEST_PENDING_UPLOAD and log.archived is not None:
            first = max(log.archived.end, log.log_start_offset)
            return TimestampedOffset(_UNKNOWN, first, log.epochs.epoch_for_offset(first))
        if target <= OffsetTarget.EARLIEST:
            found = log.fetch_offset_by_timestamp(target)
        else:
            found = offset_at(log, target, self._manager.machine.fs)
        # What lies above the end that this reader sees is not there yet; the start of what is on
        # the disk may be that end.
        is_start = target in {OffsetTarget.EARLIEST, OffsetTarget.EARLIEST_LOCAL}
        if is_start and found is not None and found.leader_epoch is None:
            # Nothing was written in it yet.
            return found._replace(leader_epoch=partition.leader_epoch)
        return found if found is None or found.offset < end or is_start else None

    def epoch_ends(self, request: Request) -> Answer:
        """OffsetForLeaderEpoch, of clients that look for a truncation."""
        count = sum(len(topic["partitions"]) for topic in request.values["topics"])
        return at_once_or_not(partial(self._find_ends, request), takes_long=count > MANY)

    def _find_ends(self, request: Request) -> dict[str, Any]:
        return {
            "topics": [
                {
                    "topic": topic["topic"],
                    "partitions": [self._end(topic["topic"], one) for one in topic["partitions"]],
                }
                for topic in request.values["topics"]
            ]
        }

    def _end(self, topic: str, given: dict[str, Any]) -> dict[str, Any]:
        answer = {"partition": given["partition"], "errorCode": int(ErrorCode.NONE)}
        try:
            partition = partition_at_once(self._manager, topic, given["partition"])
            check_epoch(partition, given["currentLeaderEpoch"])
            found = end_of_epoch(partition, given["leaderEpoch"])
        except KafkaError as error:
            return answer | {"errorCode": int(error.code)}
        if found is None:
            return answer
        return answer | {"leaderEpoch": found.leader_epoch, "endOffset": found.offset}
