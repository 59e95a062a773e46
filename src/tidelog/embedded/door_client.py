"""A client of the process that holds a data directory, through its socket, in Kafka's protocol."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from tidelog.broker.client_request import Refusal
from tidelog.broker.no_room import read_no_room
from tidelog.codec.protocol.apis import (
    SIZE_BYTES,
    api_named,
    frame_size,
    read_response_header,
    size_of_frame,
)
from tidelog.datadir.lock_file import writer_of
from tidelog.embedded.lock_wait import once_served
from tidelog.env.forks import OfOneProcess, close_inherited
from tidelog.env.unix_sockets import connect_in
from tidelog.env.waiting import sleep_ms
from tidelog.error_codes import ErrorCode
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    InvalidConfig,
    InvalidPartitions,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    NotServed,
    OutcomeUnknown,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tidelog.log.directory_guard import is_interrupt

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from tidelog.codec.protocol.apis import Api
    from tidelog.env.machine import Machine

T = TypeVar("T")

TIMEOUT_S: Final = 60.0
"""How long an answer may take; a flush of a slow disk takes seconds."""
CLIENT_ID: Final = "tidelog-join"
_PAUSES_MS: Final = (0, 50, 100, 200, 400, 800)
"""Where there is no room it is tried again: it is noticed late that others have left."""
RETRY_FOR_MS: Final = 45_000
"""How long what is answered with a retriable error is asked again."""
_CHANGES_NOTHING: Final = frozenset(
    {
        *("DescribeConfigs", "DescribeGroups", "DescribeLogDirs", "DescribeProducers"),
        *("ListGroups", "ListOffsets", "OffsetFetch"),
        "JoinGroup",  # a reader has its group no longer than its connection lives
    }
)
_CLASSES: Final = {
    one.code: one
    for one in (
        *(CorruptMessage, InvalidPartitions, InvalidRecord, InvalidTimestamp, InvalidTopic),
        *(KafkaStorageError, PolicyViolation, TopicAlreadyExists, UnknownTopicOrPartition),
    )
}


def check_answer(answer: Mapping[str, Any]) -> None:
    """Raise the error that an answer, or a part of it, names; nothing if it names none."""
    if answer.get("errorCode"):
        raise _error_of(answer["errorCode"], answer.get("errorMessage"))


def retried(machine: Machine, act: Callable[[], T], passing: type[KafkaError]) -> T:
    """Act until no retriable error of a class is raised, or for too long."""
    return once_served(
        act,
        RETRY_FOR_MS,
        clock=machine.clock,
        sleep_ms=machine.sleep_ms,
        may_pass=lambda error: isinstance(error, passing) and error.code.retriable,
    )


def _error_of(code: int, reason: str | None) -> KafkaError:
    """Return the error that a response names: of the class that the holder itself would raise."""
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.UNKNOWN_SERVER_ERROR
    text = reason or known.name.lower().replace("_", " ")
    if known is ErrorCode.INVALID_CONFIG:
        return InvalidConfig((text.removeprefix("invalid configuration: "),))
    kind = _CLASSES.get(known)
    return Refusal(known, text) if kind is None else kind(text)


class DoorClient(OfOneProcess):
    """Asks the process that holds a data directory. Any thread may use it, one at a time.

    It connects when it is first used, and again when the process was restarted.
    ``_lock`` guards the connection.
    """

    held_as: ClassVar[str | None] = "JoinedLogs"

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self._lock: Final = Lock()
        self._socket: socket.socket | None = None
        self._is_closed = False
        self._numbers = count(1)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, for good."""
        return self._is_closed

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, which the other end may have closed since."""
        return self._socket is not None

    def connect(self) -> None:
        """Connect now, if there is no connection; raise NotServed, InvalidArgument as ``ask``."""
        with self._lock:
            self.check_open()
            self._connected()

    def close(self) -> None:
        """Close the connection, for good."""
        if not self.is_inherited:
            with self._lock:
                self._is_closed = True
                self._drop()

    def after_fork(self, parent: int) -> None:
        """Close the copy of the connection, in a forked child: the parent's could not end.

        The process that answers would keep what it has for the connection, such as a group.
        """
        if not self.is_inherited and self._socket is not None:
            close_inherited([self._socket.fileno()])
        super().after_fork(parent)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, name: str, version: int, **values: Any) -> dict[str, Any]:  # noqa: ANN401 - fields
        """Return the fields of the answer to a request.

        Raises:
            InvalidArgument: this is closed.
            NotServed: no process listens for this directory, too many have joined the one that
                does, or it did not answer a request that changes nothing.
            OutcomeUnknown: the process has ended, or took too long, after it may have heard of one
                that changes something.
            KafkaError: the answer as a whole is an error.
        """
        api = api_named(name)
        number = next(self._numbers)
        parts = [api.request_header(version, number, CLIENT_ID)]
        parts += api.write_request(version, values)
        request = size_of_frame(parts) + b"".join(parts)
        with self._lock:
            self.check_open()
            data = self._exchange(name, request)
        answer = self._read(api, version, data, number)
        check_answer(answer)
        return answer

    def _exchange(self, name: str, request: bytes) -> bytes:
        for is_last in (False, True):
            is_new, sent = self._socket is None, -1
            connection = self._connected()
            try:
                sent = connection.send(request)
                connection.sendall(request[sent:])
                return _received(connection)
            except BaseException as error:
                # Also after an interrupt: the next request would continue the one that it has cut.
                self._drop()
                if not isinstance(error, (OSError, EOFError)):
                    raise
                if isinstance(error, OSError) and sent < 0 and not is_interrupt(error):
                    # Nothing of it was sent: a connection to a process that has ended since.
                    if is_new or is_last:
                        raise _not_served(self._path, error) from error
                    continue
                text = f"the process that holds {self._path} did not answer {name}: {error}"
                if name in _CHANGES_NOTHING:
                    raise NotServed(self._path, text) from error
                raise OutcomeUnknown(f"{text}; it may have been carried out") from error
        raise AssertionError("the loop ends in one of its rounds")

    def check_open(self) -> None:
        """Raise InvalidArgument if this is closed."""
        if self._is_closed:
            raise InvalidArgument(f"the joined logs of {self._path} are closed")

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = self._opened()
        return self._socket

    def _opened(self) -> socket.socket:
        """Return a connection on which a first small request was answered."""
        refused = ""
        for pause_ms in _PAUSES_MS:
            sleep_ms(pause_ms)
            try:
                found = connect_in(self._path, TIMEOUT_S)
            except OSError as error:
                raise _not_served(self._path, error) from error
            if found is None:
                raise NotServed(self._path)
            try:
                said = _greeted(found)
            except BaseException as error:
                found.close()
                if not isinstance(error, (OSError, EOFError)):
                    raise
                text = f"the process that holds {self._path} did not answer: {error}"
                raise NotServed(self._path, text) from error
            if said is None:
                return found
            found.close()
            refused = f"the process that holds {self._path} {said}"
        raise NotServed(self._path, refused)

    def _read(self, api: Api, version: int, data: bytes, number: int) -> dict[str, Any]:
        found, at = read_response_header(api, version, data)
        if found != number:
            with suppress(OSError), self._lock:
                self._drop()
            raise OutcomeUnknown(f"the answer to {api} is that to another request")
        return api.read_response(version, data, at)


def _not_served(path: str, error: OSError) -> NotServed:
    """Return why a directory cannot be joined, though another user's process may have it open."""
    is_socket = error.filename is None  # else a file on the way to the socket may not be read
    if not isinstance(error, PermissionError) or not is_socket:
        return NotServed(path)
    pid = writer_of(path)
    who = f"process {pid}" if pid else "a process of another user"
    return NotServed(
        path,
        f"{who} has {path} open, but its socket may be opened by its own user only: run this as"
        " that user",
    )


def _greeted(connection: socket.socket) -> str | None:
    """Ask what every broker answers; return what was said instead by one that has no room."""
    api = api_named("ApiVersions")
    parts = [api.request_header(0, 0, CLIENT_ID), *api.write_request(0, {})]
    with suppress(BrokenPipeError, ConnectionResetError):  # it may have said so, and closed
        connection.sendall(size_of_frame(parts) + b"".join(parts))
    return read_no_room(_received(connection))


def _received(connection: socket.socket) -> bytes:
    """Return the next response, without its size; EOFError where the connection ends before."""
    return _exactly(connection, frame_size(_exactly(connection, SIZE_BYTES), 0))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError("the connection was closed")
        data += part
    return bytes(data)
