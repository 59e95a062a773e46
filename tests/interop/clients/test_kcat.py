"""kcat: what it does beyond what all clients are asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.interop.clients.conftest import Confluent, Kcat

if TYPE_CHECKING:
    from tests.machinery.brokers import Served


def test_its_input_is_one_transaction(broker: Served) -> None:
    """Of the transactions of others it reads what was committed, or everything."""
    broker.logs.create_topic("tides")
    kcat = Kcat(broker.bootstrap)

    kcat.transact("gauge", "tides", [(True, [b"a", b"b"])])
    Confluent(broker.bootstrap).transact("till", "tides", [(False, [b"c"])])
    kcat.transact("gauge", "tides", [(True, [b"d"])])

    assert [one.value for one in kcat.read("tides", 3, committed=True)] == [b"a", b"b", b"d"]
    assert [one.value for one in kcat.read("tides", 4)] == [b"a", b"b", b"c", b"d"]


def test_offsets_are_found_by_time(broker: Served) -> None:
    """The first record at a time or after it; and it begins to read, and ends, there."""
    broker.logs.create_topic("tides")
    for number in range(10):
        broker.logs.append("tides", b"%d" % number, timestamp=1_700_000_000_000 + 1000 * number)
    kcat = Kcat(broker.bootstrap)

    found = kcat.run("-Q", "-t", "tides:0:1700000003500")
    assert found.split() == [b"tides", b"[0]", b"offset", b"4"]
    read = kcat.run("-C", "-t", "tides", "-p", 0, "-o", "s@1700000003500", "-o", "e@1700000007000")
    assert read.split() == [b"4", b"5", b"6"]
    assert kcat.run("-C", "-t", "tides", "-p", 0, "-o", -2, "-e").split() == [b"8", b"9"]


def test_keys_headers_and_tombstones_go_in_and_out(broker: Served) -> None:
    """As it prints them."""
    broker.logs.create_topic("tides")
    kcat = Kcat(broker.bootstrap)
    kcat.run("-P", "-t", "tides", "-K", ":", "-Z", "-H", "unit=m", stdin=b"Brest:5.1\nBrest:")

    printed = kcat.run("-C", "-t", "tides", "-e", "-Z", "-f", "%k %s %h\n")
    assert printed.splitlines() == [b"Brest 5.1 unit=m", b"Brest NULL unit=m"]
    record = list(broker.logs.read("tides"))[-1]
    assert (record.key, record.value, record.headers) == (b"Brest", None, (("unit", b"m"),))


def test_the_broker_and_its_topics_are_listed(broker: Served) -> None:
    """With the partitions of each, and who leads them."""
    broker.logs.create_topic("tides", partitions=3)
    found = json.loads(Kcat(broker.bootstrap).run("-L", "-J"))

    assert [one["name"] for one in found["brokers"]] == [broker.bootstrap]
    topics = {one["topic"]: one["partitions"] for one in found["topics"]}
    leaders = {one["partition"]: one["leader"] for one in topics["tides"]}
    assert leaders == dict.fromkeys(range(3), found["controllerid"])
