"""``tidelog metrics``: of a running service, or from the files."""

from __future__ import annotations

from errno import EIO
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.manager.metrics.metrics_file import MetricsFiles
from tidelog.staging.finished import CommittedTransaction, write_finished
from tidelog.staging.stream_batch import StreamBatch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Validated
    from tests.unit.cli.conftest import Cli


def test_gauges_are_read_from_the_files_without_a_service(cli: Cli) -> None:
    """Nothing is locked or changed."""
    cli.on("create", "t")
    cli.append("a", "b")
    answer = cli.on("metrics")

    assert 'kafka_log_log_log_end_offset{topic="t",partition="0"} 2' in answer.out.splitlines()


def test_the_last_batch_of_each_stream_is_read_from_the_files(cli: Cli) -> None:
    """A Spark driver commits for itself where no service holds the directory."""
    batch = StreamBatch("17c1", 12)
    last = CommittedTransaction(batch.txn, 1_700_000_000_000, {"t": 50}, stream=batch)
    cli.on("create", "t")
    write_finished(SYSTEM_FILES, str(cli.data), {}, last)

    lines = cli.on("metrics").out.splitlines()

    tags = f'{{log_directory="{cli.data}",query_id="17c1"}}'
    assert f"tidelog_streams_last_batch_id{tags} 12" in lines
    assert f"tidelog_streams_last_batch_records{tags} 50" in lines
    assert f"tidelog_streams_last_commit_time_ms{tags} 1700000000000" in lines


def test_the_last_copy_of_a_mirror_is_read_from_its_files(topic: Cli, tmp_path: Path) -> None:
    """A run that finds nothing new leaves it as it is."""
    topic.append("a", "b")
    copy = tmp_path / "copy"
    for _ in range(2):
        assert topic.on("mirror", "--to", copy).code == 0
    lines = topic("metrics", "-d", copy).out.splitlines()

    tags = f'{{log_directory="{copy}",source="{topic.data}"}}'
    assert f"tidelog_mirror_last_copy_records{tags} 2" in lines
    (time,) = [line for line in lines if line.startswith(f"tidelog_mirror_last_copy_time_ms{tags}")]
    assert int(time.split(" ")[1]) > 0
    assert "tidelog_mirror" not in topic.on("metrics").out


def test_json_has_names_tags_and_values(cli: Cli) -> None:
    """One line for each number; a whole one has no decimal point."""
    cli.on("create", "t")
    cli.append("a")
    answer = cli.on("metrics", "--json")
    rows = {row["name"]: row for row in answer.rows}

    assert rows["kafka_log_log_num_log_segments"] == {
        "name": "kafka_log_log_num_log_segments",
        "tags": {"topic": "t", "partition": "0"},
        "value": 1,
    }
    assert ".0}" not in answer.out


