"""Who is let in: methods, hosts, the token and its cookie."""

from __future__ import annotations

import base64
import hashlib

import pytest

from tidelog.config.serve_config import LOOPBACK
from tidelog.console.access import HEADERS, Access, Entrance, Refusal
from tidelog.explain.pictures.svg_elements import STYLE_SHEET

TOKEN = "a-token"
OWN = {"host": "127.0.0.1:80", "cookie": f"tidelog-80={TOKEN}"}
ACCESS = Access(TOKEN, 80, LOOPBACK)


def status(answer: Refusal | Entrance | None) -> int:
    """Return the status of a refusal; 0: it is none."""
    return answer.status if isinstance(answer, Refusal) else 0


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_reading_with_the_cookie_is_answered(method: str) -> None:
    """Both methods that change nothing."""
    assert ACCESS.decide(method, "/topics", "", OWN) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get"])
def test_other_methods_are_refused(method: str) -> None:
    """Whatever they bring with them; the answer names those that are taken."""
    refused = ACCESS.decide(method, "/topics", "", OWN)

    assert status(refused) == 405
    assert isinstance(refused, Refusal)
    assert refused.headers == {"allow": "GET, HEAD"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1:80", "127.0.0.1:9999", "localhost", "LOCALHOST:80", "[::1]:80", "[::1]"]
)
def test_names_of_loopback_are_hosts(host: str) -> None:
    """With any port: a tunnel through ssh begins at another one."""
    assert ACCESS.decide("GET", "/topics", "", {**OWN, "host": host}) is None


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
        ),
        *("evil.example@127.0.0.1", "127.0.0.1:80:80", "127.0.0.2", "192.168.0.7", "[::2]", "::1"),
        *("127.0.0.1:80, evil.example", "127.0.0.1/", "127.0.0.1 ", "localhost."),
    ],
)
def test_other_hosts_are_refused(host: str) -> None:
    """Another site's name may lead to this machine; its pages then get no answer."""
    assert status(ACCESS.decide("GET", "/topics", "", {**OWN, "host": host})) == 400


def test_with_insecure_any_address_is_a_host_but_no_other_name() -> None:
    """A name may be that of another site, an address cannot."""
    access = Access(TOKEN, 80, LOOPBACK | {"box.example"}, takes_addresses=True)

    def decide(host: str) -> int:
        return status(access.decide("GET", "/", "", {**OWN, "host": host}))

    assert [decide(host) for host in ("192.168.0.7:80", "[fe80::1]:80", "box.example:1")] == [0] * 3
    assert decide("evil.example") == 400


@pytest.mark.parametrize(
    "cookie",
    [
        *("", "tidelog-80=", "tidelog-80=b-token", "tidelog-81=a-token", "token=a-token"),
        *("tidelog-80=a-tokena", "tidelog-80=a-toke", 'tidelog-80="', "tidelog-80=\udcff", ";;;="),
    ],
)
def test_without_the_token_nothing_is_answered(cookie: str) -> None:
    """No cookie, an empty or wrong one, that of another port, or none that can be read."""
    assert status(ACCESS.decide("GET", "/topics", "", {**OWN, "cookie": cookie})) == 403


@pytest.mark.parametrize(
    "other",
    ['prefs={"dark": true}', "list[0]=1", "name=a b", "flag", 'open="x', "é=1", "a,b=1", ""],
)
def test_cookies_of_other_programs_do_not_hide_the_token(other: str) -> None:
    """All ports of a host share their cookies, whatever form these have."""
    cookies = f"{other}; tidelog-80={TOKEN}; {other}"

    assert ACCESS.decide("GET", "/topics", "", {**OWN, "cookie": cookies}) is None


@pytest.mark.parametrize("given", ["", "wrong", "a-token%00", "a-token%20", "%ff"])
def test_a_wrong_token_in_the_address_is_refused(given: str) -> None:
    """Also where the cookie is right."""
    assert status(ACCESS.decide("GET", "/topics", f"token={given}", OWN)) == 403


def test_the_printed_address_sets_the_cookie_and_loses_the_token() -> None:
    """The cookie is sent to this console only, and no script reads it; other fields stay."""
    entered = ACCESS.decide("GET", "/topics", "q=a%20b&token=a-token", {"host": "localhost"})

    assert entered == Entrance(
        "/topics?q=a+b", f"tidelog-80={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    )


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example/"])
def test_the_entrance_leads_to_this_console(path: str) -> None:
    """Whatever the path is, browsers read it as one of this machine."""
    entered = ACCESS.decide("GET", path, "token=a-token", {"host": "localhost"})

    assert isinstance(entered, Entrance)
    assert entered.location == "/evil.example/"


def test_no_style_is_allowed_in_a_page_but_that_of_pictures() -> None:
    """By its hash; scripts come from the console's own file."""
    digest = base64.b64encode(hashlib.sha256(STYLE_SHEET.encode()).digest()).decode()
    policy = HEADERS["content-security-policy"]

    assert f"style-src 'self' 'sha256-{digest}'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")
