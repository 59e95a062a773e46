"""Unmodified clients produce to a broker, and consume from it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from tests.interop.clients.conftest import Client
    from tests.machinery.brokers import Served

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries

VALUES = [b"%d" % number for number in range(500)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_acknowledged_and_come_back(broker: Served, client: Client, acks: str) -> None:
    """Each once, in order, whatever the producer waits for."""
    broker.logs.create_topic("tides")

    offsets = client.produce("tides", VALUES, acks=acks)
    got = client.read("tides", len(VALUES))

    if acks != "0" and client.tells_offsets:
        assert offsets == list(range(len(VALUES)))
    assert [one.value for one in got] == VALUES
    assert [one.offset for one in got] == list(range(len(VALUES)))
    assert {one.key for one in got} == {b"k"}
    assert [record.value for record in broker.logs.read("tides")] == VALUES


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_goes_in_and_out(broker: Served, client: Client, codec: str) -> None:
    """Batches are kept as they came."""
    if codec not in client.codecs:
        pytest.skip(f"{client.name} has no {codec} without another package")
    broker.logs.create_topic("tides")

    client.produce("tides", VALUES, codec=codec)

    assert [one.value for one in client.read("tides", len(VALUES))] == VALUES
    assert [record.value for record in broker.logs.read("tides")] == VALUES
    segment = next(iter(broker.logs.partition("tides", 0).log.segments))
    assert segment.size_bytes < 20 * len(VALUES)


def test_a_topic_is_created_for_a_client(broker: Served, client: Client) -> None:
    """As ``auto.create.topics.enable`` says, unless it is off."""
    client.produce("new", VALUES[:3], partition=0)

    assert [record.value for record in broker.logs.read("new")] == VALUES[:3]


def test_an_idempotent_producer_is_known_to_the_log(broker: Served, client: Client) -> None:
    """It has got an id, and its sequence numbers are in the batches."""
    broker.logs.create_topic("tides")

    client.produce("tides", VALUES, idempotent=True)

    producers = broker.logs.partition("tides", 0).log.active_producers()
    assert [one.last_sequence for one in producers.values()] == [len(VALUES) - 1]


def test_aborted_records_are_seen_only_uncommitted(broker: Served, client: Client) -> None:
    """Read by the client, and by the owner of the logs."""
    broker.logs.create_topic("tides")
    batches = [(True, [b"a", b"b"]), (False, [b"c"]), (True, [b"d"]), (False, [b"e", b"f"])]

    client.transact("till", "tides", batches)
    client.produce("tides", [b"end"], partition=0)

    committed = [one.value for one in client.read("tides", 4, committed=True)]
    everything = [one.value for one in client.read("tides", 7)]
    assert committed == [b"a", b"b", b"d", b"end"]
    assert everything == [b"a", b"b", b"c", b"d", b"e", b"f", b"end"]
    owner = broker.logs.read("tides", isolation=Isolation.READ_COMMITTED)
    assert [record.value for record in owner] == committed


def test_a_group_goes_on_where_it_was(broker: Served, client: Client) -> None:
    """By the client twice, then by a reader of the program, then by the client."""
    broker.logs.create_topic("tides")
    client.produce("tides", VALUES, partition=0)

    first = client.read_as_group("tides", "g", 100)
    second = client.read_as_group("tides", "g", 100)
    reader = broker.logs.reader("tides", group="g")
    with reader:
        third = [record for _, record in zip(range(100), reader, strict=False)]
        reader.commit()
    fourth = client.read_as_group("tides", "g", 100)

    got = [one.value for one in [*first, *second]]
    got += [one.value for one in third]
    got += [one.value for one in fourth]
    assert got == VALUES[:400]


def test_libraries_share_a_group(broker: Served, client: Client) -> None:
    """A position is the same to all of them."""
    from tests.interop.clients.conftest import KINDS, Kcat

    kinds = [kind for kind in KINDS if kind is not Kcat or shutil.which("kcat")]
    broker.logs.create_topic("tides")
    client.produce("tides", VALUES, partition=0)

    got = [
        one.value
        for kind in kinds
        for one in kind(broker.bootstrap).read_as_group("tides", "shared", 50)
    ]

    assert got == VALUES[: 50 * len(kinds)]
