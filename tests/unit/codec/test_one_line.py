"""Reprs of what a program holds are one line of bounded length, and raise nothing."""

from __future__ import annotations

from tidelog.codec.one_line import one_line, shortened
from tidelog.errors import ForkedProcess
from tidelog.records.new_record import NewRecord


class Held:
    """Something with a repr."""

    def __repr__(self) -> str:
        return one_line(self, self._told)

    def _told(self) -> str:
        return f"of {self.path!r}"

    path: str


def test_what_was_not_made_says_so() -> None:
    """A debugger shows an object whose ``__init__`` has failed."""
    held = Held()

    assert repr(held) == "<Held, not made>"
    held.path = "a\nb"
    assert repr(held) == r"<Held of 'a\nb'>"


def test_what_a_child_has_inherited_names_its_owner() -> None:
    """It keeps nothing else of the object."""

    def told() -> str:
        raise ForkedProcess("Held", 7)

    assert one_line(Held(), told) == "<Held of process 7>"


def test_long_values_of_a_record_are_shortened() -> None:
    """With their size; short ones are whole, as in any named tuple."""
    short = NewRecord(b"k", b"x" * 64, (("name", b"v"),), 5, 0)
    long = NewRecord(None, b"x" * 1_000_000, tuple((f"{n}" * 900, None) for n in range(99)))

    assert eval(repr(short)) == short
    assert f"value={b'x' * 64!r}... (1,000,000 bytes)" in repr(long)
    assert len(repr(long)) < 2500
    assert "\n" not in repr(long)


def test_what_has_many_members_is_shortened() -> None:
    """At each depth."""
    assert len(shortened({n: [b"x" * 99] * 99 for n in range(99)})) < 6000
