"""``tidelog spark compact``, for logs that its driver cleans alone."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cli.commands.spark_jobs import compact_job
from tidelog.cli.parser import make_parser

if TYPE_CHECKING:
    Cli = Any


class Closed(io.BytesIO):
    """An output whose reader has closed it."""

    def write(self, _data: object) -> int:
        """Fail as a closed pipe does."""
        raise BrokenPipeError


@pytest.mark.parametrize("is_plan", [False, True])
def test_all_logs_are_compacted_whatever_becomes_of_the_output(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, *, is_plan: bool
) -> None:
    """A plan ends with its output."""
    settings = ("-o", "cleanup.policy=compact", "-o", "internal.segment.bytes=200")
    cli.on("create", "t", "-p", 2, *settings)
    lines = '{"key":"a","value":"one"}\n' * 9
    for number in range(2):
        cli.on("append", "t", "-p", number, "--format", "json", stdin=lines)
    words = ["spark", "compact", "-d", str(cli.data), *(["--dry-run"] if is_plan else [])]
    out = io.TextIOWrapper(Closed(), encoding="utf-8", write_through=True)

    args = make_parser(words).parse_args(words)
    spark: Any = SimpleNamespace(sparkContext=None)

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        with pytest.raises(BrokenPipeError):
            compact_job.run(args, spark)

    values = [cli.values("-p", number) for number in range(2)]
    assert all((len(found) < 9) is not is_plan for found in values)
