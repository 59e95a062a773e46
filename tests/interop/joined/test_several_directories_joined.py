"""A program joins all data directories of another one, whichever of them it names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.machinery.brokers import served

import tidelog
from tidelog.errors import InvalidArgument, LogDirNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Two directories of one program, with the topics ``t0`` to ``t3`` in both."""
    made = [tmp_path_factory.mktemp(name) for name in "ab"]
    with served(*made) as found:
        for number in range(4):
            found.logs.create_topic(f"t{number}")
            found.logs.append(f"t{number}", b"%d" % number)
        assert all(list(path.glob("t?-0")) for path in made)
        yield made


@pytest.mark.parametrize("named", [[0], [1], [0, 1], [1, 0]])
def test_any_of_the_directories_will_do(paths: list[Path], named: list[int]) -> None:
    """Or all of them: topics of each are read, appended to, and read for a group."""
    with tidelog.join(*(paths[number] for number in named)) as joined:
        for number in range(4):
            joined.append(f"t{number}", b"x")
            assert [one.value for one in joined.read(f"t{number}")] == [b"%d" % number, b"x"]
        with joined.reader("t0", "t1", group="g") as reader:
            assert len(list(reader.read())) == 4
            reader.commit()
        with joined.reader("t0", "t1", group="g") as reader:
            assert list(reader.read()) == []

        assert sorted(joined.paths) == sorted(map(str, paths))


def test_a_transaction_goes_to_the_directory_that_is_given(paths: list[Path]) -> None:
    """As of ``Logs``; another directory is refused."""
    with tidelog.join(paths[0]) as joined:
        for path in paths:
            topic = min(path.glob("t?-0")).name.removesuffix("-0")
            with joined.transaction(path=str(path)) as txn:
                txn.append(topic, b"x")
            assert [one.value for one in joined.read(topic)][1:] == [b"x"]
        with pytest.raises(LogDirNotFound):
            joined.transaction(path="/elsewhere")


def test_directories_of_different_programs_are_refused(
    paths: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each is joined by itself."""
    other = tmp_path_factory.mktemp("c")
    with tidelog.open(other), pytest.raises(InvalidArgument, match="are open in different"):
        tidelog.join(paths[0], other)


def test_tasks_of_an_event_loop_join_too(paths: list[Path]) -> None:
    """They append, read, and read for a group that commits."""
    topic = min(paths[0].glob("t?-0")).name.removesuffix("-0")

    async def main() -> tuple[int, list[bytes | None], int]:
        async with tidelog.join_async(paths[0]) as joined:
            count = await joined.append_all("t0", [b"x", b"y"])
            async with joined.transaction() as txn:
                await txn.append(topic, b"z")
            read = [one.value async for one in joined.read("t0", start_offset=1)][:2]
            async with joined.reader("t1", group="g") as reader:
                consumed = [one async for one in reader.read()]
                await reader.commit()
            return count, read, len(consumed)

    count, read, consumed = asyncio.run(main())

    assert (count, read) == (2, [b"x", b"y"])
    assert consumed >= 1
