"""Where an object store is: its URI, and the options that find it, without credentials.

Both may be printed, logged and sent to other processes; credentials come from the environment of
each process, or from the machine's role, as the library finds them.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from tidelog.config.option import INT32_MAX
from tidelog.config.whole_numbers import whole_number
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

S3: Final = "s3"
AZURE: Final = "azure"
FILES: Final = "file"

REMOTE_SCHEMES: Final = frozenset({"s3", "s3a", "azure", "az"})
"""Of all stores but directories."""
_SCHEMES: Final = {"s3": S3, "s3a": S3, "azure": AZURE, "az": AZURE, "file": FILES}
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    S3: (
        "endpoint",
        "region",
        "virtual_hosted_style_request",
        "skip_signature",
        "request_payer",
        "allow_http",
        "timeout_ms",
        "retry_timeout_ms",
    ),
    AZURE: (
        "endpoint",
        "account_name",
        "use_emulator",
        "allow_http",
        "timeout_ms",
        "retry_timeout_ms",
    ),
    FILES: (),
}
_TIMES: Final = {"timeout_ms", "retry_timeout_ms"}
ENDPOINT_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    S3: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    AZURE: ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    FILES: (),
}
"""Variables of the environment by which the library finds a server, the first that is set."""
STORES_VARIABLE: Final = "TIDELOG_STORES"
"""Variable of the environment with options by URI: stores that need other ones than the rest."""
FROM: Final = "_from"
"""Ends the name of an option that says in which variable of the environment a credential is."""
_CREDENTIALS: Final[Mapping[str, tuple[str, ...]]] = {
    S3: ("access_key_id", "secret_access_key", "session_token"),
    AZURE: ("account_key", "sas_key"),
    FILES: (),
}
_SECRET_WORDS: Final = ("key", "secret", "token", "password", "sas", "credential")
_ENVIRONMENT: Final = {
    S3: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    AZURE: "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY",
}


class StoreUri(NamedTuple):
    """A prefix on a store; ``kind`` is one of ``S3``, ``AZURE`` and ``FILES``.

    ``container`` is the bucket, empty for files, whose ``prefix`` is an absolute path.
    """

    kind: str
    container: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.kind}://{self.container}/{quote(self.prefix)}".rstrip("/")


def parse_store_uri(text: str) -> StoreUri:
    """Return a URI, as ``s3://bucket/prefix``, ``azure://container/prefix`` or ``file:///path``.

    Raises InvalidArgument for another scheme, credentials in it, a query, or names like ``..``.
    """
    try:
        parts = urlsplit(text)
    except ValueError:  # a bracket in the place of a host
        parts = urlsplit("")
    kind = _SCHEMES.get(parts.scheme.lower())
    if kind is None:
        raise InvalidArgument(
            f"{text!r} is not the URI of a store that is supported: s3://BUCKET/PREFIX,"
            " azure://CONTAINER/PREFIX or file:///PATH"
        )
    if "@" in parts.netloc:
        raise InvalidArgument(
            f"the URI of a {kind} store holds credentials: {credentials_advice(kind)}"
        )
    if parts.query or parts.fragment:
        raise InvalidArgument(f"{text!r} has a query or a fragment, which a store has not")
    path = unquote(parts.path)
    names = [name for name in path.split("/") if name]
    if any(name in {".", ".."} or not name.isprintable() for name in names):
        raise InvalidArgument(f"{text!r} has a name that a store does not take")
    if kind == FILES:
        if parts.netloc not in {"", "localhost"} or not path.startswith("/"):
            raise InvalidArgument(f"{text!r} is not file:///PATH with an absolute path")
        return StoreUri(kind, "", "/".join(names))
    if not parts.netloc:
        raise InvalidArgument(f"{text!r} names no {'bucket' if kind == S3 else 'container'}")
    return StoreUri(kind, parts.netloc, "/".join(names))


def check_options(kind: str, options: Mapping[str, str]) -> None:
    """Raise InvalidArgument for options that a kind of store has not, and for credentials."""
    by_name = [credential + FROM for credential in _CREDENTIALS[kind]]
    for name, text in options.items():
        if name in _OPTIONS[kind] or name in by_name:
            if name in _TIMES:
                _check_ms(name, text)
            continue
        if any(word in name.lower() for word in _SECRET_WORDS):
            raise InvalidArgument(f"option {name} is not taken: {credentials_advice(kind)}")
        known = ", ".join(_OPTIONS[kind]) or "none"
        raise InvalidArgument(f"option {name} is not one of a {kind} store's ({known})")


def _check_ms(name: str, text: str) -> None:
    try:
        is_valid = 0 < whole_number(text) <= INT32_MAX
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidArgument(f"option {name} is a number of ms from 1 to {INT32_MAX}, not {text}")


def options_of(uri: StoreUri, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the options that ``TIDELOG_STORES`` has for a store, by the longest URI that fits.

    It is an object in JSON, as ``{"s3://bucket/prefix": {"endpoint": "https://minio:9000"}}``.
    Raises InvalidArgument for another form, and as ``check_options``.
    """
    text = environ.get(STORES_VARIABLE, "").strip()
    if not text:
        return {}
    try:
        stores = json.loads(text)
    except ValueError:
        stores = None
    if not isinstance(stores, dict) or not all(map(_are_options, stores.values())):
        raise InvalidArgument(
            f"{STORES_VARIABLE} must be an object in JSON with the options of each URI, as"
            ' {"s3://bucket": {"endpoint": "https://minio:9000"}}'
        )
    found: tuple[int, dict[str, str]] = (-1, {})
    for name, options in stores.items():
        root = parse_store_uri(name)
        check_options(root.kind, options)
        is_above = root.prefix == "" or f"{uri.prefix}/".startswith(f"{root.prefix}/")
        if root[:2] == uri[:2] and is_above and len(root.prefix) > found[0]:
            found = len(root.prefix), options
    return found[1]


def _are_options(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def local_path(uri: StoreUri) -> str:
    """Return the directory of a store of files."""
    return os.sep + uri.prefix


def credentials_advice(kind: str) -> str:
    """Return where a kind of store finds credentials."""
    names = _ENVIRONMENT.get(kind)
    if names is None:
        return "a directory needs none"
    return f"set {names} in the environment of each process, or use the machine's role"
