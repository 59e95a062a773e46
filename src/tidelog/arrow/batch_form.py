"""How batches of a table's rows are built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.codec.compression import Codec

DEFAULT_BATCH_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class BatchForm:
    """How batches are built: codec, level, and maximum size of a batch before compression."""

    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES

    def __post_init__(self) -> None:
        # Programs give words, too, which would fail only once a batch is compressed.
        object.__setattr__(self, "codec", Codec.named(self.codec))
