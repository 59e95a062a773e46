"""The transactions that a data directory has committed: ``tidelog.transactions.json``.

A repeat of one of them is skipped. Those that a user named are kept for ``RETENTION_MS``, the last
batch of each stream until there is a later one, others until the next commit.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.codec.checkpoint_file import MAX_FILE_BYTES, read_small_file, replace_file
from tidelog.codec.uuid_text import format_uuid, parse_uuid
from tidelog.datadir.versioned_file import parse_versioned
from tidelog.errors import (
    KafkaStorageError,
    MissingStreamBatches,
    OldStreamBatch,
    TransactionMismatch,
)
from tidelog.staging.group_step import group_partition
from tidelog.staging.staged_file import transaction_hash
from tidelog.staging.stream_batch import StreamBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.staging.group_step import GroupPartition
    from tidelog.staging.journal import Journal

FINISHED_FILE: Final = "tidelog.transactions.json"
FINISHED_VERSION: Final = 4
"""The newest form: 2 has batches of streams, 3 the ids of topics, 4 the positions of groups, and
batches of streams without records."""
RETENTION_MS: Final = 7 * 24 * 3_600_000
"""Time in ms for which a transaction that a user named is known, unless a setting says another."""
MAX_TABLE_BYTES: Final = MAX_FILE_BYTES - (4 << 20)
"""A commit that makes the table larger is refused. A replay, which drops nothing, and the commits
that are not applied yet have the rest up to what is read."""
_MOST_KEPT_BYTES: Final = 8 << 20
_MOST_KEPT_TABLES: Final = 16
MAX_STREAMS: Final = 10_000
"""Streams that are known; of more, those that committed last."""
_MIRROR: Final = re.compile(r"mirror [0-9]+ of (.+)", re.DOTALL)


def mirror_txn(number: int, source: str) -> str:
    """Return an id for a run of a mirror of ``source``, which no user has named."""
    return f"mirror {number} of {source}"


@dataclass(frozen=True, slots=True)
class CommittedTransaction:
    """What a transaction wrote: when in ms, and the number of records by topic.

    ``topic_ids`` are those of the topics, as far as they are known: an earlier release kept none.
    ``is_named``: the user chose ``txn`` and may repeat it. ``stream``: it is a batch of a stream.
    ``positions`` are those that it has committed, each with the log offset of its record: by them a
    reader knows where its group is now. They are kept as long as somebody may wait for them.
    ``follows_all``: the next batch of the stream follows this one, also if it has no records; an
    earlier release did not keep those. ``is_repeat``: this commit was skipped, since the
    transaction had been committed before.
    """

    txn: str
    time_ms: int
    records: Mapping[str, int]
    is_named: bool = True
    stream: StreamBatch | None = None
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    positions: Mapping[GroupPartition, int] = field(default_factory=dict)
    follows_all: bool = True
    is_repeat: bool = field(default=False, compare=False)

    @property
    def total(self) -> int:
        """Number of records."""
        return sum(self.records.values())

    @property
    def mirrored(self) -> str | None:
        """What a run of a mirror has copied from, as ``mirror_txn`` was given it; None: no copy."""
        found = None if self.is_named else _MIRROR.fullmatch(self.txn)
        return None if found is None else found[1]

    def check_topics(self, topics: Collection[str], now: Mapping[str, UUID | None]) -> None:
        """Raise TransactionMismatch if a repeat writes to a topic that the transaction did not.

        One that was deleted since is another topic, though it was created again with the same name.
        ``now`` are the topics that there are, with their ids, None where that is not known. A batch
        of a stream may have other topics than its first try.
        """
        wrote = tuple(sorted(self.records))
        others = sorted(set(topics) - set(wrote)) if self.stream is None else []
        deleted = [
            name
            for name in sorted(set(topics) & self.topic_ids.keys())
            if name not in now or now[name] not in {None, self.topic_ids[name]}
        ]
        if others or deleted:
            raise TransactionMismatch(self.txn, tuple(others), wrote, tuple(deleted))


def finished_of(journal: Journal) -> CommittedTransaction:
    """Return the entry of a journal's transaction."""
    return CommittedTransaction(
        journal.txn,
        journal.time_ms,
        journal.records,
        journal.is_named,
        journal.stream,
        journal.ids,
    )


def last_of_stream(
    known: Mapping[str, CommittedTransaction], stream: StreamBatch
) -> CommittedTransaction | None:
    """Return the last batch that the stream of a batch has committed, None: none is known."""
    for one in known.values():
        if one.stream is not None and one.stream.query_id == stream.query_id:
            return one
    return None


def is_finished(known: Mapping[str, CommittedTransaction], journal: Journal) -> bool:
    """Return whether all that a journal says was done."""
    return finished_by(known, journal.txn, journal.stream) is not None


def finished_by(
    known: Mapping[str, CommittedTransaction], txn: str, stream: StreamBatch | None
) -> CommittedTransaction | None:
    """Return a transaction that is known, or a later batch of its stream; None: neither is."""
    if stream is None:
        return known.get(txn)
    last = last_of_stream(known, stream)
    return last if last is not None and _batch_id(last) >= stream.batch_id else None


