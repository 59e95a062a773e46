"""The version of the installed package."""

from __future__ import annotations

from importlib import metadata
from typing import Final

__version__: Final = metadata.version("tidelog")
