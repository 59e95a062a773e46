"""``tidelog`` and ``python -m tidelog``: the command line.

Importing it takes some time; Ctrl-C during that ends the process as Ctrl-C later does.
"""

_INTERRUPTED = 130
"""``ExitCode.INTERRUPTED``, before anything of tidelog is imported."""


def main() -> int:
    """Run the command of ``sys.argv`` and return its exit code."""
    try:
        from tidelog.cli.main import main as run  # noqa: PLC0415 - see above

        return run()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    raise SystemExit(main())
