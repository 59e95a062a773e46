"""Options as Spark hands them over, read one by one: text, flags, numbers, durations, JSON.

Owns the forms of values and the refusal of unknown names. Must not know what an option means.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPARK_OPTIONS: Final = (
    "path",
    "paths",
    "location",
    "owner",
    "provider",
    "comment",
    "external",
    "is_managed_location",
    "collation",
)
"""What Spark itself passes, for a path and for a table in its catalogue."""

_TABLE_COPY: Final = "option."
"""Before the names under which a table of the catalogue passes its options a second time."""

_OF_A_CONSUMER: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""Options of the Kafka source that mean nothing without a broker, accepted and passed over."""

_CONSUMER_PREFIX: Final = "kafka."
_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-z]*)\s*")
_UNIT_MS: Final = {
    "": 1,
    "us": 0.001,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


@dataclass(frozen=True, slots=True)
class Given:
    """Options as given, by lower-case name: Spark does not keep the case.

    ``passed_over`` names those that mean nothing here and are taken all the same.
    """

    values: Mapping[str, str]
    passed_over: tuple[str, ...] = ()

    @classmethod
    def known(cls, options: Mapping[str, str], names: tuple[str, ...]) -> Given:
        """Take the options; InvalidArgument for one that is neither ours nor to be passed over."""
        lower = {name.lower(): value for name, value in options.items()}
        values = {name: of for name, of in lower.items() if not name.startswith(_TABLE_COPY)}
        accepted = {name.lower() for name in (*names, *_SPARK_OPTIONS)}
        others = [name for name in values if name not in accepted]
        for name in others:
            _check_passed_over(name, names)
        return cls(values, tuple(sorted(others)))

    def has(self, name: str) -> bool:
        """Return whether the option was given."""
        return name.lower() in self.values

    def text(self, name: str) -> str | None:
        """Return the option's text, or None when it was not given."""
        return self.values.get(name.lower())

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return whether a true or false option was given as true."""
        text = self.text(name)
        if text is None:
            return default
        value = text.strip().lower()
        if value not in ("true", "false"):
            raise InvalidArgument(f"option {name} is true or false, not {text!r}")
        return value == "true"

    def number(self, name: str, default: int, least: int | None = None) -> int:
        """Return a whole number, at least ``least``."""
        found = self.optional_number(name, least)
        return default if found is None else found

    def optional_number(self, name: str, least: int | None = None) -> int | None:
        """Return a whole number, at least ``least``; None when it was not given."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise InvalidArgument(f"option {name} is a whole number, not {text!r}") from None
        if least is not None and value < least:
            raise InvalidArgument(f"option {name} must be at least {least}, not {value}")
        return value

    def one_of(self, name: str, words: tuple[str, ...]) -> str:
        """Return the word that was given, in our spelling; the first one is the default."""
        text = self.text(name)
        if text is None:
            return words[0]
        found = {word.lower(): word for word in words}.get(text.strip().lower())
        if found is None:
            raise InvalidArgument(f"option {name} is {' or '.join(words)}, not {text!r}")
        return found

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return a time span such as ``15m`` or ``500ms``; a bare number is milliseconds."""
        text = self.text(name)
        if text is None:
            return default_ms
        form = _DURATION.fullmatch(text.lower())
        if form is None or form[2] not in _UNIT_MS:
            raise InvalidArgument(f"option {name} is a time such as 15m, 30s or 500ms, not {text}")
        return int(int(form[1]) * _UNIT_MS[form[2]])

    def path(self) -> str:
        """Return the data directory: the one path given, which may be a ``file:`` URI."""
        paths = json.loads(self.values.get("paths", "[]"))
        one = self.values.get("path") or (not paths and self.values.get("location"))
        if one:
            paths = [one]
        if len(paths) != 1:
            raise InvalidArgument(
                f"{len(paths)} paths were given; a read or write takes one data directory: "
                ".load('/path/to/data')"
            )
        return local_path(str(paths[0]))


def local_path(path: str) -> str:
    """Return a path on this machine from a path or a ``file:`` URI."""
    parts = urlsplit(path)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    if "://" in path:
        raise InvalidArgument(f"{path} is not on this machine; only local directories are read")
    return path


def json_object(text: str, form: str) -> dict[str, Any]:
    """Read a JSON object; InvalidArgument that quotes ``form`` if the text is none."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidArgument(f"{form}, not {text}")
    return value


def _check_passed_over(name: str, names: tuple[str, ...]) -> None:
    """Raise InvalidArgument unless the option belongs to a consumer and so means nothing here."""
    if name.startswith(_CONSUMER_PREFIX) or name in {known.lower() for known in _OF_A_CONSUMER}:
        return
    spelled = {known.lower(): known for known in names}
    near = [spelled[match] for match in get_close_matches(name, spelled)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
    raise InvalidArgument(f"unknown option {name}; {hint}")
