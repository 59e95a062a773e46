"""Messages to the service manager."""

from __future__ import annotations

from tidelog.env.service_manager import READY, notify_service_manager


def test_nothing_is_sent_without_an_address() -> None:
    """A service that was started by hand has nobody to notify."""
    assert not notify_service_manager(READY, {})


def test_an_address_that_nobody_listens_on_changes_nothing() -> None:
    """It is logged; the service continues."""
    assert not notify_service_manager(READY, {"NOTIFY_SOCKET": "/nowhere/notify"})
    assert not notify_service_manager(READY, {"NOTIFY_SOCKET": "@" + "x" * 300})
