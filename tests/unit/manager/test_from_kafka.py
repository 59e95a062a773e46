"""Taking data directories over from Kafka: what its metadata names comes into the catalogue."""

from __future__ import annotations

from errno import EIO, ENOSPC
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.machinery import metadata_log as made
from tests.machinery.directory_home import SMALL_INDEXES, DataHome, record

from tidelog.datadir.birth import birth_values
from tidelog.datadir.catalogue import read_catalogue
from tidelog.datadir.cluster_metadata.metadata_records import ResourceType
from tidelog.errors import KafkaStorageError
from tidelog.log.topic_id import write_partition_metadata
from tidelog.manager.directories.log_dirs import LogDirs
from tidelog.manager.from_kafka import take_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.datadir.catalogue import Topic

PATH = DataHome.path
OTHER = UUID(int=77)


def taken_over(home: DataHome, properties: Mapping[str, str] | None = None) -> dict[str, Topic]:
    """Take the directory over; return the topics of its catalogue."""
    dirs = LogDirs([PATH], fs=home.fs, rng=Random(1), clock=home.clock, has_all_logs=False)
    try:
        take_over(dirs, fs=home.fs, rng=Random(1), server_properties=properties)
    finally:
        dirs.release_all()
    return dict(read_catalogue(home.fs, PATH).topics)


def home_with(*names: str, **config: str) -> DataHome:
    """Return a directory with topics of one record each, all with the same settings."""
    home = DataHome()
    settings = {name.replace("_", "."): value for name, value in config.items()}
    with home.open() as logs:
        for name in names:
            logs.create_topic(name, config=settings)
            logs.partition(name, 0).append_records([record(b"a")])
    return home


def ran(home: DataHome, *more: bytes, topics: Mapping[str, UUID] | None = None) -> None:
    """Let a broker have used the directory, and know these topics; None: those it holds."""
    known = read_catalogue(home.fs, PATH).topics
    ids = {name: topic.topic_id for name, topic in known.items()} if topics is None else topics
    values = []
    for name, topic_id in ids.items():
        values += [made.topic(name, topic_id), made.partition(topic_id, 0)]
    made.write_metadata(home.fs, PATH, made.metadata_log([[*values, *more]]))


def forget(home: DataHome) -> None:
    """Leave the directory without a catalogue, as Kafka would have made it."""
    home.fs.delete(f"{PATH}/tidelog.topics.json")


def config_of(topic: Topic) -> dict[str, Any]:
    """Return a topic's own settings."""
    return dict(topic.config)


def test_topics_of_kafka_get_ids_and_settings_that_records_name() -> None:
    """They stay adopted: what no record names is unknown, and nothing is deleted by it."""
    home = home_with("t", "u")
    ids = {name: topic.topic_id for name, topic in read_catalogue(home.fs, PATH).topics.items()}
    forget(home)
    ran(home, made.setting("retention.ms", "9", "t"), topics=ids)

    topics = taken_over(home)

    assert {name: topic.topic_id for name, topic in topics.items()} == ids
    assert config_of(topics["t"]) == {"retention.ms": "9"}
    assert topics["t"].unknown_settings == ("cleanup.policy", "retention.bytes")
    assert config_of(topics["u"]) == {}
    assert topics["u"].is_adopted


def test_settings_of_brokers_go_along_where_they_are_not_the_default() -> None:
    """Those for the whole cluster, too; with ``server.properties`` nothing is unknown."""
    home = home_with("t")
    forget(home)
    home.open().close()
    [topic_id] = [topic.topic_id for topic in taken_topics(home)]
    cluster = made.setting("log.retention.ms", "5", "", ResourceType.BROKER)
    default = made.setting("min.insync.replicas", "1", "", ResourceType.BROKER)
    ran(home, cluster, default, topics={"t": topic_id})

    assert config_of(taken_over(home)["t"]) == {"retention.ms": "5"}
    known = taken_over(home, {"log.segment.bytes": "2000000"})["t"]
    assert known.unknown_settings == ()
    assert config_of(known) == {
        "cleanup.policy": "delete",
        "retention.bytes": "-1",
        "retention.ms": "5",
        "segment.bytes": "2000000",
    }


def taken_topics(home: DataHome) -> list[Topic]:
    """Return the topics as a writer finds them."""
    with home.open() as logs:
        return list(logs.topics().values())


def test_a_topic_that_was_handed_over_gets_what_kafka_changed() -> None:
    """Also a setting that Kafka took back, which then has the default again."""
    home = home_with("t", retention_ms="7", segment_ms="8")
    ran(home, made.setting("segment.ms", "9", "t"))

    topic = taken_over(home)["t"]

    assert config_of(topic) == {"segment.ms": "9"}
    assert (topic.is_adopted, topic.revision) == (False, 1)


