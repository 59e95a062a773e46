"""A data directory as a whole: its catalogue, topic ids and checkpoints against its partitions.

Kafka notices a wrong topic id when a leader is elected, and the other things never.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.archive.claim_file import ClaimFile, archives_named, claim_file, read_claim
from tidelog.codec.checkpoint_file import TEMPORARY_SUFFIX, read_checkpoint
from tidelog.codec.uuid_text import format_uuid
from tidelog.config.log_config import LogConfig
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.datadir.least_epoch import LEAST_EPOCH_FILE, read_least_epoch
from tidelog.datadir.lock_file import LOCK_FILE
from tidelog.datadir.metadata_files import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    read_clean_shutdown,
    read_meta_properties,
)
from tidelog.datadir.offset_checkpoints import CHECKPOINT_FILES, HIGH_WATERMARK_FILE
from tidelog.errors import InvalidArgument, InvalidConfig, KafkaStorageError
from tidelog.explain.verify.archived_copies import restoring
from tidelog.explain.verify.confirmed import confirmed
from tidelog.explain.verify.findings import Finding, Severity, attempt, damage, unusual
from tidelog.log.topic_id import PARTITION_METADATA_FILE
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.segment.filenames import TopicPartition
from tidelog.staging.finished import FINISHED_FILE, read_finished
from tidelog.staging.journal import read_journal
from tidelog.staging.journal_names import list_journals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.readonly.directory_files import DirectoryFiles
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_topic import MissingPartition

_OTHER_TOPIC = (
    "find out which topic's records these are: if they are this one's, write its id into the file;"
    " else move the partition elsewhere, for no broker loads it here"
)
_COPY = (
    "move its partitions elsewhere, or let `tidelog rescue` make a directory in which it has an id"
    " of its own"
)
_ELSEWHERE = (
    "if it lies there, too, this is what a move has left, and a process that opens both deletes it;"
    " else the next writer corrects the file"
)
_BEFORE = "Do it before a process opens the data directory, which would begin an empty log"
_LOST = (
    "bring the directory back from a copy or a replica, or what an archive has with tidelog"
    f" restore. {_BEFORE}"
)


class Located(NamedTuple):
    """A finding with the partition that it is about; None: it is about all."""

    key: TopicPartition | None
    finding: Finding


def check_directory(fs: FileSystem, data_dir: str) -> list[Located]:
    """Return what the files of a data directory say of partitions that is not so.

    ``LogVerifier`` checks the files inside a partition's directory, and ``strays_in`` compares
    several data directories. Damage that only one of two looks shows, as beside a writer that
    creates or deletes topics, is not returned. Raises InvalidArgument, KafkaStorageError.
    """
    return confirmed(
        lambda: list(_check(open_directory_read_only(data_dir, fs=fs))),
        lambda located: located.finding.severity is Severity.DAMAGE,
    )


def _check(directory: ReadOnlyDirectory) -> Iterator[Located]:
    (files,) = directory.parts
    catalogue_path = os.path.join(files.path, CATALOGUE_FILE)
    if directory.catalogue_error is not None:
        remedy = "correct the file, or delete it: topics are then adopted from their directories"
        yield Located(None, damage(catalogue_path, 0, str(directory.catalogue_error), remedy))
    for check in (_check_identity, _check_temporary, _check_journals):
        yield from (Located(None, finding) for finding in check(files))
    for topic in directory.topics.values():
        try:
            LogConfig().with_overrides({**(topic.birth or {}), **topic.config})
        except InvalidConfig as error:
            what = f"topic {topic.name} cannot be loaded: {error}"
            remedy = "correct the setting with `tidelog alter`"
            yield Located(None, damage(catalogue_path, None, what, remedy))
    for name, reason in directory.foreign(files).items():
        path = os.path.join(files.path, name)
        remedy = "move it elsewhere: tidelog leaves it alone, but Kafka may not start"
        yield Located(None, unusual(path, None, f"the directory is not a log: {reason}", remedy))
    yield from _check_ids(directory)
    yield from _check_shared_ids(directory)
    yield from _check_places(directory, catalogue_path)
    for gone in directory.missing:
        what = f"{gone.key} belongs here, but its directory is gone"
        if gone.high_watermark is None:
            what += "; no checkpoint says that it had records"
        yield Located(
            gone.key, damage(catalogue_path, None, what, _remedy_of_lost(directory, gone))
        )
    lost = {gone.key for gone in directory.missing}
    yield from _check_lines(directory, {*directory.found, *lost})


def _remedy_of_lost(directory: ReadOnlyDirectory, gone: MissingPartition) -> str:
    """Return how to bring a partition back: from its archive, if it is known to have one."""
    (files,) = directory.parts
    topic_id = directory.topic(gone.topic).topic_id
    claim, uris = ClaimFile(), []
    if topic_id is not None:
        path = claim_file(files.path, topic_id, gone.partition)
        # One that cannot be read names no archive; the next writer of it says why.
        with suppress(KafkaStorageError):
            claim, uris = read_claim(files.fs, path), archives_named(files.fs, path)
    if not uris:
        return _LOST
    after = _BEFORE if claim.archive is None else "Until then the log is offline"
    return f"bring back what its archive has: {restoring(uris, gone.key, files.path)}. {after}"


def _check_places(directory: ReadOnlyDirectory, catalogue_path: str) -> Iterator[Located]:
    """Yield the partitions that the catalogue places into a directory with another id."""
    (files,) = directory.parts
    has_id = files.directory_id is not None
    for key, directory_id in directory.placed_elsewhere(files).items():
        text = format_uuid(directory_id)
        what = f"{key} lies here, but belongs in the directory with id {text}"
        if has_id:
            yield Located(key, unusual(catalogue_path, None, what, _ELSEWHERE))
            continue
        what += f", and this one has none: {META_PROPERTIES_FILE} is missing or names none"
        remedy = f"bring the file back, with directory.id={text}: no writer opens it otherwise"
        yield Located(key, damage(catalogue_path, None, what, remedy))


def _check_identity(files: DirectoryFiles) -> Iterator[Finding]:
    """Yield what keeps a writer from locking the directory or from knowing which one it is."""
    fs = files.fs
    path = os.path.join(files.path, META_PROPERTIES_FILE)
    remedy = "correct the file, or delete it: the next writer then makes a new one"
    meta = yield from attempt(partial(read_meta_properties, fs, path), path, remedy, byte=0)
    if meta is not None and meta.is_nameless:
        yield damage(path, 0, f"{path} names neither a directory, a cluster nor a node", remedy)
    path = os.path.join(files.path, CLEAN_SHUTDOWN_FILE)
    remedy = "remove it: the next writer then recovers all logs"
    yield from attempt(partial(read_clean_shutdown, fs, path), path, remedy)
    path = os.path.join(files.path, LEAST_EPOCH_FILE)
    remedy = f"remove it, and {CLEAN_SHUTDOWN_FILE}: the next writer then begins new leader epochs"
    yield from attempt(partial(read_least_epoch, fs, files.path), path, remedy)
    path = os.path.join(files.path, LOCK_FILE)
    if fs.is_link(path) or (fs.exists(path) and fs.stat(path).is_directory):
        what = "it is not a plain file, so that no writer can lock the directory"
        yield damage(path, None, what, "remove it")


def _check_journals(files: DirectoryFiles) -> Iterator[Finding]:
    """Yield each file about committed transactions that cannot be read."""
    remedy = "bring it back from a copy: a committed transaction may not be applied without it"
    names = list_journals(files.fs, files.path)
    checks: dict[str, Callable[[], object]] = {
        name: partial(read_journal, files.fs, files.path, name) for name in names
    }
    checks[FINISHED_FILE] = partial(read_finished, files.fs, files.path)
    for name, check in checks.items():
        yield from attempt(check, os.path.join(files.path, name), remedy)


def _check_temporary(files: DirectoryFiles) -> Iterator[Finding]:
    """Yield what is in the way of the temporary files by which small files are replaced."""
    whole = (CATALOGUE_FILE, META_PROPERTIES_FILE, CLEAN_SHUTDOWN_FILE, LEAST_EPOCH_FILE)
    for name in (*CHECKPOINT_FILES, *whole):
        path = os.path.join(files.path, name + TEMPORARY_SUFFIX)
        try:
            with suppress(FileNotFoundError), closing(files.fs.open(path)):
                continue
        except KafkaStorageError as error:
            what = f"{name} cannot be replaced: {error}"
            yield damage(path, None, what, "move the entry elsewhere")


def _topic_ids(directory: ReadOnlyDirectory) -> dict[TopicPartition, UUID]:
    """Return the id in each partition's file, where there is one that reads."""
    found = {}
    for key in directory.partitions:
        try:
            topic_id = directory.topic_id(*key)
        except KafkaStorageError:
            continue  # the check of the partition reports it
        if topic_id is not None:
            found[key] = topic_id
    return found


