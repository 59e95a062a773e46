"""Typed access to the options that Spark passes as strings: flags, numbers, durations, JSON.

An unknown option is an error, so a misspelled name does not go unnoticed.
Spark: ``CaseInsensitiveStringMap``.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from tidelog.config.whole_numbers import whole_number
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.moments import time_ms
from tidelog.env.paths import absolute_path, absolute_place, is_uri
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.paths import Paths

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
"""Options that Spark itself passes, for a path and for a table in its catalog."""

_TABLE_OPTION_PREFIX: Final = "option."
"""Prefix under which a catalog table passes each of its options a second time."""

_CONSUMER_OPTIONS: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""Options of the Kafka source that have no effect without a broker; accepted and ignored."""

_CONSUMER_PREFIX: Final = "kafka."
_DURATION: Final = re.compile(r"\s*([0-9]+)\s*([a-z]*)\s*")
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
class OptionMap:
    """Options by lower-case name, since Spark does not preserve the case of names.

    ``ignored`` names the options that are accepted but have no effect.
    """

    values: Mapping[str, str]
    ignored: tuple[str, ...] = ()

    @classmethod
    def checked(cls, options: Mapping[str, str], known: tuple[str, ...]) -> OptionMap:
        """Return the options as a map.

        Args:
            options: as Spark passes them; the case of names does not matter.
            known: the names that are allowed, besides Spark's own and those of a Kafka consumer.

        Raises:
            InvalidArgument: an option is unknown; the message suggests similar names.
        """
        accepted = {name.lower() for name in (*known, *_SPARK_OPTIONS)}
        values, ignored = {}, []
        for name, value in options.items():
            lower = name.lower()
            if lower.startswith(_TABLE_OPTION_PREFIX):
                continue
            if lower not in accepted:
                ignored.append(_consumer_option(name, known))
            values[lower] = value
        return cls(values, tuple(sorted(ignored)))

    def has(self, name: str) -> bool:
        """Return whether the option is set."""
        return name.lower() in self.values

    def text(self, name: str) -> str | None:
        """Return the value of an option, or None if it is not set."""
        return self.values.get(name.lower())

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return the value of a true or false option."""
        text = self.text(name)
        if text is None:
            return default
        value = text.strip().lower()
        if value not in ("true", "false"):
            raise InvalidArgument(f"option {name} must be true or false, not {text!r}")
        return value == "true"

    def number(self, name: str, default: int, minimum: int | None = None) -> int:
        """Return the value of an integer option, which is at least ``minimum``."""
        value = self.optional_number(name, minimum)
        return default if value is None else value

    def optional_number(self, name: str, minimum: int | None = None) -> int | None:
        """Return the value of an integer option, at least ``minimum``; None if it is not set."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = whole_number(text)
        except ValueError:
            raise InvalidArgument(f"option {name} must be an integer, not {text!r}") from None
        if minimum is not None and value < minimum:
            raise InvalidArgument(f"option {name} must be at least {minimum}, not {value}")
        return value

    def moment(self, name: str) -> int:
        """Return the point in time of an option that is set, in ms since the epoch, from 1970."""
        text = self.values[name.lower()]
        try:
            value = time_ms(text, SYSTEM_CLOCK.now_ms)
        except InvalidArgument as error:
            raise InvalidArgument(f"option {name}: {error}") from None
        if value < 0:
            raise InvalidArgument(f"option {name} must be at least 0, not {value}")
        return value

    def one_of(self, name: str, values: tuple[str, ...]) -> str:
        """Return which of ``values`` is set, ignoring case; the first one is the default."""
        found = self.optional_one_of(name, values)
        return values[0] if found is None else found

    def optional_one_of(self, name: str, values: tuple[str, ...]) -> str | None:
        """Return which of ``values`` is set, ignoring case; None if the option is not set."""
        text = self.text(name)
        if text is None:
            return None
        found = {value.lower(): value for value in values}.get(text.strip().lower())
        if found is None:
            raise InvalidArgument(f"option {name} must be {' or '.join(values)}, not {text!r}")
        return found

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return a duration such as ``15m`` or ``500ms`` in ms; a bare number is milliseconds."""
        text = self.text(name)
        if text is None:
            return default_ms
        match = _DURATION.fullmatch(text.lower())
        if match is None or match[2] not in _UNIT_MS:
            raise InvalidArgument(
                f"option {name} must be a duration such as 15m, 30s or 500ms, not {text!r}"
            )
        return int(int(match[1]) * _UNIT_MS[match[2]])

    def path(self) -> str:
        """Return the absolute path of the data directory, the only one that is set."""
        paths = self.paths()
        if len(paths) != 1:
            raise InvalidArgument(
                f"a write goes to one data directory, as in .save('/path/to/data'), not to"
                f" {len(paths)}"
            )
        return absolute_path(paths[0])

    def paths(self) -> tuple[str, ...]:
        """Return the absolute paths of the data directories: ``path``, then ``paths``.

        Each may be a ``file:`` URI, or that of an archive. Spark makes ``paths``, a list in JSON,
        of ``.load([...])``.
        """
        expected = 'option paths must be a list in JSON, such as ["/data/disk1", "/data/disk2"]'
        several = json_list(self.values.get("paths", "[]"), expected)
        one = self.values.get("path") or (not several and self.values.get("location"))
        named = [one, *several] if one else several
        if not named:
            raise InvalidArgument("no data directory is named, as in .load('/path/to/data')")
        return absolute_paths(named)


def absolute_paths(given: Paths) -> tuple[str, ...]:
    """Return the absolute paths of one directory, or of a list, and URIs of archives as they are.

    Raises as ``local_path``.
    """
    several = [given] if isinstance(given, (str, os.PathLike)) else given
    return tuple(_place(os.fspath(one)) for one in several)


def _place(given: str) -> str:
    """Return an absolute path, or the URI of an archive.

    A ``file:`` URI is an archive if one is there, else a directory: Spark has long taken it so.
    """
    if is_uri(given):  # most logs lie on a disk: each worker would load what archives need
        from tidelog.archive.archived_partitions import holds_archive
        from tidelog.store.store_uri import REMOTE_SCHEMES

        scheme, _, _ = given.partition("://")
        if scheme in REMOTE_SCHEMES or (scheme == "file" and holds_archive(given)):
            return absolute_place(given)
    return absolute_path(local_path(given))


def local_path(path: str) -> str:
    """Return the local path that a path or ``file:`` URI stands for.

    With one slash it is a path of Hadoop's, as Spark's catalog passes it, in which nothing is
    percent-encoded.
    """
    if path.startswith("file:/") and not path.startswith("file://"):
        return path.removeprefix("file:")
    uri = urlsplit(path)
    if uri.scheme == "file" and uri.netloc in ("", "localhost"):
        return unquote(uri.path)
    scheme = f"{uri.scheme}:/"
    # One letter is a drive; of others Hadoop takes one slash for three.
    if "://" in path or (len(uri.scheme) > 1 and path.lower().startswith(scheme)):
        raise InvalidArgument(
            f"{path} is neither a local directory nor an archive; other file systems are not read"
        )
    return path


def json_object(text: str, expected: str) -> dict[str, Any]:
    """Parse a JSON object.

    Args:
        text: the value of an option.
        expected: the option and the form of its value, for the error message.

    Raises:
        InvalidArgument: the text is not a JSON object.
    """
    value = _parsed(text)
    if not isinstance(value, dict):
        raise InvalidArgument(f"{expected}, not {text!r}")
    return value


def json_list(text: str, expected: str) -> list[str]:
    """Parse a list of texts; arguments and errors as ``json_object``."""
    value = _parsed(text)
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise InvalidArgument(f"{expected}, not {text!r}")
    return value


def _parsed(text: str) -> object:
    """Return what a text is the JSON of; None if it is not, or names a member of an object twice.

    Of two, Python keeps the last one, so partitions would be left out.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None


def _once(members: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(members)
    if len(made) < len(members):
        raise ValueError("a member is named twice")
    return made


def _consumer_option(name: str, known: tuple[str, ...]) -> str:
    """Return the documented spelling of a consumer's option; InvalidArgument for any other."""
    lower = name.lower()
    if lower.startswith(_CONSUMER_PREFIX):
        return name
    for option in _CONSUMER_OPTIONS:
        if lower == option.lower():
            return option
    spelling = {option.lower(): option for option in known}
    similar = [spelling[match] for match in get_close_matches(lower, spelling)]
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"known: {', '.join(known)}"
    raise InvalidArgument(f"unknown option {name}; {hint}")
