"""Every command that looks, beside a process that changes the logs every few milliseconds.

The writer rolls, compacts, retains, deletes records, and deletes topics and creates them again.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.outcome import Outcome
from tests.machinery.scale import scaled

from tidelog.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST_MS = 1_700_000_000_000

WRITER = """
import sys, time, tidelog
SMALL = {"internal.segment.bytes": "600", "index.interval.bytes": "100", "retention.ms": "-1"}
TOPICS = {
    "kept": SMALL | {"internal.segment.bytes": "20000"},
    "retained": SMALL | {"retention.bytes": "1500"},
    "shrunk": SMALL,
    "compacted": SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}
config = {"file.delete.delay.ms": "5", "log.cleaner.backoff.ms": "1",
          "replica.high.watermark.checkpoint.interval.ms": "10",
          "log.flush.offset.checkpoint.interval.ms": "10",
          "log.flush.start.offset.checkpoint.interval.ms": "10"}
with tidelog.open(sys.argv[1], config=config) as logs:
    for name, settings in TOPICS.items():
        logs.create_topic(name, 1, settings)
    number = 0
    def append(name):
        global number
        logs.partition(name, 0).append_records(
            [(1_700_000_000_000 + n, b"k%d" % (n % 7), b"v%d" % n, ())
             for n in range(number, number + 5)])
    def step():
        global number
        for name in TOPICS:
            append(name)
        number += 5
        logs.manager.tasks.cleanup_logs()
        shrunk = logs.partition("shrunk", 0).log
        shrunk.delete_records(max(shrunk.log_end_offset - 40, 0))
        shrunk.delete_segments_below_start()
    for _ in range(20):
        step()
    print("ready", flush=True)
    while number < 5_000_000:
        step()
        if number % 50 == 0:
            logs.create_topic("passing", 2, SMALL)
            for _ in range(3):
                append("passing")
        if number % 50 == 25 and "passing" in logs.topics():
            logs.delete_topic("passing")
        time.sleep(0.002)