def _check_ids(directory: ReadOnlyDirectory) -> Iterator[Located]:
    """Yield each partition whose topic id is not the catalogue's, or not that of most others."""
    by_topic: dict[str, dict[TopicPartition, UUID]] = defaultdict(dict)
    for key, topic_id in _topic_ids(directory).items():
        by_topic[key.topic][key] = topic_id
    for topic, found in by_topic.items():
        known = directory.topic(topic)
        if known.is_listed and known.topic_id is not None:
            right, says = known.topic_id, f"{CATALOGUE_FILE} says"
        else:
            ranked = Counter(found.values()).most_common(2)
            is_even = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
            right, says = ranked[0][0], "another partition has" if is_even else "the others have"
        for key, topic_id in found.items():
            if topic_id != right:
                yield _other_topic(key, directory.partition_path(*key), topic_id, says, right)


def strays_in(directory: ReadOnlyDirectory) -> Iterator[Located]:
    """Yield each partition of another topic of its name, which only one look at all shows."""
    for one in directory.strays():
        yield _other_topic(one.key, one.path, one.found, "the topic has", one.known)


def _other_topic(
    key: TopicPartition, directory: str, topic_id: UUID, says: str, right: UUID
) -> Located:
    what = f"the topic id is {format_uuid(topic_id)}, {says} {format_uuid(right)}"
    path = os.path.join(directory, PARTITION_METADATA_FILE)
    return Located(key, damage(path, None, what, _OTHER_TOPIC))


