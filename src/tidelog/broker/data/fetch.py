"""Fetch: slices of the files of logs, unchanged. Kafka: ``ReplicaManager.fetchMessages``."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.broker.client_request import Refusal
from tidelog.broker.data.archive_reads import PATIENCE_S
from tidelog.broker.partitions import partition_at_once
from tidelog.env.clock import MS_PER_S
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaError, OffsetOutOfRange
from tidelog.log.leader_epoch import OffsetAndEpoch
from tidelog.log.reading.offset_lookup import NO_OFFSET
from tidelog.manager.whole_log import archived_batches
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tidelog.broker.client_request import Answer, Request
    from tidelog.broker.data.archive_reads import ArchiveReads
    from tidelog.broker.data.arrivals import Arrivals
    from tidelog.broker.topics.topic_names import TopicNames
    from tidelog.log.log import Log
    from tidelog.log.reading.log_reads import FetchData
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition

ISOLATIONS: Final = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
"""By their numbers in requests."""
_ID_VERSION: Final = 13
NOTHING_ARCHIVED: Final[MappingProxyType[int, bytes | KafkaError]] = MappingProxyType({})


class Fetch:
    """Reads for clients; an answer has at most ``max_bytes``, or one batch that is larger."""

    def __init__(
        self,
        manager: LogManager,
        names: TopicNames,
        arrivals: Arrivals,
        archive: ArchiveReads,
        max_bytes: int,
    ) -> None:
        self._manager = manager
        self._names = names
        self._arrivals = arrivals
        self._archive = archive
        self._max_bytes = max_bytes

    def handle(self, request: Request) -> Answer:
        """Answer at once if there is enough, else when there is, or the time is over."""
        wanted = self._wanted(request)
        if any(one.is_archived for one in wanted):
            return self._with_archive(request, wanted)
        found = self._read(request, wanted)
        if found.is_enough or request.values["maxWaitMs"] <= 0 or not wanted:
            return found.answer
        found.close()
        return self._wait(request, wanted, found)

    async def _with_archive(self, request: Request, wanted: Sequence[_Wanted]) -> dict[str, Any]:
        """Read what lies in archives on threads, then answer with what there is in time.

        The next fetch gets the rest. What a client reads of the disk must not wait for a store.
        """
        isolation = ISOLATIONS[request.values["isolationLevel"] == 1]
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_S
        left = min(request.values["maxBytes"], self._max_bytes)
        archived: dict[int, bytes | KafkaError] = {}
        for number, one in enumerate(wanted):
            if not one.is_archived or left <= 0:
                continue
            assert one.partition is not None
            most = min(one.given["partitionMaxBytes"], left)
            offset, fs = one.given["fetchOffset"], self._manager.machine.fs
            what = one.partition.log, offset, most, isolation
            read = partial(archived_batches, *what, fs)
            try:
                data = await self._archive.run_for(what, read, end - loop.time())
            except KafkaError as error:
                archived[number] = error
                continue
            if data is None:
                break
            archived[number] = data
            left -= len(data)
        return self._read(request, wanted, archived).answer

    async def _wait(
        self, request: Request, wanted: Sequence[_Wanted], found: _Found
    ) -> dict[str, Any]:
        """Wait until there is more than was ``found``, which is closed, or the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + request.values["maxWaitMs"] / MS_PER_S
        partitions = {one.partition for one in wanted if one.partition is not None}
        with self._arrivals.watching(partitions) as watch:
            while True:
                # Not read again for nothing: a client may ask for a thousand partitions.
                if found.is_outdated:
                    found = self._read(request, wanted)
                left_ms = (end - loop.time()) * MS_PER_S
                if found.is_enough or left_ms <= 0:
                    return found.answer
                found.close()
                await watch.wait(left_ms)

    def _wanted(self, request: Request) -> list[_Wanted]:
        """Return the partitions in the order of the request, which is kept in the answer."""
        by_id = request.version >= _ID_VERSION
        topics = request.values["topics"]
        names = self._names.of_ids(topic["topicId"] for topic in topics) if by_id else {}
        found = []
        for topic in topics:
            name = names.get(topic["topicId"]) if by_id else topic["topic"]
            key = {"topicId": topic["topicId"]} if by_id else {"topic": name}
            found += [self._partition(key, name, given) for given in topic["partitions"]]
        return found

    def _partition(self, key: dict[str, Any], name: str | None, given: dict[str, Any]) -> _Wanted:
        if name is None:
            error: KafkaError = Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
            return _Wanted(key, given, None, error)
        try:
            found = partition_at_once(self._manager, name, given["partition"])
        except KafkaError as caught:
            return _Wanted(key, given, None, caught)
        return _Wanted(key, given, found)

    def _read(
        self,
        request: Request,
        wanted: Iterable[_Wanted],
        archived: Mapping[int, bytes | KafkaError] = NOTHING_ARCHIVED,
    ) -> _Found:
        values = request.values
        isolation = ISOLATIONS[values["isolationLevel"] == 1]
        found = _Found(values["minBytes"], min(values["maxBytes"], self._max_bytes))
        for number, one in enumerate(wanted):
            given = archived.get(number, one.error)
            try:
                if isinstance(given, KafkaError):
                    raise given
                assert one.partition is not None
                found.add(one, one.partition, isolation, given)
            except OffsetOutOfRange as error:
                if not one.is_archived:
                    found.fail(one, error)
                    continue
                # The answer was full, the archive is slow, or it was deleted on the disk just now:
                # the next one has it.
                assert one.partition is not None
                found.add(one, one.partition, isolation, b"")
            except KafkaError as error:
                found.fail(one, error)
        return found


