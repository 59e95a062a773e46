"""Java's ``.properties`` text format: escapes, continued lines and comments.

Java: ``java.util.Properties``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import LINE_END
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_SPACES: Final = " \t\f"
_COMMENT_SIGNS: Final = ("#", "!")
_CONTINUED: Final = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_KEY: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*")
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.?)")
_UNICODE_ESCAPE: Final = re.compile(r"u[0-9a-fA-F]{4}")
_READ: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"} | {
    sign: f"\\{sign}" for sign in "\\=:#!"
}


def parse_properties(data: bytes) -> dict[str, str]:
    r"""Return the properties in file order; the last value of a repeated key wins.

    Raises:
        InvalidArgument: a ``\u`` escape without four hexadecimal digits.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        match = _KEY.match(line)
        key = match.group() if match else ""
        separator = _SEPARATOR.match(line, len(key))
        value = line[separator.end() :] if separator else ""
        properties[_unescape(key)] = _unescape(value)
    return properties


def comments_of(data: bytes) -> tuple[str, ...]:
    """Return the comment lines verbatim, with their ``#`` or ``!``, without line ends."""
    lines = LINE_END.split(data.decode("latin-1"))
    return tuple(line for line in lines if line.lstrip(_SPACES).startswith(_COMMENT_SIGNS))


def format_properties(properties: Mapping[str, str], comments: Iterable[str] = ()) -> bytes:
    """Return ``.properties`` text: first ``comments`` with their signs, then one line per key.

    The text is pure ASCII, so that it reads the same in any encoding.
    """
    lines = [_ascii(comment) for comment in comments]
    for key, value in properties.items():
        name = _escape(key).replace(" ", "\\ ")
        # Leading spaces of a value are dropped by readers unless the first one is escaped.
        lead = "\\" if value.startswith(" ") else ""
        lines.append(f"{name}={lead}{_escape(value)}")
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    """Join continued lines; skip blank lines and comments. A comment cannot be continued."""
    pending: str | None = None
    for natural in LINE_END.split(text):
        line = natural.lstrip(_SPACES)
        if pending is None and (not line or line.startswith(_COMMENT_SIGNS)):
            continue
        line = (pending or "") + line
        continued = _CONTINUED.search(line)
        pending = line[:-1] if continued else None
        if line and not continued:
            yield line
    if pending:
        yield pending


def _unescape(text: str) -> str:
    read = _ESCAPE.sub(_read_escape, text)
    # Java escapes a character beyond 16 bits as a surrogate pair.
    return read.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _read_escape(match: re.Match[str]) -> str:
    escaped = match.group(1)
    if escaped.startswith("u"):
        if not _UNICODE_ESCAPE.fullmatch(escaped):
            raise InvalidArgument(f"malformed \\u escape in properties: \\{escaped}")
        return chr(int(escaped[1:], 16))
    return _READ.get(escaped, escaped)


def _escape(text: str) -> str:
    return _ascii("".join(_WRITTEN.get(sign, sign) for sign in text))


def _ascii(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    units = text.encode("utf-16-be", "surrogatepass")
    signs = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(sign) if 0x20 <= sign <= 0x7E else f"\\u{sign:04X}" for sign in signs)
