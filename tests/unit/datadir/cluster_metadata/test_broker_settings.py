"""Which settings of a broker are known for a topic, and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.config.deletion_settings import NEVER_DELETED
from tidelog.config.log_config import LogConfig
from tidelog.datadir.catalogue import Topic
from tidelog.datadir.cluster_metadata.broker_settings import BrokerSettings
from tidelog.datadir.cluster_metadata.metadata_image import MetadataImage
from tidelog.datadir.cluster_metadata.metadata_records import (
    ConfigRecord,
    TopicRecord,
)
from tidelog.datadir.known_setting import ConfigSource, KnownSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

ID, HERE = UUID(int=1), UUID(int=9)
TOPIC, BROKER = 2, 4


def settings_with(*configs: tuple[int, str, str, str | None], **known: object) -> BrokerSettings:
    """Return the settings of node 1 with one topic, ``flights``, and these records."""
    image = MetadataImage()
    image.apply(TopicRecord("flights", ID), 1)
    for offset, config in enumerate(configs, start=1):
        image.apply(ConfigRecord(*config), offset + 1)
    return BrokerSettings(image, 1, **known)  # type: ignore[arg-type]  # committed_to and static


def known_of(settings: BrokerSettings, topic_id: UUID = ID) -> Mapping[str, tuple[str, str]]:
    """Return value and source of each known setting of ``flights``."""
    found = settings.of_topic("flights", topic_id)
    return {name: (setting.value, setting.source.name) for name, setting in found.items()}


def adopted(settings: BrokerSettings, **config: str) -> Topic:
    """Return ``flights`` as adopted; ``config`` is what an alter here has set."""
    own = {name.replace("_", "."): value for name, value in config.items()}
    return Topic("flights", ID, {0: HERE}, own, is_adopted=True).inheriting(settings)


def test_the_nearest_place_wins() -> None:
    """Topic before broker before cluster before server.properties; another broker's is not ours."""
    settings = settings_with(
        (TOPIC, "flights", "retention.ms", "1"),
        (BROKER, "1", "log.retention.ms", "2"),
        (BROKER, "1", "log.retention.bytes", "3"),
        (BROKER, "2", "log.segment.bytes", "2000000"),
        (BROKER, "", "log.retention.bytes", "4"),
        (BROKER, "", "log.cleanup.policy", "compact"),
        static={"log.cleanup.policy": "delete", "log.roll.hours": "5"},
    )

    assert known_of(settings) == {
        "retention.ms": ("1", "TOPIC"),
        "retention.bytes": ("3", "BROKER"),
        "cleanup.policy": ("compact", "CLUSTER"),
        "segment.ms": ("18000000", "STATIC"),
    }


def test_what_no_record_names_is_unknown() -> None:
    """Static defaults are not in the metadata: without them the policy is unknown."""
    topic = adopted(settings_with((TOPIC, "flights", "retention.ms", "1")))

    config = topic.config_in_force(LogConfig(retention_bytes=5))

    assert topic.unknown_settings == ("cleanup.policy", "retention.bytes")
    assert (config.retention_ms, config.retention_bytes, config.is_policy_known) == (1, -1, False)


def test_what_is_taken_back_falls_to_the_next_place() -> None:
    """A null value removes the setting of that place only."""
    settings = settings_with(
        (TOPIC, "flights", "retention.ms", "1"),
        (BROKER, "", "log.retention.ms", "2"),
        (TOPIC, "flights", "retention.ms", None),
    )

    assert known_of(settings) == {"retention.ms": ("2", "CLUSTER")}


def test_server_properties_complete_what_the_metadata_knows() -> None:
    """With both, a setting that neither names has Kafka's default."""
    settings = settings_with((TOPIC, "flights", "cleanup.policy", "compact"), static={})

    assert known_of(settings) == {
        "cleanup.policy": ("compact", "TOPIC"),
        "retention.ms": ("604800000", "DEFAULT"),
        "retention.bytes": ("-1", "DEFAULT"),
    }


