"""How numbers are written for people: thousands are separated, sizes have a unit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.unit.cli.commands.records.test_staged_command import leave_pending
from tests.unit.cli.commands.records.test_txns_command import begin

import tidelog

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Cli

RECORDS = 12_345
COMMANDS = (
    *("list", "describe", "describe --segments", "describe --log-dirs", "picture", "txns"),
    *("verify", "recover --full", "recover --full --dry-run", "salvage", "staged list"),
    *("plan retention", "plan retention -o retention.ms=0", "plan retention -o retention.bytes=0"),
    *("plan compaction -o cleanup.policy=compact", "cleaner status -o cleanup.policy=compact"),
    *("table segments", "table partitions", "delete-records t -p all --before 12345 --dry-run"),
    *("compact -o cleanup.policy=compact", "retain -o retention.bytes=0"),
)
BARE = re.compile(r"(?<![\w.,:=/-])\d{4,}(?![\w.-])")
"""A number of four digits or more without a separator, that is not a part of a name or time."""


@pytest.fixture
def large(cli: Cli) -> Cli:
    """A topic of numbers that need a separator, with an open transaction and one not applied."""
    return cli.made(make_large)


def make_large(cli: Cli) -> None:
    cli.on("create", "t")
    with tidelog.open(cli.data) as logs:
        logs.append_all("t", [(b"key", b"v" * 90)] * RECORDS)
    begin(cli, 9)
    leave_pending(cli.data)


def test_numbers_of_people_have_separators(large: Cli) -> None:
    """In what commands print for people; JSON has none."""
    found = {}
    for command in COMMANDS:
        outcome = large.on(*command.split())
        assert outcome.code in {0, 1}, outcome.err
        shown = outcome.out + outcome.err.replace(str(large.data), "DIR")
        bare = BARE.findall(shown)
        if bare:
            found[command] = (bare, shown)

    assert found == {}
    assert "12,34" in large.on("list").out
