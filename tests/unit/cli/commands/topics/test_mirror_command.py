"""``tidelog mirror``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.cli.commands.topics.mirror_command import run
from tidelog.cli.parser import make_parser
from tidelog.errors import KafkaStorageError
from tidelog.exit_codes import ExitCode, exit_code_of

if TYPE_CHECKING:
    Cli = Any


@pytest.fixture
def tiered(topic: Cli) -> Cli:
    """A topic with a record, whose settings say that a broker has tiered it."""
    topic.append("a")
    catalogue = topic.data / "tidelog.topics.json"
    tiered = '"config": {"remote.storage.enable": "true"}'
    catalogue.write_text(catalogue.read_text().replace('"config": {}', tiered))
    return topic


def test_the_settings_of_tiered_storage_that_are_left_out_are_named(tiered: Cli) -> None:
    """Before it is done, and when it is; what the local log holds is copied."""
    words = ("mirror", tiered.data, "--to", tiered.data.parent / "copy")
    what = "remote.storage.enable, and records that are only in remote storage: tidelog has none"

    plan = tiered(*words, "--dry-run")
    rows = tiered(*words, "--dry-run", "--json").rows
    done = tiered(*words)

    assert plan.out.startswith(f"t: would leave out {what}\nt-0: would copy [0, 1), 1 batch")
    assert rows[0]["settingsLeftOut"] == ["remote.storage.enable"]
    assert done.out.startswith(f"t: left out {what}\nt-0: copied [0, 1), 1 batch")


@pytest.mark.parametrize("option", [(), ("--dry-run",)])
def test_source_and_target_lie_apart(topic: Cli, option: tuple[str, ...]) -> None:
    """Links are followed, and an archive of files is a source, too; nothing is made before."""
    home = topic.data.parent
    link, lake, back = home / "link", home / "lake", home / "back"
    topic.append("a")
    topic.on("roll", "t")
    topic("archive", topic.data, "--to", f"file://{lake}")
    link.symlink_to(home)
    before = sorted(home.rglob("*"))

    for source, target in (
        (topic.data, home),
        (topic.data, link),
        (topic.data, link / "data/new"),
        (link / "data", home),
        (f"file://{lake}", home),
        (f"file://{lake}", lake / "new"),
    ):
        done = topic("mirror", source, "--to", target, *option)
        assert done.code == 2, (source, target)
        assert f"the source, {source}" in done.err
    refused = topic("restore", f"file://{lake}", "--to", lake / "new")

    assert (refused.code, sorted(home.rglob("*"))) == (2, before)
    assert topic("restore", f"file://{lake}", "--to", back).code == 0


def test_a_mirror_is_repeated_until_it_is_stopped(
    topic: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    """Later runs print what they have copied, and nothing else."""
    topic.on("create", "u")
    paths = (str(topic.data), "--to", str(topic.data.parent / "copy"))
    args = make_parser(["mirror"]).parse_args(["mirror", *paths, "--every", "10s"])
    printed, pauses = [], []

    def stopped_within(pause_ms: int) -> bool:
        printed.append(capsys.readouterr().out)
        pauses.append(pause_ms)
        if len(pauses) == 2:
            with tidelog.open(topic.data) as logs:
                logs.append("t", b"a")
        return len(pauses) == 4

    assert run(args, stopped_within) == 0
    assert pauses == [10_000] * 4
    assert printed[0].splitlines() == [f"{name}-0: nothing new; it ends at 0" for name in "tu"]
    assert (printed[1], printed[3]) == ("", "")
    assert printed[2].startswith("t-0: copied [0, 1), 1 batch")


@pytest.mark.parametrize(("left", "why"), [(False, "it is missing"), (True, "it has no part")])
def test_a_source_that_goes_away_is_an_error_that_may_pass(
    topic: Cli, left: bool, why: str
) -> None:
    """A disk may be mounted again, and nothing is started again after an error of usage."""
    words = ["mirror", str(topic.data), "--to", str(topic.data.parent / "copy"), "--every", "10s"]
    args = make_parser(["mirror"]).parse_args(words)

    def goes_away(_: int) -> bool:
        topic.data.rename(topic.data.parent / "away")
        if left:
            topic.data.mkdir()
        return False

    with pytest.raises(KafkaStorageError, match=why) as raised:
        run(args, goes_away)
    assert exit_code_of(raised.value) == ExitCode.FAILED
    assert topic(*words).code == 2


@pytest.mark.parametrize("period", ["10", "10000", "0.5s", "+10s", "2027-11-29", "often"])
def test_a_period_is_a_second_or_more(topic: Cli, period: str) -> None:
    """A number alone does not say its unit."""
    refused = topic("mirror", topic.data, "--to", topic.data.parent / "copy", "--every", period)

    assert refused.code == 2
    assert "such as 10s" in refused.err


def test_a_plan_is_not_repeated(topic: Cli) -> None:
    """It would print the same until something else copies it."""
    words = ("mirror", topic.data, "--to", topic.data.parent / "copy")

    assert "leave one of them out" in topic(*words, "--dry-run", "--every", "10s").err