class _Wanted(NamedTuple):
    """A partition of a request, or why there is none; ``key`` names its topic in the answer."""

    key: dict[str, Any]
    given: dict[str, Any]
    partition: Partition | None
    error: KafkaError | None = None

    @property
    def is_archived(self) -> bool:
        """Whether the offset lies in the archive of the log, and no longer on the disk."""
        if self.partition is None or self.partition.has_ended:
            return False
        log = self.partition.log
        if log.archived is None:
            return False
        offset: int = self.given["fetchOffset"]
        return log.log_start_offset <= offset < log.local_log_start_offset


class _Found:
    """An answer while it is put together."""

    def __init__(self, min_bytes: int, max_bytes: int) -> None:
        self._topics: list[dict[str, Any]] = []
        self._fetched: list[FetchData] = []
        self._ends: list[tuple[Partition, Log, int, int]] = []
        self._left = max_bytes
        self._size = 0
        # One who wants more than it takes, or gets, would always wait until its time is over.
        self._min_bytes = min(min_bytes, max_bytes)
        self._is_due = False
        """Whether it is given whatever its size."""

    @property
    def is_enough(self) -> bool:
        """Whether the client need not wait for more."""
        return self._is_due or self._size >= self._min_bytes

    @property
    def answer(self) -> dict[str, Any]:
        """The fields of the response; there are no sessions."""
        return {"sessionId": 0, "responses": self._topics}

    @property
    def is_outdated(self) -> bool:
        """Whether readers see more, or less, than they did; files that were closed are, too."""
        return self._size > 0 or any(
            # It was deleted, or has moved to another directory.
            partition.has_ended
            or partition.held_log is not log
            or log.is_offline
            or log.high_watermark != end
            or log.last_stable_offset != stable
            for partition, log, end, stable in self._ends
        )

    def close(self) -> None:
        """Release the files of an answer that is not given."""
        for one in self._fetched:
            one.close()

    def fail(self, wanted: _Wanted, error: KafkaError) -> None:
        """Answer a partition with an error."""
        self._is_due = True
        self._append(
            wanted,
            {
                "partitionIndex": wanted.given["partition"],
                "errorCode": int(error.code),
                "highWatermark": NO_OFFSET,
                "records": b"",
            },
        )

    def add(
        self,
        wanted: _Wanted,
        partition: Partition,
        isolation: Isolation,
        archived: bytes | None = None,
    ) -> None:
        """Read a partition; the first batch is given whole, even if it is larger than allowed.

        ``archived`` is what was read of its archive already, without aborted batches.
        """
        given, log = wanted.given, partition.log
        check_epoch(partition, given["currentLeaderEpoch"])
        # Before the read: what comes meanwhile makes the answer outdated, and is not missed.
        end, stable = log.high_watermark, log.last_stable_offset
        self._ends.append((partition, log, end, stable))
        diverging = _diverging(partition, given)
        if archived is not None or diverging is not None:
            data = None
        else:
            data = log.read(
                given["fetchOffset"],
                max(min(given["partitionMaxBytes"], self._left), 0),
                isolation=isolation,
                min_one_batch=not self._size,
            )
            if data.is_first_batch_cut:
                # Part of a batch: a consumer that finds no whole one fails. Source: KIP-74.
                data.close()
                data = replace(data, slice=None)
            self._fetched.append(data)
            # A read ends with its segment: what comes would not make this one longer.
            seen = stable if isolation is Isolation.READ_COMMITTED else end
            self._is_due |= data.bounds is not None and data.bounds.end < seen
        size = len(archived or b"") if data is None else data.size_bytes
        self._size += size
        self._left -= size
        answer = {
            "partitionIndex": given["partition"],
            "highWatermark": end,
            "lastStableOffset": stable,
            "logStartOffset": log.log_start_offset,
            "records": b"" if data is None or data.slice is None else data.slice,
            "abortedTransactions": None,
        }
        if archived is not None:
            answer["records"] = archived
        if diverging is not None:
            self._is_due = True
            answer |= {"records": b"", "divergingEpoch": diverging}
        if data is not None and data.aborted is not None:
            answer["abortedTransactions"] = [
                {"producerId": one.producer_id, "firstOffset": one.first_offset}
                for one in data.aborted
            ]
        self._append(wanted, answer)

    def _append(self, wanted: _Wanted, answer: dict[str, Any]) -> None:
        topics = self._topics
        if not topics or topics[-1]["key"] is not wanted.key:
            topics.append({**wanted.key, "key": wanted.key, "partitions": []})
        topics[-1]["partitions"].append(answer)


