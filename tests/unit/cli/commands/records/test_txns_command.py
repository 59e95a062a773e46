"""``tidelog txns``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tidelog
from tidelog.readonly.transactional_id import (
    TRANSACTIONS_TOPIC,
    State,
    Transaction,
    transaction_record,
)
from tidelog.records.builder import build_batch
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    Cli = Any

RECORD = (1_700_000_000_000, b"k", b"v", ())


def begin(cli: Cli, *producers: int) -> None:
    """Let each producer write one record of a transaction, beside plain ones."""
    with tidelog.open(cli.data, transaction_partition_verification_enable=False) as logs:
        for producer_id in producers:
            logs.append("t", b"plain")
            batch = build_batch(
                [RECORD],
                transactional=True,
                producer_id=producer_id,
                producer_epoch=3,
                base_sequence=0,
            )
            logs.partition("t", 0).append(batch)


def store(cli: Cli, producer_id: int, name: str, state: State) -> None:
    """Store what a coordinator does of the transactional id of a producer that writes to t-0."""
    time_ms = RECORD[0]
    known = Transaction(name, producer_id, 3, 60_000, state, {TopicPartition("t", 0)})
    known.started_ms = known.updated_ms = time_ms
    with tidelog.open(cli.data) as logs:
        if TRANSACTIONS_TOPIC not in logs.topics():
            logs.create_topic(TRANSACTIONS_TOPIC)
        home = logs.manager.partition(TRANSACTIONS_TOPIC, 0)
        home.append_records([transaction_record(known, time_ms)])


def test_a_partition_without_transactions_is_a_line(topic: Cli) -> None:
    """With its offsets, and nothing below."""
    topic.append("a")

    assert topic.on("txns").out == "t-0: last stable offset 1, high watermark 1\n"
    row = topic.on("txns", "--json").rows[0]
    assert (row["open"], row["aborted"]) == ([], [])


def test_open_transactions_are_listed_oldest_first(topic: Cli) -> None:
    """The first one holds the last stable offset; also beside a writer that has them open."""
    begin(topic, 9, 7)
    with tidelog.open(topic.data):
        rows = topic.on("txns", "--json").rows

    assert [txn["producerId"] for txn in rows[0]["open"]] == [9, 7]
    assert [txn["firstOffset"] for txn in rows[0]["open"]] == [1, 3]
    assert rows[0]["open"][0]["firstTimestamp"] == 1_700_000_000_000
    assert rows[0]["lastStableOffset"] == 1


def test_offsets_are_shown_up_to_the_log_end(topic: Cli) -> None:
    """Beside a writer the high watermark is the one that was checkpointed last."""
    topic.append("a", "b")
    (topic.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    rows = [topic.on("txns", "--json", *words).rows[0] for words in ((), ("--up-to", "logEnd"))]

    assert topic.on("txns").out == "t-0: last stable offset 1, high watermark 1\n"
    out = topic.on("txns", "--up-to", "logEnd").out
    assert out == "t-0: last stable offset 2, log end 2\n"
    names = ("highWatermark", "lastStableOffset", "logEndOffset")
    assert [[row[name] for name in names] for row in rows] == [[1, 1, 2], [1, 2, 2]]
    refused = topic.on("txns", "abort", "t-0", "--producer-id", "9", "--up-to", "logEnd")
    assert (refused.code, "--up-to is for" in refused.err) == (2, True)


def test_what_began_below_the_log_start_is_named_without_its_time(topic: Cli) -> None:
    """Its first batch may be deleted; which producer it was the snapshot knows."""
    begin(topic, 9)
    topic.append("later")
    (topic.data / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")

    found = topic.on("txns", "--open", "--json").rows[0]["open"]

    unknown = {"producerEpoch": -1, "firstTimestamp": -1, "transactionalId": None}
    assert found == [{"producerId": 9, "firstOffset": 1, **unknown}]


def test_damage_is_reported_and_ends_with_1(topic: Cli) -> None:
    """What lies after it is not known."""
    begin(topic, 9)
    log = topic.log_file()
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    for snapshot in log.parent.glob("*.snapshot"):
        snapshot.unlink()

    outcome = topic.on("txns")

    assert (outcome.code, "are missing" in outcome.err) == (1, True)


def test_a_transactional_id_is_named_where_it_is_known(topic: Cli) -> None:
    """By what the coordinator has stored beside the log; of open and of aborted transactions."""
    begin(topic, 9, 7, 5)
    store(topic, 5, "done", State.EMPTY)
    topic.on("txns", "abort", "t-0", "--producer-id", "5", "--execute")
    store(topic, 9, "pay", State.ONGOING)

    shown = topic.on("txns", "t")
    [row] = topic.on("txns", "t", "--json").rows
    [described] = topic.on("describe", "t", "--json").rows[:1]
    table = topic.on("table", "transactions", "t", "--json").rows

    assert [txn["transactionalId"] for txn in row["open"]] == ["pay", None]
    assert [txn["transactionalId"] for txn in row["aborted"]] == ["done"]
    assert "open     producer 9 (pay), epoch 3, from offset 1 since" in shown.out
    assert "open     producer 7, epoch 3, from offset 3 since" in shown.out
    assert "aborted  producer 5 (done) from offset 5, marker at 6" in shown.out
    assert "held by producer 9 (pay), epoch 3," in topic.on("describe", "t").out
    assert described["lastStableOffsetHeldBy"]["transactionalId"] == "pay"
    assert [line["transactionalId"] for line in table] == ["done", "pay", None]


def test_transactions_are_listed_without_what_names_them(topic: Cli) -> None:
    """Where the coordinator's records cannot be read the producers stand alone."""
    begin(topic, 9)
    store(topic, 9, "pay", State.ONGOING)
    log = topic.log_file(f"{TRANSACTIONS_TOPIC}-0")
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)

    outcome = topic.on("txns", "t", "--json")

    assert outcome.code == 0
    assert [txn["transactionalId"] for txn in outcome.rows[0]["open"]] == [None]
