"""One connection of a client: requests in, responses out in the same order.

Kafka: ``Selector``, ``NetworkReceive`` and ``SocketServer.Processor``.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.broker.client_request import Address, Peer
from tidelog.broker.dispatch import Pending, PendingLater, is_awaited
from tidelog.broker.no_room import write_no_room
from tidelog.broker.request_log import REQUEST_LOG, RequestLine
from tidelog.codec.layout import byte_view
from tidelog.codec.protocol.apis import (
    PRODUCE,
    SIZE_BYTES,
    frame_number,
    frame_size,
    size_of_frame,
)
from tidelog.env.unix_sockets import LOOKED
from tidelog.errors import TidelogError
from tidelog.lazy import np
from tidelog.records.file_records import FileSlice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.broker.room import Room
    from tidelog.codec.varint import Bytes

_BUFFER_BYTES: Final = 64 << 10
"""The size of a connection's buffer; a larger request gets one of its own."""
_WIDE_BUFFER_BYTES: Final = 512 << 10
"""The same for a client that fills it with requests: those that come together are appended as one.
"""
_COPIED_BYTES: Final = 8 << 10
"""Requests up to this size are copied out of the buffer: bytes are read faster than a part of it,
and the buffer stays free while the answer is waited for."""
_SENDFILE_BYTES: Final = 32 << 10
"""Slices below this are copied: that takes less time than a call for them alone."""
_USUAL_MEMORY: Final = 32
"""Bytes of memory that a byte of a request may take; what is above that counts as large."""
_COPY_BYTES: Final = 256 << 10
"""How much of a slice is copied where the socket takes no more."""
_LOCAL: Final = "localhost"
"""The host of a program that is connected by the socket beside the data."""
_MOST_PENDING: Final = 64
"""Responses that may be pending before no more requests are taken."""

_log = logging.getLogger(__name__)


class Answers(Protocol):
    """What answers requests: a ``Dispatcher``, or something before it."""

    def handle(self, data: Bytes, peer: Peer) -> list[Any] | Pending | None:
        """Answer a request; see ``Dispatcher.handle``."""

    def handle_together(
        self, frames: Iterator[Bytes], peer: Peer
    ) -> list[list[Any] | Pending | None]:
        """Answer one or more requests; see ``Dispatcher.handle_together``."""


