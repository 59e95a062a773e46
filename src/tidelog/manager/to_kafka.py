"""Handing data directories to a broker of Kafka, which then starts on them as they are.

A broker keeps only the partitions that its controller knows. So the first controller to start finds
every topic in a ``bootstrap.checkpoint``, with ids, settings, directories and leader epochs.
Kafka: ``kafka-storage format`` makes such a file for an empty cluster.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.checkpoint_file import replace_file
from tidelog.codec.java_properties import format_properties, parse_properties
from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.birth import birth_values
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.cluster_metadata.bootstrap import (
    BOOTSTRAP_FILE,
    WRITTEN_TYPES,
    PartitionToRegister,
    TopicToRegister,
    bootstrap_file,
    bootstrap_records,
)
from tidelog.datadir.cluster_metadata.broker_settings import formatted, is_default
from tidelog.datadir.effective_config import is_about_tiers, without_tiers
from tidelog.datadir.known_setting import ConfigSource
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE, read_meta_properties
from tidelog.datadir.partition_directories import (
    PartitionLinks,
    find_copies,
    random_id,
    survey,
)
from tidelog.errors import CommitPending, KafkaStorageError
from tidelog.manager.consumer_groups import is_of_live_topic
from tidelog.manager.producer_ids import next_block
from tidelog.readonly.cluster_metadata import (
    find_broker_settings,
    read_bootstrap_types,
    read_cluster_metadata,
)
from tidelog.segment.filenames import TopicPartition, log_directory_name
from tidelog.staging.journal_names import list_journals
from tidelog.staging.ready import waiting
from tidelog.staging.ready_expiry import applied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from uuid import UUID

    from tidelog.config.log_config import LogConfig
    from tidelog.datadir.catalogue import Topic
    from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings
    from tidelog.datadir.metadata_files import MetaProperties
    from tidelog.log.log import Log
    from tidelog.manager.log_manager import LogManager

PROPERTIES_FILE: Final = "tidelog.server.properties"
"""Settings of a broker that fit the directories, in the first of them."""

_PROPERTIES: Final = """\
# One node, broker and controller, for data directories of tidelog. Change what you need to.
process.roles=broker,controller
node.id={node}
controller.quorum.voters={node}@localhost:9093
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class BegunLater(NamedTuple):
    """A log that begins in an archive, of which a broker knows nothing.

    It has the log from ``local_log_start_offset`` on.
    """

    topic: str
    partition: int
    log_start_offset: int
    local_log_start_offset: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """What a broker finds in the directories; ``files`` are those to be written, by path.

    ``next_producer_id`` is above the ids of all producers in the logs. ``is_known``: the metadata
    of a cluster that is in the directories names the same topics, so that no controller needs more.
    ``left_out``: the settings of archives that a topic has here and not at the broker.
    ``begun_later``: what the broker gets a part of only; ``groups_below``: groups, sorted, with a
    position in what it does not get.
    """

    cluster_id: str
    node_id: int
    data_dirs: tuple[str, ...]
    topics: tuple[TopicToRegister, ...]
    next_producer_id: int
    is_known: bool
    files: Mapping[str, bytes]
    left_out: Mapping[str, tuple[str, ...]]
    begun_later: tuple[BegunLater, ...]
    groups_below: tuple[str, ...]

    @property
    def properties_path(self) -> str:
        """Path of the settings to start the broker with."""
        return os.path.join(self.data_dirs[0], PROPERTIES_FILE)