def test_settings_of_an_archive_outlast_a_broker_that_knows_of_none() -> None:
    """Without them, the log would lose what only the archive has; one that Kafka sets counts."""
    own = {"remote.storage.enable": "true", "local.retention.ms": "5"}
    home = home_with("t", "u", retention_ms="7")
    with home.open() as logs:
        for name in ("t", "u"):
            logs.alter_topic(name, own)
    records = [made.setting("retention.ms", "7", name) for name in ("t", "u")]
    ran(home, *records, made.setting("local.retention.ms", "6", "u"))

    topics = taken_over(home)

    assert config_of(topics["t"]) == {**own, "retention.ms": "7"}
    assert config_of(topics["u"]) == {**own, "retention.ms": "7", "local.retention.ms": "6"}


def test_a_birth_value_that_was_handed_over_is_not_the_topics_own_when_it_comes_back() -> None:
    """Only one that Kafka changed is; one that Kafka took back is the birth value again."""
    home = home_with("t", "u")
    records = [
        made.setting(key, value, name)
        for name in ("t", "u")
        for key, value in {"retention.ms": "-1", "segment.ms": "604800000"}.items()
    ]
    ran(home, *records, made.setting("retention.ms", "9", "u"))

    topics = taken_over(home)

    assert (config_of(topics["t"]), config_of(topics["u"])) == ({}, {"retention.ms": "9"})
    assert topics["u"].birth == birth_values(SMALL_INDEXES)


def test_nothing_is_written_where_nothing_changed() -> None:
    """Taking over twice leaves the catalogue as it was."""
    home = home_with("t", retention_ms="7")
    ran(home, made.setting("retention.ms", "7", "t"))
    before = home.text("tidelog.topics.json")

    taken_over(home)

    assert home.text("tidelog.topics.json") == before


def test_a_topic_that_kafka_deleted_is_dropped_and_one_made_here_stays() -> None:
    """A directory with its id is left of the latter."""
    home = home_with("t", "gone", "ours")
    ids = {name: topic.topic_id for name, topic in read_catalogue(home.fs, PATH).topics.items()}
    ran(home, topics={"t": ids["t"]})
    for name in home.fs.list(f"{PATH}/gone-0"):
        home.fs.delete(f"{PATH}/gone-0/{name}")
    home.fs.delete_directory(f"{PATH}/gone-0")

    assert set(taken_over(home)) == {"t", "ours"}


def test_a_topic_in_a_directory_that_is_not_named_stays() -> None:
    """Whether its partitions are there is not known."""
    home, other = home_with("t"), "/other"
    with home.open(paths=(PATH, other)) as logs:
        logs.manager.create_topic("elsewhere", path=other)
    ids = {name: topic.topic_id for name, topic in read_catalogue(home.fs, PATH).topics.items()}
    ran(home, topics={"t": ids["t"]})

    assert set(taken_over(home)) == {"t", "elsewhere"}


def test_a_topic_that_kafka_created_again_has_its_new_id() -> None:
    """The old one's settings do not apply to it."""
    home = home_with("t", retention_ms="7")
    write_partition_metadata(home.fs, f"{PATH}/t-0/partition.metadata", OTHER)
    ran(home, topics={"t": OTHER})

    topic = taken_over(home)["t"]

    assert (topic.topic_id, config_of(topic), topic.is_adopted) == (OTHER, {}, True)


def test_explicit_settings_about_deletion_stay_unless_a_record_names_them() -> None:
    """What was known of an adopted topic does not become unknown."""
    home = home_with("t")
    forget(home)
    with home.open() as logs:
        given = {"retention.ms": "-1", "cleanup.policy": "delete"}
        topic_id = logs.alter_topic("t", given).topic_id
    ran(home, made.setting("cleanup.policy", "compact", "t"), topics={"t": topic_id})

    assert config_of(taken_over(home)["t"]) == {"retention.ms": "-1", "cleanup.policy": "compact"}


def test_a_directory_without_metadata_is_refused() -> None:
    """Nothing is known of what Kafka did; the catalogue stays."""
    home = home_with("t")

    with pytest.raises(KafkaStorageError, match="no __cluster_metadata-0"):
        taken_over(home)
    assert set(read_catalogue(home.fs, PATH).topics) == {"t"}


@pytest.mark.parametrize(
    ("operation", "name"),
    [("rename", "tidelog.topics.json.tmp"), ("open", "tidelog.topics.json"), ("list", PATH)],
)
@pytest.mark.parametrize("number", [ENOSPC, EIO])
def test_a_disk_that_fails_is_named(operation: str, name: str, number: int) -> None:
    """As an error of the disk; the next attempt takes the directory over."""
    home = home_with("t")
    ran(home, made.setting("retention.ms", "9", "t"))
    dirs = LogDirs([PATH], fs=home.fs, rng=Random(1), clock=home.clock, has_all_logs=False)
    home.fs.fail(operation, name, OSError(number, "bad disk"))
    with pytest.raises(KafkaStorageError, match=f"{PATH} failed: .*bad disk"):
        take_over(dirs, fs=home.fs, rng=Random(1))
    dirs.release_all()

    assert config_of(taken_over(home)["t"]) == {"retention.ms": "9"}
