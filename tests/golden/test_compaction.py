"""Topics that Kafka compacted, compacted here as of the same time."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.record_values import iterate

from tidelog.cleaner.cleanable_range import OffsetsToClean
from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.throttle import CleanerIo
from tidelog.cli.main import main
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.explain.segment_contents import contents_of
from tidelog.log.log import Log
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.memory import walk
from tidelog.testing import ManualClock, ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Validated
    from tests.golden.conftest import Partition

    from tidelog.cleaner.rewriting.filter_result import ExplainedDrop

    Row = dict[str, Any]

TOPICS = ("compact-delete", "compact-empty", "compact-long", "compact-short", "compact-txn")


pytestmark = pytest.mark.usefixtures("engine")


class Topic:
    """One topic of the golden data, at each step."""

    def __init__(self, named: Callable[[str, str], Partition], name: str) -> None:
        self.name = name
        self.directory_name = f"{name}-0"
        self.at = {
            step: named(f"compaction/{step}", self.directory_name)
            for step in ("before", "after", "later", "last")
        }

    def checkpoint(self, step: str) -> int:
        """Return the offset in the cleaner's checkpoint."""
        path = self.at[step].directory.parent / "cleaner-offset-checkpoint"
        lines = [line.split() for line in path.read_text("ascii").splitlines()[2:]]
        return {name: int(offset) for name, _, offset in lines}.get(self.name, 0)

    def horizons(self, step: str) -> set[int]:
        rows = self.at[step].batches
        return {row["deleteHorizonMs"] for row in rows if row.get("deleteHorizonMs") is not None}

    def cleaned_at(self, before: str, after: str) -> int:
        """Return when Kafka cleaned: a new delete horizon minus delete.retention.ms."""
        new = self.horizons(after) - self.horizons(before)
        found = self.at[after]
        if not new:
            return int(found.about["takenAtMs"])
        assert len(new) == 1
        return new.pop() - found.config.delete_retention_ms


@pytest.fixture(params=TOPICS)
def topic(
    named_partition: Callable[[str, str], Partition], request: pytest.FixtureRequest
) -> Topic:
    return Topic(named_partition, request.param)


@contextmanager
def open_copy(found: Partition, directory: Path, now_ms: int) -> Iterator[Log]:
    """Open a copy of a partition; at the end the delayed deletions are done."""
    shutil.copytree(found.directory, directory)
    for file in directory.iterdir():
        file.chmod(0o644)
    directory.chmod(0o755)
    clock = ManualClock(now_ms)
    with Log.open(
        str(directory),
        fs=SYSTEM_FILES,
        clock=clock,
        scheduler=ManualScheduler(clock),
        rng=Random(1),
        config=found.config,
    ) as log:
        log.update_high_watermark(log.log_end_offset)
        yield log
        clock.advance(found.config.file_delete_delay_ms)


def cleaner_at(now_ms: int) -> Cleaner:
    return Cleaner(
        CleanerSettings(1 << 20, 0.9),
        clock=ManualClock(now_ms),
        scheduler=InlineScheduler(),
        rng=Random(2),
        io=CleanerIo(1 << 16, lambda: None),
    )


def clean(log: Log, first_dirty: int, end: int, now_ms: int) -> int:
    return cleaner_at(now_ms).clean(log, OffsetsToClean(first_dirty, end), now_ms).end_offset


def listed(directory: Path, *, below: int) -> list[tuple[Row, list[Any], bytes]]:
    """Return for each batch the header, the records, and the bytes if it is uncompressed."""
    found = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        batches, _, error = walk(data, check_crc=True)
        assert error is None
        for index in range(len(batches)):
            header = batches.header(index)._asdict()
            raw = data[batches.position[index] : batches.end[index]]
            records = list(iterate(data, batches.slice(index, index + 1), control=True))
            is_packed = header["attributes"] & 7
            if is_packed:  # compressed bytes are not canonical, and with them size and CRC
                del header["length"], header["crc"]
            if header["base_offset"] < below:
                found.append((header, records, b"" if is_packed else raw))
    return found


def test_the_first_cleaning_gives_kafkas_files(topic: Topic, tmp_path: Path) -> None:
    """The files, headers and records are the same; so are the bytes, unless recompressed."""
    after = topic.at["after"]
    now_ms = topic.cleaned_at("before", "after")
    directory = tmp_path / after.name

    with open_copy(topic.at["before"], directory, now_ms) as log:
        end_offset = clean(log, 0, log.segments.active.base_offset, now_ms)

    assert topic.checkpoint("after") == end_offset
    suffixes = ".log", ".timeindex", ".txnindex", ".snapshot"
    assert after.files(*suffixes) == sorted(
        path.name for path in directory.iterdir() if path.suffix in suffixes
    )
    assert listed(after.directory, below=1 << 62) == listed(directory, below=1 << 62)
    for name, content in after.contents(".timeindex", ".txnindex", ".snapshot").items():
        assert content == (directory / name).read_bytes(), name


def planned(topic: Topic) -> list[str]:
    """Return the words for a plan of what Kafka has cleaned."""
    before = topic.at["before"]
    settings = [
        "cleanup.policy=compact",
        f"delete.retention.ms={before.config.delete_retention_ms}",
    ]
    options = [word for setting in settings for word in ("-o", setting)]
    return [str(before.directory), "--now", str(topic.cleaned_at("before", "after")), *options]


def keys_before_and_after(topic: Topic) -> Iterator[dict[int, bytes | None]]:
    """Yield the key of each record by its offset, before the cleaning and after it."""
    for step in (topic.at["before"], topic.at["after"]):
        listing = listed(step.directory, below=1 << 62)
        yield {record.offset: record.key for _, records, _ in listing for record in records}


