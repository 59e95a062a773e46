"""The limit of open files."""

from __future__ import annotations

import resource

from tidelog.env.descriptors import raise_descriptor_limit


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
