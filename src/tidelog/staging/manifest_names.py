"""The names of the manifests of transactions that wait to be committed, and what they say.

A name is ``tidelog.<hash of txn>.<128 random bits>.<state>``; see ``ready``.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import TEMPORARY_SUFFIX
from tidelog.staging.staged_file import transaction_hash

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random


class State(Enum):
    """How far a manifest is, by the suffix of its name.

    READY becomes CLAIMED or WITHDRAWN. CLAIMED is deleted once the transaction is finished, without
    a name of the user's by its waiter, who has then seen it; or is answered by REFUSED, a file of
    its own; or becomes READY again if the process that claimed it has ended.
    """

    READY = "ready"
    CLAIMED = "claimed"
    WITHDRAWN = "withdrawn"
    REFUSED = "refused"


_STATES: Final = "|".join(state.value for state in State)
_NAME: Final = re.compile(rf"(tidelog\.([0-9a-f]{{32}})\.[0-9a-f]{{32}})\.({_STATES})")
_TEMPORARY: Final = re.compile(
    rf"tidelog\.[0-9a-f]{{32}}\.[0-9a-f]{{32}}\.({_STATES})({re.escape(TEMPORARY_SUFFIX)})+"
)
HASH: Final = slice(8, 40)
"""The part of a name that identifies the transaction."""


def new_stem(txn: str, rng: Random) -> str:
    """Return the name, without a suffix, of a new manifest."""
    return f"tidelog.{transaction_hash(txn)}.{rng.getrandbits(128):032x}"


def find_manifests(names: Iterable[str]) -> dict[str, set[State]]:
    """Return the manifests among the names in a data directory: by stem, the states of each."""
    found: dict[str, set[State]] = {}
    for name in names:
        matched = _NAME.fullmatch(name)
        if matched is not None:
            found.setdefault(matched[1], set()).add(State(matched[3]))
    return found


def is_left_by_a_waiter(name: str) -> bool:
    """Return whether a file name is that of a manifest that nobody will commit."""
    matched = _NAME.fullmatch(name)
    if matched is None:
        return _TEMPORARY.fullmatch(name) is not None
    return State(matched[3]) in {State.WITHDRAWN, State.REFUSED}


def waiting_hashes(names: Iterable[str]) -> set[str]:
    """Return the hashes of the transactions that a READY or CLAIMED manifest is for."""
    live = {State.READY, State.CLAIMED}
    return {stem[HASH] for stem, states in find_manifests(names).items() if states & live}
