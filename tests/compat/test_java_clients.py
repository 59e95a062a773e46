"""Kafka's own clients and tools, unmodified, at a broker of ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.compat.conftest import FIRST_MS, Kafka
from tests.compat.test_hand_over import handed_over
from tests.conftest import CONNECTOR
from tests.interop.clients.conftest import Confluent
from tests.interop.clients.test_first_messages import first_message
from tests.machinery.brokers import served

import tidelog
from tidelog.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.compat.conftest import Java
    from tests.machinery.brokers import Served

    from tidelog.embedded.logs import Logs

pytestmark = [pytest.mark.compat, pytest.mark.slow]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOOLS = "org.apache.kafka.tools"
PACKAGES = ("clients.producer", "common.serialization")


class Clients(Kafka):
    """Kafka's clients, of a broker that was started already; ``tool`` runs a command of Kafka's."""

    def tool(self, name: str, *words: str) -> str:
        """Run a tool; return what it printed."""
        address = f"127.0.0.1:{self.port}"
        return self.java.run(name, "--bootstrap-server", address, *words)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Served]:
    """A broker over an empty directory."""
    with served(tmp_path / "data") as found:
        yield found


@pytest.fixture
def clients(java: Java, broker: Served, tmp_path: Path) -> Clients:
    """Kafka's clients."""
    return Clients(java, tmp_path / "data", tmp_path, int(broker.bootstrap.partition(":")[2]))


@pytest.fixture(params=["4.3.1", "3.9.2"])
def of_each(clients: Clients, request: pytest.FixtureRequest) -> Clients:
    """Kafka's clients, of two releases; tools are of the newer one."""
    if request.param == "4.3.1":
        return clients
    jar = CONNECTOR / f"kafka-clients-{request.param}.jar"
    if not jar.exists():
        pytest.skip("needs Spark's Kafka connector: make peer")
    return replace(clients, java=replace(clients.java, before=str(jar)))


