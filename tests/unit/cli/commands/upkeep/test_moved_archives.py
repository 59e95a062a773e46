"""An archive whose objects were copied to another URI: the steps of docs/archive.md."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.archives import TIERED, give_up_locally

import tidelog

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any

VALUES = [f"value {number}" for number in range(60)]


@pytest.fixture
def uris(cli: Cli, tmp_path: Path) -> tuple[str, str]:
    """Return where the archive of topic t was, and where its copy is."""
    before, after = tmp_path / "before", tmp_path / "after"
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t", config=TIERED)
        for value in VALUES:
            logs.append("t", value.encode())
    give_up_locally(cli.data, before.as_uri())
    assert not cli.log_file().exists()
    assert cli.on("roll", "t").code == 0
    assert cli("archive", cli.data, "--to", before.as_uri()).code == 0
    shutil.copytree(before, after)
    return before.as_uri(), after.as_uri()


@pytest.mark.parametrize("options", [(), ("--continue",)])
def test_a_log_that_begins_in_an_archive_takes_no_other_for_it(
    cli: Cli, uris: tuple[str, str], options: tuple[str, ...]
) -> None:
    """Not even with --continue, which is not advised: what it has there might be another state."""
    before, after = uris
    refused = cli("archive", cli.data, "--to", after, *options)

    assert refused.code == 3
    assert f"begins in the archive {before}, not in {after}" in refused.err


def test_a_log_that_is_restored_from_the_copy_continues_it(
    cli: Cli, tmp_path: Path, uris: tuple[str, str]
) -> None:
    """All of it is on the disk then, until the archive is claimed; the first may be gone."""
    before, after = uris
    (tmp_path / "before").rename(tmp_path / "gone")
    (cli.data / "t-0").rename(tmp_path / "t-0")

    assert cli("restore", after, "t", "-p", "0", "--to", cli.data).code == 0
    assert cli.log_file().exists()
    assert cli("archive", cli.data, "--to", after, "--continue").code == 0
    give_up_locally(cli.data, after)

    assert not cli.log_file().exists()
    assert cli.values() == VALUES
    cli.append("more")
    assert cli.on("roll", "t").code == cli("archive", cli.data, "--to", after).code == 0
    assert cli("cat", "t", "-d", after).rows[-1]["value"] == "more"
    assert not (tmp_path / "before").exists()
    assert cli("archive", cli.data, "--to", before).code == 3