def plan_hand_over(manager: LogManager, *, is_local_only: bool = False) -> HandOver:
    """Load all logs, and return what a broker needs to serve them; nothing else is changed.

    ``is_local_only``: hand over, too, of which the broker gets a part only, as the log begins in an
    archive.

    Raises:
        CommitPending: a transaction is committed and not applied, or waits for its commit.
        KafkaStorageError: a broker would not start, or would lose something: the text names all
            reasons, such as topics whose settings are unknown.
    """
    _check_transactions(manager)
    known = _known_settings(manager)
    problems = [*_problems_of_directories(manager), *_problems_of_topics(manager)]
    problems += _problems_of_properties(manager)
    begun_later = () if problems else tuple(_begun_later(manager))
    if not is_local_only:
        problems += map(_only_in_archive, begun_later)
    if known is None:
        problems += _unknown_settings(manager)
    if problems:
        raise KafkaStorageError("; ".join(problems))
    if known is not None:
        _check_known(manager.topics(), known, manager.config.log_defaults)
    named = [topic for _, topic in sorted(manager.topics().items())]
    topics = tuple(_registered(manager, topic) for topic in named)
    metas = _identities(manager)
    first = next(iter(metas.values()))
    assert first.cluster_id is not None
    assert first.node_id is not None
    plan = HandOver(
        first.cluster_id,
        first.node_id,
        tuple(metas),
        topics,
        next_block(manager),
        known is not None,
        {},
        {topic.name: _left_out(topic, manager.config.log_defaults, known) for topic in named},
        begun_later,
        _groups_below(manager, begun_later),
    )
    return replace(plan, files=dict(_files(manager, plan, metas)))


def write_hand_over(manager: LogManager, plan: HandOver) -> None:
    """Write the files of a plan, each durably; an OSError leaves what was written before it."""
    for path, data in plan.files.items():
        replace_file(manager.machine.fs, path, data)


def _check_transactions(manager: LogManager) -> None:
    fs = manager.machine.fs
    manager.staged_commits.settle_manifests()
    for path in manager.live_dirs:
        left = (one.transaction for one in waiting(fs, path) if one)
        found = [
            *list_journals(fs, path),
            *(one.txn for one in left if applied(fs, path, one) is None),
        ]
        if found:
            raise CommitPending(
                f"{path} holds transactions that are not applied yet, {', '.join(found)}: see"
                " tidelog staged list"
            )


def _problems_of_directories(manager: LogManager) -> Iterator[str]:
    """Yield what Kafka would refuse to start on, or delete."""
    fs, topics = manager.machine.fs, manager.topics().values()
    links = PartitionLinks(fs, manager.live_dirs, is_writer=True)
    for path in manager.live_dirs:
        home = manager.directory_id(path)
        listed = {
            log_directory_name(topic.name, number)
            for topic in topics
            for number, directory_id in topic.partitions.items()
            if directory_id == home
        }
        surveyed = survey(fs, path, listed=listed, links=links)
        for name, reason in surveyed.foreign.items():
            if name == f"{METADATA_TOPIC}-0":
                continue  # Kafka begins it with a snapshot alone
            yield f"Kafka does not start with the directory {name} in {path}: {reason}"
        if "," in path:
            yield f"log.dirs cannot name {path}: it has a comma"
        if os.fsencode(path).decode(errors="replace") != path:
            yield f"log.dirs cannot name {path}: it is not UTF-8"
        for _, copy in find_copies(fs, path):
            yield f"a move is not finished: {copy}"


def _problems_of_topics(manager: LogManager) -> Iterator[str]:
    homes = {manager.directory_id(path) for path in manager.live_dirs}
    owners: dict[UUID, str] = {}
    for name, topic in sorted(manager.topics().items()):
        owner = owners.setdefault(topic.topic_id, name)
        if owner != name:
            yield f"topics {owner} and {name} have one id: tidelog rescue gives {name} another"
        missing = sorted(set(range(max(topic.partitions, default=-1) + 1)) - set(topic.partitions))
        if missing or not topic.partitions:
            numbers = ", ".join(map(str, missing)) or "all"
            yield f"topic {name} lacks the partitions {numbers}"
        if not homes.issuperset(topic.partitions.values()):
            yield f"partitions of topic {name} lie in a directory that is not named"


def _begun_later(manager: LogManager) -> Iterator[BegunLater]:
    for name, topic in sorted(manager.topics().items()):
        for number in sorted(topic.partitions):
            log = _log_of(manager, name, number)
            start, local = log.log_start_offset, log.local_log_start_offset
            if start < local:
                yield BegunLater(name, number, start, local)


def _only_in_archive(one: BegunLater) -> str:
    last = one.local_log_start_offset - 1
    return (
        f"offsets {one.log_start_offset} to {last} of {one.topic}-{one.partition} are only in its"
        " archive: make a directory that has them with tidelog mirror, or leave them to the archive"
        " with --local-only"
    )


