"""The version of tidelog, in the one place where it stands.

It is not read from the installed package's metadata, since that takes longer than all the rest of
``tidelog --version``, and an archive of the sources that Spark ships has none.
"""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
