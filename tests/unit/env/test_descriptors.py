"""The limit of open files, and the choice of files to close at the limit."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys

import pytest

from tidelog.env.descriptors import (
    PROCESS_DESCRIPTORS,
    DescriptorBudget,
    raise_descriptor_limit,
)


def test_the_soft_limit_is_raised_up_to_the_hard_one() -> None:
    """A second call finds the same limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
        first = raise_descriptor_limit()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

        assert first == soft == raise_descriptor_limit()
        assert soft == min(hard, 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("soft", "files"), [(16, 8), (128, 64), (256, 192), (1024, 768), (65_536, 49_152)]
)
def test_a_quarter_of_the_descriptors_is_left_to_the_rest_of_the_process(
    soft: int, files: int
) -> None:
    """At least 64, but never more than half."""
    script = f"""
import resource
from tidelog.env.descriptors import PROCESS_DESCRIPTORS
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
if {soft} <= hard or hard == resource.RLIM_INFINITY:
    resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, hard))
    assert PROCESS_DESCRIPTORS.limit == {files}, PROCESS_DESCRIPTORS.limit
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_limit_can_be_set() -> None:
    """Setting None makes it follow the process's limit again."""
    budget = DescriptorBudget(7)
    assert budget.limit == 7
    budget.limit = None
    assert budget.limit == PROCESS_DESCRIPTORS.limit


class Idle:
    """An open file that is not in use."""

    last_use = 0
    is_dirty = False

    def __init__(self, budget: DescriptorBudget) -> None:
        self._budget = budget
        budget.add(self)

    def evict(self) -> bool:
        """Close it."""
        self._budget.discard(self)
        return True

    def drop(self, _parent: int) -> None:
        """Do nothing: there is no descriptor."""


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_where_no_descriptor_is_free_files_are_closed_until_there_is_one(code: int) -> None:
    """Below the budget's limit too: other parts of the process may have taken them."""
    budget = DescriptorBudget(100)
    files = [Idle(budget) for _ in range(5)]

    def opening() -> int:
        if budget.open_count > 2:
            raise OSError(code, "too many")
        return 42

    assert budget.retry(opening) == 42
    assert (budget.open_count, budget.evictions, len(files)) == (2, 3, 5)


def test_where_nothing_can_be_closed_the_error_is_raised() -> None:
    """Any other error is raised at once."""
    budget = DescriptorBudget(100)
    files = [Idle(budget) for _ in range(3)]

    def opening(code: int) -> int:
        raise OSError(code, "no")

    with pytest.raises(OSError, match="no"):
        budget.retry(lambda: opening(errno.EACCES))
    assert budget.open_count == len(files)
    with pytest.raises(OSError, match="no") as raised:
        budget.retry(lambda: opening(errno.EMFILE))
    assert (raised.value.errno, budget.open_count) == (errno.EMFILE, 0)
