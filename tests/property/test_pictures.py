"""Pictures of logs of any kind, sound or damaged, keep the rules of all pictures."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from tests.machinery.damage import apply_damage
from tests.machinery.directory_home import DataHome
from tests.machinery.odd_logs import write_log
from tests.machinery.picture_rules import check_picture, check_svg, check_text

from tidelog.config.log_config import LogConfig
from tidelog.errors import KafkaError
from tidelog.explain.describe import describe_log
from tidelog.explain.pictures.take_picture import take_picture
from tidelog.explain.plans.plan_terms import Planning
from tidelog.manager.compaction_plan import CleanerLines
from tidelog.readonly.read_only_log import open_read_only

if TYPE_CHECKING:
    from tests.conftest import Enumerated

    from tidelog.explain.pictures.log_picture import LogPicture

PATH: Final = "/data/t-0"
CONFIG: Final = LogConfig(
    cleanup_policy=("compact", "delete"), retention_bytes=1000, min_cleanable_dirty_ratio=0.0
)
CASES: Final = 30
SEEDS: Final = [
    (0, CASES),
    *(pytest.param(first, 300, marks=pytest.mark.slow) for first in range(1000, 2500, 300)),
]


def picture_of(home: DataHome) -> LogPicture:
    """Return the picture of t-0, with plans."""
    return take_picture(
        lambda on_damage: open_read_only(PATH, fs=home.fs, on_damage=on_damage),
        describe_log,
        planning=Planning(CONFIG, CleanerLines({}, {}), home.clock),
    )


def home_of(files: dict[str, bytes]) -> DataHome:
    """Return a machine whose t-0 has these files."""
    home = DataHome()
    home.fs.make_directory(PATH)
    for name, data in files.items():
        home.fs.write(f"{PATH}/{name}", data)
    return home


@pytest.mark.parametrize(("first", "count"), SEEDS)
def test_any_log_has_a_picture(first: int, count: int, enumerated: Enumerated) -> None:
    """With or without damage: it keeps the rules, or an error of tidelog's says why not."""
    drawn = 0
    for seed in range(first, first + count):
        rng = Random(seed)
        files = dict(write_log(seed % 50).files)
        done = apply_damage(rng, files) if seed % 4 else []
        try:
            picture = picture_of(home_of(files))
        except KafkaError:
            assert done, seed
            continue
        check_picture(picture)
        check_text(picture, 40 + seed % 100, is_ascii=seed % 2 == 0)
        check_svg(picture)
        shown = sum(span.size_bytes for span in picture.spans)
        bad = sum(span.size_bytes for span in picture.damaged)
        assert shown + bad + picture.tail_bytes <= picture.total_bytes
        drawn += 1
    enumerated("pictures of odd and damaged logs", drawn, at_least=count // 2)