@pytest.mark.parametrize("topic_id", [UUID(int=2), UUID(int=0)])
def test_a_topic_of_another_id_is_not_the_one_in_the_metadata(topic_id: UUID) -> None:
    """Its own settings are unknown, so of server.properties only what is named counts."""
    settings = settings_with(
        (TOPIC, "flights", "retention.ms", "1"),
        (BROKER, "", "log.cleanup.policy", "delete"),
        static={"log.retention.ms": "7"},
    )

    assert known_of(settings, topic_id) == {"retention.ms": ("7", "STATIC")}


@pytest.mark.parametrize("value", ["abc", "-2", "", "9999999999999999999999"])
def test_a_value_that_is_not_valid_leaves_the_setting_unknown(value: str) -> None:
    """It neither stops anything nor lets a value of a farther place through."""
    settings = settings_with(
        (BROKER, "", "log.retention.ms", "2"), (TOPIC, "flights", "retention.ms", value)
    )

    assert known_of(settings) == {}


def test_a_change_that_may_not_be_committed_leaves_the_setting_unknown() -> None:
    """So it is for one that is set, and for one that is taken back."""
    settings = settings_with(
        (TOPIC, "flights", "retention.ms", "1"),
        (TOPIC, "flights", "retention.bytes", "1"),
        (TOPIC, "flights", "retention.bytes", None),
        (TOPIC, "flights", "cleanup.policy", "delete"),
        committed_to=3,
        static={},
    )

    assert known_of(settings) == {"retention.ms": ("1", "TOPIC")}


def test_the_policy_of_a_tiered_topic_is_unknown() -> None:
    """What may be deleted of it here depends on copies elsewhere."""
    settings = settings_with(
        (TOPIC, "flights", "cleanup.policy", "delete"),
        (TOPIC, "flights", "remote.storage.enable", "true"),
    )

    assert set(known_of(settings)) == {"remote.storage.enable"}


def test_a_copy_of_a_topic_with_an_unknown_policy_deletes_nothing() -> None:
    """By no limit that is known; it is not tiered, and the settings about that are named."""
    settings = settings_with(
        (TOPIC, "flights", "retention.ms", "1"),
        (TOPIC, "flights", "segment.bytes", "2000000"),
        (TOPIC, "flights", "local.retention.bytes", "5"),
        (TOPIC, "flights", "remote.storage.enable", "true"),
    )

    config, _, left_out = adopted(settings).settings_of_copy()

    assert config == {**NEVER_DELETED, "segment.bytes": "2000000"}
    assert left_out == ("local.retention.bytes", "remote.storage.enable")


def test_what_is_altered_here_comes_first_and_nothing_is_copied() -> None:
    """An alter takes precedence over the metadata; the catalogue holds the alter alone."""
    settings = settings_with((TOPIC, "flights", "retention.ms", "1"))
    topic = adopted(settings, retention_ms="5")

    assert topic.config_in_force(LogConfig()).retention_ms == 5
    assert topic.as_json()["config"] == {"retention.ms": "5"}


def test_topics_made_here_have_nothing_of_a_broker() -> None:
    """Only an adopted topic has been a broker's; others keep what held when they were created."""
    made_here = Topic("flights", ID, {0: HERE}).inheriting(
        settings_with((TOPIC, "flights", "retention.ms", "1"))
    )

    assert made_here.inherited == {"retention.ms": KnownSetting("-1", ConfigSource.BIRTH)}


def test_settings_that_contradict_each_other_keep_more() -> None:
    """They come from places that could not be checked together; nothing stops because of them."""
    settings = settings_with(
        (TOPIC, "flights", "cleanup.policy", "compact"),
        (TOPIC, "flights", "min.compaction.lag.ms", "9"),
        (BROKER, "", "log.cleaner.max.compaction.lag.ms", "5"),
    )

    config = adopted(settings).config_in_force(LogConfig())

    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (9, 9)


def test_sources_have_the_names_of_kafka() -> None:
    """They are those that Kafka's tools print for DescribeConfigs, and the one that Kafka lacks."""
    assert [source.value for source in ConfigSource] == [
        "BIRTH_CONFIG",
        "DYNAMIC_TOPIC_CONFIG",
        "DYNAMIC_BROKER_CONFIG",
        "DYNAMIC_DEFAULT_BROKER_CONFIG",
        "STATIC_BROKER_CONFIG",
        "DEFAULT_CONFIG",
    ]
