"""A topic in one, two and three data directories, and every way to look at it: all, or an error.

Each look is given every choice of the directories that hold a topic. Where these are all, it covers
every partition with all records; else it is refused with an error that names a partition, unless it
is allowed to read topics in part: it then covers those that are there.
"""

from __future__ import annotations

import io
import itertools
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from tests.machinery import metadata_log as made
from tests.machinery.scale import scaled

import tidelog
from tidelog.cli.main import main
from tidelog.datadir.catalogue import CATALOGUE_FILE
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE
from tidelog.embedded.spread_compaction import SpreadTerms, plan_spread
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InconsistentTopicId, PartitionsElsewhere
from tidelog.exit_codes import ExitCode
from tidelog.log.topic_id import (
    PARTITION_METADATA_FILE,
    read_partition_metadata,
)
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.conftest import Enumerated

    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.read_plan import Task

PARTITIONS: Final = 4
RECORDS: Final = 10
GROUP: Final = "readers"
COMPACTED: Final = ("-o", "cleanup.policy=compact")
"""A setting that a directory without a catalogue does not name."""
OFFSETS: Final = "__consumer_offsets"


class Layout(NamedTuple):
    """Data directories, each with the numbers of the partitions of t in it."""

    held: dict[str, frozenset[int]]

    def choices(self) -> Iterator[tuple[str, ...]]:
        """Yield each choice of one or more of the directories."""
        for count in range(1, len(self.held) + 1):
            yield from itertools.combinations(self.held, count)

    def numbers(self, paths: Sequence[str]) -> set[int]:
        """Return the partitions that some directories hold."""
        return set().union(*(self.held[path] for path in paths))


def make_own(folder: Path, count: int) -> Layout:
    """Let a service spread a topic, and a group read it."""
    paths = [str(folder / f"disk{number}") for number in range(count)]
    settings = {"cleanup.policy": "compact,delete", "segment.bytes": "1048576"}
    with tidelog.open(*paths, log_cleaner_enable="false") as logs:
        logs.create_topic("t", PARTITIONS, settings, is_spread=True)
        for number in range(PARTITIONS):
            records: Any = [(-1, b"k", b"%d" % number, [])] * RECORDS
            logs.partition("t", number).append_records(records)
        with logs.reader("t", group=GROUP) as reader:
            assert len(list(reader.read())) == PARTITIONS * RECORDS
            reader.commit()
    return laid_out(paths)


def make_without_catalogue(folder: Path, count: int) -> Layout:
    """Return what a broker leaves: the numbers of the partitions have holes in each directory."""
    layout = make_own(folder, count)
    for path in layout.held:
        os.remove(os.path.join(path, CATALOGUE_FILE))
    return layout