def values(logs: Logs, topic: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Return offset, time, key and value of the records that readers of committed ones see."""
    found = logs.read(topic, isolation="read_committed")
    return [(one.offset, one.timestamp, one.key, one.value) for one in found]


def test_every_codec_goes_in_and_out(broker: Served, of_each: Clients) -> None:
    """By an idempotent producer, as Java's is unless it is asked not to be."""
    of_each.ask("create t", *(f"produce t {codec} 300" for codec in CODECS))

    got = of_each.consume("t")

    assert len(got) == 300 * len(CODECS)
    assert [one[:4] for one in got] == values(broker.logs, "t")
    assert len(broker.logs.partition("t", 0).log.active_producers()) == len(CODECS)


def test_a_consumer_reads_what_takes_the_place_of_lost_records(
    broker: Served, clients: Clients
) -> None:
    """Its position is of another leader epoch: it continues where that one ended."""

    def consume(count: int) -> list[str]:
        words = ["--topic", "t", "--group", "g", "--max-messages", str(count)]
        words += ["--command-property", "auto.offset.reset=earliest"]
        return clients.tool(f"{TOOLS}.consumer.ConsoleConsumer", *words).split()

    broker.logs.create_topic("t")
    broker.logs.append_all("t", [b"old%d" % number for number in range(20)])
    assert consume(20) == [f"old{number}" for number in range(20)]
    broker.logs.manager.truncation.truncate_to({("t", 0): 15})
    broker.logs.append_all("t", [b"new%d" % number for number in range(10)])

    assert consume(10) == [f"new{number}" for number in range(10)]


def test_records_are_acknowledged(broker: Served, of_each: Clients) -> None:
    """Each once, in order, whatever the producer waits for; without one it gets no offset."""
    offsets = of_each.ask("create t", *(f"produce-acks t {acks} 50" for acks in ("0", "1", "all")))
    got = of_each.consume("t")

    assert [int(one) for one in offsets.split()] == [-1] * 50 + list(range(50, 150))
    assert [one[2] for one in got] == [key.encode() for key in keys(range(50))] * 3
    assert [one[:4] for one in got] == values(broker.logs, "t")


def test_offsets_are_found_by_time(of_each: Clients) -> None:
    """The first record at a time, or after it."""
    ask = ("create t", "produce t none 100", f"offset-at t {FIRST_MS + 30}")

    assert of_each.ask(*ask, f"offset-at t {FIRST_MS - 5}").split() == ["30", "0"]


def test_members_share_the_partitions_of_a_topic(broker: Served, of_each: Clients) -> None:
    """One has all, two have halves, the other then has all; each record comes to one of them."""
    told = of_each.ask("create t retention.ms=-1 4", "produce t none 200 4", "share t g 4")

    *shares, found = told.split("\n", 3)
    assert shares == ["one 4", "two 2 2", "other 4"]
    assert found.split() == sorted(keys(range(200)))
    positions = broker.logs.groups.committed("g").values()
    assert [one.position.offset for one in positions] == [50] * 4


def test_committed_transactions_are_read_and_no_others(
    broker: Served, clients: Clients, of_each: Clients
) -> None:
    """Seven, each third one aborted, and one that is left open."""
    of_each.ask("create tx", "transact tx 7")

    committed = of_each.consume("tx", "read_committed")
    everything = of_each.consume("tx")

    assert [one[2] for one in committed] == [b"java-%d" % number for number in range(200)]
    assert [one[:4] for one in committed] == values(broker.logs, "tx")
    assert everything[-1][2] == b"open-0"
    assert set(committed) < set(everything)
    listed = clients.tool(f"{TOOLS}.TransactionsCommand", "list")
    assert "tx" in listed
    assert "Ongoing" in listed


def test_topics_and_settings_are_changed(broker: Served, clients: Clients) -> None:
    """Created, described, altered, read back by the owner; records deleted."""
    clients.ask("create t retention.ms=5000 3", "alter t segment.ms=777777", "produce t none 90 3")
    settings = clients.ask("settings t").splitlines()
    clients.ask("alter t retention.ms", "delete-records t 7")

    described = clients.tool(f"{TOOLS}.TopicCommand", "--describe", "--topic", "t")

    assert sorted(settings) == ["end", "retention.ms=5000", "segment.ms=777777"]
    assert broker.logs.topic("t").config == {"segment.ms": "777777"}
    assert broker.logs.partition("t", 0).log.log_start_offset == 7
    assert "PartitionCount: 3" in described
    assert described.count("Leader: 1") == 3
    assert "segment.ms=777777" in described
    assert "cleanup.policy" not in described


def test_a_group_is_consumed_described_reset_and_deleted(broker: Served, clients: Clients) -> None:
    """By the tools that operators use."""
    clients.ask("create t", "produce t none 100")
    group = f"{TOOLS}.consumer.group.ConsumerGroupCommand"

    first = consumed_keys(clients, 60)
    described = clients.tool(group, "--describe", "--group", "g")
    listed = clients.tool(group, "--list", "--state")
    with broker.logs.reader("t", group="g") as reader:
        rest = [record.key for _, record in zip(range(40), reader, strict=False)]
        reader.commit()
    reset = ("--reset-offsets", "--to-offset", "90", "--topic", "t", "--execute")
    clients.tool(group, "--group", "g", *reset)
    again = consumed_keys(clients, 10)
    clients.tool(group, "--delete", "--group", "g")

    assert first == keys(range(60))
    assert described.split("g ", 1)[1].split()[:5] == ["t", "0", "60", "100", "40"]
    assert "Empty" in listed
    assert rest == [key.encode() for key in keys(range(60, 100))]
    assert again == keys(range(90, 100))
    assert broker.logs.groups.committed("g") == {}


def test_a_group_goes_from_library_to_library(broker: Served, clients: Clients) -> None:
    """librdkafka, then a reader of the program, then Java: no record twice, none left out."""
    broker.logs.create_topic("t")
    for key in keys(range(100)):
        broker.logs.append("t", b"v", key=key.encode())

    first = Confluent(broker.bootstrap).read_as_group("t", "g", 30)
    with broker.logs.reader("t", group="g") as reader:
        second = [record.key for _, record in zip(range(30), reader, strict=False)]
        reader.commit()
    third = consumed_keys(clients, 40)

    found = [*(one.key for one in first), *second, *(key.encode() for key in third)]
    assert found == [key.encode() for key in keys(range(100))]


def consumed_keys(clients: Clients, count: int) -> list[str]:
    """Return the keys of the next records of group ``g`` in topic ``t``, which it commits."""
    forms = ("print.key=true", "print.value=false")
    printed = clients.tool(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--topic", "t", "--group", "g", "--from-beginning", "--timeout-ms", "20000"),
        *("--max-messages", str(count)),
        *(word for one in forms for word in ("--formatter-property", one)),
    )
    return printed.split()


def keys(numbers: range) -> list[str]:
    """Return the keys that ``produce`` gives to records."""
    return [f"java-{number}" for number in numbers]


def test_the_first_message_of_the_page_is_sent_and_read(
    broker: Served, clients: Clients, tmp_path: Path
) -> None:
    """By its line for Java, and by its command of Kafka's."""
    source = tmp_path / "First.java"
    packages = ("java.util", *(f"org.apache.kafka.{name}" for name in PACKAGES))
    imports = "".join(f"import {one}.*; " for one in packages)
    line = first_message("Java", broker.bootstrap)
    body = f"public static void main(String[] given) throws Exception {{ {line}.get(); }}"
    source.write_text(f"{imports}class First {{ {body} }}")
    read = first_message("Kafka's tools", broker.bootstrap).split()

    clients.java.run(str(source))
    printed = clients.java.run(f"{TOOLS}.consumer.ConsoleConsumer", *read[1:], "--max-messages=1")

    assert read[0] == "kafka-console-consumer.sh"
    assert printed == "high\n"
    assert [record.value for record in broker.logs.read("tides")] == [b"high"]


def test_tools_show_the_cluster(broker: Served, clients: Clients) -> None:
    """Its id, what it offers, where logs lie, and the ends of a log."""
    clients.ask("create t", "produce t none 10")

    offered = clients.tool(f"{TOOLS}.BrokerApiVersionsCommand")
    placed = clients.tool(f"{TOOLS}.LogDirsCommand", "--describe")
    ends = clients.tool(f"{TOOLS}.GetOffsetShell", "--topic", "t")

    assert "Produce(0): 0 to 11" in offered
    assert "Fetch(1): 4 to 17" in offered
    (directory,) = json.loads(placed.splitlines()[-1])["brokers"][0]["logDirs"]
    assert directory["logDir"] == broker.logs.manager.live_dirs[0]
    assert "t-0" in {one["partition"] for one in directory["partitions"]}
    assert "t:0:10" in ends


def test_a_partition_is_moved_to_another_disk_by_kafkas_tool(java: Java, tmp_path: Path) -> None:
    """As operators do: executed, verified until it is done, and throttles removed at the end."""
    disks = [str(tmp_path / "a"), str(tmp_path / "b")]
    with served(*disks) as broker:
        port = int(broker.bootstrap.partition(":")[2])
        clients = Clients(java, tmp_path / "a", tmp_path, port)
        clients.ask("create t", "produce t none 50")
        before = broker.logs.partition("t", 0).log.directory
        target = next(disk for disk in disks if not before.startswith(disk))
        wanted = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [target]}
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
        tool = f"{TOOLS}.reassign.ReassignPartitionsCommand"

        clients.tool(tool, "--reassignment-json-file", str(plan), "--execute")
        for _ in range(20):
            verified = clients.tool(tool, "--reassignment-json-file", str(plan), "--verify")
            if "completed successfully" in verified:
                break

        assert broker.logs.partition("t", 0).log.directory.startswith(target)
        assert "completed successfully" in verified
        assert "Error" not in verified
        assert len(values(broker.logs, "t")) == 50