def test_metrics_of_a_running_service_are_printed(cli: Cli) -> None:
    """Those it wrote last; after it has stopped they are no longer printed."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
        files = MetricsFiles(logs.manager)
        files.start()
        during = cli.on("metrics").out
        files.stop()
    after = cli.on("metrics").out

    name = "kafka_server_broker_topic_metrics_messages_in_per_sec_total"
    assert f"{name} 1" in during.splitlines()
    assert name not in after


def test_a_name_with_ends_of_lines_stays_in_its_line(cli: Cli) -> None:
    """A group may be named so. What is unprintable is escaped for a terminal.

    Prometheus' format has no such escapes, so the backslash is escaped in turn.
    """
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
        with logs.reader("t", group="a\r\u2028b") as reader:
            next(iter(reader.read()))
            reader.commit()
        files = MetricsFiles(logs.manager)
        files.start()
        answer = cli.on("metrics")
        files.stop()

    tags = r'{consumergroup="a\\r\\u2028b",topic="t",partition="0"}'
    assert f"kafka_consumergroup_lag{tags} 0" in answer.out.splitlines()


@pytest.mark.parametrize("content", [b"\xff", b"kafka_x nonsense\n", b"a b c\n"])
def test_a_damaged_metrics_file_is_a_typed_error(cli: Cli, content: bytes) -> None:
    """It names the file; exit code 1."""
    cli.on("create", "t")
    (cli.data / "tidelog.metrics.prom").write_bytes(content)

    outcome = cli.on("metrics")

    assert outcome.code == 1
    assert "tidelog.metrics.prom cannot be read" in outcome.err


def test_a_topic_on_an_offline_disk_does_not_hide_which_disk_it_is(cli: Cli) -> None:
    """Directories are described all the same; what reads topics names the disk with its error."""
    broken = cli.data.with_name("broken")
    assert cli.on("create", "t", "-p", "2").code == 0
    assert cli.on("move", "t", "-p", "1", "--to", broken).code == 0
    with tidelog.open(cli.data, broken) as logs:
        files = MetricsFiles(logs.manager)
        files.start()
        logs.manager.take_dir_offline(str(broken), OSError(EIO, "broken"))
        files.write()
        described = cli.on("describe", "--log-dirs")
        named = cli.on("describe", "--log-dirs", "t")
        others = [cli.on(*words) for words in (("describe",), ("list",), ("offsets", "t"))]
        files.stop()
    offline = f"{broken} has been offline since "

    assert (described.code, named.code) == (0, 2)
    assert "t-0: 0 bytes" in described.out
    assert offline in described.err
    assert [one.code for one in others] == [2, 2, 2]
    for one in (named, *others):
        assert offline in one.err
        assert "not all partitions are in" in one.err


@pytest.mark.parametrize("command", ["metrics", "describe", "describe --log-dirs"])
def test_an_offline_directory_is_shown_with_its_time_and_reason(
    cli: Cli, command: str, validated: Validated
) -> None:
    """Beside the service, in any of its directories that is still in use."""
    broken = cli.data.with_name("broken")
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t")
    with tidelog.open(cli.data, broken) as logs:
        files = MetricsFiles(logs.manager)
        files.start()
        healthy = cli.on(*command.split())
        before_ms = SYSTEM_CLOCK.now_ms()
        logs.manager.take_dir_offline(str(broken), OSError(EIO, 'a "broken"\ndisk'))
        files.write()
        answer, rows = cli.on(*command.split()), cli.on(*command.split(), "--json").rows
        files.stop()
    after = cli.on(*command.split())

    assert "broken" not in (healthy.err, after.err, after.out)
    if command == "metrics":
        name = "tidelog_log_manager_log_directory_offline_since_ms"
        found = {row["tags"]["log_directory"]: row for row in rows if row["name"] == name}
        assert found[str(cli.data)]["value"] == 0
        since_ms = found[str(broken)]["value"]
        assert found[str(broken)]["tags"]["reason"] == '[Errno 5] a "broken"\ndisk'
    else:
        lines = [line for line in answer.err.splitlines() if "has been offline" in line]
        assert len(lines) == 1, answer.err
        line = lines[0]
        assert line.startswith(f"tidelog describe: {broken} has been offline since ")
        assert 'a "broken"' in line
    if command == "describe --log-dirs":
        (one,) = rows[0]["offlineDirectories"]
        assert (one["directory"], one["error"]) == (str(broken), '[Errno 5] a "broken"\ndisk')
        since_ms = one["sinceMs"]
        validated("describe log-dirs", rows)
    if command != "describe":
        assert before_ms <= since_ms <= SYSTEM_CLOCK.now_ms()


def test_a_file_is_no_directory(cli: Cli, tmp_path: Path) -> None:
    """As for other commands: wrong usage, and no failure of the disk."""
    (tmp_path / "file").touch()

    outcome = cli("metrics", "-d", tmp_path / "file")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"tidelog metrics: {tmp_path / 'file'} is a file, not a directory\n"