def _check_shared_ids(directory: ReadOnlyDirectory) -> Iterator[Located]:
    """Yield each topic that has the id of another, by which clients would read either's records."""
    for name, owner in directory.sharing_ids.items():
        key = next((key for key in directory.partitions if key.topic == name), None)
        if key is not None:
            path = os.path.join(directory.partition_path(*key), PARTITION_METADATA_FILE)
            what = f"topic {name} has the id of topic {owner}, as a copy made by hand has"
            yield Located(key, damage(path, None, what, _COPY))


def _check_lines(directory: ReadOnlyDirectory, known: set[TopicPartition]) -> Iterator[Located]:
    """Yield the lines of checkpoints that name a partition whose directory is gone."""
    (files,) = directory.parts
    for name in CHECKPOINT_FILES:
        path = os.path.join(files.path, name)
        try:
            lines = read_checkpoint(directory.fs, path)
        except (KafkaStorageError, InvalidArgument) as error:
            if not directory.partitions:  # else the check of each partition reports it
                remedy = "delete the file: the next writer then makes a new one"
                yield Located(None, damage(path, None, str(error), remedy))
            continue
        for topic, number in sorted(lines):
            key, offset = TopicPartition(topic, number), lines[topic, number]
            if key in known:
                continue
            what = f"a line names {key} with offset {offset}, but its directory is gone"
            remedy = "none needed if the topic was deleted: the next writer drops the line"
            if name == HIGH_WATERMARK_FILE and offset > 0:
                remedy += f". Else its {offset} offsets are lost: bring the directory back"
            yield Located(key, unusual(path, None, what, remedy))
