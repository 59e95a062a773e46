"""``tidelog warm``: compile all kernels now, so that no later command waits for the compiler."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import JSON, Command
from tidelog.env.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from argparse import Namespace


COMMAND: Final = Command(
    "warm",
    "compile all kernels now, so that no later command waits for the compiler",
    (JSON,),
    printed_events=("kernels-unavailable",),
)


def run(args: Namespace) -> int:
    """Compile the kernels that are not cached; print how many seconds each part took."""
    from tidelog.cli.progress import current_line
    from tidelog.kernels.runtime.gate import KERNEL_MODULES, warm

    total = len(KERNEL_MODULES)
    with current_line().task("loading kernels", total, "module", at_once=True) as task:
        names: list[str] = []

        def show(name: str) -> None:
            task.show(len(names), what=f"loading kernels: {name}")
            names.append(name)

        warmed = warm(SYSTEM_CLOCK.monotonic_ns, show)
    if args.json:
        print(json.dumps({name: round(seconds, 3) for name, seconds in warmed}))
    elif warmed:
        total_s = sum(seconds for _, seconds in warmed)
        print(f"kernels ready in {total_s:.1f} s: {', '.join(name for name, _ in warmed)}")
    else:
        print("numba is not usable here: everything works, but in plain Python and slower")
    return 0