def test_a_plan_names_the_records_that_kafka_dropped(
    topic: Topic, capsys: pytest.CaptureFixture[str], validated: Validated
) -> None:
    """No others; each that a later record supersedes names one that Kafka retained, of its key."""
    there, kept = keys_before_and_after(topic)

    code = main(["plan", "compaction", "--records", "--json", *planned(topic)])

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    _, *rows, _ = lines
    assert code == 0
    assert [row["offset"] for row in rows if row["cause"] != "empty batch"] == sorted(
        there.keys() - kept.keys()
    )
    for row in rows:
        if row["cause"] == "superseded":
            assert there[row["offset"]] == kept[row["supersededBy"]]
            assert row["offset"] < row["supersededBy"]
    validated("plan compaction", lines)


def test_a_plan_says_what_kafka_did_with_each_record_of_a_key(
    topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that it dropped and those that it kept, and no others; of some keys."""
    there, kept = keys_before_and_after(topic)
    keys = sorted({key for key in there.values() if key is not None})[::40]
    assert keys
    for key in keys:
        words = ["--key", key.hex(), "--encoding", "hex", "--json"]
        assert main(["plan", "compaction", *words, *planned(topic)]) == 0

        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()][1:-1]
        stay = {row["offset"]: row["staysAs"] for row in rows if "staysAs" in row}
        of_key = [{at for at, one in found.items() if one == key} for found in (there, kept)]
        assert {row["offset"] for row in rows} == of_key[0]
        assert set(stay) == of_key[1]


@pytest.mark.parametrize("name", ["old-v0-gzip", "old-v0-none", "old-v1-lz4", "old-v1-none"])
def test_a_plan_explains_what_it_drops_of_old_formats(
    named_partition: Callable[[str, str], Partition], tmp_path: Path, name: str
) -> None:
    """Of the records of a key all but the last, each with the offset of that, and no others."""
    found: list[ExplainedDrop] = []
    now_ms = 1
    with open_copy(
        named_partition("oldformat", f"{name}-0"), tmp_path / f"{name}-0", now_ms
    ) as log:
        log.roll()
        end = log.segments.active.base_offset
        offsets = OffsetsToClean(0, end)
        cleaner_at(now_ms).plan(log, offsets, now_ms, lambda drop: found.extend(drop.explained()))
        keys = {record.offset: record.key for record in log.records()}

    last = {key: offset for offset, key in sorted(keys.items()) if key is not None}
    expected = [
        (offset, key, None if key is None else last[key])
        for offset, key in sorted(keys.items())
        if key is None or last[key] != offset
    ]
    assert [(one.offset, one.key, one.superseded_by) for one in found] == expected
    assert expected


@pytest.mark.parametrize(("before", "after"), [("after", "later"), ("later", "last")])
def test_a_later_cleaning_gives_kafkas_batches(
    topic: Topic, before: str, after: str, tmp_path: Path
) -> None:
    """Of the records before the new ones, the same are retained.

    Of the new records only those that Kafka retained are known; those are the last of each key.
    """
    old, new = topic.at[before], topic.at[after]
    now_ms = topic.cleaned_at(before, after)
    directory = tmp_path / old.name
    log_end = old.state["logEndOffset"]
    with open_copy(old, directory, now_ms) as log:
        append_newer(log, new, log_end, topic.checkpoint(after))
        log.update_high_watermark(log.log_end_offset)

        clean(log, topic.checkpoint(before), topic.checkpoint(after), now_ms)

    assert listed(new.directory, below=log_end) == listed(directory, below=log_end)


def append_newer(log: Log, new: Partition, from_offset: int, end: int) -> None:
    """Append what ``new`` has from an offset on; roll where its dirty part ends."""
    for name in new.files(".log"):
        data = (new.directory / name).read_bytes()
        batches = walk(data).batches
        for index in range(len(batches)):
            if batches.base_offset[index] < from_offset:
                continue
            if log.segments.active.base_offset < end <= batches.base_offset[index]:
                log.roll(end)
            raw = data[batches.position[index] : batches.end[index]]
            log.append_as_follower(raw, int(batches.leader_epoch[index]))
    if log.segments.active.base_offset < end:
        log.roll(end)


def test_cleaning_again_changes_no_record(topic: Topic, tmp_path: Path) -> None:
    """A second cleaning at the same time changes no record, and a third one no byte.

    The second gives a delete horizon to markers whose transactions the first has emptied.
    """
    now_ms = topic.cleaned_at("before", "after")
    directory = tmp_path / topic.directory_name
    seen = []
    with open_copy(topic.at["before"], directory, now_ms) as log:
        end = log.segments.active.base_offset
        for _ in range(3):
            clean(log, 0, end, now_ms)
            files = sorted(directory.glob("*.log"))
            seen.append((list(log.records()), b"".join(path.read_bytes() for path in files)))

    assert seen[0][0] == seen[1][0]
    assert seen[1] == seen[2]


def test_no_compacted_topic_is_left_out(
    named_partition: Callable[[str, str], Partition],
) -> None:
    """Each compacted topic of the golden data is cleaned here."""
    about = named_partition("compaction/before", "compact-txn-0").about

    assert sorted(about["topic configs"]) == list(TOPICS)


@pytest.mark.parametrize("step", ["before", "after", "later", "last"])
def test_batches_that_are_left_without_records_count_as_none(topic: Topic, step: str) -> None:
    """What the headers of a segment say agrees with what is read."""
    with open_read_only(str(topic.at[step].directory), fs=SYSTEM_FILES) as log:
        counted = sum(one.records for one in contents_of(log).values())
        read = sum(1 for _ in log.records())

    assert counted == read
