#!/usr/bin/env bash
# Runs the unit tests on another Python, e.g. `tools/unit_tests_on.sh 3.12`, in .venvs/3.12; with the
# oldest versions of what tidelog requires, `tools/unit_tests_on.sh 3.12 lowest`, in .venvs/3.12-lowest.
# In WORKERS processes, or 2; further words go to pytest. Succeeds without running them if that Python
# is not found or, unless `lowest`, is the one that .venv has.
set -euo pipefail
version=$1
shift
cd "$(dirname "$0")/.."

venv=.venvs/$version
what=locked
if [ "${1:-}" = lowest ]; then
    what=lowest
    venv=$venv-lowest
    shift
elif .venv/bin/python -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')"; then
    exit 0
fi
if ! python=$(tools/find_python.sh "$version"); then
    echo "Python $version: not found, skipped"
    exit 0
fi

pip() { "$venv/bin/python" -m pip "$1" -q --disable-pip-version-check "${@:2}"; }

# The oldest that have wheels (PySpark has none), with the test tools of the lock file.
install_lowest() {
    .venv/bin/uv pip compile -q --resolution lowest-direct --only-binary :all: --no-binary pyspark \
        --python-version "$version" --extra arrow --extra console --extra spark --extra sql --extra store pyproject.toml -o "$venv/lowest.txt"
    local tools
    tools=$(sed -nE 's/^((aiokafka|hypothesis|jsonschema|kafka-python|kio|pytest|pytest-timeout|pytest-xdist)==[^ ]+).*/\1/p' requirements.lock)
    # shellcheck disable=SC2086 # one word for each
    pip install -r "$venv/lowest.txt" $tools hatchling editables
}

if [ ! -e "$venv/.installed" ] || [ requirements.lock -nt "$venv/.installed" ]; then
    "$python" -m venv --clear "$venv"
    if [ $what = lowest ]; then
        install_lowest
    else
        pip install --require-hashes -r requirements.lock
    fi
    pip install --no-deps --no-build-isolation -e .
    touch "$venv/.installed"
fi
echo "Python $version, $what versions:"
exec "$venv/bin/python" -m pytest -q -n "${WORKERS:-2}" --dist loadfile -p no:cacheprovider tests/unit "$@"
