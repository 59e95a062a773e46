#!/usr/bin/env bash
# Runs the tests of the data source on another release of Spark, e.g. `tools/spark_tests_on.sh 4.1`, in
# .venvs/spark-4.1, with all other packages of the lock file. In WORKERS processes, or 2; further words
# go to pytest. Tests of what the release lacks are skipped, and listed with the reason.
set -euo pipefail
release=$1
shift
cd "$(dirname "$0")/.."

venv=.venvs/spark-$release
pip() { "$venv/bin/python" -m pip "$1" -q --disable-pip-version-check "${@:2}"; }

if [ ! -e "$venv/.installed" ] || [ requirements.lock -nt "$venv/.installed" ]; then
    .venv/bin/python -m venv --clear "$venv"
    # The lock file without its Spark, and so without hashes: the release's newest patch is what is tested.
    sed -nE '/^(pyspark|py4j)==/d; s/^([a-z][^ ]*==[^ ]+( ; [^\\]*[^ \\])?).*/\1/p' requirements.lock >"$venv/others.txt"
    pip install -r "$venv/others.txt" "pyspark==$release.*"
    pip install --no-deps --no-build-isolation -e .
    touch "$venv/.installed"
fi
ln -sfn ../../.venv/flights "$venv/flights" # the data of the demo
"$venv/bin/python" -c 'from pyspark import __version__; print(f"Spark {__version__}:")'
# PySpark 4.1 leaves sockets open, which is not for these tests to report.
exec "$venv/bin/python" -m pytest -q -rs -n "${WORKERS:-2}" --dist loadfile -p no:cacheprovider \
    -p no:unraisableexception -m "not compat" "$@"
