"""A letter is claimed, withdrawn or made void once: each takes the same file away."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import TYPE_CHECKING

import pytest

from tidelog.cli.notices import sentence
from tidelog.errors import KafkaStorageError
from tidelog.mailbox.letter import State
from tidelog.mailbox.look import Look
from tidelog.service.requests.request import REQUESTS, Request, RequestFiles
from tidelog.staging.manifest_names import MANIFESTS, new_stem
from tidelog.staging.ready import ReadyFiles
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.mailbox.letter import Letter

CONTENT = Request("list-moves", {}, 1 << 60).encoded()


def disk() -> CrashFileSystem:
    """Return a disk with a data directory."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    fs.sync_directory("/")
    return fs


def left(fs: CrashFileSystem, stem: str = new_stem("x", Random(1))) -> ReadyFiles:
    """Leave a letter, of the kind that has all states."""
    letter = ReadyFiles(fs, "/data", stem)
    letter.prepare(CONTENT)
    letter.place()
    fs.sync_directory("/data")
    return letter


TAKERS: dict[str, Callable[[Letter], bool]] = {
    "claim": lambda letter: letter.change(State.WAITING, State.CLAIMED),
    "withdraw": lambda letter: letter.withdraw(),
    "expire": lambda letter: letter.change(State.WAITING, State.WITHDRAWN),
}


@pytest.mark.parametrize("takers", list(permutations(TAKERS, 2)))
def test_the_first_of_two_that_take_a_letter_succeeds(takers: tuple[str, str]) -> None:
    """And only that one."""
    letter = left(disk())

    assert [TAKERS[name](letter) for name in takers] == [True, False]


def test_a_withdrawal_is_durable() -> None:
    """A power cut brings no letter back that its author has reported as void."""
    fs = disk()
    letter = left(fs)
    letter.withdraw()
    fs.power_cut("none")

    assert MANIFESTS.find(fs.list("/data")) == {}
    assert not letter.is_in(State.WAITING)


def test_an_answer_is_durable_before_the_claim_is_deleted() -> None:
    """Whatever a power cut keeps, a claim of which the answer was seen has it."""
    fs = disk()
    letter = left(fs)
    letter.change(State.WAITING, State.CLAIMED)
    fs.sync_directory("/data")
    letter.answer(b"done")
    fs.power_cut("none")

    assert fs.read(letter.path(State.ANSWERED)) == b"done"


def test_a_letter_that_is_forgotten_stays_gone() -> None:
    """Its claim is durably gone before its answer is, or it might be made again."""
    fs = disk()
    letter = left(fs)
    letter.change(State.WAITING, State.CLAIMED)
    fs.sync_directory("/data")
    letter.answer(b"refused")
    letter.forget()
    fs.power_cut("none")

    assert not letter.is_in(State.WAITING)
    assert not letter.is_in(State.CLAIMED)


def test_what_is_only_left_over_is_told_from_what_waits() -> None:
    """A sweep takes answers, letters past their deadline, and half-written files."""
    stem = f"tidelog.{'1' * 32}"
    names = [f"{stem}{end}" for end in (".request", ".request-claimed", ".request-answered")]
    names += [f"{names[0]}.tmp", f"{names[0]}.tmp.tmp", f"x{names[2]}", f"{names[2]}\n"]

    assert [name for name in names if REQUESTS.is_left(name)] == names[2:5]
    assert REQUESTS.find(names) == {stem: {State.WAITING, State.CLAIMED, State.ANSWERED}}


def test_a_link_is_not_followed() -> None:
    """It could lead out of the directory."""
    fs = disk()
    letter = left(fs)
    fs.is_link = lambda path: path.startswith("/data/")  # type: ignore[method-assign]  # the disk in memory has none

    with pytest.raises(KafkaStorageError, match="is a link"):
        letter.read(State.WAITING, 1, Request.parsed)


def test_a_letter_that_makes_the_program_fail_stops_none_after_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is reported once, and looked at again only after its files were gone."""
    fs = disk()
    stems = sorted(f"tidelog.{number:032x}" for number in range(3))
    for stem in stems:
        fs.write(f"/data/{stem}.request", CONTENT)
    seen: list[str] = []

    def act(letter: RequestFiles, _states: set[State]) -> None:
        seen.append(letter.stem)
        if letter.stem == stems[1]:
            raise ZeroDivisionError

    look = Look(fs, RequestFiles, act)
    for _ in range(2):
        look.look("/data", fs.list("/data"))
    look.look("/data", [])
    look.look("/data", fs.list("/data"))

    assert seen == [*stems, stems[0], stems[2], *stems]
    said = [sentence(record) for record in caplog.records]
    assert said == 2 * [
        f"/data/{stems[1]}.request is not a request that this release reads: ZeroDivisionError()"
    ]