def _groups_below(manager: LogManager, begun_later: Iterable[BegunLater]) -> tuple[str, ...]:
    """Return the groups, of those that can be read, whose records a broker does not have."""
    starts = {
        TopicPartition(one.topic, one.partition): one.local_log_start_offset for one in begun_later
    }
    if not starts:
        return ()
    positions = manager.staged_commits.groups.positions(where_readable=True)
    topics = manager.topics()
    return tuple(
        group
        for group, found in sorted(positions.items())
        if any(
            one.offset < starts.get(key, 0) and is_of_live_topic(key, one, topics)
            for key, one in found.items()
        )
    )


def _problems_of_properties(manager: LogManager) -> Iterator[str]:
    """Yield that settings of an earlier call name other directories: partitions would be missing.

    The file is not replaced, since somebody may have changed it.
    """
    fs, path = manager.machine.fs, os.path.join(manager.live_dirs[0], PROPERTIES_FILE)
    named = parse_properties(fs.read(path)).get("log.dirs") if fs.exists(path) else None
    if named is None:
        return
    ours = {os.path.realpath(one) for one in manager.live_dirs}
    if {os.path.realpath(one.strip()) for one in named.split(",")} != ours:
        dirs = ",".join(manager.live_dirs)
        yield f"{path} has log.dirs={named}, not {dirs}: correct or remove it"


def _unknown_settings(manager: LogManager) -> Iterator[str]:
    """Yield the topics that a broker would apply its defaults to, and so delete records of."""
    for name, topic in sorted(manager.topics().items()):
        if topic.unknown_settings:
            unknown = ", ".join(topic.unknown_settings)
            yield f"{unknown} of topic {name} are unknown: set them with tidelog alter"


def _registered(manager: LogManager, topic: Topic) -> TopicToRegister:
    partitions = [
        PartitionToRegister(number, home, _log_of(manager, topic.name, number).leader_epoch)
        for number, home in sorted(topic.partitions.items())
    ]
    settings, _ = _settings(topic, manager.config.log_defaults)
    return TopicToRegister(topic.name, topic.topic_id, settings, tuple(partitions))


def _log_of(manager: LogManager, topic: str, number: int) -> Log:
    return manager.partition(topic, number).log


def _identities(manager: LogManager) -> dict[str, MetaProperties]:
    """Return the identities that KRaft needs, of version 1; those of Kafka 3 may be of version 0.

    All have one cluster and one node.
    """
    found = {}
    for path in manager.live_dirs:
        known = read_meta_properties(manager.machine.fs, os.path.join(path, META_PROPERTIES_FILE))
        assert known is not None, "an open directory has an identity"
        found[path] = known
    cluster_id = next((one.cluster_id for one in found.values() if one.cluster_id), None)
    cluster_id = cluster_id or format_uuid(random_id(manager.machine.rng))
    return {
        path: known
        if known.version == 1
        else replace(
            known,
            version=1,
            cluster_id=cluster_id,
            node_id=1 if known.node_id is None else known.node_id,
        )
        for path, known in found.items()
    }


def _known_settings(manager: LogManager) -> BrokerSettings | None:
    """Return what the metadata of a cluster in the directories names; None if there is none.

    Raises KafkaStorageError if there is some that cannot be used.
    """
    found = (read_cluster_metadata(path, fs=manager.machine.fs) for path in manager.live_dirs)
    if not any(metadata is not None for metadata in found):
        return None
    settings = find_broker_settings(
        manager.live_dirs,
        fs=manager.machine.fs,
        topic_ids={topic.topic_id for topic in manager.topics().values()},
        server_properties=manager.config.server_properties,
    )
    if settings.image is None:
        raise KafkaStorageError(f"{METADATA_TOPIC}-0 cannot be used: see the warning")
    return settings


