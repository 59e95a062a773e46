"""Logs on which Kafka gives up starting: opened for writing they fail here too, untouched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from tidelog.config.log_config import LogConfig
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, InvalidTxnState, TidelogError
from tidelog.log.log import Log
from tidelog.testing import ManualClock

DATA = Path(__file__).parent / "data"
REFUSED = json.loads((DATA / "adopted" / "v2edge" / "refused.json").read_text("utf-8"))
ERRORS: dict[str, type[TidelogError]] = {
    "java.lang.IllegalArgumentException": InvalidArgument,
    "org.apache.kafka.common.errors.InvalidTxnStateException": InvalidTxnState,
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_log_that_kafka_refuses_is_refused_and_left_as_it_is(name: str, tmp_path: Path) -> None:
    """The error is the one that Kafka names, and no file is made, changed or removed."""
    copy = tmp_path / name
    shutil.copytree(DATA / "v2edge" / name, copy)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    named = REFUSED[name].partition("loading: ")[2].partition(":")[0]

    with pytest.raises(ERRORS[named]):
        Log.open(
            str(copy),
            fs=SYSTEM_FILES,
            clock=ManualClock(),
            scheduler=InlineScheduler(),
            rng=Random(0),
            config=LogConfig(),
            clean_shutdown=False,
        )

    assert before == {path.name: path.read_bytes() for path in copy.iterdir()}
