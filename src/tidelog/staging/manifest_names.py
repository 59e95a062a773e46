"""The names of the manifests of transactions that wait to be committed, and what they say.

A name is ``tidelog.<hash of txn>.<128 random bits>.<state>``; see ``ready``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.mailbox.letter import Names, State
from tidelog.staging.staged_file import transaction_hash

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

MANIFESTS: Final = Names(
    r"tidelog\.[0-9a-f]{32}\.[0-9a-f]{32}",
    {
        State.WAITING: ".ready",
        State.CLAIMED: ".claimed",
        State.ANSWERED: ".refused",
        State.WITHDRAWN: ".withdrawn",
    },
    delayed="ready-manifest-delayed path=%s reason=%s",
    ignored="ready-manifest-ignored path=%s reason=%s",
)
HASH: Final = slice(8, 40)
"""The part of a name that identifies the transaction."""
PENDING: Final = (State.WAITING, State.CLAIMED)
"""The states of a manifest whose transaction may still be committed."""


def new_stem(txn: str, rng: Random) -> str:
    """Return the name, without a suffix, of a new manifest."""
    return f"tidelog.{transaction_hash(txn)}.{rng.getrandbits(128):032x}"


def waiting_hashes(names: Iterable[str]) -> set[str]:
    """Return the hashes of the transactions that a waiting or claimed manifest is for."""
    found = MANIFESTS.find(names).items()
    return {stem[HASH] for stem, states in found if not states.isdisjoint(PENDING)}
