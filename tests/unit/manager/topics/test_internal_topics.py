"""Topics of Kafka's own have the settings without which they would lose what they hold."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

import tidelog
from tidelog.codec.checkpoint_file import replace_file
from tidelog.datadir.catalogue import Topic, catalogue_path
from tidelog.errors import InvalidConfig, InvalidRecord, PolicyViolation
from tidelog.manager.on_demand import Terms
from tidelog.segment.filenames import TopicPartition
from tidelog.testing import CrashFileSystem

NAMES = ("__consumer_offsets", "__transaction_state")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_compacted_by_whatever_it_was_created(name: str) -> None:
    """By the default policy, positions and transactions would be deleted after a week."""
    with tidelog.open("/data", files=CrashFileSystem()) as logs:
        logs.create_topic("t")
        with logs.transaction() as txn:
            txn.create_topic(name)
            txn.append("t", value=b"1")
        assert logs.config_of(name).is_compacted

    with tidelog.open("/data", files=CrashFileSystem()) as logs:
        logs.create_topic(name, config={"segment.bytes": 1 << 20})
        assert logs.config_of(name).is_compacted


@pytest.mark.parametrize("how", ["reader", "transaction"])
def test_a_group_creates_its_topic_as_kafka_does(how: str) -> None:
    """With small segments, of which all but the last are compacted."""
    with tidelog.open("/data", files=CrashFileSystem()) as logs:
        logs.create_topic("t")
        logs.append("t", value=b"1")
        with logs.reader("t", group="g") as reader:
            assert len(list(reader.read())) == 1
            if how == "reader":
                reader.commit()
            else:
                with logs.transaction() as txn:
                    reader.commit(within=txn)
        config = logs.config_of("__consumer_offsets")
        assert (config.is_compacted, config.segment_bytes) == (True, 100 << 20)


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_that_keeps_it_whole_stays(name: str) -> None:
    """It is neither changed nor dropped; others are."""
    with tidelog.open("/data", files=CrashFileSystem()) as logs:
        logs.create_topic(name, config={"segment.bytes": 1 << 20})
        with pytest.raises(InvalidConfig, match="which 'delete' would delete"):
            logs.alter_topic(name, {"cleanup.policy": "delete"})
        with pytest.raises(InvalidConfig, match=f"cleanup.policy: {name} holds .* lose without"):
            logs.alter_topic(name, {}, unset=["segment.bytes", "cleanup.policy"])
        logs.alter_topic(name, {}, unset=["segment.bytes"])
        assert logs.topic(name).config == {"cleanup.policy": "compact"}


@pytest.mark.parametrize("name", NAMES)
def test_no_setting_of_one_run_takes_away_what_it_holds(name: str) -> None:
    """A limit given for all topics is not meant for these; so for a topic that lacks its own."""
    fs, given = CrashFileSystem(), {"cleanup.policy": "delete", "retention.ms": "1"}
    with tidelog.open("/data", files=fs) as logs:
        logs.create_topic(name)
        logs.append(name, b"1", key=b"k")
        key, on_demand = TopicPartition(name, 0), logs.manager.on_demand
        with pytest.raises(PolicyViolation):
            on_demand.delete_records(key, 1, Terms(overrides=given))
        on_demand.retain_log(key, Terms(now_ms=1 << 60, overrides=given))
        assert logs.offsets(name, 0).log_start_offset == 0

    path = catalogue_path("/data")
    catalogue = fs.read(path).replace(b'"cleanup.policy": "compact"', b"", 1)
    replace_file(fs, path, catalogue)
    with tidelog.open("/data", files=fs, overrides=given) as logs:
        assert logs.topic(name).config == {}
        assert logs.config_of(name).is_compacted


def test_records_of_shares_are_never_deleted_by_age() -> None:
    """Their coordinator deletes them when it does not need them any more."""
    name = "__share_group_state"
    with tidelog.open("/data", files=CrashFileSystem()) as logs:
        logs.create_topic(name)
        for change in (
            partial(logs.alter_topic, name, {"retention.ms": 5}),
            partial(logs.alter_topic, name, {}, unset=["retention.ms"]),
        ):
            with pytest.raises(InvalidConfig, match=f"retention.ms: {name}"):
                change()
        logs.alter_topic(name, {"retention.ms": -1, "cleanup.policy": "delete"})


def test_a_transaction_that_creates_it_takes_only_records_with_keys() -> None:
    """Compaction would drop the others."""
    with tidelog.open("/data", files=CrashFileSystem()) as logs:
        txn = logs.transaction()
        txn.create_topic(NAMES[0])
        with pytest.raises(InvalidRecord, match="has no key"):
            txn.append(NAMES[0], b"1")
        txn.abort()


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_of_one_that_a_broker_had_otherwise_keeps_it_whole(name: str) -> None:
    """A mirror of all topics is not refused for it."""
    config = {"cleanup.policy": "compact,delete", "segment.bytes": "1048576"}
    copied = Topic(name, UUID(int=1), {0: UUID(int=2)}, config, birth={}).settings_of_copy()
    with tidelog.open("/data", files=CrashFileSystem()) as logs:
        made = logs.manager.create_topic(name, config=copied.config, birth=copied.birth)
    assert made.config == {"cleanup.policy": "compact", "segment.bytes": "1048576"}
