"""The journal of a commit, ``tidelog.<hash of txn>.intent``: what is to be applied, and where.

Once it is durable the transaction is committed. It holds all that a replay needs to make the same
bytes again, and is deleted when everything is in the logs.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.checkpoint_file import MAX_FILE_BYTES, replace_file
from tidelog.codec.uuid_text import format_uuid, parse_uuid
from tidelog.datadir.birth import OF_OLDER_TOPICS, read_birth
from tidelog.datadir.versioned_file import read_versioned
from tidelog.errors import CorruptFile, KafkaStorageError
from tidelog.records.batch import NO_TIMESTAMP
from tidelog.segment.filenames import check_topic_name
from tidelog.staging.group_step import group_partition
from tidelog.staging.journal_names import JOURNAL_SUFFIX, list_journals
from tidelog.staging.staged_file import attempt_of, is_attempt, transaction_hash
from tidelog.staging.staged_run import Placement, StagedRun
from tidelog.staging.stream_batch import StreamBatch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.staging.group_step import GroupPartition

JOURNAL_VERSION: Final = 5
"""The newest form: 2 may name the batch of a stream; 3 names topic ids and attempts; 4 has birth
values of new topics, 5 positions of groups."""
_WITH_IDS: Final = 3


def journal_name(txn: str) -> str:
    """Return the name of a transaction's journal."""
    return f"tidelog.{transaction_hash(txn)}{JOURNAL_SUFFIX}"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that a commit creates, whole in its own data directory.

    ``birth``: its birth values; a file of an older release has those of an older topic.
    """

    name: str
    topic_id: UUID
    partitions: int
    config: Mapping[str, str]
    birth: Mapping[str, str] = field(default_factory=lambda: OF_OLDER_TOPICS)

    def as_json(self) -> dict[str, Any]:
        """Return the topic's entry in a journal."""
        return {
            "name": self.name,
            "id": format_uuid(self.topic_id),
            "partitions": self.partitions,
            "config": dict(self.config),
            "birth": dict(self.birth),
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> NewTopic:
        """Read an entry; raise KeyError, TypeError, ValueError or InvalidTopic for another form."""
        check_topic_name(entry["name"])
        config = {str(name): str(value) for name, value in entry["config"].items()}
        birth = read_birth(entry.get("birth", OF_OLDER_TOPICS))
        return cls(entry["name"], parse_uuid(entry["id"]), int(entry["partitions"]), config, birth)


@dataclass(frozen=True, slots=True)
class Move:
    """One run on its way into a log: the batches from ``first_batch`` on, and their offsets.

    ``records`` are those of these batches. ``is_stamped``: they get the journal's time.
    ``is_adopted``: the run's file becomes a segment; once it has, it is gone from where it was.
    """

    topic_id: UUID
    run: StagedRun
    base_offset: int
    leader_epoch: int
    records: int
    is_stamped: bool
    first_batch: int = 0
    is_adopted: bool = False

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.run.topic, self.run.partition

    @property
    def end_offset(self) -> int:
        """Offset after the last record."""
        if self.run.keeps_offsets:
            return self.run.next_offset
        return self.base_offset + self.records

    def as_json(self) -> dict[str, Any]:
        """Return the move's entry in a journal."""
        return {
            "topicId": format_uuid(self.topic_id),
            "baseOffset": self.base_offset,
            "leaderEpoch": self.leader_epoch,
            "firstBatch": self.first_batch,
            "records": self.records,
            "stamped": self.is_stamped,
            "adopted": self.is_adopted,
            "run": self.run.as_json(),
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Move:
        """Read an entry; raise KeyError, TypeError, ValueError or InvalidTopic for another form."""
        numbers = [entry[name] for name in ("baseOffset", "leaderEpoch", "records", "firstBatch")]
        if not all(isinstance(number, int) and number >= 0 for number in numbers):
            raise ValueError(f"{numbers} are not offsets, epochs and counts")
        base_offset, leader_epoch, records, first_batch = numbers
        return cls(
            parse_uuid(entry["topicId"]),
            StagedRun.from_json(entry["run"]),
            base_offset,
            leader_epoch,
            records,
            bool(entry["stamped"]),
            first_batch,
            bool(entry.get("adopted", False)),
        )


@dataclass(frozen=True, slots=True)
class Journal:
    """A committed transaction that may not be in the logs yet.

    ``time_ms`` is when it was committed; LogAppendTime batches get it. ``records`` counts by topic
    what the transaction wrote, also of topics that were deleted since. ``is_named``: the user chose
    ``txn`` and may repeat it. ``stream``: it is a batch of a stream. ``ids``: the topics of
    ``records``, as far as a journal of an earlier release shows them. ``attempts``: those that
    staged its files, also the files that ``moves`` no longer names. ``positions``: whose positions
    are among its records.
    """

    txn: str
    is_named: bool
    time_ms: int
    records: Mapping[str, int]
    topics: tuple[NewTopic, ...]
    moves: tuple[Move, ...]
    stream: StreamBatch | None = None
    ids: Mapping[str, UUID] = field(default_factory=dict)
    attempts: frozenset[str] = frozenset()
    positions: tuple[GroupPartition, ...] = ()
    _by_key: dict[tuple[str, int], list[Move]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_key: dict[tuple[str, int], list[Move]] = {}
        for move in self.moves:
            by_key.setdefault(move.key, []).append(move)
        object.__setattr__(self, "_by_key", by_key)

    @property
    def name(self) -> str:
        """The file's name."""
        return journal_name(self.txn)

    @property
    def keys(self) -> list[tuple[str, int]]:
        """The partitions that it writes, sorted."""
        return sorted(self._by_key)

    @property
    def topic_ids(self) -> set[UUID]:
        """The topics that it writes or creates."""
        return {topic.topic_id for topic in self.topics} | {move.topic_id for move in self.moves}

    @property
    def files(self) -> set[str]:
        """The staged files that it still needs."""
        return {move.run.name for move in self.moves}

    def moves_of(self, key: tuple[str, int]) -> list[Move]:
        """Return the moves of a partition, in order."""
        return list(self._by_key.get(key, ()))

    def base_offset(self, key: tuple[str, int]) -> int:
        """Return where the first move into a partition begins."""
        return min(move.base_offset for move in self.moves_of(key))

    def placement(self, move: Move) -> Placement:
        """Return what the batches of a move get."""
        time_ms = self.time_ms if move.is_stamped else NO_TIMESTAMP
        return Placement(move.first_batch, move.base_offset, move.leader_epoch, time_ms)

    def replacing(self, key: tuple[str, int], moves: list[Move]) -> Journal:
        """Return the journal with other moves of one partition."""
        others = tuple(move for move in self.moves if move.key != key)
        return replace(self, moves=(*others, *moves))

    def without(self, keys: Collection[tuple[str, int]]) -> Journal:
        """Return the journal without what it does to some partitions."""
        return replace(self, moves=tuple(move for move in self.moves if move.key not in keys))

    def without_topic(self, topic_id: UUID) -> Journal:
        """Return the journal without what it does to one topic."""
        return replace(
            self,
            topics=tuple(topic for topic in self.topics if topic.topic_id != topic_id),
            moves=tuple(move for move in self.moves if move.topic_id != topic_id),
        )


def write_journal(fs: FileSystem, data_dir: str, journal: Journal) -> None:
    """Write or replace a journal durably; errors as ``check_pieces`` and ``replace_file``."""
    content: dict[str, Any] = {
        "version": JOURNAL_VERSION,
        "txn": journal.txn,
        "named": journal.is_named,
        "timeMs": journal.time_ms,
        "records": dict(sorted(journal.records.items())),
        "topicIds": {name: format_uuid(one) for name, one in sorted(journal.ids.items())},
        "attempts": sorted(journal.attempts),
        "topics": [topic.as_json() for topic in journal.topics],
        "moves": [move.as_json() for move in journal.moves],
    }
    if journal.positions:
        content["positions"] = list(map(list, journal.positions))
    if journal.stream is not None:
        content["stream"] = journal.stream.as_json()
    data = (json.dumps(content, indent=1) + "\n").encode()
    check_pieces(data, journal.txn, len(journal.moves))
    replace_file(fs, os.path.join(data_dir, journal.name), data)


def check_pieces(data: bytes, txn: str, pieces: int) -> None:
    """Raise KafkaStorageError if what is written of a transaction is more than would be read."""
    if len(data) > MAX_FILE_BYTES:
        raise KafkaStorageError(
            f"transaction {txn!r} was staged in {pieces:,} pieces, more than a commit can name:"
            " stage fewer and larger ones, by a larger buffer (writeBufferBytes in Spark) or fewer"
            " tasks"
        )


def read_journal(fs: FileSystem, data_dir: str, name: str) -> Journal:
    """Read a journal.

    Raises:
        CorruptFile: it is malformed.
        KafkaStorageError: a newer version of tidelog wrote it.
        OSError: it cannot be read.
    """
    path = os.path.join(data_dir, name)
    journal = read_versioned(fs, path, JOURNAL_VERSION, _from_json)
    if journal.name != name:
        raise CorruptFile(f"{path} is the journal of another transaction, {journal.txn!r}")
    return journal


def _from_json(content: Any) -> Journal:  # noqa: ANN401 - whatever a file may hold
    topics = tuple(NewTopic.from_json(entry) for entry in content["topics"])
    moves = tuple(Move.from_json(entry) for entry in content["moves"])
    if content["version"] >= _WITH_IDS:
        ids = {str(name): parse_uuid(text) for name, text in content["topicIds"].items()}
        attempts = frozenset(map(_attempt, content["attempts"]))
    else:
        ids = {move.run.topic: move.topic_id for move in moves}
        ids |= {topic.name: topic.topic_id for topic in topics}
        attempts = frozenset(attempt_of(move.run.name) for move in moves)
    return Journal(
        str(content["txn"]),
        bool(content["named"]),
        int(content["timeMs"]),
        {str(topic): int(count) for topic, count in content["records"].items()},
        topics,
        moves,
        StreamBatch.from_json(content["stream"]) if "stream" in content else None,
        ids,
        attempts,
        tuple(map(group_partition, content.get("positions", ()))),
    )


def _attempt(text: object) -> str:
    """Return an attempt; raise ValueError for anything else."""
    if not is_attempt(text):
        raise ValueError(f"{text!r} is not an attempt")
    return str(text)


def has_journal(fs: FileSystem, data_dir: str, txn: str) -> bool:
    """Return whether a transaction is committed and not finished yet; True if in doubt."""
    try:
        fs.stat(os.path.join(data_dir, journal_name(txn)))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def is_committed(fs: FileSystem, data_dir: str, txn: str, attempts: Collection[str]) -> bool:
    """Return whether there is a journal of ``txn`` and it is one of these attempts.

    True if in doubt. A journal of another attempt needs none of their files.
    """
    try:
        journal = read_journal(fs, data_dir, journal_name(txn))
    except FileNotFoundError:
        return False
    except (OSError, KafkaStorageError):
        return True
    return not journal.attempts.isdisjoint(attempts)


def journals(fs: FileSystem, data_dir: str) -> Iterator[Journal]:
    """Yield the journals of a directory; errors as ``read_journal``."""
    for name in list_journals(fs, data_dir):
        yield read_journal(fs, data_dir, name)
