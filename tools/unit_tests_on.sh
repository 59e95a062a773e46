#!/usr/bin/env bash
# Runs the unit tests on another Python, e.g. `tools/unit_tests_on.sh 3.12`, in .venvs/3.12.
# In WORKERS processes, or 2. Succeeds without running them if that Python is not found, or is the one
# that .venv has.
set -euo pipefail
version=$1
cd "$(dirname "$0")/.."

runs() { "$1" -c "import sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; }

if runs .venv/bin/python; then
    exit 0
fi
python=
for candidate in "python$version" "$HOME"/.pyenv/versions/"$version"*/bin/python; do
    if runs "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "Python $version: not found, skipped"
    exit 0
fi
venv=.venvs/$version
if [ ! -e "$venv/.installed" ] || [ requirements.lock -nt "$venv/.installed" ]; then
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
    touch "$venv/.installed"
fi
echo "Python $version:"
exec "$venv/bin/python" -m pytest -q -n "${WORKERS:-2}" --dist loadfile -p no:cacheprovider tests/unit
