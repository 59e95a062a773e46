"""Appends and reads for asyncio programs, with the methods of ``Logs`` and ``ReadOnlyLogs``.

Disk and locks are waited for on threads, new records on the event loop. Cancelling a task leaves no
thread, descriptor or listener behind: it waits for the call that runs. A call that reads or appends
records handles at most a megabyte; a commit, a move, retention and compaction are waited for whole.
Kafka has no such interface; aiokafka and httpx are its models.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from tidelog.codec.compression import Codec
from tidelog.embedded.async_transaction import AsyncTransaction
from tidelog.embedded.async_twins import Twin, twin
from tidelog.embedded.doors import open_logs
from tidelog.embedded.group_reader import LOOK_AGAIN_MS, ROUND_RECORDS, GroupMember
from tidelog.embedded.joined_logs import JoinedLogs, join_logs, joined_writer
from tidelog.embedded.logs import Logs, writer_of_call
from tidelog.embedded.read_only_logs import ReadOnlyLogs
from tidelog.embedded.topic_reads import TopicFollower
from tidelog.embedded.topic_writer import readable_ahead, unchanging
from tidelog.embedded.transaction import Transaction
from tidelog.env.event_loop import (
    CHUNK_BYTES,
    CHUNK_ITEMS,
    LoopBell,
    in_chunks,
    in_thread,
    sleep,
)
from tidelog.env.waiting import IdleTime
from tidelog.readonly.log_follower import POLL_MS
from tidelog.records.isolation import Isolation
from tidelog.records.new_record import check_several

if TYPE_CHECKING:
    import os
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Collection,
        Generator,
        Iterable,
        Iterator,
    )
    from typing import Self

    from tidelog.embedded.topic_reads import ConsumedRecord
    from tidelog.embedded.topic_writer import TopicWriter
    from tidelog.env.moments import Moment
    from tidelog.readonly.read_only_log import Offsets
    from tidelog.records.new_record import GivenRecord
    from tidelog.records.record import Record
    from tidelog.segment.filenames import TopicPartition


L = TypeVar("L", bound=Logs | ReadOnlyLogs)
W = TypeVar("W", bound=Logs | JoinedLogs)
F = TypeVar("F", bound=ReadOnlyLogs)


@asynccontextmanager
async def open_logs_async(
    path: str | os.PathLike[str],
    *more: str | os.PathLike[str],
    **how: Any,  # noqa: ANN401 - as of open_logs, which checks them
) -> AsyncIterator[AsyncLogs]:
    """Open data directories as ``open_logs``, for an asyncio program; leaving the block closes.

    Arguments and errors as of ``tidelog.open``.

    >>> async def main() -> list[bytes]:
    ...     async with tidelog.open_async("data") as logs:
    ...         await logs.create_topic("tides", exist_ok=True)
    ...         await logs.append("tides", b"high at 06:12")
    ...         return [record.value async for record in logs.follow("tides", idle_ms=10)]
    >>> asyncio.run(main())
    [b'high at 06:12']
    """
    opened = await in_thread(partial(open_logs, path, *more, **how), undo=lambda it: it.close())
    async with AsyncLogs(opened) as logs:
        yield logs


class _AsyncReads(Twin[L]):
    """What tasks ask of logs that are theirs to write, or only to read."""

    def __init__(self, logs: L) -> None:
        super().__init__(logs)
        self.logs: Final[L] = logs

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        await in_thread(partial(self.logs.__exit__, kind, error, trace))

    @overload
    async def offsets(self, topic: str, partition: None = None) -> dict[int, Offsets]: ...

    @overload
    async def offsets(self, topic: str, partition: int) -> Offsets: ...

    async def offsets(
        self, topic: str, partition: int | None = None
    ) -> dict[int, Offsets] | Offsets:
        """Do as ``offsets`` of the logs."""
        return await in_thread(partial(self.logs.offsets, topic, partition))

    def read(
        self,
        topic: str,
        partition: int | None = None,
        start_offset: int | None = None,
        *,
        last: int | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> AsyncGenerator[ConsumedRecord, None]:
        """Yield the records of a topic, or of one partition, up to the ends as of then."""
        read = partial(self.logs.read, topic, partition, start_offset, last=last)
        read = partial(read, since=since, until=until, isolation=isolation)
        return in_chunks(_generated(read), _size)


class _AsyncWrites(_AsyncReads[W]):
    """What tasks do with logs that they write, of their own process or of another one."""

    @asynccontextmanager
    async def transaction(
        self, txn: str | None = None, path: str | None = None, *, codec: Codec | str = Codec.NONE
    ) -> AsyncIterator[AsyncTransaction]:
        """Begin a transaction: records for several topics, all of them once or none."""
        begin = partial(self.logs.transaction, txn, path, codec=codec)
        async with AsyncTransaction(await in_thread(begin, undo=Transaction.abort)) as opened:
            yield opened

    @asynccontextmanager
    async def reader(
        self,
        *topics: str,
        group: str,
        partitions: Collection[int] | None = None,
        start: str = "earliest",
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> AsyncIterator[AsyncGroupReader]:
        """Open a reader of topics that continues where its group has committed."""
        join = partial(AsyncGroupReader, self.logs.group_source(), topics, group)
        join = partial(join, partitions=partitions, start=start, isolation=isolation)
        opened = await in_thread(join, undo=AsyncGroupReader.close)
        try:
            yield opened
        finally:
            await in_thread(opened.close)


class AsyncLogs(_AsyncWrites[Logs]):
    """The topics of an open ``Logs``, for tasks of an event loop.

    Arguments and errors are those of the methods of ``Logs`` with the same names. ``logs`` offers
    the rest, for ``asyncio.to_thread``: ``partition`` and ``partitions``, which return what has
    methods that wait for the disk, and ``writer``, since ``append_all`` takes asynchronous
    iterables. Other threads may use ``logs`` meanwhile. A cancelled call takes its effect all the
    same, whole and once.

    ``tidelog.open_async`` opens and closes the logs, too. A loop over ``read`` or ``follow`` that
    may end early belongs into ``contextlib.aclosing``, as for any asynchronous generator.

    >>> async def main() -> int:
    ...     async with tidelog.open_async("data") as logs:
    ...         await logs.create_topic("orders", exist_ok=True)
    ...         async with logs.transaction("order-7") as txn:
    ...             await txn.append("orders", b"7 eggs")
    ...         return txn.committed.total
    >>> asyncio.run(main())
    1
    """

    # Topics

    topics = twin(Logs.topics)
    topic = twin(Logs.topic)
    config_of = twin(Logs.config_of)
    create_topic = twin(Logs.create_topic)
    create_partitions = twin(Logs.create_partitions)
    alter_topic = twin(Logs.alter_topic)
    delete_topic = twin(Logs.delete_topic)
    move_partition = twin(Logs.move_partition)
    describe_log_dirs = twin(Logs.describe_log_dirs)
    retain = twin(Logs.retain)
    compact = twin(Logs.compact)
    roll = twin(Logs.roll)
    delete_records = twin(Logs.delete_records)
    metrics = twin(Logs.metrics)

    # Writing

    append = twin(Logs.append)
    commit_transaction = twin(Logs.commit_transaction)
    flush = twin(Logs.flush)

    async def append_all(
        self,
        topic: str,
        records: Iterable[GivenRecord] | AsyncIterable[GivenRecord],
        *,
        codec: Codec | str = Codec.NONE,
    ) -> int:
        """Append records in batches and make them durable; return how many.

        ``records`` is iterated on the event loop, and not further ahead than a few hundred
        or about a megabyte.
        """
        return await _append_all(partial(writer_of_call, self.logs, topic, codec), records)

    # Reading

    offset_at = twin(Logs.offset_at)
    count_records = twin(Logs.count_records)
    picture = twin(Logs.picture)
    group_positions = twin(Logs.group_positions)

    async def follow(
        self,
        topic: str,
        partition: int | None = None,
        start_offset: int | None = None,
        *,
        idle_ms: int | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> AsyncGenerator[ConsumedRecord, None]:
        """Yield records as ``read`` does, then wait for new ones and yield those.

        No more than a megabyte is read ahead of the consumer.
        """
        level, idle = Isolation.of(isolation), IdleTime(idle_ms)
        manager = self.logs.manager
        begin = partial(TopicFollower, manager, topic, partition, start_offset, isolation=level)
        follower = await in_thread(begin)
        with LoopBell(self.logs.manager.bell) as bell:
            while True:
                seen = bell.rings
                if follower.has_more():
                    async with aclosing(in_chunks(follower.records(), _size)) as records:
                        async for record in records:
                            yield record
                            idle.restart()
                left_ms = idle.left_ms(LOOK_AGAIN_MS)
                if left_ms <= 0:
                    return
                await bell.wait(seen, left_ms)

    close = twin(Logs.close)


class AsyncGroupReader(GroupMember):
    """Reads topics for a consumer group, as ``GroupReader``; used by one task at a time."""

    def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Yield records, and wait for new ones for ever; errors as ``read``."""
        return self.read(idle_ms=None)

    async def read(self, *, idle_ms: int | None = 0) -> AsyncGenerator[ConsumedRecord, None]:
        """Yield records until nothing has come for ``idle_ms``; see ``GroupReader.read``."""
        idle = IdleTime(idle_ms)
        with LoopBell(self._source.bell) as bell:
            while True:
                seen, found = bell.rings, False
                for key in await in_thread(self._begin_round):
                    async with aclosing(self._some_of(key)) as records:
                        async for record in records:
                            found = True
                            yield record
                if found:
                    idle.restart()
                    continue
                left_ms = idle.left_ms(LOOK_AGAIN_MS)
                if left_ms <= 0:
                    return
                await bell.wait(seen, left_ms)

    async def _some_of(self, key: TopicPartition) -> AsyncGenerator[ConsumedRecord, None]:
        jumps, count, ends = self._jumps, 0, []

        def peek() -> Generator[Record, None, None]:
            # On the thread, too: where the end is, a joined program is asked.
            ends.append(self._end_of(key))
            yield from self._peek(key)

        async with aclosing(in_chunks(peek(), _size)) as records:
            async for record in records:
                consumed = self._consume(key, record, jumps)
                if consumed is None:
                    return
                count += 1
                yield consumed
        if count < ROUND_RECORDS:
            self._pass(key, ends[0], jumps)

    async def committed(self) -> dict[TopicPartition, int]:
        """Return the committed position of each partition of the group's that has one."""
        return await in_thread(self._committed)

    async def rewind(self) -> None:
        """Go back to the committed positions; without one, to where this began in the partition."""
        await in_thread(self._rewind)

    async def commit(self, within: AsyncTransaction | Transaction | None = None) -> None:
        """Commit the positions that have moved, durably; see ``GroupReader.commit``."""
        txn = within.transaction if isinstance(within, AsyncTransaction) else within
        await in_thread(partial(self._commit, txn))