def find_repeated(
    known: Mapping[str, CommittedTransaction],
    txn: str,
    stream: StreamBatch | None,
    *,
    skips_old: bool = False,
    accepts_gap: bool = False,
) -> CommittedTransaction | None:
    """Return what was committed under an id before, None if the transaction is new.

    A batch of a stream is new if it follows the last one. Raises OldStreamBatch for one that is
    earlier; with ``skips_old`` the last one is returned instead. Raises MissingStreamBatches for
    one that is later than the next one, unless that ``accepts_gap``.
    """
    if stream is None:
        return known.get(txn)
    last = last_of_stream(known, stream)
    if last is None:  # whether others came before, and where they are, is not known
        return None
    if _batch_id(last) < stream.batch_id:
        has_gap = last.follows_all and _batch_id(last) + 1 < stream.batch_id
        if has_gap and not accepts_gap:
            raise MissingStreamBatches(
                stream.query_id, stream.batch_id, _batch_id(last), last.time_ms
            )
        return None
    if _batch_id(last) > stream.batch_id and not skips_old:
        raise OldStreamBatch(
            stream.query_id, stream.batch_id, _batch_id(last), last.time_ms, last.total
        )
    return last


def _batch_id(one: CommittedTransaction) -> int:
    return -1 if one.stream is None else one.stream.batch_id


def read_finished(fs: FileSystem, data_dir: str) -> Mapping[str, CommittedTransaction]:
    """Return the finished transactions by id, of a stream its last; none if there is no file.

    Raises:
        CorruptFile: the file is malformed.
        KafkaStorageError: a newer version of tidelog wrote it.
    """
    path = os.path.join(data_dir, FINISHED_FILE)
    try:
        data = read_small_file(fs, path)
    except FileNotFoundError:
        return {}
    last = _tables.get(path)
    if last is None or last.data != data:
        found = parse_versioned(
            *(data, path, FINISHED_VERSION),
            lambda content: [_from_json(entry) for entry in content["transactions"]],
        )
        last = _Table(data, {entry.txn: entry for entry in found}, {})
        _keep(path, last)
    return last.known


class _Table(NamedTuple):
    """The content of a file, what it says, and the lines in it of some of the transactions."""

    data: bytes
    known: Mapping[str, CommittedTransaction]
    lines: Mapping[str, str]

    def line_of(self, one: CommittedTransaction) -> str:
        """Return what is written of a transaction."""
        line = self.lines.get(one.txn) if self.known.get(one.txn) is one else None
        return line or json.dumps(_as_json(one))


_tables: Final[dict[str, _Table]] = {}
"""What this process has read or written last, by path: parsing and formatting all ids of a week
took most of each commit. It is used only while the file still has that content."""


_NO_TABLE: Final = _Table(b"", {}, {})


def _keep(path: str, table: _Table) -> None:
    """Keep a table for the next commit, unless it is large. On any thread."""
    if path not in _tables and len(_tables) >= _MOST_KEPT_TABLES:
        _tables.clear()
    if len(table.data) <= _MOST_KEPT_BYTES:
        _tables[path] = table


def write_finished(
    fs: FileSystem,
    data_dir: str,
    known: Mapping[str, CommittedTransaction],
    added: CommittedTransaction,
    *,
    awaited: Collection[str] = (),
    retention_ms: int = RETENTION_MS,
) -> None:
    """Add a transaction durably; drop those that nobody can repeat any more.

    These are the expired ones, earlier batches of the stream, and those without a name of the
    user's. But transactions whose hashes are ``awaited`` stay: a process has yet to see them here,
    or a journal of theirs is not durably gone, and would be applied again after a power cut.
    """
    path = os.path.join(data_dir, FINISHED_FILE)
    table = _table(path, _kept(known, added, awaited, retention_ms))
    replace_file(fs, path, table.data)
    _keep(path, table)


def finished_for(
    known: Mapping[str, CommittedTransaction], topic: str, topic_id: UUID
) -> list[CommittedTransaction]:
    """Return the transactions that a topic may see again; it has the id where that is known."""
    return [
        one
        for one in known.values()
        if topic in one.records and one.topic_ids.get(topic, topic_id) == topic_id
    ]


def add_finished(fs: FileSystem, data_dir: str, added: Iterable[CommittedTransaction]) -> None:
    """Add what another directory has committed, durably: its topics come here, and so do repeats.

    Of an id that both know, the topics are added; of a stream, the later batch counts. Those that
    nobody repeats are left out. Raises KafkaStorageError if the table has no room, or as
    ``read_finished``.
    """
    known = read_finished(fs, data_dir)
    joined = {_identity(one): one for one in known.values()}
    for one in added:
        if one.is_named or one.stream is not None:
            ours = joined.get(_identity(one))
            joined[_identity(one)] = one if ours is None else _both(ours, one)
    if [*joined.values()] == [*known.values()]:
        return
    path = os.path.join(data_dir, FINISHED_FILE)
    table = _table(path, [*joined.values()])
    _check_size(path, len(table.data))
    replace_file(fs, path, table.data)
    _keep(path, table)


