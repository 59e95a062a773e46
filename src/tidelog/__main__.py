"""``tidelog`` and ``python -m tidelog``: the command line.

Importing it takes some time; Ctrl-C during that ends the process as Ctrl-C later does. It is not
caught before ``main`` is called, so this module, the package and ``tidelog.lazy`` import nothing
that takes time, such as ``typing``.
"""

import gc
import os

_INTERRUPTED = 130
"""``ExitCode.INTERRUPTED``, before anything of tidelog is imported."""
_OBJECTS_PER_COLLECTION = 100_000
"""Python looks for cycles each 700 new objects. While 600 modules are imported, whose objects all
stay, that is a tenth of the time until a broker is ready: there are 70,000 of them by then."""


def main() -> int:
    """Run the command of ``sys.argv`` and return its exit code."""
    # NumPy would start a thread for each core, for algebra that no command does.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    try:
        from tidelog.cli.main import main as run  # noqa: PLC0415 - see above

        code = run()
    except KeyboardInterrupt:
        return _INTERRUPTED
    # The process ends, and its memory with it: nothing has to be searched for cycles first.
    gc.freeze()
    return code


if __name__ == "__main__":
    raise SystemExit(main())
