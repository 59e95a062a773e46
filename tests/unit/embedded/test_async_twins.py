"""What asyncio programs call is what others call."""

from __future__ import annotations

import inspect

import pytest

import tidelog

TWINS = {
    tidelog.Logs: tidelog.AsyncLogs,
    tidelog.ReadOnlyLogs: tidelog.AsyncReadOnlyLogs,
    tidelog.JoinedLogs: tidelog.AsyncJoinedLogs,
    tidelog.Transaction: tidelog.AsyncTransaction,
    tidelog.GroupReader: tidelog.AsyncGroupReader,
}
NOT_FOR_USERS: dict[type, set[str]] = {
    tidelog.Logs: {"group_source"},
    tidelog.JoinedLogs: {
        *("listed_topic", "visible_records", "start_of", "end_of", "known_epochs", "group_source"),
    },
    tidelog.Transaction: {
        "add_positions",
        "remove_group",
        "topic",
        "config_of",
        "partition",
        "now_ms",
        "flush",
    },
}
"""Methods that a class has for other parts of tidelog."""
AS_IT_IS = {"lag", "seek", "close"}
"""Methods of a group's reader that do not wait for the disk."""


def methods(held: type) -> dict[str, object]:
    """Return the public methods and properties of a class."""
    names = [name for name in dir(held) if not name.startswith("_")]
    found = {name: inspect.getattr_static(held, name) for name in names}
    return {name: one for name, one in found.items() if callable(one) or isinstance(one, property)}


@pytest.mark.parametrize("held", TWINS)
def test_a_class_for_event_loops_has_what_the_other_has(held: type) -> None:
    """Each method, with the same arguments; else its docstring names it, and gives the reason."""
    twin = TWINS[held]
    ours = set(methods(held)) - NOT_FOR_USERS.get(held, set()) - {"after_fork", "is_inherited"}
    missing = {name for name in ours if not hasattr(twin, name)}

    assert {name for name in missing if f"``{name}``" not in (twin.__doc__ or "")} == set()
    for name in ours - missing:
        one, other = (inspect.getattr_static(each, name) for each in (held, twin))
        if isinstance(one, property):
            continue
        plain = (list(inspect.signature(each).parameters.values())[1:] for each in (one, other))
        first, second = (
            [(parameter.name, parameter.kind, parameter.default) for parameter in each]
            for each in plain
        )
        assert first == second, name


@pytest.mark.parametrize("held", TWINS)
def test_a_class_has_what_the_one_for_event_loops_has(held: type) -> None:
    """So ``help`` and the pages list it for both: what only an object has, they leave out."""
    assert set(methods(TWINS[held])) - set(dir(held)) == set()


@pytest.mark.parametrize("held", TWINS.values())
def test_no_method_for_event_loops_waits_for_a_disk(held: type) -> None:
    """It is a coroutine function, an asynchronous generator or context manager."""
    waits = {
        name
        for name, found in methods(held).items()
        if inspect.isfunction(found)
        and not inspect.iscoroutinefunction(found)
        and not inspect.isasyncgenfunction(inspect.unwrap(found))
        and "Async" not in str(inspect.signature(found).return_annotation)
    }

    assert waits <= AS_IT_IS | {"after_fork"}