class Connection(asyncio.BufferedProtocol):
    """Reads requests, and writes their responses in order. All on the event loop.

    ``room`` limits what all connections hold together; ``advertised`` is the address that this
    listener names to clients, None: the one to which they have connected.
    """

    def __init__(self, answers: Answers, room: Room, advertised: Address | None = None) -> None:
        self._answers = answers
        self._room = room
        self._advertised = advertised
        self._transport: Any = None
        self._loop = asyncio.get_running_loop()
        self._peer = Peer("", Address("", 0))
        self._usual_bytes = _BUFFER_BYTES
        # Cleared, unlike those that follow, which need NumPy: the first answers do not wait for it.
        self._buffer = memoryview(bytearray(self._usual_bytes))
        self._start = self._filled = 0
        self._waits_for_room = False
        self._is_held = False
        """Whether no request is taken: the one before must be answered first."""
        self._is_reading = True
        self._has_ended = False
        """Whether the client sends no more."""
        self._is_refused = False
        """Whether a request could not be taken: the connection ends with the answers before it."""
        self._slots: deque[_Slot] = deque()
        self._out: deque[bytes | FileSlice] = deque()
        self._is_blocked = False
        """Whether the socket takes no more at present."""
        self._unlogged: list[RequestLine] = []
        """Of the responses that the socket has not taken yet, where they are logged."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_used = 0.0
        """When bytes last moved, in either direction, in the loop's seconds."""
        self._taken_at = 0.0
        """When the next request is taken: its bytes are there, and those before it are taken."""
        self._unsent_bytes = 0
        """What the socket had not taken when that was looked at last."""

    # Coming and going

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - asyncio's or uvloop's
        """Begin; as asyncio requires."""
        self._transport = transport
        self._last_used = self._loop.time()
        remote, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        is_ip = isinstance(local, tuple)
        own = Address(local[0], local[1]) if is_ip else Address(_LOCAL, 0)
        self._peer = Peer(remote[0] if is_ip and remote else "", self._advertised or own)
        transport.set_write_buffer_limits(high=0)  # ``resume_writing`` comes when all is sent
        if not self._room.enter(self):
            self._refuse()

    def _refuse(self) -> None:
        """Close the connection, for which there is no room."""
        text = "connection-refused host=%s reason=max.connections"
        _log.warning(text, self._peer.host)
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Release what the connection holds; as asyncio requires.

        After an error, such as a reset, only once what ``eof_received`` waits for is appended.
        Source: Kafka Selector.maybeReadFromClosingChannel.
        """
        if error is not None and self._is_appending():
            self._transport, self._has_ended = _NoSocket(self), True
            self._is_blocked = False
            return
        self._room.leave(self)
        self._transport = None
        self._room.give_back(self)
        for task in tuple(self._tasks):
            task.cancel()
        for slot in self._slots:
            _release(slot.parts or ())
        _release(self._out)
        self._slots.clear()
        self._out.clear()
        self._log_sent()

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            # The transport drops what it is given from now on, and a file would be sent without it.
            _release(self._out)
            self._out.clear()
            self._transport.abort()

    def eof_received(self) -> bool:
        """Close the connection, once all records without acknowledgements are appended.

        Their client may leave as soon as it has sent them, and what has come after a request that
        holds others would be dropped. Kafka reads it from the socket once that is answered. Others
        leave when they have waited too long, and send again: what they have sent before would come
        twice, and hold room until then.
        """
        self._has_ended = True
        return self._is_appending()

    def _is_appending(self) -> bool:
        """Whether records that nobody sends again wait for their partition, or for their turn."""
        if any(slot.holds_others and not slot.is_awaited for slot in self._slots):
            return True
        return self._is_held and not all(map(is_awaited, self._frames_left()))

    def _frames_left(self) -> Iterator[memoryview]:
        """Yield the requests that are there and were not taken."""
        at = self._start
        while self._filled - at >= SIZE_BYTES:
            start, size = at + SIZE_BYTES, frame_size(self._buffer, at)
            if not 0 <= size <= min(self._filled - start, self._room.largest):
                return
            at = start + size
            yield self._buffer[start:at]

    @property
    def descriptor(self) -> int:
        """The descriptor of the socket; -1 without one."""
        transport = self._transport
        socket = None if transport is None else transport.get_extra_info("socket")
        return -1 if socket is None else int(socket.fileno())

    @property
    def host(self) -> str:
        """The host of the other end."""
        return self._peer.host

    @property
    def is_local(self) -> bool:
        """Whether the other end is a program of this machine's, by the socket beside the data."""
        return False

    def close_if_idle(self, limit_s: float) -> None:
        """Close the connection if no byte has moved for ``limit_s``, and that is not for us.

        A client waits for an answer as long as it likes; one that leaves answers unread is idle.
        """
        if self._transport is None:
            return
        now, unsent_bytes = self._loop.time(), self._transport.get_write_buffer_size()
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes, self._last_used = unsent_bytes, now
        waits_for_us = self._waits_for_room or bool(self._slots or self._out)
        if (self._is_blocked or not waits_for_us) and now - self._last_used > limit_s:
            self.close()

    # Requests

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it
        """Return where to read to; as asyncio requires."""
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take the requests that are there; as asyncio requires."""
        self._filled += nbytes
        self._take_requests()

    def _take_requests(self) -> None:
        self._last_used = self._taken_at = self._loop.time()
        try:
            # Of a client that leaves its answers unread nothing more is taken: a few bytes of
            # requests would hold any number of answers and open files.
            while (
                self._start < self._filled
                and not (self._is_held or self._is_blocked)
                and self._transport is not None
            ):
                frame = self._next_frame()
                if frame is None:
                    break
                self._take(frame)
                if len(self._out) >= _MOST_PENDING:
                    self._pump()
        except TidelogError as error:
            if self._room.lines.is_due(self._peer.host, str(error)):
                _log.warning("connection-closed host=%s reason=%s", self._peer.host, error)
            self._room.counts.closed += 1
            self._refuse_more()
        except Exception:  # noqa: BLE001 - a fault met by one client must not stop the others
            _log.exception("connection-closed host=%s", self._peer.host)
            self._refuse_more()
        self._pump()
        self._read_or_pause()

    def _refuse_more(self) -> None:
        """Drop the request that is wrong, and what follows it; those before it are answered.

        Their clients would send again what is in the log by then.
        """
        self._is_refused = True
        self._start = self._filled

    def _next_frame(self) -> bytes | memoryview | None:
        """Return the next request, without its size; None: it is not there in full."""
        there = self._filled - self._start
        if there < SIZE_BYTES:
            self._compact(SIZE_BYTES)
            return None
        size = frame_size(self._buffer, self._start)
        self._room.check(size)
        if there < SIZE_BYTES + size:
            self._compact(SIZE_BYTES + size)
            return None
        start = self._start + SIZE_BYTES
        self._start = start + size
        return _owned(self._buffer[start : self._start])

    def _compact(self, needed: int) -> None:
        """Make room in the buffer for a request of ``needed`` bytes, its size included."""
        if self._start + needed <= len(self._buffer):
            return
        there = self._filled - self._start
        target = self._buffer
        # Not for a part of a request alone, which is to wait for room as all large ones do; nor for
        # small ones: other clients wait until all that are in the buffer are answered.
        is_full = self._start and self._filled == len(target) == _BUFFER_BYTES
        if is_full and needed > _BUFFER_BYTES // _MOST_PENDING and self._room.widen(self):
            self._usual_bytes = _WIDE_BUFFER_BYTES
        if len(target) < self._usual_bytes and needed <= self._usual_bytes:
            target = _new_buffer(self._usual_bytes)
        elif needed > len(target):
            # Only for a client that has filled this buffer: a few bytes that announce a large
            # request would keep others from bringing theirs.
            if there == len(target):
                if not self._room.take(self, needed, self._room_is_free):
                    self._waits_for_room = True  # nothing more is read
                    return
                target = _new_buffer(needed)
            elif not self._start:
                return
        # Of the same buffer, a slice is moved as memmove does.
        target[:there] = self._buffer[self._start : self._filled]
        self._buffer, self._start, self._filled = target, 0, there

    def _room_is_free(self) -> None:
        self._waits_for_room = False
        if self._transport is not None:
            self._take_requests()

    def _drop_large_buffer(self) -> None:
        """Return to a buffer of the usual size: a large one ends where its request does."""
        size = len(self._buffer)
        if size > self._usual_bytes and self._start == self._filled:
            # Where one such request has come, more will: a wide buffer takes each with one read.
            if size <= _WIDE_BUFFER_BYTES and self._room.widen(self):
                self._usual_bytes = _WIDE_BUFFER_BYTES
            self._detach_buffer()
            self._room.give_back(self)

    def _detach_buffer(self) -> None:
        """Leave the buffer to the request that is being answered, and continue with another."""
        rest = self._buffer[self._start : self._filled]
        self._buffer = _new_buffer(max(self._usual_bytes, len(rest)))
        self._buffer[: len(rest)] = rest
        self._start, self._filled = 0, len(rest)

    def _read_or_pause(self) -> None:
        if self._transport is None:
            return
        if self._start == self._filled:
            self._start = self._filled = 0
        is_free = not (self._waits_for_room or self._is_refused)
        wants = self._filled < len(self._buffer) and is_free
        if wants != self._is_reading:
            self._is_reading = wants
            (self._transport.resume_reading if wants else self._transport.pause_reading)()

    def _take(self, frame: bytes | memoryview) -> None:
        """Take a request, and those after it that are handled together with it."""
        start, frames = self._taken_at, [frame]
        if self._start < self._filled and frame_number(frame) == PRODUCE:
            answers = self._answers.handle_together(self._gathered(frames), self._peer)
            self._start += sum(SIZE_BYTES + len(one) for one in frames[1 : len(answers)])
        else:
            answers = [self._answers.handle(frame, self._peer)]
        now = self._taken_at = self._loop.time()
        for one, answer in zip(frames, answers, strict=False):  # the others have their turn later
            self._taken(one, answer, start, now)

    def _gathered(self, frames: list[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        """Yield the first of ``frames``, and add and yield what has come after it."""
        yield frames[0]
        for frame in islice(self._frames_left(), _MOST_PENDING - len(self._slots) - 1):
            frames.append(_owned(frame))
            yield frames[-1]

    def _taken(
        self,
        frame: bytes | memoryview,
        answer: list[Any] | Pending | None,
        start: float,
        now: float,
    ) -> None:
        """Send the answer to a request, at once or when it is there."""
        number, line = frame_number(frame), None
        if REQUEST_LOG.isEnabledFor(logging.DEBUG):
            line = RequestLine(frame, self._peer.host, start, now)
        if isinstance(answer, Pending):
            slot = _Slot(number, start, now, line, holds_others=answer.holds_others)
            slot.is_awaited = answer.is_awaited
            self._slots.append(slot)
            self._is_held |= answer.holds_others or len(self._slots) >= _MOST_PENDING
            more_bytes = max(answer.size_bytes - _USUAL_MEMORY * len(frame), 0)
            if isinstance(answer, PendingLater):
                self._drop_large_buffer()
                free = self._room.answering(self, more_bytes) if more_bytes else None
                answer.notify(partial(self._answered, slot, free))
                return
            if isinstance(frame, memoryview):
                self._detach_buffer()
            free = self._room.answering(self, more_bytes)
            task = self._loop.create_task(self._finish(slot, answer))
            self._tasks.add(task)
            task.add_done_callback(partial(self._let_go, answer, free))
            return
        self._drop_large_buffer()
        self._room.counts.answered(number, now - start)
        if self._slots and answer is not None:
            self._slots.append(_Slot(number, start, now, line, parts=answer, is_done=True))
            self._is_held |= len(self._slots) >= _MOST_PENDING
        else:
            self._add(answer, line)

    def _let_go(self, answer: Pending, free: Callable[[], None], task: asyncio.Task[None]) -> None:
        """Release what an answer has held, once its task has ended."""
        self._tasks.discard(task)
        answer.close()  # of a task that was cancelled before it began, that is still to do
        free()

    async def _finish(self, slot: _Slot, pending: Pending) -> None:
        parts, failed = None, None
        try:
            parts = await pending.parts()
        except Exception as error:  # noqa: BLE001 - as above
            failed = error
        self._answered(slot, None, parts, failed)

    def _answered(
        self,
        slot: _Slot,
        free: Callable[[], None] | None,
        parts: list[Any] | None,
        error: BaseException | None,
    ) -> None:
        """Take a response, or the error instead of it, and send what is due; ``free`` room."""
        if free is not None:
            free()
        if error is not None:
            if isinstance(error, TidelogError):
                _log.warning("connection-closed host=%s reason=%s", self._peer.host, error)
            elif not isinstance(error, asyncio.CancelledError):  # the broker is closing
                _log.error("request-failed host=%s", self._peer.host, exc_info=error)
            self.close()
            return
        if self._transport is None:
            _release(parts or ())
            return
        slot.parts, slot.is_done = parts, True
        now = self._loop.time()
        self._room.counts.answered(slot.number, now - slot.start, now - slot.waits_from)
        if slot.line is not None:
            slot.line.answered(now)
        try:
            while self._slots and self._slots[0].is_done:
                done = self._slots.popleft()
                self._add(done.parts, done.line)
        except (OSError, TidelogError) as caught:
            self._close_for(caught)
            return
        self._pump()
        self._take_held()

    def _take_held(self) -> None:
        """Take the requests that an answer has held, and close what its client has left."""
        if self._is_held and len(self._slots) < _MOST_PENDING:
            self._is_held = any(one.holds_others for one in self._slots)
            if not self._is_held:
                self._take_requests()
        if self._has_ended and not self._is_appending():
            self.close()

    # Responses

    def _add(self, parts: list[Any] | None, line: RequestLine | None) -> None:
        """Add a response to what is to be sent; all that come together take one call.

        None: the client expects none. Raises OSError, TidelogError where a file cannot be read:
        then nothing was added.
        """
        if line is not None:
            line.begin(parts, self._loop.time())
            self._unlogged.append(line)
        if parts is None:
            return
        small: list[bytes] = [size_of_frame(parts)]
        found: list[bytes | FileSlice] = []
        try:
            for part in parts:
                if not isinstance(part, FileSlice):
                    small.append(part)
                elif part.size < _SENDFILE_BYTES:
                    with part:
                        small.append(_whole(part))
                else:
                    found += (b"".join(small), part)
                    small = []
        except BaseException:
            _release(parts)
            raise
        if small:
            found.append(b"".join(small))
        self._out += found

    def _pump(self) -> None:
        """Send as much as the socket takes; the rest follows when it takes more."""
        out = self._out
        try:
            while out and not self._is_blocked:
                part = out[0]
                if not isinstance(part, FileSlice):
                    self._transport.write(self._next_bytes())
                elif self._send_file(part):
                    out.popleft()
                    part.close()
        except (OSError, TidelogError) as error:
            # The client waits for as many bytes as the response has said: there is no way back.
            self._close_for(error)
        if self._unlogged and not out and not self._is_blocked:
            self._log_sent()
        if self._is_refused and not (self._slots or out or self._is_blocked):
            self.close()

    def _log_sent(self) -> None:
        now = self._loop.time()
        unlogged, self._unlogged = self._unlogged, []
        for line in unlogged:
            line.write(now)

    def _close_for(self, error: Exception) -> None:
        _log.warning("connection-closed host=%s reason=%s", self._peer.host, error)
        self.close()

    def _next_bytes(self) -> bytes:
        """Return what is to be sent up to the next slice."""
        out = self._out
        first = out.popleft()
        assert not isinstance(first, FileSlice)
        if not out or isinstance(out[0], FileSlice):
            return first
        found = [first]
        while out and not isinstance(out[0], FileSlice):
            found.append(out.popleft())  # type: ignore[arg-type]  # it was looked at
        return b"".join(found)

    def _send_file(self, part: FileSlice) -> bool:
        """Send of a slice what the socket takes; return whether that was all of it."""
        socket = self._transport.get_extra_info("socket")
        if socket is not None:
            with suppress(BlockingIOError):
                sent = os.sendfile(socket.fileno(), part.fileno(), part.position, part.size)
                if not sent:
                    raise TidelogError(f"{part.file.path} has become shorter")
                part.skip(sent)
        if part.size and not self._is_blocked:
            data = part.file.pread(min(part.size, _COPY_BYTES), part.position)
            if not data:
                raise TidelogError(f"{part.file.path} has become shorter")
            part.skip(len(data))
            self._transport.write(data)
        return not part.size

    def pause_writing(self) -> None:
        """Stop sending; as asyncio requires."""
        self._is_blocked = True

    def resume_writing(self) -> None:
        """Continue to send; as asyncio requires."""
        self._is_blocked = False
        self._pump()
        self._take_requests()


class LocalConnection(Connection):
    """A connection of a program of this machine's.

    One on which nothing is sent is a ring, as ``ring_in`` makes; ``look`` answers it, as
    ``BackgroundTasks.answer_mail``.
    """

    def __init__(
        self,
        answers: Answers,
        room: Room,
        look: Callable[[Callable[[], None], Callable[[], None]], None],
    ) -> None:
        super().__init__(answers, room)
        self._look = look
        self._is_asked = False

    @property
    def is_local(self) -> bool:
        """Whether the other end is a program of this machine's: it is."""
        return True

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - asyncio's or uvloop's
        """Begin; as asyncio requires."""
        super().connection_made(transport)
        self._peer = self._peer._replace(host=_LOCAL, held={})

    def _refuse(self) -> None:
        """Say so, and close; it may be a ring all the same."""
        most = self._room.most_joined
        if self._room.is_full_of_joined_anew():
            text = "connection-refused host=%s reason=tidelog.max.joined.connections is %d"
            _log.warning(text, _LOCAL, most)
        self._transport.write(write_no_room(most))
        self._transport.close()
        self._look(lambda: None, lambda: None)

    def close_if_idle(self, limit_s: float) -> None:
        """Close the connection as ``Connection`` does, unless the other end has something by it.

        A reader of a group that processes for long what it has read would lose its partitions.
        """
        if not self._peer.held:
            super().close_if_idle(limit_s)

    def connection_lost(self, error: Exception | None) -> None:
        """Release what the other end had; as asyncio requires."""
        super().connection_lost(error)
        for release in (self._peer.held or {}).values():
            release()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the requests that are there; as asyncio requires."""
        self._is_asked = True
        super().buffer_updated(nbytes)

    def eof_received(self) -> bool:
        """Close the connection, or look first."""
        if self._is_asked:
            return super().eof_received()
        self._look(partial(self._soon, self._say_looked), partial(self._soon, self.close))
        return True

    def _soon(self, task: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(task)

    def _say_looked(self) -> None:
        # Who asked may be gone by now, and the connection with them.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(LOOKED)


class _NoSocket:
    """In place of the transport of a socket that is broken: nothing is sent, and nothing comes."""

    def __init__(self, protocol: Connection) -> None:
        self._protocol = protocol

    def get_extra_info(self, name: str) -> None:
        """Return nothing: there is no socket."""

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are still to be sent."""
        return 0

    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return True

    def write(self, data: bytes) -> None:
        """Drop what nobody receives."""

    def pause_reading(self) -> None:
        """Continue to read nothing."""

    resume_reading = pause_reading

    def abort(self) -> None:
        """End the connection."""
        self._protocol.connection_lost(None)


