"""Who may see a page: the one who has the token, under a name that no other site can take.

Loopback is shared by all users of the machine, and any web site may send a browser there. So each
request needs the random token, which a cookie holds once the printed address was opened, and a
``Host`` that is this machine. Nothing but reading is possible: other methods are refused.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from tidelog.env.addresses import is_own_host
from tidelog.explain.pictures.svg_elements import STYLE_SHEET

if TYPE_CHECKING:
    from collections.abc import Mapping

METHODS: Final = ("GET", "HEAD")
FIELD: Final = "token"
_PICTURE_STYLE: Final = base64.b64encode(hashlib.sha256(STYLE_SHEET.encode()).digest()).decode()
HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self';"
        f" style-src 'self' 'sha256-{_PICTURE_STYLE}'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""What every response carries: no script or style but those of the console, and no copy kept."""


class Refusal(NamedTuple):
    """Why a request is not answered, and the headers of that response."""

    status: int
    reason: str
    headers: Mapping[str, str] = {}


class Entrance(NamedTuple):
    """Where a request goes that has brought the token: the same address without it."""

    location: str
    cookie: str


class Access:
    """Decides about requests.

    Args:
        token: what each has to bring.
        port: part of the cookie's name, since cookies are the same for all ports.
        hosts: the names under which the console is reached, besides those of loopback.
        takes_addresses: whether any IP address will do, as where it listens on all of them. A name
            that another site controls is none.
    """

    def __init__(
        self, token: str, port: int, hosts: frozenset[str], *, takes_addresses: bool = False
    ) -> None:
        self._token: Final = token
        self._cookie: Final = f"tidelog-{port}"
        self._hosts: Final = hosts
        self._takes_addresses: Final = takes_addresses

    def decide(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> Refusal | Entrance | None:
        """Return why a request is refused, or where it is sent; None: it is answered."""
        if method not in METHODS:
            return Refusal(405, "This console only reads.", {"allow": ", ".join(METHODS)})
        host = headers.get("host", "")
        if not is_own_host(host, self._hosts, takes_addresses=self._takes_addresses):
            return Refusal(400, "This is not an address of this console.")
        fields = parse_qsl(query, keep_blank_values=True)
        given = [value for name, value in fields if name == FIELD]
        if given:
            if not self._is_token(given[-1]):
                return _NO_TOKEN
            rest = urlencode([field for field in fields if field[0] != FIELD])
            location = "/" + path.lstrip("/\\")  # never the address of another machine
            cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            return Entrance(f"{location}?{rest}" if rest else location, cookie)
        return None if self._is_token(self._token_in(headers.get("cookie", ""))) else _NO_TOKEN

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._token.encode())

    def _token_in(self, cookies: str) -> str:
        # Other programs of this machine set cookies, too, and one that Python's parser refuses
        # would hide all that follow.
        pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
        return next((value for name, _, value in pairs if name == self._cookie), "")


_NO_TOKEN: Final = Refusal(
    403, "Open the address that tidelog console has printed: it carries the token."
)
