"""The golden data: which partitions there are, and what Kafka says is in them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.samples import sampled

from tidelog.codec.checkpoint_file import read_checkpoint, write_checkpoint
from tidelog.config.log_config import LogConfig
from tidelog.env.system_files import SYSTEM_FILES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.records.record import Record

    Row = dict[str, Any]

DATA = Path(__file__).parent / "data"
ADOPTED = "adopted"


@dataclass(frozen=True)
class Partition:
    """One partition directory of a case, or of a step of a case, with its listings."""

    case: str
    name: str

    def __str__(self) -> str:
        return f"{self.case}/{self.name}"

    @property
    def directory(self) -> Path:
        """Where its files lie; never to be changed."""
        return DATA / self.case / self.name

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.name.rpartition("-")[0]

    @property
    def number(self) -> int:
        """The partition's number."""
        return int(self.name.rpartition("-")[2])

    @cached_property
    def about(self) -> Row:
        """What ``case.json`` says of the case."""
        folder = DATA / self.case
        while not (folder / "case.json").exists():
            folder = folder.parent
        about: Row = json.loads((folder / "case.json").read_text("utf-8"))
        return about

    @property
    def config(self) -> LogConfig:
        """The settings that the topic had."""
        return LogConfig.parse(self.about.get("topic configs", {}).get(self.topic, {}))

    @property
    def is_refused(self) -> bool:
        """Whether Kafka 4.3.1 gives up starting on this log."""
        path = DATA / ADOPTED / self.case / "refused.json"
        return path.exists() and self.name in json.loads(path.read_text("utf-8"))

    @property
    def is_log_files_only(self) -> bool:
        """Whether the case holds nothing but ``.log`` files: no broker ever had it."""
        return not self.files(".index")

    @property
    def records(self) -> list[Row]:
        """Its records, as a consumer of Kafka got them."""
        return self._lines("jsonl")

    @property
    def committed(self) -> list[Row]:
        """Its records, as a consumer with isolation read_committed got them."""
        return self._lines("committed.jsonl")

    @property
    def has_committed(self) -> bool:
        """Whether such a consumer was asked: where there are transactions."""
        return self._listing("committed.jsonl").exists()

    @property
    def by_time(self) -> list[Row]:
        """The broker's answers to queries by time, or the records that it overlooked.

        It looks in the first segment alone that reaches a time.
        """
        answers = self.state["byTimestamp"]
        return [self._overlooked(row) if row["offset"] == -1 else row for row in answers]

    def _overlooked(self, row: Row) -> Row:
        for record in self.records:
            if record["timestamp"] >= row["query"]:
                return row | {name: record[name] for name in ("offset", "timestamp", "leaderEpoch")}
        return row

    @property
    def batches(self) -> list[Row]:
        """Its batches, as Kafka's ``FileRecords`` finds them."""
        return self._lines("batches.jsonl")

    @property
    def control(self) -> list[Row]:
        """Its control records; empty where there is no listing of them."""
        return self._lines("control.jsonl") if self._listing("control.jsonl").exists() else []

    @property
    def state(self) -> Row:
        """Its offsets, as the broker answered."""
        state: Row = json.loads(self._listing("state.json").read_text("utf-8"))
        return state

    def files(self, *suffixes: str) -> list[str]:
        """Name its files that end in one of ``suffixes``, sorted."""
        return sorted(path.name for path in self.directory.iterdir() if path.suffix in suffixes)

    def contents(self, *suffixes: str) -> dict[str, bytes]:
        """Return the bytes of those files by name."""
        return {name: (self.directory / name).read_bytes() for name in self.files(*suffixes)}

    @staticmethod
    def listed(record: Record) -> Row:
        """Return a record in the form of the listing."""
        return {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": record.timestamp_type.kafka_name,
            "key": in_base64(record.key),
            "value": in_base64(record.value),
            "headers": [[name, in_base64(value)] for name, value in record.headers],
            "leaderEpoch": record.leader_epoch,
        }

    def dump(self, name: str) -> str:
        """Return what Kafka's dump tool prints about one of the files."""
        return self._find(f"dump/{self.name}.{name}.txt").read_bytes().decode("utf-8")

    def _lines(self, suffix: str) -> list[Row]:
        return list(_rows_of(self._listing(suffix)))

    def _listing(self, suffix: str) -> Path:
        return self._find(f"expected/{self.name}.{suffix}")

    def _find(self, file_name: str) -> Path:
        path = DATA / self.case / file_name
        # A file that the adoption does not change is listed once.
        is_elsewhere = self.case.startswith(ADOPTED) and not path.exists()
        return DATA / self.case.removeprefix(f"{ADOPTED}/") / file_name if is_elsewhere else path


