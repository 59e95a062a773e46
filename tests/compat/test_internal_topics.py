"""The records of Kafka's internal topics, as Kafka's own classes and its dump tool print them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest
from tests.compat.conftest import JARS
from tests.machinery.scale import scaled
from tests.unit.codec.messages.test_message_reader import message_of, parsed

import tidelog
from tidelog.cli.main import main
from tidelog.codec.messages.message_reader import read_message
from tidelog.codec.uuid_text import format_uuid

if TYPE_CHECKING:
    from tests.compat.conftest import Java
    from tests.conftest import Enumerated

pytestmark = pytest.mark.compat

DATA = Path(__file__).parents[1] / "golden" / "data"
TOOL = "org.apache.kafka.tools.DumpLogSegments"
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
RECORD = re.compile(r"\| offset: (\d+) .*?headerKeys: \[.*?\](?: key: (.*?))?(?: payload: (.*))?")
CLASSES = re.compile(
    r"org/apache/kafka/(coordinator/\w+/generated|common/metadata|common/message)"
    r"/(\w+?)(?<!JsonConverter)\.class"
)
JAR_NAMES = ("group-coordinator", "transaction-coordinator", "share-coordinator", "metadata")


def message_classes() -> list[str]:
    """Return Kafka's classes of messages that records hold."""
    found = []
    for name in (*JAR_NAMES, "clients"):
        (jar,) = JARS.glob(f"kafka-{name}-4*.jar")
        for entry in ZipFile(jar).namelist():
            match = CLASSES.fullmatch(entry)
            if match and (name != "clients" or match[2].startswith("ConsumerProtocol")):
                found.append(entry.removesuffix(".class").replace("/", "."))
    types = ("Key", "Value", "Record", "Subscription", "Assignment")
    return sorted(one for one in found if one.endswith(types))


def test_random_messages_of_all_classes_are_read_as_kafka_prints_them(
    java: Java, enumerated: Enumerated
) -> None:
    """Each class of Kafka's, so also each that the table might lack; bytes, null, tags, nesting."""
    names = message_classes()
    printed = java.run("MessageSamples", "11", str(scaled(20)), *names)

    count = 0
    for name, version, data, wanted in parsed(printed):
        assert read_message(message_of(name, version), data) == wanted, (name, version)
        count += 1
    enumerated("classes", len(names), at_least=78)
    enumerated("random messages", count, at_least=2_000)


@pytest.mark.parametrize("topic", DECODERS)
def test_records_are_decoded_as_by_kafkas_tool(
    java: Java, topic: str, capsys: pytest.CaptureFixture[str], enumerated: Enumerated
) -> None:
    """Each record of each log that Kafka wrote, its keys and values as objects."""
    paths = sorted(DATA.glob(f"**/{topic}-[0-9]*/*.log"))
    compared = 0
    for path in paths:
        words = ("--deep-iteration", "--print-data-log", DECODERS[topic])
        theirs = dict(records_of(java.run(TOOL, *words, "--files", str(path))))
        main(["dump", "--records", str(path)])
        rows = [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]
        ours = {
            row["offset"]: (row["key"], row["value"])
            for row in rows
            if "offset" in row and "key" in row
        }
        for offset, wanted in theirs.items():
            assert ours[offset] == wanted, (path, offset)
        compared += len(theirs)
    enumerated(f"records of {topic}", compared, at_least=30)


def test_kafkas_tool_decodes_positions_that_were_committed_here(java: Java, tmp_path: Path) -> None:
    """Group, topic, partition, offset, epoch and the topic's id."""
    with tidelog.open(tmp_path) as logs:
        topic = logs.create_topic("t")
        logs.append("t", b"a")
        with logs.reader("t", group="g é") as reader:
            next(reader.read())
            reader.commit()
    path = tmp_path / "__consumer_offsets-0" / f"{0:020d}.log"

    words = ("--deep-iteration", "--print-data-log", "--offsets-decoder", "--files", str(path))
    ((_, (key, value)),) = records_of(java.run(TOOL, *words))

    assert key == {"type": "1", "data": {"group": "g é", "topic": "t", "partition": 0}}
    assert value["version"] == "4"
    del value["data"]["commitTimestamp"]
    assert value["data"] == {
        "offset": 1,
        "leaderEpoch": 0,
        "metadata": "",
        "topicId": format_uuid(topic.topic_id),
    }


def records_of(printed: str) -> Any:
    """Yield offset, key and value of each record that Kafka's tool could decode."""
    for line in printed.splitlines():
        match = RECORD.fullmatch(line)
        if match is None or match[3] is None:
            continue
        key, value = (as_json(text) for text in match.groups()[1:])
        yield int(match[1]), (key, value)


def as_json(text: str | None) -> Any:
    """Return what Kafka printed, read; null for none."""
    return None if text in {None, "<NULL>", "<DELETE>"} else json.loads(str(text))
