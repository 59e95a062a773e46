"""The disk of the code in the words of the model; see ``tests.machinery.model.staged_state``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from tests.machinery.model.conformance import Seen
from tests.machinery.model.directory import TORN
from tests.machinery.model.staged_state import Journal, Known, Log, Move
from tests.machinery.model.staged_waiter import DATA

from tidelog.codec.checkpoint_file import TEMPORARY_SUFFIX
from tidelog.codec.crc32c import crc32c
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.datadir.lock_file import LOCK_FILE
from tidelog.mailbox.letter import State
from tidelog.records.batch import BATCH_HEADER
from tidelog.segment.filenames import log_file
from tidelog.service.requests.request import REQUESTS
from tidelog.staging.finished import FINISHED_FILE
from tidelog.staging.journal_names import is_journal_name
from tidelog.staging.manifest_names import MANIFESTS
from tidelog.testing.disk import DirectoryNode, FileNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.machinery.model.staged_state import Scenario

    from tidelog.testing.crash_files import CrashFileSystem
    from tidelog.testing.disk import Node

WATERMARKS: Final = "replication-offset-checkpoint"
TOPIC: Final = "t"
_LOG_FILE: Final = log_file("", 0).lstrip("/")
_LENGTH_FROM: Final = BATCH_HEADER.offsets["leader_epoch"]
_CRC_FROM: Final = BATCH_HEADER.offsets["attributes"]
_VALUE: Final = re.compile(rb"<([^ >]*) (\d+)>")


def value_of(txn: str, number: int) -> bytes:
    """Return the value of the only record of a batch."""
    return b"<%s %d>" % (txn.encode(), number)


class Abstraction:
    """What is to be seen of the directory ``/data`` of a disk.

    ``staged`` are the staged files whose writing has ended: by name, the attempt and the bytes.
    """

    def __init__(self, fs: CrashFileSystem, scenario: Scenario) -> None:
        self.staged: Final[dict[str, tuple[int, bytes]]] = {}
        self.done: Final[set[int]] = set()
        """The requests whose topics were there at some time."""
        self._fs = fs
        self._scenario = scenario
        self._stems: dict[str, int] = {}
        self._logs: dict[bytes, tuple[tuple[str, int], ...]] = {}

    def seen(self, holder: int | None) -> Seen:
        """Return what is to be seen now."""
        home = self._directory("data")
        names, durable = self._names(home.entries), self._names(home.durable)
        unsynced = {
            f"staged.{self.staged[name][0]}"
            for name, node in home.entries.items()
            if name in self.staged and isinstance(node, FileNode) and not node.is_synced
        }
        logs = tuple(self._log(partition) for partition in self._scenario.partitions)
        catalogue = home.entries.get(CATALOGUE_FILE)
        if isinstance(catalogue, FileNode):
            topics = {one["name"] for one in json.loads(bytes(catalogue.content))["topics"]}
            attempts = enumerate(self._scenario.attempts)
            self.done.update(n for n, one in attempts if one.is_request and one.id in topics)
        return Seen(holder, names, durable, frozenset(unsynced), logs, frozenset(self.done))

    def lock(self) -> object:
        """Return the lock that is held on the directory."""
        file = self._directory("data").entries.get(LOCK_FILE)
        assert not isinstance(file, DirectoryNode)
        return None if file is None else self._fs._locked.get(file)

    def _directory(self, name: str) -> DirectoryNode:
        node = self._fs._disk.root.entries[name]
        assert isinstance(node, DirectoryNode)
        return node

    def _names(self, entries: Mapping[str, Node]) -> frozenset[tuple[str, Any]]:
        found = dict(self._named(entries))
        found.setdefault("watermarks", (None,) * len(self._scenario.partitions))
        return frozenset(found.items())

    def _named(self, entries: Mapping[str, Node]) -> Iterator[tuple[str, Any]]:
        for name, node in entries.items():
            if isinstance(node, DirectoryNode) or name.endswith(TEMPORARY_SUFFIX):
                continue
            content = bytes(node.content)
            if name in self.staged:
                number, data = self.staged[name]
                yield f"staged.{number}", DATA if content == data else TORN
            elif is_journal_name(name):
                yield self._journal(content)
            elif name == WATERMARKS:
                yield "watermarks", self._watermarks(content)
            elif name == FINISHED_FILE:
                yield "finished", self._finished(content)
            elif MANIFESTS.find([name]):
                yield self._manifest(name, content)
            elif REQUESTS.find([name]):
                yield self._request(name, content)

    def _journal(self, content: bytes) -> tuple[str, Any]:
        found = json.loads(content)
        attempts = {self.staged[move["run"]["name"]][0] for move in found["moves"]}
        (number,) = attempts
        moves = [
            Move(move["run"]["partition"], move["baseOffset"], move["firstBatch"])
            for move in found["moves"]
        ]
        name = f"journal.{self._scenario.attempts[number].id}"
        return name, Journal(number, tuple(sorted(moves)))

    def _watermarks(self, content: bytes) -> tuple[int | None, ...]:
        lines = [line.split() for line in content.decode().splitlines()[2:]]
        marks = {int(line[1]): int(line[2]) for line in lines if line[0] == TOPIC}
        return tuple(marks.get(partition) for partition in self._scenario.partitions)

    @staticmethod
    def _finished(content: bytes) -> tuple[Known, ...]:
        known = []
        for one in json.loads(content)["transactions"]:
            stream = one.get("stream")
            if stream is None:
                known.append(Known(one["txn"], 0))
            else:
                known.append(Known(stream["queryId"], stream["batchId"]))
        return tuple(sorted(known))

    def _manifest(self, name: str, content: bytes) -> tuple[str, Any]:
        stem, _, state = name.rpartition(".")
        if stem not in self._stems:
            runs = json.loads(content)["transaction"]["runs"]
            self._stems[stem] = self.staged[runs[0]["name"]][0]
        return f"{state}.{self._stems[stem]}", True

    def _request(self, name: str, content: bytes) -> tuple[str, Any]:
        """Return a request by the name of the same state of a manifest, with what it answers."""
        ((stem, states),) = REQUESTS.find([name]).items()
        (state,) = states
        found = json.loads(content)
        if stem not in self._stems:
            ids = [attempt.id for attempt in self._scenario.attempts]
            self._stems[stem] = ids.index(found["arguments"]["topic"])
        is_answer = state is State.ANSWERED
        suffix = MANIFESTS.suffixes[state].removeprefix(".")
        return f"{suffix}.{self._stems[stem]}", not is_answer or not found["error"]

    def _log(self, partition: int) -> Log:
        directory = self._directory("data").entries.get(f"{TOPIC}-{partition}")
        batches: tuple[tuple[str, int], ...] = ()
        durable: tuple[tuple[str, int], ...] = ()
        if isinstance(directory, DirectoryNode):
            file = directory.entries.get(_LOG_FILE)
            assert isinstance(file, FileNode)
            batches = self._batches(bytes(file.content))
            durable = self._batches(bytes(file._durable))
        assert batches[: len(durable)] == durable
        return Log(batches, len(durable))

    def _batches(self, content: bytes) -> tuple[tuple[str, int], ...]:
        """Return the batches up to the first one that is not whole."""
        found = self._logs.get(content)
        if found is None:
            matches = _VALUE.findall(content[: _valid_bytes(content)])
            found = tuple((txn.decode(), int(number)) for txn, number in matches)
            self._logs[content] = found
        return found


def _valid_bytes(content: bytes) -> int:
    """Return the size of the whole batches that a log begins with."""
    position = 0
    while position + BATCH_HEADER.size <= len(content):
        header = BATCH_HEADER.unpack(content, position)
        end = position + _LENGTH_FROM + header.length
        checked = content[position + _CRC_FROM : end]
        if header.length <= 0 or end > len(content) or crc32c(checked) != header.crc:
            break
        position = end
    return position
