"""``python -m tidelog``: the command line, without the installed script."""

from tidelog.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
