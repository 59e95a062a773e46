"""The settings of ``tidelog run``, from files, environment and options."""

from __future__ import annotations

import logging
import os
from argparse import Namespace
from collections import ChainMap
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.parser import make_parser
from tidelog.cli.server_properties import broker_properties
from tidelog.cli.serving.service_settings import given_settings, serve_config, service_config
from tidelog.config.sources import broker_config
from tidelog.errors import InvalidArgument, InvalidConfig

if TYPE_CHECKING:
    from pathlib import Path

KAFKAS = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
num.network.threads=3
log.dirs={directory}
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def args_of(path: Path | None, **given: object) -> Namespace:
    """Return the arguments of a command that names this file."""
    names: dict[str, object] = {"config": str(path), "server_properties": None}
    names |= {"options": [], "directories": [], "words": []}
    return Namespace(**{**names, **given})


def test_kafkas_own_file_configures_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line names all that does not concern storage."""
    file = tmp_path / "server.properties"
    file.write_text(KAFKAS.format(directory=tmp_path), "utf-8")

    with caplog.at_level(logging.WARNING):
        config = broker_config(given_settings(args_of(file)))

    assert config.data_directories == (str(tmp_path),)
    assert config.log_defaults.retention_ms == 7 * 86_400_000
    assert len(caplog.messages) == 1
    assert "controller.quorum.bootstrap.servers,listeners,node.id" in caplog.messages[0]


def test_a_directory_in_a_file_is_a_path(tmp_path: Path) -> None:
    """An escape of a properties file can write what no path has."""
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/a\\u0000b\n", "utf-8")

    with pytest.raises(InvalidArgument, match="not a path"):
        given_settings(args_of(file))


def test_kafkas_defaults_hold_where_its_file_is_given(tmp_path: Path) -> None:
    """Without a file records are kept for ever; a retention that is given holds in any case."""
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/a\n", "utf-8")
    hours = [("log.retention.hours", "2")]

    kept_ms = [
        service_config(args, given_settings(args)).log_defaults.retention_ms
        for args in (
            args_of(file),
            args_of(file, options=hours),
            args_of(file, config=None, directories=["/a"]),
            args_of(file, config=None, directories=["/a"], options=hours),
        )
    ]

    assert kept_ms == [7 * 86_400_000, 7_200_000, -1, 7_200_000]


def test_only_a_retention_in_the_file_is_that_of_older_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option and a variable say what holds for new topics, and take precedence over the file."""
    without, naming = tmp_path / "without", tmp_path / "naming"
    without.write_text("log.dirs=/a\n", "utf-8")
    naming.write_text("log.dirs=/a\nlog.retention.hours=3\n", "utf-8")
    option = [("log.retention.minutes", "1")]
    monkeypatch.setenv("TIDELOG_LOG_RETENTION_HOURS", "2")

    found = [
        service_config(args, given_settings(args))
        for args in (
            args_of(without),
            args_of(without, options=option),
            args_of(naming),
            args_of(naming, options=option),
            args_of(naming, config=None, directories=["/a"], options=option),
        )
    ]

    assert [one.is_retention_in_file for one in found] == [False, False, True, True, False]
    minutes = [one.log_defaults.retention_ms // 60_000 for one in found]
    assert minutes == [120, 1, 120, 1, 1]


@pytest.mark.parametrize(
    ("in_file", "option", "field", "value"),
    [
        ("log.retention.ms", "log.retention.hours=1", "retention_ms", 3_600_000),
        ("log.retention.minutes", "log.retention.hours=1", "retention_ms", 3_600_000),
        ("retention.ms", "log.retention.ms=5", "retention_ms", 5),
        ("log.roll.ms", "log.roll.hours=1", "segment_ms", 3_600_000),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms=5", "flush_ms", 7),
    ],
)
def test_an_option_counts_before_the_file_by_whichever_name(
    tmp_path: Path, in_file: str, option: str, field: str, value: int
) -> None:
    """Within one source Kafka's order of names decides; the schedule is a setting of its own."""
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs=/a\n{in_file}=7\n", "utf-8")
    args = args_of(file, options=[tuple(option.split("="))])

    assert getattr(service_config(args, given_settings(args)).log_defaults, field) == value


def test_the_directory_of_an_option_counts_before_those_of_the_file(tmp_path: Path) -> None:
    """Else a service would open the file's directories without a word."""
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/a,/b\n", "utf-8")
    args = args_of(file, options=[("log.dir", "/c")])

    assert service_config(args, given_settings(args)).data_directories == ("/c",)


def test_variables_that_are_no_settings_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service may need the options of stores, for its archive."""
    monkeypatch.setenv("TIDELOG_DIR", "/a")
    monkeypatch.setenv("TIDELOG_STORES", "{}")

    assert not given_settings(args_of(None, config=None))


def test_the_variable_of_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An orchestrator sets some that begin as ours, for a service of that name."""
    monkeypatch.setenv("TIDELOG_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("TIDELOG_RETENTION_MS", "x")
    args = args_of(None, config=None, directories=["/a"], options=[("retention.bytes", "y")])

    with pytest.raises(InvalidConfig) as raised:
        service_config(args, given_settings(args))

    assert sorted(raised.value.problems) == [
        "retention.bytes: 'y' is not a whole number",
        "retention.ms: 'x' is not a whole number (the variable TIDELOG_RETENTION_MS)",
        "service.host: unknown (the variable TIDELOG_SERVICE_HOST)",
    ]
    monkeypatch.setenv("TIDELOG_LISTENERS", "x")
    with pytest.raises(InvalidConfig, match="the variable TIDELOG_LISTENERS"):
        serve_config(given_settings(args))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("log.retenton.ms=5", "did you mean"),
        ("log.message.format.version=3.0", "removed from Kafka: batches"),
        ("log.cleanup.policy=dedupe", "dedupe was renamed: use compact"),
    ],
)
def test_what_a_file_gets_wrong_is_still_an_error(tmp_path: Path, line: str, reason: str) -> None:
    """A misspelt, a removed and a renamed word are not passed over."""
    file = tmp_path / "server.properties"
    file.write_text(KAFKAS.format(directory=tmp_path) + line, "utf-8")

    with pytest.raises(InvalidConfig, match=reason):
        broker_config(given_settings(args_of(file)))


