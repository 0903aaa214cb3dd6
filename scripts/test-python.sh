#!/usr/bin/env bash
# Tests the Python package in a virtual environment of its own, below the target folder: with the reader in Python
# alone, then with the compiled module; its examples, and its types. scripts/test-engines.sh tests Ray and Spark.
#
# usage: test-python.sh [PYTEST OPTION...]      environment: CARGO_TARGET_DIR as for cargo
# Installs what the package declares. Ends with status 1 if a test failed; changes nothing outside the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/venv.sh
new_venv python test,examples
test() {
  SHALEFS_ENGINE=$1 PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -m pytest --quiet -p no:cacheprovider \
    python/tests "${@:2}"
}
test pure "$@"
with_module
test native "$@"
types() { "$venv/bin/python" -m "$1" "${@:2}" || { echo "test-python: the types are wrong" >&2; exit 1; }; }
# A program that uses all of the package, and the stub of the module beside the module itself.
types mypy --strict --cache-dir "$target/mypy" python/typing/public_api.py
types mypy.stubtest shalefs._native
