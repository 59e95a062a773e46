"""Topics of Kafka's own have the settings without which they would lose what they hold."""

from __future__ import annotations

import pytest

import tidelog
from tidelog.errors import InvalidConfig
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
        with pytest.raises(InvalidConfig, match=f"cleanup.policy: {name} cannot do without it"):
            logs.alter_topic(name, {}, unset=["segment.bytes", "cleanup.policy"])
        logs.alter_topic(name, {}, unset=["segment.bytes"])
        assert logs.topic(name).config == {"cleanup.policy": "compact"}