"""

STAYING = ("compacted", "kept", "retained", "shrunk")


class Looks:
    """Runs commands beside the writer, and compares answers with those before."""

    def __init__(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data = data
        self._capsys = capsys
        self.seen: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])

    def run(self, *words: object) -> Outcome:
        """Run a command on the directory."""
        code = main([*map(str, words), "-d", str(self.data)])
        return Outcome(code, *self._capsys.readouterr())

    def on(self, *words: object) -> list[Any]:
        """Run a command that succeeds and prints JSON lines."""
        outcome = self.run(*words)
        assert outcome.code == 0, (words, outcome.out[-500:], outcome.err)
        return outcome.rows

    def offsets(self) -> None:
        """Offsets are in order, and none goes back."""
        rows = self.on("offsets")
        assert {row["topic"] for row in rows} >= set(STAYING)
        for row in rows:
            start, end = row["logStartOffset"], row["logEndOffset"]
            assert 0 <= start <= row["lastStableOffset"] <= row["highWatermark"] <= end
            if row["topic"] in STAYING:
                now = [start, row["highWatermark"], end]
                before = self.seen[row["topic"], row["partition"]]
                assert all(new >= old for new, old in zip(now, before, strict=True))
                self.seen[row["topic"], row["partition"]] = now

    def end_of(self, topic: str) -> int:
        [row] = self.on("offsets", topic)
        return int(row["logEndOffset"])

    def cat(self) -> None:
        """The records are those that were appended, in order, of the range that there was."""
        for topic in STAYING:
            start = self.on("offsets", topic)[0]["logStartOffset"]
            found = self.on("cat", topic, "--up-to", "logEnd")
            end = self.end_of(topic)
            numbers = [row["offset"] for row in found]
            assert numbers == sorted(set(numbers))
            assert numbers[0] >= start
            assert numbers[-1] < end
            if topic != "compacted":
                assert numbers == list(range(numbers[0], numbers[-1] + 1))
            for row in found:
                number = row["offset"]
                assert (row["value"], row["key"]) == (f"v{number}", f"k{number % 7}")
                assert row["timestamp"] == FIRST_MS + number
            if topic == "compacted":
                assert {row["key"] for row in found} == {f"k{n}" for n in range(7)}

    def describe(self) -> None:
        """Segments join, none is damaged, and the text and the picture are drawn, too."""
        for row in self.on("describe", "--json"):
            assert row["damage"] is None
            segments = row["segments"]
            ends = [segment["endOffset"] for segment in segments]
            assert [segment["baseOffset"] for segment in segments[1:]] == ends[:-1]
            assert row["logStartOffset"] <= row["highWatermark"] <= row["logEndOffset"]
        assert self.run("describe").code == 0

    def picture(self) -> None:
        """It is drawn."""
        assert "kept-0" in self.run("picture", "--width", 80).out

    def metrics(self) -> None:
        """The gauges are in order."""
        found: dict[Any, dict[str, float]] = defaultdict(dict)
        for row in self.on("metrics", "--json"):
            found[tuple(sorted(row["tags"].items()))][row["name"]] = row["value"]
        assert found

    def verify(self) -> None:
        """Nothing is damaged."""
        self.on("verify", "--json")

    def plan_retention(self) -> None:
        """What is kept and deleted joins, and fits the limit."""
        for row in self.on("plan", "retention", "--json"):
            parts = [*row["deleted"], *row["kept"]]
            ends = [part["endOffset"] for part in parts]
            assert [part["baseOffset"] for part in parts[1:]] == ends[:-1]
            assert sum(part["sizeBytes"] for part in row["kept"]) == row["sizeBytes"]

    def plan_compaction(self) -> None:
        """Of seven keys, at most seven records are kept beside the last batches."""
        rows = {row["topic"]: row for row in self.on("plan", "compaction", "--json")}
        assert {name for name, row in rows.items() if row["isCompacted"]} == {"compacted"}
        row = rows["compacted"]
        assert row["firstDirtyOffset"] <= row["firstUncleanableOffset"] <= self.end_of("compacted")
        if row["recordsRead"] is not None:
            assert row["recordsKept"] <= 7
            dropped = row["dropped"].get("superseded", 0)
            assert row["recordsKept"] + dropped == row["recordsRead"]

    def cleaner_status(self) -> None:
        """The compacted topic stands as it does."""
        [row] = self.on("cleaner", "status", "--json")
        assert row["firstDirtyOffset"] <= row["firstUncleanableOffset"] <= self.end_of("compacted")
        assert row["failure"] is None

    def plan_recovery(self) -> None:
        """A writer is at work; no record would be lost, and no file is said to change."""
        for words in (("plan", "recovery"), ("recover", "--dry-run")):
            outcome = self.run(*words, "--json")
            assert (outcome.code, "another process is writing" in outcome.err) == (0, True)
            assert outcome.rows
            assert all(row["losses"] == row["files"] == [] for row in outcome.rows)
            assert {row["topic"] for row in outcome.rows} >= set(STAYING)

    def dump(self) -> None:
        """Whatever file is there is printed, up to its valid end."""
        names = [
            *("replication-offset-checkpoint", "tidelog.topics.json", "meta.properties"),
            f"kept-0/{0:020d}.log",
            f"kept-0/{0:020d}.index",
            f"kept-0/{0:020d}.timeindex",
        ]
        for name in names:
            assert main(["dump", str(self.data / name)]) == 0, name
            assert self._capsys.readouterr().out


LOOKS = [name for name in vars(Looks) if name not in {"run", "on", "end_of"} and name[0] != "_"]


@pytest.fixture
def looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Looks]:
    """Commands on a directory that another process is writing."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    data = tmp_path / "data"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(data)], stdout=subprocess.PIPE, text=True
    ) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            yield Looks(data, capsys)
            assert writer.poll() is None
        finally:
            writer.kill()


def test_commands_answer_beside_a_writer(looks: Looks) -> None:
    """Each command ends with 0, reports no damage that is not there, and its answers are true."""
    for name in LOOKS:
        getattr(looks, name)()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", LOOKS)
def test_a_command_always_answers_beside_a_writer(looks: Looks, name: str) -> None:
    """So does each command 200 times in a row."""
    for _ in range(scaled(200)):
        getattr(looks, name)()