def _check_known(
    topics: Mapping[str, Topic], settings: BrokerSettings, defaults: LogConfig
) -> None:
    """Raise KafkaStorageError unless metadata is of exactly these topics.

    A controller that finds metadata reads no ``bootstrap.checkpoint``.
    """
    assert settings.image is not None
    theirs = {topic.name for topic in settings.image.topics.values()}
    differences = [
        one for topic in topics.values() for one in _differences(topic, settings, defaults)
    ]
    differences += [f"topic {name} is not here" for name in sorted(theirs - topics.keys())]
    if differences:
        raise KafkaStorageError(
            f"the broker would start with {METADATA_TOPIC}-0, which differs from the topics here:"
            f" {'; '.join(differences)}. To begin a new cluster, without the users, ACLs and quotas"
            f" of this one, move {METADATA_TOPIC}-0 and {BOOTSTRAP_FILE} out of the directory"
        )


def _differences(topic: Topic, settings: BrokerSettings, defaults: LogConfig) -> Iterator[str]:
    if not settings.knows(topic.name, topic.topic_id):
        yield f"topic {topic.name} is not in it"
        return
    assert settings.image is not None
    if set(topic.partitions) != settings.image.topics[topic.topic_id].partitions:
        yield f"topic {topic.name} has other partitions"
    theirs = settings.of_topic(topic.name, topic.topic_id)
    changed = []
    handed_over, _ = without_tiers(topic.config) if topic.is_adopted else _settings(topic, defaults)
    for key, text in handed_over.items():
        ours, known = formatted(key, text), theirs.get(key)
        is_same = is_default(key, ours) if known is None else known.value == ours
        changed += [] if is_same else [key]
    if not topic.is_adopted:
        own = {key: one for key, one in theirs.items() if one.source is ConfigSource.TOPIC}
        changed += [
            key
            for key, one in own.items()
            if key not in handed_over and not is_default(key, one.value)
        ]
    if changed:
        yield f"topic {topic.name} has other settings ({', '.join(sorted(changed))})"


def _left_out(topic: Topic, defaults: LogConfig, known: BrokerSettings | None) -> tuple[str, ...]:
    """Return the settings that the broker does not get; ``known``: what it has already."""
    _, left_out = _settings(topic, defaults)
    theirs = {} if known is None else known.of_topic(topic.name, topic.topic_id)
    return tuple(name for name in left_out if name not in theirs)


def _settings(topic: Topic, defaults: LogConfig) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the settings of a topic that a broker is given, so that its own do not count.

    Those are the topic's own and, if Kafka wrote it, its broker's. What decides what is deleted of
    a topic of tidelog's is written down whole. What is about its archive, which a broker cannot
    have, is left out; the names are returned, too.
    """
    inherited = topic.inherited.items()
    known = {key: one.value for key, one in inherited if one.source is not ConfigSource.DEFAULT}
    if not topic.is_adopted:
        decides = birth_values(defaults) | known
        known = {key: value for key, value in decides.items() if not is_about_tiers(key)}
    return without_tiers({**known, **topic.config})


def _files(
    manager: LogManager, plan: HandOver, metas: Mapping[str, MetaProperties]
) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the files to be written; the one that decides comes last."""
    fs, first = manager.machine.fs, plan.data_dirs[0]
    for path, meta in metas.items():
        file = os.path.join(path, META_PROPERTIES_FILE)
        if read_meta_properties(fs, file) != meta:
            yield file, meta.format()
    if not fs.exists(plan.properties_path):
        yield plan.properties_path, server_properties(plan)
    if plan.is_known:
        return
    file = os.path.join(first, BOOTSTRAP_FILE)
    if fs.exists(file) and not read_bootstrap_types(file, fs=fs) <= WRITTEN_TYPES:
        raise KafkaStorageError(
            f"{file} holds more than topics and settings, as users or ACLs; it is not replaced"
        )
    records = bootstrap_records(plan.topics, plan.node_id, plan.next_producer_id)
    yield file, bootstrap_file(records, manager.machine.clock.now_ms())


def server_properties(plan: HandOver) -> bytes:
    """Return the ``server.properties`` of a node that is broker and controller, on this machine."""
    dirs = format_properties({"log.dirs": ",".join(plan.data_dirs)}).decode()
    return (_PROPERTIES.format(node=plan.node_id) + dirs).encode()