class _Slot:
    """A response that is to be sent after those before it."""

    __slots__ = (
        *("holds_others", "is_awaited", "is_done", "line"),
        *("number", "parts", "start", "waits_from"),
    )

    def __init__(
        self,
        number: int,
        start: float,
        waits_from: float,
        line: RequestLine | None,
        *,
        parts: list[Any] | None = None,
        is_done: bool = False,
        holds_others: bool = False,
    ) -> None:
        self.number = number
        self.start = start
        self.waits_from = waits_from
        self.line = line
        self.parts = parts
        self.is_done = is_done
        self.holds_others = holds_others
        self.is_awaited = True


def _owned(frame: memoryview) -> bytes | memoryview:
    """Return a request as it is handled: as a part of the buffer, or a copy of it."""
    return bytes(frame) if len(frame) <= _COPIED_BYTES else frame


def _new_buffer(size: int) -> memoryview:
    """Return a buffer that holds anything at first: to clear it takes as long as to fill it."""
    return byte_view(np.empty(size, np.uint8))


def _whole(part: FileSlice) -> bytes:
    data = part.read()
    if len(data) < part.size:
        raise TidelogError(f"{part.file.path} has become shorter")
    return data


def _release(parts: Any) -> None:  # noqa: ANN401 - any parts of responses
    for part in parts:
        if isinstance(part, FileSlice):
            part.close()