def test_a_directory_is_served_here_by_kafka_and_here_again(java: Java, tmp_path: Path) -> None:
    """Records, transactions, positions and the ids of producers stay what they are.

    An open transaction is taken over: by the producer of the same id, which aborts it.
    """
    data = tmp_path / "data"

    def here(broker: Served) -> Clients:
        return Clients(java, data, tmp_path, int(broker.bootstrap.partition(":")[2]))

    with served(data) as broker:
        here(broker).ask("create t", "produce t zstd 100", "create tx", "transact tx 4")
        first = consumed_keys(here(broker), 30)
        before = values(broker.logs, "tx")
        ids = set(broker.logs.partition("tx", 0).log.active_producers())

    kafka = handed_over(java, data)
    with kafka.running():
        there = Clients(java, data, tmp_path, kafka.port)
        second = consumed_keys(there, 30)
        there.ask("produce t lz4 100", "transact tx 4")
        committed = there.consume("tx", "read_committed")
    assert main(["from-kafka", "-d", str(data)]) == 0

    with served(data) as broker:
        third = consumed_keys(here(broker), 40)
        here(broker).ask("transact tx 1")
        after = values(broker.logs, "tx")

    assert [*first, *second, *third] == keys(range(100))
    assert len(before) == 100
    assert [one[:4] for one in committed][:100] == before
    assert len(after) == 200
    assert after[:100] == before
    with tidelog.open(data) as logs:  # the transactional id has kept its producer
        assert set(logs.partition("tx", 0).log.active_producers()) == ids