def check_epoch(partition: Partition, given: int) -> None:
    """Refuse a client that knows another leader epoch; -1: it knows none."""
    if given < 0:
        return
    current = partition.leader_epoch
    if given < current:
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {current}")
    if given > current:
        raise Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {current}")


def end_of_epoch(partition: Partition, epoch: int) -> OffsetAndEpoch | None:
    """Return the greatest leader epoch up to ``epoch``, with its end; None: it is not known.

    The current one counts, too, while nothing was written in it.
    """
    log, current = partition.log, partition.leader_epoch
    if epoch == current:
        return OffsetAndEpoch(log.log_end_offset, epoch)
    found = log.end_offset_for_epoch(epoch)
    if found is None and 0 <= epoch < current:
        latest = log.latest_epoch
        return OffsetAndEpoch(log.log_end_offset, epoch if latest is None else latest)
    return found


def _diverging(partition: Partition, given: dict[str, Any]) -> dict[str, int] | None:
    """Return where the client's log parts from this one; None: it does not, or does not ask.

    Source: Kafka Partition.readRecords.
    """
    last, offset = given["lastFetchedEpoch"], given["fetchOffset"]
    if last < 0 or offset < partition.log.log_start_offset:
        return None
    end = end_of_epoch(partition, last)
    if end is None:
        raise OffsetOutOfRange(offset, partition.log.log_start_offset, partition.log.log_end_offset)
    if end.leader_epoch < last or end.offset < offset:
        return {"epoch": end.leader_epoch, "endOffset": end.offset}
    return None