def make_with_metadata(folder: Path, count: int) -> Layout:
    """Let the first directory have the first partitions, and no hole, beside the metadata."""
    paths = [*make_without_catalogue(folder, count).held]
    for path, number in itertools.product(paths, range(PARTITIONS)):
        target = paths[number * count // PARTITIONS]
        if path != target and os.path.isdir(f"{path}/t-{number}"):
            os.rename(f"{path}/t-{number}", f"{target}/t-{number}")
    records = []
    for topic, partitions in (("t", PARTITIONS), (OFFSETS, 1)):
        [first] = [f"{path}/{topic}-0" for path in paths if os.path.isdir(f"{path}/{topic}-0")]
        file = os.path.join(first, PARTITION_METADATA_FILE)
        topic_id = read_partition_metadata(SYSTEM_FILES, file)
        assert topic_id is not None
        records += [made.topic(topic, topic_id)]
        records += [made.partition(topic_id, number) for number in range(partitions)]
    made.write_metadata(SYSTEM_FILES, paths[0], made.metadata_log([records]))
    return laid_out(paths)


def make_two_topics(folder: Path) -> Layout:
    """Make a topic of today, and what a deleted one of its name left on a disk that was away."""
    today, away = (str(folder / name) for name in ("today", "away"))
    for path, count in ((today, 2), (away, PARTITIONS)):
        with tidelog.open(path, log_cleaner_enable="false") as logs:
            logs.create_topic("t", count, {"cleanup.policy": "compact,delete"})
            for number in range(count):
                records: Any = [(-1, b"k", path.encode(), [])] * RECORDS
                logs.partition("t", number).append_records(records)
            if path == today:
                logs.alter_topic("t", {"segment.bytes": "1048576"})
                with logs.reader("t", group=GROUP) as reader:
                    assert len(list(reader.read())) == count * RECORDS
                    reader.commit()
    os.remove(os.path.join(away, META_PROPERTIES_FILE))  # it names another cluster
    return laid_out([today, away])


MAKERS: Final = (make_own, make_without_catalogue, make_with_metadata)


def laid_out(paths: Sequence[str]) -> Layout:
    held = {}
    for path in paths:
        names = (name.rpartition("-") for name in os.listdir(path))
        held[path] = frozenset(int(number) for topic, _, number in names if topic == "t")
    return Layout(held)


# Looks: each returns the partitions that it covers, and checks their records, if it reads them


class Look(NamedTuple):
    """A way to look at topic t, given paths, and whether topics may be read in part."""

    name: str
    run: Callable[[Sequence[str], bool], set[int]]


Rows = list[dict[str, Any]]


def each(rows: Rows) -> set[int]:
    """Return the partitions of rows of which each partition has one."""
    found = [row["partition"] for row in rows if row.get("topic") == "t"]
    assert len(found) == len(set(found))
    return set(found)


def some(rows: Rows) -> set[int]:
    return {row["partition"] for row in rows if row.get("topic") == "t"}


def all_records(rows: Rows) -> set[int]:
    return counted([row["partition"] for row in rows])


def all_logs(rows: Rows) -> set[int]:
    return each([log for row in rows for log in row["replicas"]])


def all_gauges(rows: Rows) -> set[int]:
    gauges = [row["tags"] for row in rows if row.get("name") == "kafka_log_log_log_end_offset"]
    return {int(tags["partition"]) for tags in gauges if tags["topic"] == "t"}


def command(*words: str, of: str = "t", found: Callable[[Rows], set[int]] = each) -> Look:
    """Return a command of the command line that prints rows, asked about the topic ``of``.

    ``found``: returns the partitions that its rows are about.
    """

    def run(paths: Sequence[str], in_part: bool) -> set[int]:
        out, err = io.StringIO(), io.StringIO()
        options = [*itertools.chain.from_iterable(("-d", path) for path in paths)]
        named = [of] if of else []
        with redirect_stdout(_Text(out)), redirect_stderr(err):
            code = main([*words, *named, *options, *(["--allow-partial"] if in_part else [])])
        if "two topics are named t" in err.getvalue():
            assert (code, out.getvalue()) == (ExitCode.FAILED, "")
            raise InconsistentTopicId(err.getvalue())
        if "not all partitions are in" in err.getvalue():
            assert (code, out.getvalue()) == (ExitCode.BAD_USAGE, "")
            raise PartitionsElsewhere(err.getvalue(), ())
        assert code == 0, (words, err.getvalue())
        return found([json.loads(line) for line in out.getvalue().splitlines()])

    return Look(" ".join(words), run)


class _Text(io.TextIOWrapper):
    """Standard output of a command, which also writes bytes; ``text`` gets them as text."""

    def __init__(self, text: io.StringIO) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._text = text

    def __del__(self) -> None:
        self.flush()

    def flush(self) -> None:
        super().flush()
        raw: Any = self.buffer
        self._text.write(raw.getvalue().decode())
        raw.seek(0)
        raw.truncate()


def opened(paths: Sequence[str], in_part: bool) -> tidelog.ReadOnlyLogs:
    return tidelog.open_directory_read_only(*paths, allow_partial=in_part)


def counted(numbers: Sequence[int]) -> set[int]:
    """Return the partitions of records, which must be all of each."""
    assert len(numbers) == len(set(numbers)) * RECORDS
    return set(numbers)


def by_reading(paths: Sequence[str], in_part: bool) -> set[int]:
    return counted([record.partition for record in opened(paths, in_part).read("t")])


def by_arrow(paths: Sequence[str], in_part: bool) -> set[int]:
    import tidelog.arrow

    table = tidelog.arrow.read([*paths], "t", allow_partial=in_part).read_all()
    return counted(table.column("partition").to_pylist())


def by_following(paths: Sequence[str], in_part: bool) -> set[int]:
    records = opened(paths, in_part).follow("t", idle_ms=0)
    return counted([record.partition for record in records])


def by_counting(paths: Sequence[str], in_part: bool) -> set[int]:
    logs = opened(paths, in_part)
    numbers = set(logs.offsets("t"))
    assert logs.count_records("t").records == len(numbers) * RECORDS
    return numbers


def by_verifying(paths: Sequence[str], in_part: bool) -> set[int]:
    numbers = by_counting(paths, in_part=True)

    def found(rows: Rows) -> set[int]:
        assert rows[-1]["counts"]["partitions"] == len(numbers)
        return numbers

    return command("verify", "--json", found=found).run(paths, in_part)


def by_mirroring(paths: Sequence[str], in_part: bool) -> set[int]:
    target = f"{paths[0]}-mirror-{'-'.join(path[-1] for path in paths)}-{in_part}"
    done = tidelog.mirror(paths, target, topics=["t"], allow_partial=in_part)
    assert all(one.end_offset == RECORDS for one in done)
    return {one.partition for one in done}


def by_planning_a_compaction(paths: Sequence[str], in_part: bool) -> set[int]:
    accept = None if in_part else "allow it"
    settings = {"cleanup.policy": "compact"}
    terms = SpreadTerms(SYSTEM_CLOCK.now_ms(), settings, 1 << 40, is_exact=False)
    workers: Any = None  # logs as small as these are planned without
    done = plan_spread(paths, ["t"], workers, terms, lambda _: None, accept=accept)
    return {one.facts.partition for one in done}


def by_planning_a_repartition(paths: Sequence[str], in_part: bool) -> set[int]:
    from tidelog.spark.jobs.repartition_plan import RepartitionRequest, plan_repartition

    if in_part:  # it has no such option
        return by_counting(paths, in_part)
    to_path = f"{paths[0]}-wider"
    request = RepartitionRequest(
        paths=tuple(paths), topic="t", to="u", partitions=5, to_path=to_path
    )
    plan = plan_repartition(request, {})
    assert set(plan.ends.values()) == {RECORDS}
    return set(plan.ends)


def spark_options(paths: Sequence[str], in_part: bool, **options: str) -> dict[str, str]:
    named = {"path": paths[0]} if len(paths) == 1 else {"paths": json.dumps(list(paths))}
    return named | ({"allowPartialTopics": "true"} if in_part else {}) | options


def by_a_batch_read(paths: Sequence[str], in_part: bool, **chosen: str) -> set[int]:
    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.read_plan import plan

    options = ReadOptions.parse(spark_options(paths, in_part, **chosen))
    return by_tasks(options, plan(SYSTEM_FILES, options, 2))


def by_a_stream(paths: Sequence[str], in_part: bool) -> set[int]:
    from tidelog.spark.options.source_options import ReadOptions
    from tidelog.spark.read.stream_plan import StreamPlan

    chosen = {"subscribe": "t", "startingOffsets": "earliest"}
    options = ReadOptions.parse_stream(spark_options(paths, in_part, **chosen))
    plan = StreamPlan(SYSTEM_FILES, options, clock=SYSTEM_CLOCK, cores=2)
    start = plan.initial()
    return by_tasks(options, plan.tasks(start, plan.latest(start)))


def by_tasks(options: ReadOptions, tasks: Sequence[Task]) -> set[int]:
    """Return the partitions of the rows of some tasks, which must be all of each."""
    from tidelog.spark.read.batch_reader import Column, OffsetRanges, read_task

    columns = [Column("partition", "partition", is_nullable=False)]
    numbers: list[int] = []
    for task in tasks:
        for batch in read_task(options, OffsetRanges(task), columns):
            numbers += batch.column(0).to_pylist()
    return counted(numbers)


def by_a_table(name: str, paths: Sequence[str], in_part: bool) -> set[int]:
    from tidelog.spark.options.table_options import TableOptions
    from tidelog.spark.read.table_reader import TableReader, table_columns

    options = spark_options(paths, in_part, table=name, subscribe="t")
    reader = TableReader(TableOptions.parse(options), table_columns(name))
    rows = [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
    if name == "topics":
        assert [row["topic"] for row in rows] == ["t"]
        return by_counting(paths, in_part)
    return {row["partition"] for row in rows if row["topic"] == "t"}


LOOKS: Final = (
    command("cat", found=all_records),
    command("offsets"),
    command("offsets", "--at", "latest"),
    command("list", "--json"),
    command("describe", "--json"),
    command("picture", "--json"),
    command("picture", "--json", "--brief"),
    command("plan", "recovery", "--json"),
    command("plan", "retention", "--json"),
    command("plan", "compaction", "--json", *COMPACTED),
    command("cleaner", "status", "--json", *COMPACTED),
    command("txns", "--json"),
    command("groups", "--json", of=""),
    command("metrics", "--json", of="", found=all_gauges),
    command("describe", "--log-dirs", "--json", found=all_logs),
    command("mirror", "--dry-run", "--to", "/tmp/no-such-directory", "--json"),
    *(
        command("table", name, "--json", found=some)
        for name in ("partitions", "segments", "batches", "epochs")
    ),
    command("table", "groups", "--json", found=some),
    command("table", "plan_compaction", "--json", *COMPACTED, found=some),
    Look("verify", by_verifying),
    command("sql", "--format", "json", of="SELECT topic, partition FROM t", found=all_records),
    Look("tidelog.arrow.read", by_arrow),
    Look("ReadOnlyLogs.read", by_reading),
    Look("ReadOnlyLogs.follow", by_following),
    Look("ReadOnlyLogs.count_records", by_counting),
    Look("mirror", by_mirroring),
    Look("spark compact", by_planning_a_compaction),
    Look("spark repartition", by_planning_a_repartition),
    Look("spark read", partial(by_a_batch_read, subscribe="t")),
    Look("spark read of a pattern", partial(by_a_batch_read, subscribePattern="^t$")),
    Look("spark stream", by_a_stream),
    *(
        Look(f"spark table {name}", partial(by_a_table, name))
        for name in ("topics", "partitions", "segments", "batches", "plan_retention")
    ),
)


def shows_positions(paths: Sequence[str]) -> bool:
    """Return whether a directory has a group's positions, or a file that says that there are."""
    names = (CATALOGUE_FILE, "__cluster_metadata-0", f"{OFFSETS}-0")
    return any(os.path.exists(os.path.join(*place)) for place in itertools.product(paths, names))


def check(layout: Layout, look: Look) -> int:
    """Give a look every choice of directories, in every order of two; return their number."""
    everything = layout.numbers(tuple(layout.held))
    tried = 0
    for paths in layout.choices():
        if "groups" in look.name and not shows_positions(paths):
            continue
        there = layout.numbers(paths)
        if there == everything:
            assert look.run(paths, False) == everything, paths
            assert look.run(paths[::-1], True) == everything, paths
        else:
            with pytest.raises(PartitionsElsewhere, match=r"t-\d|__consumer_offsets-0"):
                look.run(paths, False)
            found = look.run(paths, True)
            # A group's positions are all in the directory of __consumer_offsets, or in none.
            assert found == there or "groups" in look.name, paths
        tried += 2
    return tried


@pytest.fixture(scope="module")
def two_disks(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return make_own(tmp_path_factory.mktemp("two"), 2)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_a_look_at_a_part_of_a_topic_is_an_error(
    two_disks: Layout, look: Look, enumerated: Enumerated
) -> None:
    """A topic that a service spread over two directories is covered whole, or not at all."""
    pytest.importorskip("pyspark")
    assert two_disks.numbers(tuple(two_disks.held)) == set(range(PARTITIONS))

    enumerated("looks", check(two_disks, look), at_least=6)


@pytest.fixture(scope="module")
def two_topics(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return make_two_topics(tmp_path_factory.mktemp("two-topics"))


@pytest.mark.parametrize(
    "look", [one for one in LOOKS if one.name != "verify"], ids=lambda look: look.name
)
def test_no_look_takes_two_topics_of_one_name_for_one(two_topics: Layout, look: Look) -> None:
    """It is refused with an error that names both, or covers the catalogue's topic alone."""
    pytest.importorskip("pyspark")
    today, away = two_topics.held

    for paths in ((today, away), (away, today)):
        with pytest.raises(InconsistentTopicId, match=f"{away}/t-0, .* have the id"):
            look.run(paths, False)
        assert look.run(paths, True) == two_topics.held[today]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_every_look_covers_every_layout_whole_or_not_at_all(
    tmp_path: Path, make: Callable[[Path, int], Layout], count: int, enumerated: Enumerated
) -> None:
    """A service's directories, and a broker's of which holes or metadata show what is missing."""
    pytest.importorskip("pyspark")
    tried = 0
    for number in range(scaled(1)):
        folder = tmp_path / str(number)
        folder.mkdir()
        layout = make(folder, count)
        tried += sum(check(layout, look) for look in LOOKS)

    enumerated("looks", tried, at_least=2 * len(LOOKS))


def test_partitions_that_are_there_are_read_without_complaint(two_disks: Layout) -> None:
    """By ``-p``, ``partition=`` and ``assign``, and by the directory of a partition."""
    pytest.importorskip("pyspark")
    for path, numbers in two_disks.held.items():
        for number in numbers:
            logs = opened([path], in_part=False)
            assert len(list(logs.read("t", number))) == RECORDS
            assert logs.offsets("t", number).high_watermark == RECORDS
            chosen = json.dumps({"t": [number]})
            assert by_a_batch_read([path], False, assign=chosen) == {number}
            assert command("offsets", "-p", str(number)).run([path], False) == {number}
            assert command("cat", of="", found=all_records).run([f"{path}/t-{number}"], False) == {
                number
            }
        with pytest.raises(PartitionsElsewhere):
            opened([path], in_part=False).read(
                "t", min(set(range(PARTITIONS)) - numbers)
            ).__next__()
    places = [f"{path}/t-{min(numbers)}" for path, numbers in two_disks.held.items()]
    assert command("list", "--json", of="").run(places, False) == {0, 1}


def test_lines_of_checkpoints_name_their_directory(two_disks: Layout) -> None:
    """Files of the same name lie in several directories, and a move may leave a line in one."""

    def directories(rows: Rows) -> set[int]:
        lines = [(row["directory"], row["partition"]) for row in rows if row.get("topic") == "t"]
        there = {(path, number) for path, numbers in two_disks.held.items() for number in numbers}
        assert set(lines) == there
        return set(range(PARTITIONS))

    look = command("table", "checkpoints", "--json", found=directories)

    assert look.run(tuple(two_disks.held), False) == set(range(PARTITIONS))


def test_an_act_covers_the_topics_that_it_names(tmp_path: Path) -> None:
    """What acts on a directory acts on what is in it, unless a topic is named that is elsewhere."""
    layout = make_own(tmp_path, 2)
    for words in (("retain", "--json"), ("compact", "--json"), ("recover", "--json")):
        first, *_ = layout.held
        act = command(*words)
        with pytest.raises(PartitionsElsewhere):
            act.run([first], False)
        assert act.run([first], True) == layout.held[first]
        assert command(*words, of="").run([first], False) == layout.held[first]
        assert act.run(tuple(layout.held), False) == set(range(PARTITIONS))
    act = command("delete-records", "-p", "all", "--before", "4", "--json")
    with pytest.raises(PartitionsElsewhere):
        act.run([first], False)
    assert act.run(tuple(layout.held), False) == set(range(PARTITIONS))
    logs = opened(tuple(layout.held), in_part=False)
    assert {offsets.log_start_offset for offsets in logs.offsets("t").values()} == {4}
    assert logs.open("t", 0).directory == f"{first}/{TopicPartition('t', 0)}"
