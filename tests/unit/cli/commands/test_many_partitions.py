"""What commands over many partitions cost: as much as their number says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.counted_lines import Lines

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "recovery", "--full"),
        ("recover", "--dry-run", "--full"),
        ("verify",),
        ("table", "findings"),
    ],
    ids=" ".join,
)
def test_each_partition_costs_the_same(cli: Cli, tmp_path: Path, words: tuple[str, ...]) -> None:
    """The thousandth no more than the first, counted in lines of code that run."""

    def lines(partitions: int) -> int:
        cli.data = tmp_path / str(partitions)
        assert cli.on("create", "t", "-p", partitions).code == 0
        cli.append(*map(str, range(partitions)))
        (cli.data / ".kafka_cleanshutdown").unlink()
        counted = Lines()
        with counted.counted():
            assert cli.on(*words).code == 0
        return counted.count

    lines(1)  # some code runs once in a process
    few, more, most = map(lines, (10, 20, 30))
    # Progress is shown at times, in a few more lines; a part that is squared adds a fifth here.
    assert most - more == pytest.approx(more - few, rel=0.1)
