#!/usr/bin/env bash
# Prints the path of an interpreter of a Python version, e.g. `tools/find_python.sh 3.12`: one on the
# PATH, or one of pyenv's. Prints nothing, and fails, if there is none that can make environments.
set -euo pipefail
version=$1
for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version"*/bin/python python3; do
    check="import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$version')"
    if "$candidate" -c "$check" 2>/dev/null; then
        exec "$candidate" -c "import sys; print(sys.executable)"
    fi
done
exit 1