@lru_cache(maxsize=256)
def _rows_of(path: Path) -> tuple[Row, ...]:
    """Return the lines of a listing, which tests ask for many times and never change."""
    return tuple(map(json.loads, filter(None, path.read_text("utf-8").split("\n"))))


def as_printed(record: Row) -> Row:
    """Return a listed record as commands print it with ``--encoding base64``."""
    headers = [[*one, "base64"] if one[1] is not None else one for one in record["headers"]]
    encodings = {"keyEncoding": "base64", "valueEncoding": "base64"}
    return {**record, "headers": headers, **encodings}


def in_base64(data: bytes | None) -> str | None:
    """Return bytes as the listings have them."""
    return None if data is None else base64.b64encode(data).decode()


LATEST_MS = (2**63 - 1) // 1000
"""Arrow and Spark count microseconds; Spark's own source too fails on a time beyond this."""


def is_timely(records: list[Row]) -> bool:
    """Say whether microseconds can hold all timestamps of records."""
    return all(abs(record["timestamp"]) <= LATEST_MS for record in records)


def topic_of(partition: Partition) -> str:
    """Return a topic name that no other partition has."""
    return f"{partition}".replace("/", ".")


def link_all(partitions: list[Partition], directory: Path) -> None:
    """Link all partitions into a data directory.

    A query of Spark starts Python processes to plan it, so one for all is much faster.
    """
    for name in ("log-start-offset-checkpoint", "replication-offset-checkpoint"):
        lines = {}
        for found in partitions:
            path = found.directory.parent / name
            offsets = read_checkpoint(SYSTEM_FILES, str(path))
            if (found.topic, found.number) in offsets:
                lines[topic_of(found), 0] = offsets[found.topic, found.number]
        write_checkpoint(SYSTEM_FILES, str(directory / name), lines)
    for found in partitions:
        (directory / f"{topic_of(found)}-0").symlink_to(found.directory, target_is_directory=True)


@cache
def find_partitions() -> tuple[Partition, ...]:
    """Return each partition that has listings."""
    listings = DATA.rglob("expected/*.state.json")
    found = [
        Partition(path.parents[1].relative_to(DATA).as_posix(), path.name.split(".")[0])
        for path in listings
    ]
    return tuple(sorted(found, key=str))


def find_recovered() -> tuple[Partition, ...]:
    """Return each partition that Kafka recovered and then served to a read_committed consumer."""
    listings = DATA.glob("*crash*/**/after/expected/*.committed.jsonl")
    found = [
        Partition(path.parents[1].relative_to(DATA).as_posix(), path.name.split(".")[0])
        for path in listings
    ]
    return tuple(sorted(found, key=str))


def each_partition(
    chosen: Callable[[Partition], object],
    find: Callable[[], tuple[Partition, ...]] = find_partitions,
) -> Any:
    """Make a fixture that gives the chosen partitions, one after the other."""
    params = [partition for partition in find() if chosen(partition)]

    @pytest.fixture(scope="session", params=params, ids=str)
    def golden_partition(request: pytest.FixtureRequest) -> Partition:
        found: Partition = request.param
        return found

    return golden_partition


@pytest.fixture(scope="session")
def named_partition() -> Callable[[str, str], Partition]:
    """Name one partition: the case with its step, then the directory."""
    return Partition


partition = each_partition(lambda _: True)
of_some_partitions = pytest.mark.parametrize("partition", sampled(find_partitions(), 35), ids=str)
"""Marks what takes some hundredths of a second: all but a sample of the partitions are slow."""

first_of_a_case = {found.case: found for found in reversed(find_partitions())}
"""The partition that stands for each case, where what is proven is not about the log."""

of_each_case = each_partition(lambda found: found == first_of_a_case[found.case])
loadable = each_partition(lambda found: not found.is_refused)
indexed = each_partition(lambda found: not found.is_log_files_only)
with_snapshots = each_partition(
    lambda found: not found.is_log_files_only and found.files(".snapshot")
)
controlled = each_partition(lambda found: found.control)
transactional = each_partition(lambda found: found.has_committed)
adopted = each_partition(lambda found: found.case.startswith(ADOPTED))
committed = each_partition(
    lambda found: found.has_committed, lambda: find_partitions() + find_recovered()
)


@pytest.fixture(scope="session")
def partitions() -> list[Partition]:
    """All partitions of the golden data at once."""
    return list(find_partitions())


@pytest.fixture(scope="session")
def recovered() -> list[Partition]:
    """All partitions that Kafka recovered and whose committed records are listed."""
    return list(find_recovered())