class _AsyncReadsOfFiles(_AsyncReads[F]):
    """What tasks ask of the logs of others, which are read from their files."""

    topics = twin(ReadOnlyLogs.topics)
    topic = twin(ReadOnlyLogs.topic)

    offset_at = twin(ReadOnlyLogs.offset_at)
    count_records = twin(ReadOnlyLogs.count_records)
    picture = twin(ReadOnlyLogs.picture)

    async def follow(
        self,
        topic: str,
        partition: int | None = None,
        start_offset: int | None = None,
        *,
        idle_ms: int | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> AsyncGenerator[ConsumedRecord, None]:
        """Yield records as ``read`` does, then look for new ones several times a second."""
        idle = IdleTime(idle_ms)
        begin = partial(self.logs.topic_follower, topic, partition, start_offset)
        follower = await in_thread(partial(begin, isolation=isolation))
        while True:
            async with aclosing(in_chunks(follower.records(), _size)) as records:
                async for record in records:
                    yield record
                    idle.restart()
            left_ms = idle.left_ms(POLL_MS)
            if left_ms <= 0:
                return
            await sleep(left_ms)


class AsyncReadOnlyLogs(_AsyncReadsOfFiles[ReadOnlyLogs]):
    """The topics of a ``ReadOnlyLogs`` for tasks of an event loop, beside any writer.

    Arguments and errors are those of the methods of ``ReadOnlyLogs`` with the same names. ``logs``
    offers the rest, for ``asyncio.to_thread``: ``open``, ``follower`` and ``topic_follower``, which
    return what has methods that wait for the disk.

    >>> with tidelog.open("data") as logs:
    ...     topic = logs.create_topic("tides")
    ...     logs.append_all("tides", [b"high", b"low"])
    2
    >>> async def main() -> list[bytes]:
    ...     beside = tidelog.AsyncReadOnlyLogs(tidelog.open_directory_read_only("data"))
    ...     return [record.value async for record in beside.follow("tides", idle_ms=10)]
    >>> asyncio.run(main())
    [b'high', b'low']
    """

    close = twin(ReadOnlyLogs.close)


@asynccontextmanager
async def join_logs_async(
    path: str | os.PathLike[str], *more: str | os.PathLike[str], wait_ms: int = 0
) -> AsyncIterator[AsyncJoinedLogs]:
    """Join the program that has data directories open, for an asyncio program.

    Arguments and errors as of ``tidelog.join``; leaving the block closes the connection.

    >>> async def main() -> list[bytes]:
    ...     async with tidelog.join_async("data") as joined:
    ...         await joined.create_topic("tides")
    ...         await joined.append("tides", b"high at 06:12")
    ...         return [record.value async for record in joined.read("tides")]
    >>> with tidelog.open("data"):
    ...     asyncio.run(main())
    [b'high at 06:12']
    """
    join = partial(join_logs, path, *more, wait_ms=wait_ms)
    opened = await in_thread(join, undo=lambda it: it.close())
    async with AsyncJoinedLogs(opened) as logs:
        yield logs


class AsyncJoinedLogs(_AsyncWrites[JoinedLogs], _AsyncReadsOfFiles[JoinedLogs]):
    """The topics of a ``JoinedLogs``, for tasks of an event loop.

    Arguments and errors are those of the methods of ``JoinedLogs`` with the same names. ``logs``
    offers the rest, for ``asyncio.to_thread``: ``open``, ``follower`` and ``topic_follower``, which
    return what has methods that wait for the disk, and ``writer``, since ``append_all`` takes
    asynchronous iterables. A cancelled call takes its effect all the same, whole and once.

    ``tidelog.join_async`` joins and closes.
    """

    create_topic = twin(JoinedLogs.create_topic)
    create_partitions = twin(JoinedLogs.create_partitions)
    alter_topic = twin(JoinedLogs.alter_topic)
    delete_topic = twin(JoinedLogs.delete_topic)
    delete_records = twin(JoinedLogs.delete_records)
    append = twin(JoinedLogs.append)
    close = twin(JoinedLogs.close)

    async def append_all(
        self,
        topic: str,
        records: Iterable[GivenRecord] | AsyncIterable[GivenRecord],
        *,
        codec: Codec | str = Codec.NONE,
    ) -> int:
        """Append records in batches, as ``AsyncLogs.append_all``; return how many."""
        return await _append_all(partial(joined_writer, self.logs, topic, codec), records)


async def _append_all(
    open_writer: Callable[[], TopicWriter],
    records: Iterable[GivenRecord] | AsyncIterable[GivenRecord],
) -> int:
    check_several(records)
    writer = await in_thread(open_writer)
    chunk: list[GivenRecord] = []
    size = 0
    async for record in _iterated(records):
        chunk.append(unchanging(record))
        ahead = readable_ahead(record)
        size += ahead or 0
        if ahead is None or len(chunk) == CHUNK_ITEMS or size >= CHUNK_BYTES:
            await in_thread(partial(writer.append_all, chunk))
            chunk, size = [], 0
    await in_thread(partial(writer.append_all, chunk))
    await in_thread(writer.flush)
    return writer.records


async def _iterated(
    records: Iterable[GivenRecord] | AsyncIterable[GivenRecord],
) -> AsyncIterator[GivenRecord]:
    if isinstance(records, AsyncIterable):
        async for record in records:
            yield record
    else:
        for record in records:
            yield record


def _generated(
    read: Callable[[], Iterator[ConsumedRecord]],
) -> Generator[ConsumedRecord, None, None]:
    yield from read()


def _size(record: Record | ConsumedRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")
