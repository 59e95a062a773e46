"""The partitions of an internal topic: each coordinates the groups, or ids, that it holds.

One that cannot be read refuses its own, and no others. Kafka: ``CoordinatorRuntime``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.broker.client_request import TOO_LARGE, Refusal
from tidelog.codec.text import MAX_GROUP_BYTES
from tidelog.error_codes import ErrorCode
from tidelog.errors import (
    CommitPending,
    DirectoryFull,
    KafkaError,
    KafkaStorageError,
    StartAborted,
    UnknownTopicOrPartition,
)
from tidelog.log.directory_guard import may_pass
from tidelog.readonly.group_positions import partition_of_group
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from tidelog.broker.groups.classic_group import Timers
    from tidelog.env.scheduler import Handle
    from tidelog.manager.log_manager import LogManager

_log = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_MS: Final = 1000
_MAX_RETRY_MS: Final = 60_000


class Shards:
    """The partitions of ``topic``. Only the event loop uses it.

    ``take_up`` reads a partition, by its number, and takes up what is in it. Where it raises
    KafkaError, since a disk has failed or a log is damaged, it is called again later.
    """

    def __init__(
        self,
        manager: LogManager,
        topic: str,
        timers: Timers,
        take_up: Callable[[int], Awaitable[None]],
    ) -> None:
        self._manager = manager
        self._topic: Final = topic
        self._timers = timers
        self._take_up = take_up
        self._failed: dict[int, KafkaError] = {}
        self._loading: set[int] = set()
        """The failed ones that are being read again."""
        self.loaded: Final = asyncio.Event()
        """Set once all partitions were read, or could not be."""
        self._is_closed = False
        self._delay_ms = _RETRY_MS
        self._retry: Handle | None = None
        self._task: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Take up all partitions that can be read."""
        topic = self._manager.topics().get(self._topic)
        for number in () if topic is None else sorted(topic.partitions):
            await self._load(number)
        self.loaded.set()
        self._retry_later()

    def close(self) -> None:
        """Read no more, and try no more to take up what has failed."""
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
        if self._task is not None:
            self._task.cancel()

    def while_open(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items, on any thread; raise StartAborted once this is closed."""
        for item in items:
            if self._is_closed:
                raise StartAborted(f"reading {self._topic} was stopped")
            yield item

    async def _load(self, number: int) -> None:
        try:
            await self._take_up(number)
        except KafkaError as error:
            if number not in self._failed:  # once: it is tried again and again
                text = "coordinator-not-loaded log=%s reason=%s"
                _log.error(text, TopicPartition(self._topic, number), error)
            self._failed[number] = error
        else:
            if self._failed.pop(number, None) is not None:
                _log.info("coordinator-loaded-late log=%s", TopicPartition(self._topic, number))

    def _retry_later(self) -> None:
        if any(map(_may_pass, self._failed.values())):
            self._delay_ms = _RETRY_MS  # it fails early, and may be well at any time
        if self._failed:
            self._retry = self._timers.schedule(
                "coordinator-load", self._begin_retry, delay_ms=self._delay_ms
            )
            self._delay_ms = min(2 * self._delay_ms, _MAX_RETRY_MS)

    def _begin_retry(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._load_failed())

    async def _load_failed(self) -> None:
        for number in sorted(self._failed):
            self._loading.add(number)
            try:
                await self._load(number)
            finally:
                self._loading.discard(number)
        self._retry_later()

    # Who is served

    @property
    def unread(self) -> list[TopicPartition]:
        """The partitions that could not be read, sorted; on any thread."""
        return [TopicPartition(self._topic, number) for number in sorted(self._failed)]

    def check_loaded(self) -> None:
        """Refuse what is about all partitions before they were read."""
        if not self.loaded.is_set():
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def check(self, key: str) -> None:
        """Refuse a group, or an id, whose partition is not read yet, or cannot be used.

        With a word after which its clients ask again: at once, where that may pass, else once they
        have looked for the coordinator. Source: Kafka CoordinatorRuntime.withActiveContextOrThrow.
        """
        self.check_loaded()
        if len(key.encode()) > MAX_GROUP_BYTES:  # flexible requests have room for more
            reason = f"a name of more than {MAX_GROUP_BYTES:,} bytes cannot be stored"
            raise Refusal(ErrorCode.INVALID_REQUEST, reason)
        number, error = self._why_not(key)
        if number in self._loading:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if error is not None:
            passes = _may_pass(error)
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if passes else ErrorCode.NOT_COORDINATOR
            raise self._refusal(key, number, error, code)

    def check_home(self, key: str) -> None:
        """Refuse to name a coordinator whose partition cannot be used, unless that may pass."""
        number, error = self._why_not(key)
        if error is not None and not _may_pass(error):
            raise self._refusal(key, number, error, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _refusal(self, key: str, number: int, error: KafkaError, code: ErrorCode) -> Refusal:
        place = TopicPartition(self._topic, number)
        return Refusal(code, f"{place}, where {key!r} belongs, cannot be used: {error}")

    def _why_not(self, key: str) -> tuple[int, KafkaError | None]:
        """Return the partition where a name belongs, and why it cannot be used; None: it can."""
        try:
            topic = self._manager.topic(self._topic)
        except (UnknownTopicOrPartition, KafkaStorageError):  # it is created when it is needed
            return -1, None
        number = partition_of_group(key, len(topic.partitions))
        error = self._failed.get(number)
        if error is None:
            try:
                self._manager.partition(self._topic, number)
            except KafkaError as caught:
                error = caught
        return number, error


def code_for_client(error: KafkaError) -> ErrorCode:
    """Return the code for a client of a coordinator whose partition has refused something.

    Source: Kafka CoordinatorOperationExceptionHelper and TransactionStateManager. What may pass,
    such as a full disk, leaves the coordinator where it is.
    """
    if isinstance(error, UnknownTopicOrPartition):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if isinstance(error, TOO_LARGE):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
        return error.code
    passes = _may_pass(error)
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if passes else ErrorCode.NOT_COORDINATOR


def _may_pass(error: KafkaError) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (DirectoryFull, CommitPending)) or may_pass(cause):
            return True
        cause = cause.__cause__
    return False
