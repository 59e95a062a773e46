"""Ids as text, in Kafka's base64 form. Kafka: ``Uuid``."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from uuid import UUID

from tidelog.errors import InvalidArgument

ZERO_ID: Final = UUID(int=0)
"""The zero id; no topic has it."""

_ID_TEXT: Final = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?", re.ASCII)


def format_uuid(value: UUID) -> str:
    """Format an id as Kafka does: 22 characters of URL-safe base64. Source: Kafka Uuid."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> UUID:
    """Parse an id in Kafka's form, padding optional; InvalidArgument if it is not valid."""
    if not _ID_TEXT.fullmatch(text):
        raise InvalidArgument(f"{text!r} is not a 16-byte id in URL-safe base64")
    return UUID(bytes=urlsafe_b64decode(text[:22] + "=="))