@pytest.mark.parametrize(
    ("serves", "name", "meant"),
    [
        (False, "retention.mss", "unknown, did you mean retention.ms"),
        (False, "log.retention.mss", "unknown, did you mean log.retention.ms"),
        (False, "cleanup.polcy", "unknown, did you mean cleanup.policy"),
        (False, "offsets.retention.minutes", "unknown here; `tidelog serve` has some"),
        (True, "offsets.retention.minuts", "unknown, did you mean offsets.retention.minutes"),
        (True, "tidelog.flush.polcy", "unknown, did you mean tidelog.flush.policy"),
        (True, "group.coordinator.threads", "unknown here; `tidelog serve` has some"),
        (True, "zzz", "unknown$"),
    ],
)
def test_a_mistyped_setting_gets_a_hint(*, serves: bool, name: str, meant: str) -> None:
    """One that may be given there, topic settings and those of listeners included."""
    args = args_of(None, config=None, directories=["/a"], options=[(name, "5")], serves=serves)

    with pytest.raises(InvalidConfig, match=f"{name}: {meant}"):
        service_config(args, given_settings(args))


def test_the_file_of_another_broker_may_hold_anything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was Kafka's to check; a removed name is logged."""
    file = tmp_path / "server.properties"
    file.write_text("plugin.of.mine=1\nlog.retention.ms=5\nmessage.format.version=1\n", "utf-8")

    with caplog.at_level(logging.WARNING):
        properties = broker_properties(Namespace(server_properties=str(file)))

    assert properties is not None
    assert properties["log.retention.ms"] == "5"
    assert "setting=message.format.version" in caplog.text
    assert broker_properties(Namespace(server_properties=None)) is None


@pytest.mark.parametrize("option", ["config", "server_properties"])
def test_a_file_too_large_for_settings_is_refused_unread(tmp_path: Path, option: str) -> None:
    """It may be sparse, and larger than memory."""
    file = tmp_path / "server.properties"
    file.touch()
    os.truncate(file, 1 << 40)

    read = given_settings if option == "config" else broker_properties
    with pytest.raises(InvalidArgument, match="has 1,099,511,627,776 bytes"):
        read(args_of(file, server_properties=str(file)))


@pytest.mark.parametrize("by", ["directories", "words", "variable"])
def test_a_comma_is_part_of_a_directorys_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """As for every command; each option, or word, is one directory."""
    names = [str(tmp_path / "a,b"), str(tmp_path / "c")]
    given: dict[str, object] = {by: names, "config": None}
    if by == "variable":
        names, given = names[:1], {"config": None}
        monkeypatch.setenv("TIDELOG_DIR", names[0])
    args = args_of(tmp_path, **given)

    assert service_config(args, given_settings(args)).data_directories == tuple(names)


def test_the_setting_of_directories_is_split_at_commas(tmp_path: Path) -> None:
    """As by Kafka, wherever it is set; directories that are arguments replace it."""
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/a, b\nlog.dir=/c\n", "utf-8")
    here = os.path.abspath("b")
    found = [
        service_config(args, given_settings(args)).data_directories
        for args in (
            args_of(file),
            args_of(file, options=[("log.dirs", "/d,/e")]),
            args_of(file, options=[("log.dirs", "/d,/e")], directories=["/f", "b", "/f"]),
        )
    ]

    assert found == [("/a", here), ("/d", "/e"), ("/f", here)]


def test_cordoned_directories_are_among_those_of_the_command_line(tmp_path: Path) -> None:
    """A directory that is not one of them is an error."""
    args = args_of(tmp_path, config=None, words=["/a,b", "/c"])

    assert service_config(args, ChainMap({"cordoned.log.dirs": "/c"})).cordoned_log_dirs == ("/c",)
    with pytest.raises(InvalidConfig, match=r"cordoned.log.dirs: not in log.dirs: /b"):
        service_config(args, ChainMap({"cordoned.log.dirs": "/b"}))


@pytest.mark.parametrize("words", [["-d", ""], [""]])
def test_an_empty_name_of_a_directory_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be the current directory."""
    with pytest.raises(SystemExit):
        make_parser(["run"]).parse_args(["run", *words])

    assert "the name of a directory must not be empty" in capsys.readouterr().err


def test_a_service_without_a_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's default lies in /tmp: it holds only where Kafka's own file is given."""
    monkeypatch.delenv("TIDELOG_DIR", raising=False)
    args = args_of(tmp_path, config=None)
    given = given_settings(args)
    with pytest.raises(InvalidArgument, match="no directory given"):
        service_config(args, given)

    monkeypatch.setenv("TIDELOG_DIR", str(tmp_path))
    assert service_config(args, given_settings(args)).data_directories == (str(tmp_path),)