def _identity(one: CommittedTransaction) -> tuple[bool, str]:
    """Return what a repeat is known by."""
    return (False, one.txn) if one.stream is None else (True, one.stream.query_id)


def _both(ours: CommittedTransaction, other: CommittedTransaction) -> CommittedTransaction:
    """Return a transaction that two directories know, or the later batch of a stream."""
    if ours.stream is not None:
        return max(ours, other, key=_batch_id)
    return replace(
        ours,
        time_ms=max(ours.time_ms, other.time_ms),
        records={**ours.records, **other.records},
        is_named=True,
        topic_ids={**ours.topic_ids, **other.topic_ids},
    )


def forget_finished(
    fs: FileSystem, data_dir: str, known: Mapping[str, CommittedTransaction], txn: str
) -> None:
    """Take a transaction out of the table durably: a repeat of it is committed again."""
    path = os.path.join(data_dir, FINISHED_FILE)
    left = _table(path, [one for one in known.values() if one.txn != txn])
    replace_file(fs, path, left.data)


def check_table(
    fs: FileSystem,
    data_dir: str,
    known: Mapping[str, CommittedTransaction],
    added: CommittedTransaction,
    *,
    awaited: Callable[[], Collection[str]],
    retention_ms: int,
) -> None:
    """Raise KafkaStorageError if ``write_finished`` would write more than ``MAX_TABLE_BYTES``.

    To be called before a commit, which could not be finished otherwise. ``awaited`` returns what
    ``write_finished`` is given; it is called only if the table has hardly any room left.
    """
    path = os.path.join(data_dir, FINISHED_FILE)
    try:
        present = fs.stat(path).size_bytes
    except FileNotFoundError:
        present = 0
    if present + len(_table(path, [added]).data) <= MAX_TABLE_BYTES:
        return
    _check_size(path, len(_table(path, _kept(known, added, awaited(), retention_ms)).data))


def _check_size(path: str, size: int) -> None:
    if size > MAX_TABLE_BYTES:
        raise KafkaStorageError(
            f"{path} would have {size:,} bytes, and {MAX_TABLE_BYTES:,} are allowed: it keeps the"
            " ids of transactions for tidelog.staged.retention.ms; wait, or lower that"
        )


def _kept(
    known: Mapping[str, CommittedTransaction],
    added: CommittedTransaction,
    awaited: Collection[str],
    retention_ms: int,
) -> list[CommittedTransaction]:
    """Return a transaction and what is kept of those before it."""
    kept = []
    for one in known.values():
        if one.stream is not None or one.txn == added.txn:
            continue
        if awaited and transaction_hash(one.txn) in awaited:
            kept.append(one)
        elif one.is_named and one.time_ms + retention_ms >= added.time_ms:
            kept.append(replace(one, positions={}) if one.positions else one)
    others = [
        one
        for one in known.values()
        if one.stream is not None
        and (added.stream is None or one.stream.query_id != added.stream.query_id)
    ]
    room = MAX_STREAMS if added.stream is None else MAX_STREAMS - 1
    streams = sorted(others, key=lambda one: one.time_ms)[-room:]
    return [*kept, *streams, added]


def _table(path: str, listed: Sequence[CommittedTransaction]) -> _Table:
    """Return the table of some transactions, each on a line of its own."""
    last = _tables.get(path, _NO_TABLE)
    lines = {one.txn: last.line_of(one) for one in listed}
    head = f'{{"version": {FINISHED_VERSION}, "transactions": [\n'
    data = (head + ",\n".join(lines.values()) + "\n]}\n").encode()
    return _Table(data, {one.txn: one for one in listed}, lines)


def _as_json(one: CommittedTransaction) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "txn": one.txn,
        "named": one.is_named,
        "timeMs": one.time_ms,
        "records": dict(sorted(one.records.items())),
    }
    if one.stream is not None:
        entry["stream"] = {**one.stream.as_json(), "followsAll": one.follows_all}
    if one.positions:
        entry["positions"] = [[*key, record] for key, record in sorted(one.positions.items())]
    if one.topic_ids:
        ids = sorted(one.topic_ids.items())
        entry["topicIds"] = {topic: format_uuid(topic_id) for topic, topic_id in ids}
    return entry


def _from_json(entry: Mapping[str, Any]) -> CommittedTransaction:
    records = {str(topic): int(count) for topic, count in entry["records"].items()}
    stream = StreamBatch.from_json(entry["stream"]) if "stream" in entry else None
    follows_all = stream is None or bool(entry["stream"].get("followsAll", False))
    ids = {str(topic): parse_uuid(text) for topic, text in entry.get("topicIds", {}).items()}
    positions = {group_partition(key): int(at) for *key, at in entry.get("positions", ())}
    return CommittedTransaction(
        *(str(entry["txn"]), int(entry["timeMs"]), records, bool(entry["named"])),
        stream,
        ids,
        positions,
        follows_all,
    )
