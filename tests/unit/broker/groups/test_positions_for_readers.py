"""The positions that programs which have joined get for their readers."""

from __future__ import annotations

from tests.machinery.broker_home import BrokerHome, commit, with_broker

from tidelog.broker.groups.joined_readers import read_positions, write_positions
from tidelog.manager.consumer_groups import FoundPositions
from tidelog.manager.known_positions import Committed
from tidelog.readonly.group_positions import Position
from tidelog.segment.filenames import TopicPartition


def test_clients_get_the_fields_that_kafka_defines() -> None:
    """Those for readers of joined programs are not among them."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 5)
        answer = await home.ask("OffsetFetch", 7, groupId="g", topics=None, requireStable=True)
        assert answer["positions"] is None
        assert answer["topics"][0]["partitions"][0]["committedOffset"] == 5

    with_broker(test)


def test_a_reader_gets_what_its_commits_are_fenced_by() -> None:
    """Positions in topics that were deleted are kept apart."""
    live = {TopicPartition("t", 0): Committed(Position(5, 2, "", -1, None), 17)}
    gone = {TopicPartition("u", 1): Committed(Position(6, -1, "", -1, None), 3)}
    found = FoundPositions(live, gone)

    assert read_positions(write_positions(found)) == found
