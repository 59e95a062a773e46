"""``tidelog warm``: compile all kernels now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.kernels.gate import warm

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Compile what is not in the cache yet; print how long each part took, in seconds."""
    seconds = warm()
    if args.json:
        print(json.dumps(seconds))
    else:
        for name, took in seconds.items():
            print(f"{name:<24} {took:6.2f} s")
    return 0
